"""Limits, overlap, pauses and needs, looked at again in the transaction that starts."""

from __future__ import annotations

from tests.support.edits import Edit

from .hunts import CONDITIONS, CRASHES, CROWDS, NEEDS, POLICIES, SETTLING, WINDOWS, fails
from .mutation import Hunt, Mutation

_LIMITS = "tests/engine/test_engine_limits.py"
_NO_LIMIT = f"{_LIMITS}::test_no_limit_is_ever_passed_whatever_comes_together"

ALL: tuple[Mutation, ...] = (
    Mutation(
        name="engine-limit",
        guard="what an engine runs is counted in each claim",
        proves=("49",),
        edits=(
            Edit(
                function="RunCounts.__init__",
                old="claimant.max_running + claimant.reserve - running",
                new="claimant.max_running",
            ),
        ),
        hunt=Hunt(tests=(CRASHES,), says="I7 an engine runs"),
    ),
    Mutation(
        name="group-limit",
        guard="what a group runs is counted in each claim",
        proves=("49",),
        edits=(Edit(function="_count_group_places", old="- running for", new="for"),),
        hunt=Hunt(tests=(_NO_LIMIT, _LIMITS), says="test_(no_limit|a_group_s_limit)"),
    ),
    Mutation(
        name="schedule-limit",
        guard="what a schedule runs is counted before a queued row starts",
        proves=("I7", "28"),
        edits=(
            Edit(function="may_start_queued", old="limit is None or taken < limit", new="True"),
            Edit(
                function="is_full",
                old="limit is not None and occupancy.running >= limit",
                new="False",
            ),
        ),
        hunt=Hunt(tests=(CRASHES, POLICIES), says=fails("I7")),
    ),
    Mutation(
        name="overlap",
        guard="a fire looks at what is active of its schedule",
        proves=("I7",),
        edits=(
            Edit(function="admit_fire", old="active < limit:", new="True:"),
            Edit(
                function="admit_fire",
                old=("run_or_wait if active + occupancy.backfilling < limit else Admission.QUEUE"),
                new="run_or_wait",
            ),
        ),
        hunt=Hunt(tests=(CROWDS,), says=fails("I7")),
    ),
    Mutation(
        name="retry-is-active",
        guard="a fire is active while its next attempt waits",
        proves=("I7",),
        edits=(
            Edit(function="Occupancy.active", old="self.queued + self.retrying", new="self.queued"),
        ),
        hunt=Hunt(
            tests=("tests/engine/test_engine_policies.py",),
            says="test_a_fire_that_will_be_tried_again_is_active",
        ),
    ),
    Mutation(
        name="in-sequence",
        guard="what catches up runs one after the other",
        proves=("28", "50"),
        edits=(
            Edit(
                function="may_start_queued",
                old=(
                    "if is_backfill and is_behind(cause=cause, occupancy=occupancy):\n"
                    "        return False\n"
                    "    is_own"
                ),
                new="is_own",
            ),
            Edit(
                function="_Filler._has_room",
                old=(
                    "row.cause is Cause.BACKFILL and is_behind(cause=row.cause, "
                    "occupancy=occupancy):"
                ),
                new="False:",
            ),
        ),
        hunt=Hunt(
            tests=("tests/engine/test_engine_backfill.py",),
            says="test_a_backfill_takes_part_in_retries_and_the_next_run_waits",
        ),
    ),
    Mutation(
        name="pause-of-what-waits",
        guard="a pause holds what is queued",
        proves=("26",),
        edits=(
            Edit(
                function="_IS_OPEN",
                old=(
                    "\"(e.cause = 'manual' OR (s.enabled AND s.deleted_at IS NULL AND "
                    '(s.paused_until IS NULL OR s.paused_until <= :now)))"'
                ),
                new="'TRUE'",
            ),
        ),
        hunt=Hunt(tests=(POLICIES,), says="held by a pause"),
    ),
    Mutation(
        name="needs",
        guard="what a run needs is judged right before it starts",
        proves=("I17",),
        edits=(
            Edit(
                function="_Filler._start_or_wait",
                old="self._find_unmet(row)",
                new="None",
            ),
        ),
        hunt=Hunt(tests=(NEEDS,), says="without a success of good|never"),
    ),
    Mutation(
        name="fresh-facts",
        guard="a claim looks at the machine again, rather than trust an old fact",
        proves=("15",),
        edits=(
            Edit(
                function="ConditionWatch._is_fresh",
                old="self._known_at_ms.get(condition, now_ms - within_ms) > now_ms - within_ms",
                new="condition in self._known_at_ms",
            ),
            Edit(function="ConditionWatch.hear", old="if one.kind is Kind.COMMAND", new="if True"),
        ),
        hunt=Hunt(tests=(CONDITIONS,), says="although [a-z-]+ was not met|has long been met"),
    ),
    Mutation(
        name="window-conditions",
        guard="a run of once in starts only if the conditions of its trigger are met",
        proves=("15",),
        edits=(
            Edit(
                function="needs_of_fire",
                old="(*dict.fromkeys((*texts, *needs)),) if texts else needs",
                new="needs",
            ),
        ),
        hunt=Hunt(tests=(WINDOWS,), says="its condition was not met"),
    ),
    Mutation(
        name="expired-first",
        guard="a run whose deadline has passed is given up before the next one is due",
        proves=("15",),
        edits=(
            Edit(
                function="FireWriter._write_fire",
                old="self._give_up_late(key, spec, needs)",
                new="pass",
            ),
        ),
        hunt=Hunt(
            tests=("tests/engine/test_engine_conditions.py",),
            says="test_a_run_that_is_given_up_does_not_hold_back_the_next_one",
        ),
    ),
    Mutation(
        name="waiting-woken",
        guard="a run that waits starts when its condition is met",
        proves=("15",),
        edits=(
            Edit(
                function="ConditionWatch.wake_runs",
                old="bool(met) and self._store.wake_waiting(queues, met) > 0",
                new="False",
            ),
        ),
        hunt=Hunt(tests=(CONDITIONS,), says="has long been met"),
    ),
    Mutation(
        name="news-heard",
        guard="a change that the machine reports is looked at immediately",
        proves=("15",),
        edits=(
            Edit(
                function="ConditionWatch.hear",
                old="self._check_all(self._clock.monotonic_ms())",
                new="pass",
            ),
        ),
        hunt=Hunt(tests=(SETTLING,), says="still waits"),
    ),
)
