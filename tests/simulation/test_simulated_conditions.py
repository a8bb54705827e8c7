"""Runs that wait for the machine, with several engines and a crash possible at every call."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from edgecron.base.bus_facts import Connectivity
from edgecron.client import Client
from edgecron.model.choices import CatchUp, Overlap
from tests.simulation.invariants import check
from tests.simulation.test_simulation import START_MS, model_of, quiesce, spec
from tests.simulation.world import World
from tests.support.clock import FakeClock
from tests.support.fakemachine import FakeMachine
from tests.support.forms import tried

_MOST = tried(2, 12)
SEEDS = (
    *range(1, _MOST + 1),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(_MOST + 1, 301)),
)
SETTLE_S = 10  # after the machine has woken up
FRESH_MS = 500  # a claim goes by facts that are at most so old
DEADLINE_S = 20.0
MAINS: dict[str, Any] = {"needs": ("ac-power",), "needs_deadline_s": DEADLINE_S}
PATIENT: dict[str, Any] = {"needs": ("ac-power",), "needs_deadline_s": 86_400.0}
BATTERY: dict[str, Any] = {"needs": ("not:ac-power",), "needs_deadline_s": DEADLINE_S}
ONLINE: dict[str, Any] = {"needs": ("online",), "needs_deadline_s": DEADLINE_S}
CHEAP: dict[str, Any] = {"needs": ("unmetered", "ac-power"), "needs_deadline_s": DEADLINE_S}
UNKNOWN: dict[str, Any] = {"needs": ("pressure:cpu:5%",), "needs_deadline_s": DEADLINE_S}
SPECS = (
    spec("mains", 7, lasts_s=2, **MAINS),
    spec("patient", 9, lasts_s=2, **PATIENT),
    spec("queue", 6, lasts_s=5, overlap=Overlap.QUEUE, **MAINS),
    spec("all", 11, lasts_s=1, catch_up=CatchUp.ALL, max_late_s=300.0, **MAINS),
    spec("battery", 8, lasts_s=1, **BATTERY),
    spec("online", 7, lasts_s=2, **ONLINE),
    spec("cheap", 10, lasts_s=3, **CHEAP),
    spec("unknown", 12, lasts_s=1, **UNKNOWN),
    spec("free", 5, lasts_s=1),
)


class Surroundings:
    """The conditions around the simulated machine, and when each has changed.

    The kernel reports the mains supply, and the system bus the network.
    """

    def __init__(self, machine: FakeMachine) -> None:
        self._machine = machine
        self.changes = {kind: [(0, True)] for kind in ("ac-power", "online", "unmetered")}
        self.set_all()

    def set(self, kind: str, is_met: bool) -> None:
        """Let a condition become true or false."""
        bus = self._machine.bus
        if kind == "ac-power":
            self._machine.set_on_mains(is_met)
        elif kind == "online":
            bus.report(connectivity=Connectivity.FULL if is_met else Connectivity.PORTAL)
        else:
            bus.report(is_metered=not is_met)
        self.changes[kind].append((self._machine.clock.now_ms(), is_met))

    def set_all(self, is_met: bool = True) -> None:
        for kind in self.changes:
            self.set(kind, is_met)

    def change(self, random: Random) -> None:
        """Let one of the conditions become true or false."""
        self.set(random.choice(sorted(self.changes)), random.random() < 0.5)

    def met(self, condition: str, *, from_ms: int, to_ms: int) -> bool:
        """Whether a condition was true at any time of a span."""
        changes, is_wanted = self.changes[condition.removeprefix("not:")], True
        if condition.startswith("not:"):
            is_wanted = False
        last = bisect_right(changes, (to_ms, True))
        first = max(0, bisect_right(changes, (from_ms, False)) - 1)
        return any(was is is_wanted for _, was in changes[first:last])


def act(world: World, around: Surroundings) -> None:
    """One random move of whoever may move."""
    dice = world.random.random()
    engines = sorted(world.engines)
    if dice < 0.50 and engines:
        world.step(world.random.choice(engines))
    elif dice < 0.80:
        world.clock.advance_ms(world.random.choice((200, 1000, 1000, 3000, 8000)))
    elif dice < 0.88:
        around.change(world.random)
        for key in engines:  # The kernel or the bus reports it, to some of them in time.
            if world.random.random() < 0.7:
                world.engines[key][0].conditions.hear()
    elif dice < 0.92:
        if len(engines) < 3:
            world.start_engine(
                max_running=world.random.choice((1, 3, 8)), burst=world.random.choice((None, 1, 3))
            )
    elif dice < 0.95 and engines:
        world.kill_engine(world.random.choice(engines))
    elif dice < 0.97 and world.supervisors:
        world.kill_supervisor(world.random.choice(sorted(world.supervisors)))
    elif dice < 0.98:
        world.clock.suspend_ms(world.random.choice((30_000, 900_000)))


@pytest.mark.failure(15)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_run_starts_while_its_condition_is_not_met_and_none_waits_for_ever(
    tmp_path: Path, seed: int
) -> None:
    clock = FakeClock(START_MS)
    machine = FakeMachine(tmp_path / "root", clock)
    world = World(tmp_path / "sim.db", random=Random(seed), start_ms=START_MS, clock=clock)
    world.hosting = machine.hosting()
    world.fix_seed()
    around = Surroundings(machine)
    with Client(world.path, clock=world.clock) as client:
        client.add_all(SPECS)
    world.crash_chance = world.random.choice((0.0, 0.01, 0.05))
    world.fault_chance = world.random.choice((0.0, 0.01, 0.05))
    world.peer_chance = world.random.choice((0.0, 0.05))

    for _ in range(300):
        act(world, around)
    around.set_all()
    world.settle()  # longer than the longest pause between two checks
    waiting = world.look(
        "SELECT DISTINCT waiting_for FROM executions WHERE waiting_for IS NOT NULL"
    )
    removed_ms = quiesce(world, SPECS)

    check(world, model_of(SPECS), made_ms=START_MS, until_ms=removed_ms)
    seen = check_conditions(world, around)
    long_met = {("ac-power",), ("online",), ("unmetered",)} & set(waiting)
    assert not long_met, f"a run waits for {long_met} although it has long been met"
    assert seen["started"], "nothing was ever started"
    assert seen["skipped"], "nothing was ever given up"


@pytest.mark.failure(15)
@pytest.mark.parametrize(
    ("seed", "rounds"),
    [
        *tried([(1, 5)], [(seed, 12) for seed in range(1, 5)]),
        *(pytest.param(seed, 12, marks=pytest.mark.slow) for seed in range(5, 21)),
    ],
)
def test_no_run_whose_condition_is_met_waits_longer_than_the_settling_time(
    tmp_path: Path, seed: int, rounds: int
) -> None:
    clock = FakeClock(START_MS)
    machine = FakeMachine(tmp_path / "root", clock)
    world = World(tmp_path / "sim.db", random=Random(seed), start_ms=START_MS, clock=clock)
    world.hosting = machine.hosting()
    world.fix_seed()
    around = Surroundings(machine)
    with Client(world.path, clock=world.clock) as client:
        client.add_all(SPECS)
    waited: Counter[str] = Counter()

    for number in range(rounds):
        for _ in range(20):
            act(world, around)
        around.set_all(False)
        if not world.engines:
            world.start_engine()
        for _ in range(40):  # Pauses between two checks grow meanwhile.
            advance(world, 1)
        if number % 2:
            clock.suspend_ms(900_000)
            advance(world, 0)
        waited.update(find_waiting(world))
        around.set_all()
        for key in world.engines:
            world.engines[key][0].conditions.hear()
        for _ in range(SETTLE_S + 1):
            advance(world, 1)
        assert find_waiting(world) == [], "a run still waits although its condition is met"

    assert waited.keys() >= {"mains", "online", "cheap"}, "nothing ever waited"


def advance(world: World, seconds: int) -> None:
    """Let time pass; then each engine makes three passes, as it would without a pause."""
    world.clock.advance_ms(seconds * 1000)
    for _ in range(3):
        for key in sorted(world.engines):
            world.step(key)


def find_waiting(world: World) -> list[str]:
    """The schedules whose runs wait for a condition that is not the opposite of another."""
    rows = world.look(
        """SELECT s.name FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.waiting_for IN ('ac-power', 'online', 'unmetered')
               AND e.status = 'queued'"""
    )
    return [name for (name,) in rows]


def check_conditions(world: World, around: Surroundings) -> Counter[str]:
    rows = world.look(
        """SELECT s.name, e.status, e.reason, e.due_at, e.claimed_at, e.finished_at, e.waiting_for
           FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.cause NOT IN ('manual', 'retry')"""
    )
    needs = {one.name: one.policies.needs for one in SPECS if one.policies.needs}
    seen: Counter[str] = Counter()
    for name, status, reason, due_ms, claimed_ms, finished_ms, waiting_for in rows:
        if name not in needs:
            continue
        assert waiting_for is None, f"{name} still waits for {waiting_for}"
        if claimed_ms is not None:
            seen["started"] += 1
            assert name != "unknown"
            for condition in needs[name]:
                assert around.met(condition, from_ms=claimed_ms - FRESH_MS, to_ms=claimed_ms), (
                    f"{name} started at {claimed_ms} although {condition} was not met"
                )
        if reason == "condition":
            seen[status] += 1
            assert status == "skipped"
            assert finished_ms >= due_ms + DEADLINE_S * 1000, "given up too early"
    return seen
