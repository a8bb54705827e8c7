"""Runs that must have a condition, and paths that hang, with several engines and crashes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from edgecron.client import Client
from edgecron.model.choices import WhileLost
from edgecron.planning.admission import LOST_MS
from tests.simulation.invariants import check
from tests.simulation.test_simulated_conditions import Surroundings
from tests.simulation.test_simulation import START_MS, model_of, quiesce, spec
from tests.simulation.world import Body, World
from tests.support.clock import FakeClock
from tests.support.fakemachine import FakeMachine
from tests.support.forms import tried

_MOST = tried(2, 8)
SEEDS = (
    *range(1, _MOST + 1),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(_MOST + 1, 101)),
)
NAS = "exists:/mnt/nas"
STEP_MS = 2_000  # between two steps, at most
# A check comes every 10 s: the kernel reports nothing here. An engine that takes a run over begins
# to count anew, which happens at most twice within such a time.
SETTLE_MS = 10_000 + 3 * (LOST_MS + STEP_MS)
SPECS = (
    spec("ended", 13, lasts_s=60, while_needs=("ac-power",)),
    spec("suspended", 17, lasts_s=60, while_needs=("ac-power",), while_lost=WhileLost.SUSPEND),
    spec("distant", 10, lasts_s=1, needs=(NAS,), needs_deadline_s=60.0),
    spec("free", 5, lasts_s=1),
)


def unmet_spans(around: Surroundings, *, until_ms: int) -> list[tuple[int, int]]:
    """The spans without mains, from and to."""
    ends = [at_ms for at_ms, _ in around.changes["ac-power"][1:]] + [until_ms]
    return [
        (from_ms, to_ms)
        for (from_ms, is_on), to_ms in zip(around.changes["ac-power"], ends, strict=True)
        if not is_on and to_ms > from_ms
    ]


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that follow each other without a gap become one."""
    found: list[tuple[int, int]] = []
    for from_ms, to_ms in spans:
        if found and found[-1][1] == from_ms:
            found[-1] = found[-1][0], to_ms
        else:
            found.append((from_ms, to_ms))
    return found


def ran_without_ms(body: Body, span: tuple[int, int]) -> int:
    """For how long the processes of a run were working within a span."""
    from_ms, to_ms = max(body.started_ms, span[0]), min(body.ends_ms, span[1])
    stopped = sum(
        max(0, min(end_ms, to_ms) - max(begin_ms, from_ms)) for begin_ms, end_ms in body.stops
    )
    return max(0, to_ms - from_ms) - stopped


@pytest.mark.parametrize("seed", SEEDS)
def test_no_run_works_long_without_its_condition_and_none_stays_suspended(
    tmp_path: Path, seed: int
) -> None:
    clock = FakeClock(START_MS)
    machine = FakeMachine(tmp_path / "root", clock)
    machine.write("mnt/nas", "")
    world = World(tmp_path / "sim.db", random=Random(seed), start_ms=START_MS, clock=clock)
    world.hosting = machine.hosting()
    world.fix_seed()
    around = Surroundings(machine)
    with Client(world.path, clock=world.clock) as client:
        client.add_all(SPECS)
    world.start_engine()
    for _ in range(300):
        dice = world.random.random()
        if dice < 0.05:
            around.set("ac-power", world.random.random() < 0.5)
        elif dice < 0.07:
            machine.hang("/mnt/nas")
        elif dice < 0.12:
            machine.answer()
        elif dice < 0.14:
            world.kill_engine(world.random.choice(sorted(world.engines)))
            world.start_engine()  # It takes over the runs that the other one has left.
        elif dice < 0.15:
            world.kill_supervisor(world.random.choice(sorted(world.supervisors)))
        for key in sorted(world.engines):
            world.step(key)
        world.clock.advance_ms(world.random.choice((200, 1000, STEP_MS)))
    machine.answer()
    around.set_all()
    world.settle()
    removed_ms = quiesce(world, SPECS)

    check(world, model_of(SPECS), made_ms=START_MS, until_ms=removed_ms)
    assert not [body for body in world.bodies if body.suspended_ms is not None]
    spans = merged(unmet_spans(around, until_ms=world.clock.now_ms()))
    for body in world.bodies:
        if body.schedule in ("ended", "suspended"):
            for span in spans:
                worked_ms = ran_without_ms(body, span)
                assert worked_ms <= SETTLE_MS, f"{body} worked {worked_ms} ms without mains"
    assert [body for body in world.bodies if body.stops]
