"""Several engines over a virtual clock, with a crash possible at every store call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from edgecron.client import Client
from edgecron.model.choices import CatchUp, JobKind, Overlap
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.run import RunOptions
from edgecron.model.schedule import ScheduleSpec
from tests.simulation.invariants import check
from tests.simulation.world import ASKS_AGAIN, DECLINES, GIVES_UP, World
from tests.support.forms import tried

START_MS = 1_773_000_000_000  # 2026-03-08T20:00:00Z
_MOST, _STEP, _EACH = tried((2, 16, 5), (20, 1, 1))
_AHEAD = (68, 69)  # The calls after a claim ahead and at its start: the short form has both, too.
SEEDS = (
    *(("sqlite", seed) for seed in range(1, _MOST + 1)),
    ("postgres", 1),
    *(
        pytest.param(kind, seed, marks=pytest.mark.slow)
        for kind, first in (("sqlite", _MOST + 1), ("postgres", 2))
        for seed in range(first, 1001)
    ),
)

Plans = Callable[[int, int], set[int]]


def every(period_s: int) -> Plans:
    """A plain model of `every`, anchored at START_MS: it shares no code with the triggers."""

    def plans_in(after_ms: int, until_ms: int) -> set[int]:
        period_ms = period_s * 1000
        first = (after_ms - START_MS) // period_ms + 1
        last = (until_ms - START_MS) // period_ms
        return {START_MS + number * period_ms for number in range(first, last + 1)}

    return plans_in


def spec(
    name: str, period_s: int, *, lasts_s: int, code: int = 0, **policies: object
) -> ScheduleSpec:
    return ScheduleSpec(
        name=name,
        triggers=(f"every {period_s}s",),
        job=Job(kind=JobKind.COMMAND, argv=("job", str(lasts_s), str(code))),
        policies=Policies(**policies),  # type: ignore[arg-type]
        scopes=(("device", "a"), ("device", "b")) if name == "scoped" else (("global", ""),),
    )


SPECS = (
    spec("plain", 7, lasts_s=2),
    spec("failing", 11, lasts_s=1, code=3),
    spec("slow", 5, lasts_s=23),
    spec("waiting", 10, lasts_s=13, overlap=Overlap.QUEUE),
    spec("beside", 9, lasts_s=20, overlap=Overlap.ALLOW, max_running=3),
    spec("all", 13, lasts_s=1, catch_up=CatchUp.ALL, max_late_s=300.0),
    spec("skipping", 17, lasts_s=4, catch_up=CatchUp.SKIP),
    spec("jittered", 19, lasts_s=1, jitter_s=30.0),
    spec("scoped", 23, lasts_s=5),
    spec("urgent", 6, lasts_s=1, priority=10),
    spec("asking", 31, lasts_s=1, code=ASKS_AGAIN, retries=2, retry_delay_s=60.0),
    spec("giving-up", 29, lasts_s=1, code=GIVES_UP, retries=2, retry_delay_s=5.0),
    spec("declining", 27, lasts_s=1, code=DECLINES, retries=2, retry_delay_s=5.0),
)


def model_of(specs: Sequence[ScheduleSpec]) -> dict[str, Plans]:
    return {one.name: every(int(one.triggers[0].split()[1][:-1])) for one in specs}


def act(world: World) -> None:
    """One random move of whoever may move."""
    dice = world.random.random()
    engines = sorted(world.engines)
    if dice < 0.55 and engines:
        world.step(world.random.choice(engines))
    elif dice < 0.85:
        world.clock.advance_ms(world.random.choice((200, 1000, 3000, 3000, 8000)))
    elif dice < 0.90:
        if len(engines) < 4:
            world.start_engine(max_running=world.random.choice((1, 3, 8)))
    elif dice < 0.93 and engines:
        world.kill_engine(world.random.choice(engines))
    elif dice < 0.95 and world.supervisors:
        world.kill_supervisor(world.random.choice(sorted(world.supervisors)))
    elif dice < 0.953:
        world.reboot()
    elif dice < 0.958 and world.supervisors:
        world.turn(world.supervisors[world.random.choice(sorted(world.supervisors))])
    elif dice < 0.96:
        world.clock.advance_ms(world.random.choice((90_000, 900_000, 7_200_000)))
    else:
        meddle(world)
    if world.random.random() < 0.04:
        world.prune()


def meddle(world: World) -> None:
    """A person at the command line."""
    name = world.random.choice(SPECS).name
    with Client(world.location, clock=world.clock) as client:
        choice = world.random.random()
        if choice < 0.5:
            delay_s = world.random.choice((None, None, 5.0, 40.0))
            client.run_now(name, options=RunOptions(delay_s=delay_s))
        elif choice < 0.7:
            client.pause(name)
        else:
            client.resume(name)


@pytest.mark.failure(15)
@pytest.mark.failure(19)
@pytest.mark.parametrize(("make_world", "seed"), SEEDS, indirect=["make_world"])
def test_no_fire_is_lost_or_run_twice_whatever_crashes(
    make_world: Callable[[int], World], seed: int
) -> None:
    world = make_world(seed)
    with Client(world.location, clock=world.clock) as client:
        client.add_all(SPECS)
    world.crash_chance = world.random.choice((0.0, 0.01, 0.05))
    world.fault_chance = world.random.choice((0.0, 0.01, 0.05))
    world.wait_chance = world.random.choice((0.0, 0.3))
    world.peer_chance = world.random.choice((0.0, 0.05))

    for _ in range(300):
        act(world)
    removed_ms = quiesce(world)

    check(world, model_of(SPECS), made_ms=START_MS, until_ms=removed_ms)


STORY = (
    spec("plain", 2, lasts_s=1),
    spec("waiting", 3, lasts_s=4, overlap=Overlap.QUEUE),
    spec("beside", 4, lasts_s=5, overlap=Overlap.ALLOW),
)
STORY_CALLS = 144  # of the store and the runner that the story makes when nothing crashes


@pytest.mark.failure(15)
@pytest.mark.failure(17)
@pytest.mark.parametrize(
    "first_call",
    [
        *range(1, 17, _STEP),
        *(
            pytest.param(call, marks=pytest.mark.slow)
            for call in range(1, 17)
            if (call - 1) % _STEP
        ),
    ],
)
def test_a_crash_at_any_call_loses_nothing_and_repeats_nothing(
    tmp_path: Path, first_call: int
) -> None:
    crashes = 0

    for crash_at in range(first_call, STORY_CALLS + 1, 16):
        world = World(tmp_path / f"{crash_at}.db", random=Random(0), start_ms=START_MS)
        with Client(world.location, clock=world.clock) as client:
            client.add_all(STORY)
        world.crash_at = crash_at
        for _ in range(14):
            if not world.engines:
                world.start_engine(max_running=2)
            world.step(min(world.engines))
            world.clock.advance_ms(700)
        crashes += any(line.startswith("crash") for line in world.trail)
        removed_ms = quiesce(world, STORY)
        check(
            world,
            model_of(STORY),
            made_ms=START_MS,
            until_ms=removed_ms,
        )

    assert crashes >= 8, "the story is shorter than the crashes planned for it"


@pytest.mark.failure(15)
@pytest.mark.failure(17)
def test_a_crash_at_any_call_of_a_claim_ahead_loses_nothing_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    specs = (spec("plain", 2, lasts_s=1),)
    crashes = 0
    crash_points = set()
    bodies = set()

    for crash_at in sorted({*range(_EACH, 101, _EACH), *_AHEAD}):
        world = World(tmp_path / f"{crash_at}.db", random=Random(0), start_ms=START_MS)
        with Client(world.location, clock=world.clock) as client:
            client.add_all(specs)
        world.crash_at = crash_at
        for round_ in range(1, 4):
            key = min(world.engines) if world.engines else world.start_engine()
            due_ms = START_MS + 2_000 * round_
            if world.step(key):
                world.clock.advance_ms(due_ms - 3 - world.clock.now_ms())
                world.fire_ahead(key, due_ms)
            world.clock.advance_ms(max(0, due_ms - world.clock.now_ms()))
        crashes += any(line.startswith("crash") for line in world.trail)
        crash_points |= {line for line in world.trail if line.startswith("crash")}
        removed_ms = quiesce(world, specs)
        check(world, model_of(specs), made_ms=START_MS, until_ms=removed_ms)
        bodies.add(len(world.bodies))

    assert crashes >= 30 // _EACH, "the story is shorter than the crashes planned for it"
    assert {"crash after claim_due", "crash start"} <= crash_points
    assert len(bodies) > 1, "no crash between the claim and its start"


def quiesce(world: World, specs: Sequence[ScheduleSpec] = SPECS) -> int:
    """No more faults, then no more schedules, then time for what runs to end; when that was."""
    for engine, _ in world.engines.values():
        engine.recovery.suspect()  # as the kernel has reported the deaths of other engines
    world.settle(for_ms=tried(30_000, 60_000))
    with Client(world.location, clock=world.clock) as client:
        for one in specs:
            client.remove(one.name)
    removed_ms = world.clock.now_ms()
    world.settle(for_ms=60_000)
    return removed_ms
