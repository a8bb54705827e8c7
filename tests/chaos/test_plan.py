"""A storm's plan comes from its seed alone."""

from __future__ import annotations

from collections.abc import Callable

from tests.chaos.agenda import Agenda
from tests.chaos.plan import BY_NAME, CALM_S, KINDS, LONG_CALM_S, make_plan
from tests.chaos.times import LATE_S, RECOVERY_S, UNSEEN_S
from tests.support.clock import FakeClock

ALL = frozenset({"disk", "modes"})


def test_a_seed_makes_the_same_plan_again() -> None:
    first, second = (make_plan(7, duration_s=300, abilities=ALL) for _ in range(2))

    assert first == second
    assert first != make_plan(8, duration_s=300, abilities=ALL)


def test_what_cannot_be_done_is_left_out_and_counted() -> None:
    whole = make_plan(7, duration_s=600, abilities=ALL)
    poor = make_plan(7, duration_s=600, abilities=frozenset())

    assert [fault for fault in whole.faults if BY_NAME[fault.kind].needs is None] == [*poor.faults]
    assert len(poor.faults) + len(poor.skipped) == len(whole.faults)
    assert whole.skipped == ()
    assert set(poor.skipped) > {"full"}


def test_every_kind_of_fault_comes() -> None:
    plan = make_plan(7, duration_s=3600, abilities=ALL)

    assert {fault.kind for fault in plan.faults} == {kind.name for kind in KINDS}


def test_one_lane_s_faults_do_not_meet() -> None:
    plan = make_plan(7, duration_s=3600, abilities=ALL)

    for lane in {kind.lane for kind in KINDS}:
        faults = [fault for fault in plan.faults if BY_NAME[fault.kind].lane == lane]
        ends = [fault.at_s + fault.lasts_s for fault in faults]
        assert all(end <= after.at_s for end, after in zip(ends, faults[1:], strict=False))


def test_storms_leave_calms_that_show_a_recovery() -> None:
    plan = make_plan(7, duration_s=600, abilities=ALL)

    pauses = [
        after.at_s - before.at_s
        for before, after in zip(plan.faults, plan.faults[1:], strict=False)
    ]

    assert CALM_S > RECOVERY_S + LATE_S
    assert LONG_CALM_S > UNSEEN_S + LATE_S
    assert sum(pause > RECOVERY_S for pause in pauses) >= 4


def test_a_fault_waits_until_a_late_one_of_its_lane_is_undone() -> None:
    clock = FakeClock(0)
    done: list[tuple[str, float]] = []

    def note(name: str) -> None:
        done.append((name, clock.now_ms() / 1000))

    def beginner(name: str, *, takes_s: int = 0) -> Callable[[], Callable[[], None]]:
        def begin() -> Callable[[], None]:
            clock.advance_ms(1000 * takes_s)  # The machine is slow.
            note(name)
            return lambda: note(f"end of {name}")

        return begin

    agenda = Agenda()
    agenda.add(1.0, beginner("full", takes_s=5), lane="storage", lasts_s=3.0)
    agenda.add(6.0, beginner("full again"), lane="storage", lasts_s=2.0)
    agenda.add(6.5, beginner("kill"), lane="jobs", lasts_s=1.0)
    while agenda:
        agenda.run_due(lambda: clock.now_ms() / 1000)
        clock.advance_ms(500)

    assert done == [
        ("full", 6.0),
        ("kill", 6.5),
        ("end of kill", 7.5),
        ("end of full", 9.0),
        ("full again", 9.0),
        ("end of full again", 11.0),
    ]
