"""Where mutations are hunted: the checkers, in the order in which they are tried."""

from __future__ import annotations

_SIMULATION = "tests/simulation"

# The simulation: several engines, crashes, faults and people, judged by the invariants.
CRASHES = f"{_SIMULATION}/test_simulation.py::test_no_fire_is_lost_or_run_twice_whatever_crashes"
EVERY_CALL = (
    f"{_SIMULATION}/test_simulation.py::test_a_crash_at_any_call_loses_nothing_and_repeats_nothing"
)
POLICIES = (
    f"{_SIMULATION}/test_simulated_policies.py::test_every_policy_keeps_its_word_whatever_happens"
)
NEEDS = (
    f"{_SIMULATION}/test_simulated_needs.py"
    "::test_nothing_starts_without_what_it_needs_and_nothing_waits_for_ever"
)
NOTICES = f"{_SIMULATION}/test_simulated_notices.py::test_every_event_is_told_once_and_none_is_lost"
CONDITIONS = (
    f"{_SIMULATION}/test_simulated_conditions.py"
    "::test_no_run_starts_while_its_condition_is_not_met_and_none_waits_for_ever"
)
SETTLING = (
    f"{_SIMULATION}/test_simulated_conditions.py"
    "::test_no_run_whose_condition_is_met_waits_longer_than_the_settling_time"
)
CLOCKS = f"{_SIMULATION}/test_simulated_clocks.py"
PLACEMENT = (
    f"{_SIMULATION}/test_simulated_placement.py"
    "::test_a_placed_run_starts_only_on_its_machine_or_label"
)
CROWDS = f"{_SIMULATION}/test_simulated_crowds.py"

# Whole machines: the real loop, supervisor, journal and command line, judged by all invariants.
STORIES = (
    f"{_SIMULATION}/test_simulated_stories.py"
    "::test_whatever_happens_at_a_point_of_a_story_it_ends_well"
)
LIVES = f"{_SIMULATION}/test_simulated_lives.py::test_no_life_of_a_few_seeds_breaks_an_invariant"
WINDOWS = (
    f"{_SIMULATION}/test_simulated_machine_windows.py"
    "::test_a_machine_runs_once_in_each_window_in_which_it_can"
)

# The power loss laboratory.
CUTS = (
    "tests/powerloss/test_power_loss.py"
    "::test_a_claim_that_was_acted_on_survives_a_cut_after_any_write"
)
RECOVERIES = (
    "tests/powerloss/test_power_loss.py::test_after_a_cut_nothing_is_lost_and_nothing_runs_twice"
)
TORN_JOURNALS = "tests/powerloss/test_torn_journals.py"

# Triggers against an oracle that looks at each minute.
ORACLE = "tests/triggers/test_triggers_oracle.py"


def fails(invariant: str) -> str:
    """The pattern of an assertion that names an invariant."""
    return rf"AssertionError: {invariant}\b"
