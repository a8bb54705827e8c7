"""What waits for others' successes, with several engines and a crash possible at every call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from edgecron.client import Client
from edgecron.model.choices import CatchUp, Overlap
from tests.simulation.invariants import check
from tests.simulation.test_simulation import START_MS, model_of, quiesce, spec
from tests.simulation.world import World
from tests.support.forms import tried

_MOST = tried(2, 12)
SEEDS = (
    *(("sqlite", seed) for seed in range(1, _MOST + 1)),
    ("postgres", 1),
    *(
        pytest.param(kind, seed, marks=pytest.mark.slow)
        for kind, first in (("sqlite", _MOST + 1), ("postgres", 2))
        for seed in range(first, 301)
    ),
)
DEADLINE_S = 15.0
LATELY: dict[str, Any] = {"needs": ("success:good:20s",), "needs_deadline_s": DEADLINE_S}
NEVER: dict[str, Any] = {"needs": ("success:good", "success:bad"), "needs_deadline_s": DEADLINE_S}
SPECS = (
    spec("good", 40, lasts_s=4),
    spec("bad", 13, lasts_s=1, code=3),
    spec("lately", 7, lasts_s=2, **LATELY),
    spec("queue", 6, lasts_s=5, overlap=Overlap.QUEUE, **LATELY),
    spec("allow", 9, lasts_s=3, overlap=Overlap.ALLOW, max_running=2, **LATELY),
    spec("all", 11, lasts_s=1, catch_up=CatchUp.ALL, max_late_s=300.0, **LATELY),
    spec("retried", 8, lasts_s=1, code=1, retries=1, retry_delay_s=30.0, **LATELY),
    spec("never", 12, lasts_s=1, **NEVER),
)


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
    elif dice < 0.98:
        with Client(world.location, clock=world.clock) as client:
            client.run_now(world.random.choice(("good", "good", "lately", "never")))
    elif dice < 0.985:
        world.clock.advance_ms(world.random.choice((90_000, 900_000)))


@pytest.mark.failure(15)
@pytest.mark.parametrize(("make_world", "seed"), SEEDS, indirect=["make_world"])
def test_nothing_starts_without_what_it_needs_and_nothing_waits_for_ever(
    make_world: Callable[[int], World], seed: int
) -> None:
    world = make_world(seed)
    with Client(world.location, clock=world.clock) as client:
        client.add_all(SPECS)
    world.crash_chance = world.random.choice((0.0, 0.01, 0.05))
    world.fault_chance = world.random.choice((0.0, 0.01, 0.05))
    world.peer_chance = world.random.choice((0.0, 0.05))

    for _ in range(300):
        act(world)
    removed_ms = quiesce(world, SPECS)

    once = [one for one in SPECS if not one.policies.retries]  # a row for each plan time
    check(world, model_of(once), made_ms=START_MS, until_ms=removed_ms)
    seen = check_needs(world)
    assert seen["skipped"], "nothing was ever given up"
    assert seen["started"], "nothing was ever started"


def check_needs(world: World) -> Counter[str]:
    rows = world.look(
        """SELECT s.name, e.cause, e.status, e.reason, e.due_at, e.claimed_at, e.finished_at
           FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id"""
    )
    successes = [row[6] for row in rows if row[0] == "good" and row[2] == "success"]
    needing = {one.name for one in SPECS if one.policies.needs}
    seen: Counter[str] = Counter()
    for name, cause, status, reason, due_ms, claimed_ms, finished_ms in rows:
        if name not in needing or cause in ("manual", "retry"):
            continue
        if claimed_ms is not None:
            seen["started"] += 1
            assert name != "never"
            met = [end for end in successes if claimed_ms - 20_000 <= end <= claimed_ms]
            assert met, f"{name} started at {claimed_ms} without a success of good"
        if reason == "condition":
            seen[status] += 1
            assert status == "skipped"
            assert finished_ms >= due_ms + DEADLINE_S * 1000, "given up too early"
    return seen
