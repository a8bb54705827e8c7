"""People who move, hold and backfill schedules while engines crash."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from edgecron.base.errors import Conflict, InvalidInput
from edgecron.base.units import from_ms
from edgecron.client import Client
from tests.simulation.invariants import check
from tests.simulation.test_simulation import SPECS, START_MS, act, model_of, quiesce
from tests.simulation.world import World
from tests.support.forms import tried

_MOST, _MOVES = tried((1, 150), (3, 250))


def meddle(world: World) -> None:
    """A person who moves the next run, fills the past, or holds a schedule for a while."""
    name = world.random.choice(SPECS).name
    with Client(world.path, clock=world.clock) as client:
        now = client.now()
        soon = now + timedelta(seconds=world.random.randint(1, 40))
        # What a pause or a removal forbids is refused, and nothing is changed.
        with suppress(Conflict, InvalidInput):
            choice = world.random.random()
            if choice < 0.4:
                client.reschedule(name, soon)
            elif choice < 0.6:
                client.pause(name, until=soon)
            elif choice < 0.7:
                client.resume(name)
            else:
                since = max(from_ms(START_MS), now - timedelta(seconds=120))
                priority = world.random.choice((None, 0, 20))
                client.backfill(name, since, now, priority=priority)


@pytest.mark.failure(28)
def test_what_is_moved_held_and_filled_is_decided_once(tmp_path: Path) -> None:
    filled = 0

    for seed in range(1, _MOST + 1):
        filled += live_through(tmp_path / str(seed), seed)

    assert filled > 10 * _MOST // 3, "hardly anything was ever backfilled"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(_MOST + 1, 301))
def test_the_same_holds_of_many_more_seeds(tmp_path: Path, seed: int) -> None:
    live_through(tmp_path, seed)


def live_through(folder: Path, seed: int) -> int:
    """A life of one seed, judged; how many backfilled times ran. It may be none by chance."""
    folder.mkdir(mode=0o700, exist_ok=True)
    world = World(folder / "sim.db", random=Random(seed), start_ms=START_MS)
    world.fix_seed()
    with Client(world.location, clock=world.clock) as client:
        client.add_all(SPECS)
    world.crash_chance = world.random.choice((0.0, 0.01, 0.03))
    world.fault_chance = world.random.choice((0.0, 0.01))
    world.peer_chance = world.random.choice((0.0, 0.05))
    try:
        for _ in range(_MOVES):
            act(world)
            if world.random.random() < 0.1:
                meddle(world)
        # What is queued of a backfill is given places and time before its schedule is removed.
        world.start_engine(max_running=24)
        world.settle(for_ms=900_000, every_ms=5000)
        removed_ms = quiesce(world)
        check(world, model_of(SPECS), made_ms=START_MS, until_ms=removed_ms)
        return _check_backfills(world)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def _check_backfills(world: World) -> int:
    """Each time that was filled has one success at most, and its runs came in sequence.

    How many ran.
    """
    with Client(world.path, clock=world.clock) as client:
        runs = [run for one in SPECS for run in client.history(one.name, limit=100_000)]
    ends: dict[object, int] = {}
    for run in sorted(runs, key=lambda run: run.id):
        if run.fire_key.startswith("backfill:") or run.fire_key == "":
            key = (run.schedule, run.scope_kind, run.scope_id, run.plan_at)
            ends[key] = ends.get(key, 0) + (run.status == "success")
    assert max(ends.values()) == 1
    filled = [body for body in world.bodies if body.fire_key.startswith("backfill:")]
    lives: dict[object, int] = {}
    for body in sorted(filled, key=lambda body: body.started_ms):
        line = (body.schedule, body.scope)
        assert lives.get(line, 0) <= body.started_ms, f"not in sequence: {body}"
        lives[line] = body.ends_ms
    return len(filled)
