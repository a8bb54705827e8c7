"""What is due begins when it is due: its claim is written right before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgecron.base.units import from_ms, to_ms
from edgecron.model.run import Execution
from tests.support.sleepy import START_MS, ScriptedSleeper, Sleepy

DUE_MS = START_MS + 90 * 60_000


@pytest.fixture
def sleepy(tmp_path: Path) -> Sleepy:
    return Sleepy(tmp_path)


def until(
    sleepy: Sleepy, at_ms: int, *, then: Callable[[], object] = int
) -> Callable[[], set[int]]:
    """A wait that ends at an instant, when something happens."""

    def wake() -> set[int]:
        clock = sleepy.world.clock
        clock.advance_ms(at_ms - clock.now_ms())
        then()
        return set()

    return wake


def run(sleepy: Sleepy, *happenings: Callable[[], set[int]]) -> ScriptedSleeper:
    return sleepy.run(*happenings, is_prompt=True)


def rows(sleepy: Sleepy, name: str = "mine") -> list[Execution]:
    return sleepy.client.history(name)


def test_what_is_due_is_claimed_right_before_it_and_starts_then(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 90m")
    seen: list[tuple[int, list[str]]] = []

    def note() -> None:
        found = [str(one.status) for one in rows(sleepy)]
        seen.append((len(sleepy.world.bodies), found))

    # The first wait ends long before: who is woken then waits again, and rehearses nothing.
    sleeper = run(
        sleepy,
        until(sleepy, START_MS + 1_000, then=note),
        until(sleepy, DUE_MS - 6, then=note),
        until(sleepy, DUE_MS - 3, then=note),
        until(sleepy, DUE_MS, then=note),
        until(sleepy, DUE_MS, then=note),
    )

    assert sleeper.waits[:5] == [DUE_MS - 6, DUE_MS - 6, DUE_MS - 3, DUE_MS, DUE_MS + 2]
    assert seen == [(0, []), (0, []), (0, []), (0, ["running"]), (1, ["running"])]
    [row] = rows(sleepy)
    assert row.plan_at == row.claimed_at == row.started_at == from_ms(DUE_MS)


def test_a_slow_disk_is_given_more_time_and_less_again(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 90m")
    clock, world = sleepy.world.clock, sleepy.world
    took_ms = iter((0, 9, 400, 0))
    leads: list[int] = []

    def claim_slowly(at_ms: int, claim: Callable[[int], None] = sleepy.engine.claim_early) -> None:
        leads.append(at_ms - clock.now_ms())
        claim(at_ms)
        clock.advance_ms(next(took_ms))

    sleepy.engine.claim_early = claim_slowly  # type: ignore[method-assign]

    class Waiting(ScriptedSleeper):
        def wait(self, fds: object, *, until_ms: int | None) -> set[int]:
            assert until_ms is not None
            clock.advance_ms(max(0, until_ms - clock.now_ms()))
            if len(world.bodies) == 4:
                loop.stop()
            return set()

    loop = sleepy.loop(Waiting(), is_prompt=True)
    loop.run()

    assert leads == [3, 3, 11, 20]
    # What it could not be given is how late it begins.
    assert [body.started_ms - body.due_ms for body in world.bodies] == [0, 6, 389, 0]


def test_what_would_be_left_out_is_decided_when_it_is_due(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 90m", lasts_s=1)
    world = sleepy.world
    world.clock.advance_ms(DUE_MS - 1_001 - START_MS)
    sleepy.client.run_now("mine")

    # The one that goes on ends a millisecond before.
    run(
        sleepy,
        until(sleepy, DUE_MS - 6),
        until(sleepy, DUE_MS - 3),
        until(sleepy, DUE_MS),
        until(sleepy, DUE_MS),
    )

    assert [body.started_ms for body in world.bodies] == [DUE_MS - 1_001, DUE_MS]


@pytest.mark.parametrize("change", ["pause", "remove"])
def test_what_is_changed_before_the_claim_is_not_claimed(sleepy: Sleepy, change: str) -> None:
    sleepy.add("mine", "every 90m")

    run(
        sleepy,
        until(sleepy, DUE_MS - 6),
        until(sleepy, DUE_MS - 3, then=lambda: getattr(sleepy.client, change)("mine")),
        until(sleepy, DUE_MS),
        until(sleepy, DUE_MS + 1_000),
    )

    assert sleepy.world.bodies == []


@pytest.mark.failure(7)
def test_a_machine_that_slept_over_it_decides_when_it_wakes(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 90m")
    later_ms = DUE_MS + 4 * 90 * 60_000 + 1

    run(sleepy, until(sleepy, DUE_MS - 6), until(sleepy, later_ms))

    found = [(to_ms(one.plan_at), str(one.status), one.missed_count) for one in rows(sleepy)]
    assert found == [
        (later_ms - 1, "success", None),
        (DUE_MS, "skipped", 4),
    ]


@pytest.mark.failure(7)
def test_a_clock_that_is_set_back_after_the_claim_repeats_it_with_another_key_alone(
    sleepy: Sleepy,
) -> None:
    clock = sleepy.world.clock
    clock.advance_ms(3_600_000)
    sleepy.add("mine", "every 30m")

    run(
        sleepy,
        until(sleepy, DUE_MS - 6),
        until(sleepy, DUE_MS - 3),
        lambda: clock.step_ms(-1_800_000) or set(),
        until(sleepy, DUE_MS - 1_800_000),
        until(sleepy, DUE_MS - 6),
        until(sleepy, DUE_MS + 1),
    )

    # The half hour passes a second time, and so does the time of the interval.
    assert [(body.plan_ms, body.fire_key) for body in sleepy.world.bodies] == [
        (DUE_MS, ""),
        (DUE_MS, f"again:{DUE_MS - 1_800_000}"),
    ]


@pytest.mark.failure(7)
@pytest.mark.parametrize("by_ms", [-1, 1])
def test_a_clock_that_is_set_a_little_after_the_claim_makes_nothing_early(
    sleepy: Sleepy, by_ms: int
) -> None:
    sleepy.add("mine", "every 90m")
    clock = sleepy.world.clock

    run(
        sleepy,
        until(sleepy, DUE_MS - 6),
        until(sleepy, DUE_MS - 3),
        lambda: clock.step_ms(by_ms) or set(),
        until(sleepy, DUE_MS),
        until(sleepy, DUE_MS + 2),
    )

    assert [body.started_ms for body in sleepy.world.bodies] == [DUE_MS]


@pytest.mark.failure(7)
def test_a_clock_that_is_set_back_while_it_is_claimed_is_not_waited_for(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 90m")
    clock, claim = sleepy.world.clock, sleepy.engine.claim_early

    def claim_slowly(at_ms: int) -> None:
        claim(at_ms)
        clock.step_ms(-3_600_000)

    sleepy.engine.claim_early = claim_slowly  # type: ignore[method-assign]
    back_ms = DUE_MS - 3 - 3_600_000

    sleeper = run(
        sleepy,
        until(sleepy, DUE_MS - 6),
        until(sleepy, DUE_MS - 3),
        until(sleepy, back_ms + 2),
    )

    assert sleeper.waits[2] == back_ms + 2
    assert [body.started_ms for body in sleepy.world.bodies] == [back_ms]


def test_what_was_claimed_is_started_where_the_engine_is_stopped_meanwhile(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 90m")
    sleeper = ScriptedSleeper(
        until(sleepy, DUE_MS - 6),
        until(sleepy, DUE_MS - 3),
        until(sleepy, DUE_MS, then=lambda: loop.stop()),
        until(sleepy, DUE_MS),
        until(sleepy, DUE_MS),
    )
    loop = sleepy.loop(sleeper, is_prompt=True)

    loop.run()

    assert [body.plan_ms for body in sleepy.world.bodies] == [DUE_MS]


def test_who_is_rung_before_it_takes_a_look_first(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 90m")

    def ring() -> None:
        sleepy.client.run_now("mine")
        sleepy.doorbell.ring()

    sleeper = ScriptedSleeper(
        until(sleepy, DUE_MS - 6),
        lambda: ring() or {sleepy.doorbell.fileno()},
        until(sleepy, DUE_MS),
        lambda: loop.stop() or set(),
    )
    loop = sleepy.loop(sleeper, is_prompt=True)

    loop.run()

    assert [str(one.status) for one in rows(sleepy)] == ["success", "success"]
