"""Clocks that are set by hours and days, and boots by clocks that nobody can trust.

Whatever the clock shows, and however often: no plan time runs twice, a boot fires once, and by a
clock that can't be trusted no calendar time fires at all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from edgecron.client import Client
from edgecron.model.choices import CatchUp, JobKind, Overlap
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from tests.simulation.invariants import check_bodies, check_rows, read_all
from tests.simulation.world import World
from tests.support.forms import tried

START_MS = 1_782_000_000_000  # 2026-06-21T00:00:00Z, later than this edgecron was released
HOUR_MS = 3_600_000
_MOST = tried(1, 6)
SEEDS = (
    *range(8, _MOST + 8),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(_MOST + 8, 308)),
)
TWO = (("device", "a"), ("device", "b"))
# A clock battery that is empty, and one that has run wild.
WRONG_MS = (0, 86_400_000, 4_102_444_800_000)


def spec(
    name: str, *triggers: str, lasts_s: int, scoped: bool = False, **policies: object
) -> ScheduleSpec:
    return ScheduleSpec(
        name=name,
        triggers=triggers,
        job=Job(kind=JobKind.COMMAND, argv=("job", str(lasts_s), "0")),
        policies=Policies(**policies),  # type: ignore[arg-type]
        scopes=TWO if scoped else (("global", ""),),
    )


SPECS = (
    spec("calendar", "*/10 * * * *", lasts_s=40),
    spec("hourly", "0 * * * *", lasts_s=5, catch_up=CatchUp.ALL),
    spec("scoped", "5,35 * * * *", lasts_s=90, scoped=True, overlap=Overlap.QUEUE),
    spec("skipping", "*/15 * * * *", lasts_s=5, catch_up=CatchUp.SKIP),
    spec("interval", "every 25m", lasts_s=30, overlap=Overlap.ALLOW),
    spec("boot", "on boot", lasts_s=10),
    spec("boots", "on boot", lasts_s=10, scoped=True),
)
CALENDARS = ("calendar", "hourly", "scoped", "skipping")


class TickingWorld(World):
    """Time goes on while an engine is between two calls of its store."""

    def let_others_act(self, key: str) -> None:
        self.clock.advance_ms(self.random.choice((0, 0, 1, 2)))
        super().let_others_act(key)


def a_world(tmp_path: Path, seed: int) -> World:
    world = TickingWorld(tmp_path / "sim.db", random=Random(seed), start_ms=START_MS)
    world.fix_seed()
    with Client(world.path, clock=world.clock) as client:
        client.add_all(SPECS)
    world.crash_chance = world.random.choice((0.0, 0.01))
    world.fault_chance = world.random.choice((0.0, 0.01))
    world.wait_chance = world.random.choice((0.0, 0.3))
    world.peer_chance = world.random.choice((0.0, 0.2))
    return world


def go_on(world: World) -> None:
    """One random move of whoever may move; nobody sets the clock."""
    dice = world.random.random()
    engines = sorted(world.engines)
    if dice < 0.5 and engines:
        world.step(world.random.choice(engines))
    elif dice < 0.8:
        world.clock.advance_ms(world.random.choice((1000, 20_000, 60_000, 300_000)))
    elif dice < 0.88:
        if len(engines) < 3:
            world.start_engine(max_running=world.random.choice((2, 8)))
    elif dice < 0.91 and engines:
        world.kill_engine(world.random.choice(engines))
    elif dice < 0.92 and world.supervisors:
        world.kill_supervisor(world.random.choice(sorted(world.supervisors)))
    elif dice < 0.94:
        boot(world)
    elif dice < 0.95:
        world.clock.suspend_ms(world.random.choice((60_000, 5 * HOUR_MS)))


def boot(world: World) -> None:
    """The machine starts anew, and two engines with it: side by side they find nothing decided."""
    world.reboot()
    for _ in range(2):
        world.start_engine(max_running=4)


def meddle(world: World) -> None:
    """People change schedules by whatever the clock shows, and remove what is past."""
    spec = world.random.choice(SPECS)
    with Client(world.path, clock=world.clock) as client:
        dice = world.random.random()
        if dice < 0.3:
            client.pause(spec.name)
        elif dice < 0.7:
            client.resume(spec.name)
        elif spec.name in CALENDARS:
            other = world.random.choice(("*/20 * * * *", "0 * * * *", *spec.triggers))
            client.edit(spec.name, lambda before: replace(before, triggers=(other,)))
    if world.random.random() < 0.5:
        world.prune()


def set_clock(world: World, by_ms: int) -> None:
    """Set the wall clock; what runs goes on for as long as it takes."""
    world.step_clock(by_ms)
    for body in world.bodies:
        if not body.has_ended:
            body.ends_ms += by_ms


def known_rows(world: World) -> list[dict[str, Any]]:
    """All rows there are, and those that were removed but for ranges.

    What such a range says was missed may be missed again, where it was removed and the clock set
    back: nothing of it has run.
    """
    return [
        row
        for row in read_all(world)
        if row["id"] not in world.archive or row["fire_key"] != "missed"
    ]


def check_boots(world: World) -> Counter[str]:
    """One fire for each boot and scope, however many engines there were."""
    boots: Counter[tuple[object, ...]] = Counter()
    for row in read_all(world):
        if row["fire_key"].startswith("boot:"):
            boots[row["name"], row["scope_kind"], row["scope_id"], row["fire_key"]] += 1
    twice = [key for key, count in boots.items() if count > 1]
    assert not twice, f"I4 fired twice for one boot: {twice}"
    return Counter(str(key[0]) for key in boots)


def come_to_rest(world: World) -> None:
    """No more faults, then no more schedules, then time for what runs."""
    world.settle(for_ms=600_000, every_ms=10_000)
    with Client(world.path, clock=world.clock) as client:
        for one in SPECS:
            client.remove(one.name)
    world.settle(for_ms=600_000, every_ms=10_000)


@pytest.mark.failure(4)
@pytest.mark.failure(15)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_clock_that_is_set_by_hours_lets_nothing_run_twice(tmp_path: Path, seed: int) -> None:
    world = a_world(tmp_path, seed)
    boot(world)

    for _ in range(250):
        go_on(world)
        if world.random.random() < 0.03:
            hours = world.random.choice((-30, -5, -4, -2, 2, 4, 5, 30))
            set_clock(world, hours * HOUR_MS)
        if world.random.random() < 0.06:
            meddle(world)
    come_to_rest(world)

    rows = known_rows(world)
    check_rows(rows)
    check_bodies(rows, world.bodies)
    assert check_boots(world).total() >= 1


@pytest.mark.failure(5)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_calendar_time_fires_by_a_clock_that_nobody_can_trust(tmp_path: Path, seed: int) -> None:
    world = a_world(tmp_path, seed)
    for _ in range(60):
        go_on(world)
    true_ms = world.clock.now_ms()
    decided = max(row["id"] for row in read_all(world))

    world.reboot()
    world.clock.synchronised = world.random.choice((None, False))
    world.clock.set_ms(world.random.choice(WRONG_MS))
    for _ in range(100):
        go_on(world)
    blind = [row for row in read_all(world) if row["id"] > decided and row["name"] in CALENDARS]
    world.clock.synchronised = True
    set_clock(world, true_ms + world.clock.boottime_ms() - world.clock.now_ms())
    for _ in range(60):
        go_on(world)
    come_to_rest(world)

    assert blind == [], f"I17 by a clock that can't be trusted: {blind[:1]}"
    rows = known_rows(world)
    check_rows(rows)
    check_bodies(rows, world.bodies)
    check_boots(world)
    now_ms = world.clock.now_ms()
    ahead = [row for row in rows if row["name"] in CALENDARS and row["plan_at"] > now_ms]
    assert ahead == [], f"I17 decided ahead of its time: {ahead[:1]}"
