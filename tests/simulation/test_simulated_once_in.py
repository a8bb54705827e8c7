"""Schedules with windows of their own, with several engines and a crash possible anywhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from edgecron.client import Client
from edgecron.model.choices import CatchUp, JobKind, Overlap
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from tests.simulation.invariants import check, read_all
from tests.simulation.test_simulated_conditions import FRESH_MS, Surroundings, act
from tests.simulation.test_simulation import START_MS, Plans, quiesce
from tests.simulation.world import World
from tests.support.clock import FakeClock
from tests.support.fakemachine import FakeMachine
from tests.support.forms import tried

_MOST = tried(2, 12)
SEEDS = (
    *range(1, _MOST + 1),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(_MOST + 1, 301)),
)
MINUTE_MS = 60_000
DAY_MS = 86_400_000
# Minutes of the day, in UTC. The world begins at 20:00.
WINDOWS = ((1202, 1204), (1206, 1213), (1215, 1225), (1230, 1250), (1255, 1320), (1330, 90))


def clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def spec(name: str, *conditions: str, lasts_s: int, code: int = 0, **policies: Any) -> ScheduleSpec:
    when = f" when {' and '.join(conditions)}" if conditions else ""
    return ScheduleSpec(
        name=name,
        triggers=tuple(f"once in {clock(first)}-{clock(last)}{when}" for first, last in WINDOWS),
        job=Job(kind=JobKind.COMMAND, argv=("job", str(lasts_s), str(code))),
        policies=Policies(**policies),
    )


SPECS = (
    spec("mains", "ac-power", lasts_s=2),
    spec("battery", "not:ac-power", lasts_s=3),
    spec("both", "ac-power", lasts_s=1, needs=("not:exists:/run/busy",)),
    spec("online", "online", "unmetered", lasts_s=2),
    spec("never", "exists:/run/busy", lasts_s=1),
    spec("spread", lasts_s=2),
    spec("jittered", lasts_s=2, jitter_s=90.0),
    spec("slow", "ac-power", lasts_s=170, overlap=Overlap.QUEUE),
    spec("replace", "ac-power", lasts_s=170, overlap=Overlap.REPLACE),
    spec("all", lasts_s=1, catch_up=CatchUp.ALL),
    spec("skipping", "ac-power", lasts_s=1, catch_up=CatchUp.SKIP),
    spec("retried", lasts_s=1, code=1, retries=2, retry_delay_s=30.0),
)


CONDITIONS = {
    "mains": ("ac-power",),
    "battery": ("not:ac-power",),
    "both": ("ac-power",),
    "online": ("online", "unmetered"),
    "skipping": ("ac-power",),
}


def openings(after_ms: int, until_ms: int) -> set[int]:
    """A plain model: when windows open in (after, until]."""
    day_ms = START_MS // DAY_MS * DAY_MS
    days = range(day_ms, until_ms + 1, DAY_MS)
    found = {day + first * MINUTE_MS for day in days for first, _ in WINDOWS}
    return {at for at in found if after_ms < at <= until_ms}


def closing(opens_ms: int) -> int:
    minute = opens_ms % DAY_MS // MINUTE_MS
    [last] = [last for first, last in WINDOWS if first == minute]
    return opens_ms + (last - minute) % 1440 * MINUTE_MS


@pytest.mark.parametrize("seed", SEEDS)
def test_each_window_has_at_most_one_run_which_starts_within_it(tmp_path: Path, seed: int) -> None:
    fake = FakeClock(START_MS)
    machine = FakeMachine(tmp_path / "root", fake)
    world = World(tmp_path / "sim.db", random=Random(seed), start_ms=START_MS, clock=fake)
    world.hosting = machine.hosting()
    world.fix_seed()
    around = Surroundings(machine)
    with Client(world.path, clock=world.clock) as client:
        client.add_all(SPECS)
    world.crash_chance = world.random.choice((0.0, 0.01, 0.05))
    world.fault_chance = world.random.choice((0.0, 0.01, 0.05))
    world.peer_chance = world.random.choice((0.0, 0.05))

    for _ in range(500):
        act(world, around)
    around.set_all()
    opens_ms = min(openings(fake.now_ms(), fake.now_ms() + DAY_MS))
    fake.advance_ms(opens_ms - fake.now_ms())
    removed_ms = quiesce(world, SPECS)
    world.settle()  # until the slow runs have ended, too

    model: dict[str, Plans] = {one.name: openings for one in SPECS}
    check(world, model, made_ms=START_MS, until_ms=removed_ms)
    seen = check_windows(world, around)
    assert seen["started"], "nothing was ever started"
    assert seen["missed"] or seen["condition"], "every window had a run"


def check_windows(world: World, around: Surroundings) -> Counter[str]:
    claimed: dict[tuple[int, str], int] = {
        (id_, name): claimed_ms
        for id_, name, claimed_ms in world.look(
            """SELECT e.id, s.name, e.claimed_at FROM executions AS e
               JOIN schedules AS s ON s.id = e.schedule_id WHERE e.claimed_at IS NOT NULL"""
        )
    }
    seen: Counter[str] = Counter()
    first_attempts: Counter[tuple[str, int]] = Counter()
    for row in read_all(world):
        name, plan_ms = row["name"], row["plan_at"]
        seen["missed"] += row["reason"] == "misfire"
        seen["condition"] += row["reason"] == "condition"
        at_ms = claimed.get((row["id"], name))
        if at_ms is None:
            continue
        seen["started"] += 1
        assert plan_ms <= at_ms < closing(plan_ms), f"{name} started outside of its window: {row}"
        assert name != "never"
        if row["attempt"] == 1:
            first_attempts[name, plan_ms] += 1
            for condition in CONDITIONS.get(name, ()):
                assert around.met(condition, from_ms=at_ms - FRESH_MS, to_ms=at_ms), f"{row}"
    twice = [key for key, count in first_attempts.items() if count > 1]
    assert not twice, f"two runs in a window: {twice[:5]}"
    return seen
