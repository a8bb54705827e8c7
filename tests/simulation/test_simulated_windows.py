"""Schedules with windows and excepted times, with several engines and a crash possible anywhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from edgecron.client import Client
from edgecron.model.choices import CatchUp, Overlap
from tests.simulation.invariants import check, read_all
from tests.simulation.test_simulation import START_MS, Plans, model_of, quiesce, spec
from tests.simulation.world import World
from tests.support.forms import tried

_MOST = tried(1, 12)
SEEDS = (
    *range(1, _MOST + 1),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(_MOST + 1, 301)),
)
MINUTE_MS = 60_000
DAY_MINUTES = 1440
# Minutes of the day, in UTC. The world begins at 20:00.
OPEN = ((1201, 1203), (1205, 1208), (1212, 1220), (1230, 1260), (1270, 1380), (30, 90))
SHUT = ((1206, 1207), (1232, 1234))
EXCEPTED_MS = (START_MS + 90_000, START_MS + 130_000)  # of a calendar: 20:01:30 to 20:02:10


def clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def texts(parts: tuple[tuple[int, int], ...]) -> tuple[str, ...]:
    return tuple(f"{clock(first)}-{clock(last)}" for first, last in parts)


CALENDAR = "/a.ics = 2026-03-08T20:01:30Z..2026-03-08T20:02:10Z"
WINDOWS: dict[str, Any] = {
    "between": texts(OPEN),
    "not_between": texts(SHUT),
    "except_days": (CALENDAR,),
}
SPECS = (
    spec("plain", 7, lasts_s=2, **WINDOWS),
    spec("slow", 5, lasts_s=23, **WINDOWS),
    spec("queue", 6, lasts_s=9, overlap=Overlap.QUEUE, **WINDOWS),
    spec("replace", 31, lasts_s=40, overlap=Overlap.REPLACE, **WINDOWS),
    spec("all", 11, lasts_s=1, catch_up=CatchUp.ALL, max_late_s=300.0, **WINDOWS),
    spec("skipping", 17, lasts_s=4, catch_up=CatchUp.SKIP, **WINDOWS),
    spec("jittered", 19, lasts_s=1, jitter_s=30.0, **WINDOWS),
    spec("retried", 8, lasts_s=1, code=1, retries=1, retry_delay_s=30.0, **WINDOWS),
    spec("free", 9, lasts_s=1),
)


def is_open(at_ms: int) -> bool:
    """Whether runs can start at an instant, by plain arithmetic."""
    minute = at_ms // MINUTE_MS % DAY_MINUTES
    if EXCEPTED_MS[0] <= at_ms < EXCEPTED_MS[1]:
        return False
    if any(first <= minute < last for first, last in SHUT):
        return False
    return any(first <= minute < last for first, last in OPEN)


def act(world: World) -> None:
    """One random move of whoever may move."""
    dice = world.random.random()
    engines = sorted(world.engines)
    if dice < 0.55 and engines:
        world.step(world.random.choice(engines))
    elif dice < 0.87:
        world.clock.advance_ms(world.random.choice((200, 1000, 1000, 3000, 8000)))
    elif dice < 0.91:
        if len(engines) < 3:
            world.start_engine(
                max_running=world.random.choice((1, 3, 8)), burst=world.random.choice((None, 1, 3))
            )
    elif dice < 0.94 and engines:
        world.kill_engine(world.random.choice(engines))
    elif dice < 0.96 and world.supervisors:
        world.kill_supervisor(world.random.choice(sorted(world.supervisors)))
    elif dice < 0.985:
        world.clock.advance_ms(world.random.choice((90_000, 300_000)))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_run_starts_outside_its_windows_and_each_excluded_time_has_a_row(
    tmp_path: Path, seed: int
) -> None:
    world = World(tmp_path / "sim.db", random=Random(seed), start_ms=START_MS)
    world.fix_seed()
    with Client(world.location, clock=world.clock) as client:
        client.add_all(SPECS)
    world.crash_chance = world.random.choice((0.0, 0.01, 0.05))
    world.fault_chance = world.random.choice((0.0, 0.01, 0.05))
    world.peer_chance = world.random.choice((0.0, 0.05))

    for _ in range(400):
        act(world)
    while not is_open(world.clock.now_ms()) or is_open(world.clock.now_ms() - MINUTE_MS):
        world.clock.advance_ms(MINUTE_MS)  # until a window has just opened
    removed_ms = quiesce(world, SPECS)

    models = model_of(SPECS)
    check(world, {"free": models.pop("free")}, made_ms=START_MS, until_ms=removed_ms)
    rows = read_all(world)
    started = check_starts(world)
    excluded = sum(
        check_coverage(rows, name, plans_in, until_ms=removed_ms)
        for name, plans_in in models.items()
    )
    assert started, "nothing was ever started"
    assert excluded, "nothing was ever excluded"


def check_starts(world: World) -> int:
    """No run starts outside its windows; one that was due in a window can be late by a minute."""
    rows = world.look(
        """SELECT s.name, e.due_at, e.claimed_at FROM executions AS e
           JOIN schedules AS s ON s.id = e.schedule_id
           WHERE s.name != 'free' AND e.claimed_at IS NOT NULL"""
    )
    for name, due_ms, claimed_ms in rows:
        latest_ms = max(due_ms, claimed_ms - MINUTE_MS)
        assert is_open(claimed_ms) or is_open(latest_ms), f"{name} started at {claimed_ms}"
    return len(rows)


def check_coverage(rows: list[dict[str, Any]], name: str, plans_in: Plans, *, until_ms: int) -> int:
    """Each time has one row, an excluded one a row that says so; how many were excluded."""
    by: Counter[int] = Counter()
    excluded: set[int] = set()
    for row in rows:
        if row["name"] != name or row["attempt"] > 1 or row["fire_key"] not in ("", "missed"):
            continue
        if row["missed_count"] is None:
            by[row["plan_at"]] += row["fire_key"] == ""
            continue
        is_excluded = row["reason"] == "excluded"
        span = plans_in(row["missed_from_at"] - 1, row["missed_to_at"])
        covered = {at for at in span if is_open(at) is not is_excluded}
        assert len(covered) == row["missed_count"], f"{row} covers {len(covered)} times"
        by.update(covered)
        if is_excluded:
            excluded |= covered
    expected = plans_in(START_MS, until_ms)
    twice = [at for at, count in by.items() if count > 1]
    assert not twice, f"{name} decided twice: {sorted(twice)[:5]}"
    assert set(by) == expected, f"{name}: {sorted(set(by) ^ expected)[:5]}"
    wrong = {at for at in expected if not is_open(at)} ^ excluded
    assert not wrong, f"{name}: excluded or not: {sorted(wrong)[:5]}"
    return len(excluded)
