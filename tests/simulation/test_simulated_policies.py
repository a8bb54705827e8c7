"""Random schedules, policies, edits, clock steps and crashes, judged by a plain account.

Every due time runs once or is covered by a row, none early; a failure is tried again as often as
its schedule said when it began; what comes after follows each end once; next times advance.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from edgecron.model.choices import CatchUp, OnInterrupt, Overlap
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.retention import Retention
from tests.simulation.accounts import check_account, check_next_times, check_unchanged
from tests.simulation.invariants import read_all
from tests.simulation.people import Life, People, Wanted, wish
from tests.simulation.world import World
from tests.support.forms import tried

START_MS = 1_773_000_000_000  # 2026-03-08T20:00:00Z
_MOST = tried(1, 10)
SEEDS = (
    *range(1, _MOST + 1),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(_MOST + 1, 501)),
)
PERIODS_S = (5, 6, 7, 10, 11, 13, 15, 17, 20, 30)
TWO = (("device", "a"), ("device", "b"))
# By engines, that is; people do it by other limits.
PRUNED = Retention(history_age_s=120, history_count=10)
# What follows others is made once and never changed, so that each end must be followed.
FOLLOWERS = ("follows", "follows-failures", "follows-scoped", "follows-follower")


def specs(random: Random) -> list[ScheduleSpec]:
    """Calendars with random policies; then what follows them, and what follows itself."""
    made = []
    for number in range(5):
        overlap = random.choice((Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE, Overlap.ALLOW))
        made.append(
            wish(
                f"calendar{number}",
                periods_s=random.sample(PERIODS_S, random.choice((1, 1, 2))),
                anchor_ms=START_MS,
                lasts_s=random.choice((1, 2, 4, 12)),
                code=random.choice((0, 0, 1)),
                scopes=TWO if random.random() < 0.2 else (("global", ""),),
                from_ms_=START_MS + 31_000 if random.random() < 0.2 else None,
                until_ms=START_MS + 301_000 if random.random() < 0.2 else None,
                max_runs=random.choice((1, 5, 20)) if random.random() < 0.2 else None,
                overlap=overlap,
                max_running=3 if overlap is Overlap.ALLOW else None,
                catch_up=random.choice(list(CatchUp)),
                jitter_s=float(random.choice((0, 0, 0, 9))),
                priority=random.choice((-10, 0, 10)),
                **_attempts(random),
            )
        )
    made += [
        wish("first", periods_s=(13,), anchor_ms=START_MS, lasts_s=2, code=0),
        wish("flaky", periods_s=(20,), anchor_ms=START_MS, lasts_s=1, code=1, **_attempts(random)),
        wish("pair", periods_s=(30,), anchor_ms=START_MS, lasts_s=1, scopes=TWO),
        wish("follows", "after first:any", anchor_ms=START_MS, lasts_s=1, **_attempts(random)),
        wish("follows-failures", "after flaky:failure", "after first", anchor_ms=START_MS,
             lasts_s=3, overlap=random.choice(list(Overlap))),
        wish("follows-scoped", "after pair", anchor_ms=START_MS, lasts_s=1, scopes=TWO,
             overlap=Overlap.QUEUE),
        wish("follows-follower", "after follows:any", anchor_ms=START_MS, lasts_s=1),
        wish("poll", "every 9s after end", anchor_ms=START_MS, lasts_s=3,
             code=random.choice((0, 1)), **_attempts(random)),
        wish("poll-scoped", "every 14s after end", anchor_ms=START_MS, lasts_s=2, scopes=TWO),
    ]  # fmt: skip
    return made


def _attempts(random: Random) -> dict[str, Any]:
    return {
        "retries": random.choice((0, 0, 1, 3)),
        "retry_delay_s": float(random.choice((1, 5))),
        "retry_factor": 1.0,
        "on_interrupt": random.choice(list(OnInterrupt)),
    }


def act(people: People) -> None:
    """One random move of whoever may move."""
    world, random = people.world, people.world.random
    dice = random.random()
    engines = sorted(world.engines)
    if dice < 0.50 and engines:
        world.step(random.choice(engines))
    elif dice < 0.80:
        world.clock.advance_ms(random.choice((200, 1000, 3000, 3000, 8000)))
    elif dice < 0.85:
        if len(engines) < 3:
            world.start_engine(max_running=random.choice((1, 4, 12)), retention=PRUNED)
    elif dice < 0.87 and engines:
        world.kill_engine(random.choice(engines))
    elif dice < 0.89 and world.supervisors:
        world.kill_supervisor(random.choice(sorted(world.supervisors)))
    elif dice < 0.893:
        world.reboot()
    elif dice < 0.90 and world.supervisors:
        world.turn(world.supervisors[random.choice(sorted(world.supervisors))])
    elif dice < 0.91:
        world.clock.advance_ms(random.choice((90_000, 900_000)))
    elif dice < 0.925:
        world.step_clock(random.choice((-15_000, -4_000, -300, 300, 20_000)))
    elif dice < 0.945:
        people.cancel()
    else:
        meddle(people)
    if random.random() < 0.04:
        world.prune()
    people.note_clock()


def meddle(people: People) -> None:
    """A person at the command line; nobody edits by a clock that shows the past."""
    random = people.world.random
    life = people.current[random.choice(sorted(people.current))]
    name, dice = life.spec.name, random.random()
    if dice < 0.25:
        people.run(name)
    elif name in FOLLOWERS or people.is_behind():
        return
    elif dice < 0.35:
        people.pause(name)
    elif dice < 0.45:
        people.pause(name, for_ms=random.choice((5_000, 30_000)))
    elif dice < 0.65:
        people.resume(name)
    elif dice < 0.75:
        people.set_policies(name, **_attempts(random))
    elif dice < 0.80 and name.startswith("calendar"):
        # Where nothing is caught up, an interval counts from the moment that is decided.
        people.set_policies(name, catch_up=random.choice(list(CatchUp)))
    elif dice < 0.90 and name.startswith("calendar") and life.spec.max_runs is None:
        people.set_periods(name, random.sample(PERIODS_S, random.choice((1, 2))))
    elif name.startswith("calendar"):
        people.remove(name)
        people.add(life.spec)


def quiesce(people: People) -> int:
    """No more faults, then no more schedules, then time for what runs; when all was well."""
    world = people.world
    if people.is_behind():
        world.clock.advance_ms(people.highest_ms - world.clock.now_ms() + 1)
    world.settle(for_ms=20_000)
    settled_ms = world.clock.now_ms()
    world.settle(for_ms=60_000)
    check_not_stranded(people)
    # What follows is removed last: it would not follow the end of what runs now.
    for name in sorted(people.current, key=lambda name: (name in FOLLOWERS, name)):
        people.remove(name)
        world.settle(for_ms=15_000)
    return settled_ms


def check_not_stranded(people: People) -> None:
    """An interval after the end goes on for ever, unless somebody has paused it."""
    stranded = people.world.look(
        """SELECT s.name FROM schedules AS s
           WHERE s.after_end_ms IS NOT NULL AND s.enabled AND s.deleted_at IS NULL
               AND s.next_plan_at IS NULL AND NOT EXISTS (SELECT 1 FROM executions AS e
                   WHERE e.schedule_id = s.id AND e.status IN ('queued', 'running'))"""
    )
    assert stranded == []


def next_times(world: World) -> list[tuple[int, int, int | None]]:
    # What a clock that was set back repeats is a logged repair, and lies before the mark.
    return world.look(
        """SELECT id, revision, next_plan_at FROM schedules
           WHERE repeats_since IS NULL OR next_plan_at > decided_until"""
    )


@pytest.mark.failure(13)
@pytest.mark.failure(26)
@pytest.mark.failure(28)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_policy_keeps_its_word_whatever_happens(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    world = World(tmp_path / "sim.db", random=random, start_ms=START_MS)
    world.fix_seed()
    people = People(world, anchor_ms=START_MS)
    for spec in specs(random):
        people.add(spec)
    world.crash_chance = random.choice((0.0, 0.01, 0.03))
    world.fault_chance = random.choice((0.0, 0.01, 0.03))
    world.wait_chance = random.choice((0.0, 0.3))
    world.peer_chance = random.choice((0.0, 0.05))
    seen: dict[tuple[int, int], int] = {}
    rows = read_all(world)

    for number in range(250):
        act(people)
        check_next_times(people, seen, next_times(world))
        if number % 25 == 24:
            before, rows = rows, read_all(world)
            check_unchanged(before, rows)
    settled_ms = quiesce(people)

    check_unchanged(rows, read_all(world))
    check_account(people, settled_ms=settled_ms)


def test_the_account_itself_is_right(tmp_path: Path) -> None:
    spec = wish("x", periods_s=(10, 15), anchor_ms=0, lasts_s=1, until_ms=40_000)
    life = Life(schedule_id=1, spec=spec, made_ms=5_000, wanted=[])

    life.wanted = [
        Wanted(since_ms=5_000, periods_s=(10, 15)),
        Wanted(since_ms=20_000, periods_s=(7,)),
    ]
    life.removed_ms = 50_000

    assert life.plans(0) == {10_000, 15_000, 20_000, 21_000, 28_000, 35_000}
