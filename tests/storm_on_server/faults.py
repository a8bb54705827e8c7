"""What goes wrong in a storm, drawn by its seed, and what ends it."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

from edgecron.base.values import dataclass
from tests.chaos.faults import wall_ms
from tests.chaos.field import pairs
from tests.storm_on_server.field import MACHINES, MachineSlot, ServerField

Undo = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: how often it comes in its lane, and for how many seconds it lasts."""

    name: str
    lane: str
    weight: int
    lasts_s: tuple[float, float] = (0.0, 0.0)


# A lease lasts 60 s: some cuts are shorter, some longer.
KINDS = (
    Kind("cut", "cables", 4, (2, 25)),
    Kind("long_cut", "cables", 2, (70, 100)),
    Kind("kill_engine", "processes", 4, (0.2, 4)),
    Kind("term_engine", "processes", 2, (0.2, 4)),
    Kind("stop_engine", "processes", 3, (1, 12)),
    Kind("long_stop", "processes", 1, (65, 80)),
    Kind("kill_supervisor", "processes", 2),
    Kind("kill_machine", "processes", 1, (1, 8)),
    Kind("kill_server", "server", 3, (0.5, 6)),
    Kind("long_kill_server", "server", 1, (40, 70)),
    Kind("end_connections", "server", 3),
    Kind("kill_pooler", "server", 2, (0.5, 5)),
)
_PAUSE_S = {"cables": 12.0, "processes": 6.0, "server": 25.0}  # on average, between two faults


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a plan. `pick` chooses among those that it can hit."""

    at_s: float
    kind: Kind
    lasts_s: float
    pick: float


def make_plan(seed: int, *, duration_s: int, has_cables: bool) -> list[Fault]:
    """Return the faults of a seed, in the order of their times."""
    random = Random(seed)
    plan = [one for lane in _PAUSE_S for one in _draw_lane(random, lane, duration_s)]
    return sorted(
        (one for one in plan if has_cables or one.kind.lane != "cables"), key=lambda one: one.at_s
    )


def _draw_lane(random: Random, lane: str, duration_s: int) -> Iterator[Fault]:
    kinds = [one for one in KINDS if one.lane == lane]
    at_s = random.uniform(2, 8)
    while at_s < duration_s:
        [kind] = random.choices(kinds, [one.weight for one in kinds])
        lasts_s = min(random.uniform(*kind.lasts_s), max(1.0, duration_s - at_s))
        yield Fault(at_s, kind, lasts_s, random.random())
        at_s += lasts_s + 0.5 + random.expovariate(1 / _PAUSE_S[lane])


class Faults:
    """Begin and end faults. `counts` is what was really done, `cuts` when cables were cut."""

    def __init__(self, field: ServerField, slots: list[MachineSlot]) -> None:
        self._field = field
        self._slots = slots
        self.counts: Counter[str] = Counter()
        self.cuts: list[tuple[int, int, int]] = []  # machine, from, to
        self.is_server_down = False

    def begin(self, fault: Fault) -> Undo | None:
        """Do it; return what ends it, None if nothing has to."""
        begin: Callable[[Fault], Undo | None] = getattr(
            self, f"_{fault.kind.name.removeprefix('long_')}"
        )
        if self.is_server_down and fault.kind.lane == "server":
            return None  # On a busy machine, the last fault of the lane lasts longer than planned.
        self.counts[fault.kind.name] += 1
        return begin(fault)

    def _slot(self, fault: Fault) -> MachineSlot | None:
        up = [one for one in self._slots if one.is_up]
        return up[int(fault.pick * len(up))] if up else None

    def _hurt_all(self) -> None:
        for slot in self._slots:
            slot.hurt()

    def _cut(self, fault: Fault) -> Undo:
        machine, began_ms = int(fault.pick * len(MACHINES)), wall_ms()
        self._field.cut(machine)
        self._hurt_all()

        def plug_in() -> None:
            self._field.plug_in(machine)
            self._hurt_all()
            self.cuts.append((machine, began_ms, wall_ms()))

        return plug_in

    def _kill_engine(self, fault: Fault) -> None:
        if slot := self._slot(fault):
            slot.kill(again_s=fault.lasts_s)

    def _term_engine(self, fault: Fault) -> None:
        if slot := self._slot(fault):
            slot.term(again_s=fault.lasts_s)

    def _stop(self, fault: Fault) -> Undo | None:
        return self._stop_engine(fault)

    def _stop_engine(self, fault: Fault) -> Undo | None:
        slot = self._slot(fault)
        if slot is None:
            return None
        slot.stop()
        return slot.go_on

    def _kill_supervisor(self, fault: Fault) -> None:
        found = sorted(pairs(self._field.folder), key=lambda one: one.supervisor)
        self._hurt_all()
        if found:
            _kill(found[int(fault.pick * len(found))].supervisor)

    def _kill_machine(self, fault: Fault) -> None:
        """All processes of a machine but its jobs' own."""
        machine = int(fault.pick * len(MACHINES))
        self._hurt_all()
        for slot in self._slots:
            if slot.machine == machine:
                slot.kill(again_s=fault.lasts_s)
        for pair in pairs(self._field.folder / f"machine-{machine}"):
            _kill(pair.guardian)
            _kill(pair.supervisor)

    def _kill_server(self, _: Fault) -> Undo:
        self.is_server_down = True
        self._hurt_all()
        self._field.server.kill()

        def start() -> None:
            self._field.server.start()
            self.is_server_down = False
            self._hurt_all()

        return start

    def _end_connections(self, _: Fault) -> None:
        self._field.server.end_connections()

    def _kill_pooler(self, _: Fault) -> Undo:
        self._field.kill_pooler()
        self._hurt_all()
        return self._field.start_pooler


def _kill(pid: int | None) -> None:
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
