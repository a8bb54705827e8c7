"""Windows with a condition on whole machines, whose processes are killed, stopped and stalled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from edgecron.model.choices import Overlap
from edgecron.model.schedule import ScheduleSpec
from tests.simulation.casts import START_MS
from tests.simulation.lives import Life
from tests.simulation.machine import Machine
from tests.simulation.people import wish
from tests.simulation.points import Chances, watching
from tests.simulation.seeds import folder_in_memory
from tests.support.fakemachine import FakeMachine
from tests.support.forms import tried

# In the first one, a run must be given up before a fire that is due in the same pass.
_FIRST, _MOST = 92, tried(2, 6)
SEEDS = (
    *range(_FIRST, _FIRST + _MOST),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, _FIRST)),
)
MINUTE_MS = 60_000
FRESH_MS = 500  # a claim goes by facts that are at most so old
LEAST_RUN_MS = 61_000  # a run that would not end in its window does not start
# A condition that is met for so long, on a machine in which nothing goes wrong, is noticed: it
# settles 10 s after a resume, pauses between two checks grow to a minute, and a start takes a
# moment.
NOTICED_MS = 75_000
SLICE_MS = 5_000
# Minutes after the start of the world, which begins at 20:00 UTC.
WINDOWS = ((2, 6), (8, 16), (17, 27), (30, 50), (52, 70), (75, 110))
CONDITIONS = {"mains": "ac-power", "battery": "not:ac-power", "queued": "ac-power", "free": None}


def clock_text(minute: int) -> str:
    return f"{20 + minute // 60}:{minute % 60:02}"


def specs() -> list[ScheduleSpec]:
    found = []
    for name, condition in CONDITIONS.items():
        when = "" if condition is None else f" when {condition}"
        windows = (f"{clock_text(first)}-{clock_text(last)}" for first, last in WINDOWS)
        triggers = tuple(f"once in {window}{when}" for window in windows)
        overlap = Overlap.QUEUE if name == "queued" else Overlap.SKIP
        found.append(wish(name, *triggers, anchor_ms=START_MS, lasts_s=2, overlap=overlap))
    return found


class Slice(NamedTuple):
    """A few seconds of a life, by the wall clock."""

    from_ms: int
    until_ms: int
    is_on_mains: bool
    is_calm: bool  # an engine lived, and nothing went wrong


class Power:
    """The mains supply of a machine, and when it came and went."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self._machine = machine
        self._files = FakeMachine(folder / "root", machine.clock)
        self.changes = [(0, True)]
        machine.facts = self._files.facts()

    def switch(self) -> None:
        is_on = not self.changes[-1][1]
        self._files.set_on_mains(is_on)
        self.changes.append((self._machine.clock.now_ms(), is_on))
        self._machine.reports += 1

    def was(self, is_on: bool, *, from_ms: int, until_ms: int) -> bool:
        """Whether it was so at any time of a span."""
        ends = [*(at_ms for at_ms, _ in self.changes[1:]), 1 << 62]
        spans = zip(self.changes, ends, strict=True)
        return any(
            was is is_on and at_ms <= until_ms and end_ms > from_ms
            for (at_ms, was), end_ms in spans
        )


def maltreat(life: Life) -> None:
    machine, dice = life.machine, life.random.random()
    if dice < 0.03:
        life.kill_an_engine()
    elif dice < 0.05:
        life.kill_a_supervisor()
    elif dice < 0.07:
        machine.reboot(down_ms=life.random.choice((5_000, 90_000)))
    elif dice < 0.09:
        machine.suspend(life.random.choice((30_000, 300_000)))
    elif dice < 0.10 and life.daemons:
        life.be_away(life.random.choice((30_000, 300_000)))
    elif dice < 0.12:
        life.engines_wanted = life.random.randint(1, 3)
    elif dice < 0.13 and life.daemons:
        life.random.choice(life.daemons).stop()


