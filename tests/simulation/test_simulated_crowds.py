"""Engines that get in each other's way all the time: two of them recover the same run at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgecron.client import Client
from tests.simulation.invariants import check
from tests.simulation.test_simulation import SPECS, START_MS, meddle, model_of, quiesce
from tests.simulation.world import World
from tests.support.forms import tried

_MOST = tried(2, 5)
SEEDS = (
    *(("sqlite", seed) for seed in range(1, _MOST + 1)),
    *(
        pytest.param(kind, seed, marks=pytest.mark.slow)
        for kind, first in (("sqlite", _MOST + 1), ("postgres", 1))
        for seed in range(first, 301)
    ),
)


def jostle(world: World) -> None:
    """One random move; engines die as often as they step, and others are there already."""
    dice = world.random.random()
    engines = sorted(world.engines)
    if dice < 0.50 and engines:
        world.step(world.random.choice(engines))
    elif dice < 0.68:
        world.clock.advance_ms(world.random.choice((200, 1000, 3000)))
    elif dice < 0.86:
        while len(world.engines) < 3:
            world.start_engine(max_running=world.random.choice((3, 8)))
    elif dice < 0.93 and engines:
        world.kill_engine(world.random.choice(engines))
    elif dice < 0.97 and world.supervisors:
        world.kill_supervisor(world.random.choice(sorted(world.supervisors)))
    elif dice < 0.99 and world.supervisors:
        world.turn(world.supervisors[world.random.choice(sorted(world.supervisors))])
    else:
        meddle(world)


@pytest.mark.failure(17)
@pytest.mark.failure(22)
@pytest.mark.parametrize(("make_world", "seed"), SEEDS, indirect=["make_world"])
def test_engines_that_recover_the_same_runs_at_once_run_none_twice(
    make_world: Callable[[int], World], seed: int
) -> None:
    world = make_world(seed)
    with Client(world.location, clock=world.clock) as client:
        client.add_all(SPECS)
    world.peer_chance = world.random.choice((0.1, 0.3))
    world.ask_chance = 0.5
    world.wait_chance = 0.5
    world.fault_chance = world.random.choice((0.0, 0.02))

    for _ in range(160):
        jostle(world)
    removed_ms = quiesce(world)

    check(world, model_of(SPECS), made_ms=START_MS, until_ms=removed_ms)
