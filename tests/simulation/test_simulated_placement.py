"""Engines of several machines with labels, of which schedules name some."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from edgecron.base.values import replace
from edgecron.client import Client
from edgecron.model.choices import CatchUp, Overlap
from edgecron.model.schedule import ScheduleSpec
from tests.simulation.invariants import check
from tests.simulation.test_simulation import START_MS, model_of, quiesce, spec
from tests.simulation.world import World
from tests.support.forms import tried

_MOST, _TURNS = tried((2, 200), (20, 400))
SEEDS = (
    *(("sqlite", seed) for seed in range(1, _MOST + 1)),
    ("postgres", 1),
    *(
        pytest.param(kind, seed, marks=pytest.mark.slow)
        for kind, first in (("sqlite", _MOST + 1), ("postgres", 2))
        for seed in range(first, 301)
    ),
)


def limited(one: ScheduleSpec) -> ScheduleSpec:
    """The same schedule in a group, whose runs are limited on all machines together."""
    return replace(one, group="disk")


MACHINES = {"web1": (), "web2": ("ssd",), "web3": ("ssd", "gpu")}
PLACED = (
    limited(spec("plain", 7, lasts_s=2, on="web1")),
    spec("failing", 11, lasts_s=1, code=3, on="web1", retries=2, retry_delay_s=5.0),
    spec("waiting", 10, lasts_s=13, on="web2", overlap=Overlap.QUEUE),
    spec("all", 13, lasts_s=1, on="web2", catch_up=CatchUp.ALL, max_late_s=300.0),
    limited(spec("labelled", 5, lasts_s=4, on="label:ssd")),
    spec("lone", 17, lasts_s=3, on="label:gpu", catch_up=CatchUp.SKIP),
    spec("roaming", 6, lasts_s=8, on="web1", overlap=Overlap.QUEUE),
    spec("retrying", 8, lasts_s=1, code=3, on="web3", retries=3, retry_delay_s=9.0),
    limited(spec("anywhere", 9, lasts_s=2)),
)
_ROAMING = ("roaming", "retrying")
ON_EACH = (
    limited(spec("scan", 7, lasts_s=2, on="each")),
    spec("failing", 11, lasts_s=1, code=3, on="each", retries=2, retry_delay_s=5.0),
    spec("waiting", 10, lasts_s=13, on="each", overlap=Overlap.QUEUE),
    limited(spec("many", 13, lasts_s=4, on="each", overlap=Overlap.ALLOW)),
    spec("all", 17, lasts_s=1, on="each", catch_up=CatchUp.ALL, max_late_s=300.0),
    spec("lone", 9, lasts_s=3, on="each", catch_up=CatchUp.SKIP),
)


@pytest.mark.failure(90)
@pytest.mark.parametrize(("make_world", "seed"), SEEDS, indirect=["make_world"])
def test_a_placed_run_starts_only_on_its_machine_or_label(
    make_world: Callable[[int], World], seed: int
) -> None:
    _play(make_world(seed), PLACED)


@pytest.mark.failure(91)
@pytest.mark.parametrize(("make_world", "seed"), SEEDS, indirect=["make_world"])
def test_each_machine_decides_each_time_once(make_world: Callable[[int], World], seed: int) -> None:
    world = make_world(seed)
    with Client(world.location, clock=world.clock) as client:
        client.add_all(ON_EACH)
    for machine in MACHINES:
        _start(world, machine)
    for key in list(world.engines):
        world.step(key)  # Its machine joins.

    _play(world, ON_EACH, are_there=True)


def _play(world: World, specs: Sequence[ScheduleSpec], *, are_there: bool = False) -> None:
    """Let machines and people act at random, and check the outcome."""
    with Client(world.location, clock=world.clock) as client:
        if not are_there:
            client.add_all(specs)
        client.limit_group("disk", 2)
    world.crash_chance = world.random.choice((0.0, 0.01))
    world.fault_chance = world.random.choice((0.0, 0.02))
    world.peer_chance = world.random.choice((0.0, 0.05))

    for _ in range(_TURNS):
        _act(world, specs)
    for key in list(world.engines):  # Some are drained.
        world.kill_engine(key)
    for machine in MACHINES:
        _start(world, machine)
    removed_ms = quiesce(world, specs)

    check(world, model_of(specs), made_ms=START_MS, until_ms=removed_ms)


def _start(world: World, machine: str) -> None:
    places = world.random.choice((1, 3, 8))
    world.start_engine(max_running=places, machine=machine, labels=MACHINES[machine])


def _act(world: World, specs: Sequence[ScheduleSpec]) -> None:
    """One random move of whoever may move."""
    random, engines = world.random, sorted(world.engines)
    dice = random.random()
    if dice < 0.55 and engines:
        world.step(random.choice(engines))
    elif dice < 0.83:
        world.clock.advance_ms(random.choice((200, 1000, 3000, 3000, 8000)))
    elif dice < 0.90:
        if len(engines) < 4:
            _start(world, random.choice(sorted(MACHINES)))
    elif dice < 0.92 and engines:
        world.kill_engine(random.choice(engines))
    elif dice < 0.93 and world.supervisors:
        world.kill_supervisor(random.choice(sorted(world.supervisors)))
    elif dice < 0.935:
        world.clock.advance_ms(random.choice((90_000, 900_000)))
    else:
        _meddle(world, specs)


def _meddle(world: World, specs: Sequence[ScheduleSpec]) -> None:
    """A person starts a run, moves a schedule, or drains or resumes an engine."""
    random = world.random
    with Client(world.location, clock=world.clock) as client:
        dice = random.random()
        if dice < 0.3:
            client.run_now(random.choice(specs).name)
        elif dice < 0.7 and specs is PLACED:
            on = random.choice((*MACHINES, "label:ssd", "any"))
            client.edit(random.choice(_ROAMING), lambda one: _placed(one, on))
        elif world.engines:
            engine, _ = world.engines[random.choice(sorted(world.engines))]
            if engine.engine_id is not None:
                change = random.choice((client.drain_engine, client.resume_engine))
                change(engine.engine_id)


def _placed(one: ScheduleSpec, on: str) -> ScheduleSpec:
    return replace(one, policies=replace(one.policies, on=on))