def live(life: Life, power: Power, *, for_ms: int) -> list[Slice]:
    """Let things go wrong, and the mains come and go; what each few seconds were like."""
    machine, random = life.machine, life.random
    machine.chances = Chances(
        kill=random.choice((0.0, 0.0002)), pause=random.choice((0.0, 0.002)),
        fault=random.choice((0.0, 0.0005)),
    )  # fmt: skip
    slices = []
    until_ms = machine.clock.now_ms() + for_ms
    while machine.clock.now_ms() < until_ms:
        before, from_ms = life.mishaps, machine.clock.now_ms()
        if random.random() < 0.03:
            power.switch()
        is_on = power.changes[-1][1]
        alive = {one for one in life.daemons if one.is_alive}
        maltreat(life)
        life.run(SLICE_MS)
        is_calm = (
            life.mishaps == before
            and bool(alive & {one for one in life.daemons if one.is_alive})
            and all(one.stalled_until_ms <= machine.true_ms for one in machine.steppers)
        )
        slices.append(Slice(from_ms, machine.clock.now_ms(), is_on, is_calm))
    return slices


def find_chance_ms(
    slices: list[Slice], condition: str | None, *, opens_ms: int, closes_ms: int
) -> int | None:
    """When a run must have started at the latest; None if nothing had to start in this window."""
    since_ms = None
    for one in slices:
        is_met = condition is None or one.is_on_mains is (condition == "ac-power")
        if not (one.is_calm and is_met and one.from_ms >= opens_ms):
            since_ms = None
            continue
        since_ms = one.from_ms if since_ms is None else since_ms
        if one.until_ms > closes_ms - LEAST_RUN_MS:
            return None
        if one.until_ms - since_ms >= NOTICED_MS:
            return one.until_ms
    return None


def check_windows(life: Life, power: Power, slices: list[Slice]) -> Counter[str]:
    seen: Counter[str] = Counter()
    life.judge.check()
    rows = life.judge.rows
    started: dict[tuple[str, int], int] = {}
    for body in life.machine.bodies.values():
        row, condition = rows[body.execution_id], CONDITIONS[body.schedule]
        key = body.schedule, row["plan_at"]
        assert body.attempt > 1 or key not in started, f"two runs in a window: {row}"
        started.setdefault(key, body.started_ms)
        seen["started"] += 1
        minute = (row["plan_at"] - START_MS) // MINUTE_MS
        [closes_ms] = [START_MS + last * MINUTE_MS for first, last in WINDOWS if first == minute]
        span = {"from_ms": row["claimed_at"] - FRESH_MS, "until_ms": row["claimed_at"]}
        if condition is not None:
            assert power.was(condition == "ac-power", **span), f"its condition was not met: {row}"
        is_within = row["plan_at"] <= row["claimed_at"] < closes_ms
        assert is_within, f"started outside of its window: {row}"
    ran = {(row["name"], row["plan_at"]) for row in rows.values() if row["claimed_at"] is not None}
    for name, condition in CONDITIONS.items():
        for first, last in WINDOWS:
            opens_ms, closes_ms = START_MS + first * MINUTE_MS, START_MS + last * MINUTE_MS
            # Without a condition, the run is spread over the first half of its window.
            from_ms = opens_ms if condition else (opens_ms + closes_ms) // 2
            found_ms = find_chance_ms(slices, condition, opens_ms=from_ms, closes_ms=closes_ms)
            if found_ms is None:
                seen["no chance"] += 1
                continue
            seen["chance"] += 1
            window = f"{name} {clock_text(first)}-{clock_text(last)}"
            assert (name, opens_ms) in ran, f"did not run although it could: {window}"
            at_ms = started.get((name, opens_ms), 0)
            assert at_ms <= found_ms, f"ran later than it could: {window}"
    return seen


@pytest.mark.parametrize("seed", SEEDS)
def test_a_machine_runs_once_in_each_window_in_which_it_can(seed: int) -> None:
    with folder_in_memory() as folder:
        machine = Machine(folder, seed=seed, start_ms=START_MS)
        power = Power(folder, machine)
        with watching(machine):
            life = Life(machine, specs(), is_exact=False)
            try:
                slices = live(life, power, for_ms=112 * MINUTE_MS)
                seen = check_windows(life, power, slices)
                life.finish_early()
            finally:
                life.close()

    assert len(power.changes) > 2
    assert seen["started"] >= 1
    assert seen["chance"] >= 1
    assert seen["no chance"] >= 1
