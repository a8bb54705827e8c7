"""Look at the machine for the conditions that runs need, and wake the runs that wait for them.

An engine that no run waits in does nothing here: it has no descriptor, no timer and no wake-up for
conditions. While runs wait, the kernel reports changes of networks, power supplies and mounts
(`KernelReports`). Other conditions are checked again after growing pauses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from edgecron.base.clock import Clock
from edgecron.base.values import NamedTuple
from edgecron.model.conditions import find_of_machine, read_condition
from edgecron.model.machine_conditions import NOTHING_KNOWN, Kind, Machine, MachineCondition

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

_FRESH_MS = 500  # a fact that is older is read again before a claim
_ASKED_MS = 60_000  # a condition that no claim asked for since is not looked at
_FIRST_PAUSE_MS = 1_000
_LONGEST_PAUSE_MS = 60_000
_SETTLE_MS = 10_000
_REPORTED = frozenset(
    {Kind.ONLINE, Kind.NETWORK, Kind.AC_POWER, Kind.BATTERY, Kind.MOUNTED}
)  # Linux reports changes of these


class Reports(Protocol):
    """Changes of the machine that its kernel reports."""

    def open(self) -> int | None:
        """Begin to listen; a descriptor that is readable after a change. None: it can't."""

    def clear(self) -> None:
        """Forget the changes that were reported."""

    def close(self) -> None:
        """Stop listening."""


class NoReports:
    """A machine that reports no change."""

    def open(self) -> int | None:
        return None

    def clear(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Check(NamedTuple):
    """When a condition is checked next, by the monotonic clock, and the pause before that."""

    at_ms: int
    pause_ms: int


class ConditionWatch:
    """Know which conditions of the machine hold, and which of them runs wait for.

    `machine` answers None for what it can't tell; a run then waits until its deadline. `checks` has
    the conditions that runs wait for, and `asked` those that claims asked for. While both are
    empty, as in nearly all engines, an engine need not call this at all.
    """

    def __init__(
        self, *, store: Store, clock: Clock, machine: Machine | None, reports: Reports
    ) -> None:
        self._store = store
        self._clock = clock
        self._machine = machine
        self._reports = reports
        self.asked: dict[MachineCondition, int] = {}  # when it was last of interest (monotonic)
        self._known: dict[MachineCondition, bool] = {}
        self._known_at_ms: dict[MachineCondition, int] = {}  # monotonic
        self.checks: dict[str, _Check] = {}  # of the conditions that runs wait for
        self._fd: int | None = None
        self._settled_at_ms: int | None = None  # monotonic, if the machine has just woken up

    def filenos(self) -> list[int]:
        """The descriptors that show a change; empty if no run waits."""
        return [] if self._fd is None else [self._fd]

    @property
    def wake_ms(self) -> int | None:
        """How long until the next check; None if no run waits."""
        at_ms = min((one.at_ms for one in self.checks.values()), default=None)
        return None if at_ms is None else max(0, at_ms - self._clock.monotonic_ms())

    def look(self, texts: Sequence[str] = ()) -> Mapping[MachineCondition, bool]:
        """Look at the machine for these conditions, and return all that is known.

        A condition that was asked for a moment ago is looked at again. Right after the machine woke
        up, nothing is known.
        """
        now_ms = self._clock.monotonic_ms()
        for condition in find_of_machine(texts):
            self.asked[condition] = now_ms
        if not self.asked or self._machine is None or self._is_settling(now_ms):
            return NOTHING_KNOWN
        for condition, asked_ms in list(self.asked.items()):
            if asked_ms < now_ms - _ASKED_MS:
                del self.asked[condition]
                self._known.pop(condition, None)
            elif self._known_at_ms.get(condition, now_ms - _FRESH_MS) <= now_ms - _FRESH_MS:
                self._known.pop(condition, None)
                is_met = condition.is_met_by(self._machine)
                self._known_at_ms[condition] = now_ms
                if is_met is not None:
                    self._known[condition] = is_met
        return dict(self._known)

    def wake_runs(self, queues: Sequence[str]) -> bool:
        """Wake the runs whose condition holds now; whether there were any."""
        now_ms = self._clock.monotonic_ms()
        due = [text for text, one in self.checks.items() if one.at_ms <= now_ms]
        if not due:
            return False
        self.look(due)
        for text in due:
            pause_ms = self.checks[text].pause_ms
            self.checks[text] = _Check(now_ms + pause_ms, min(2 * pause_ms, _LONGEST_PAUSE_MS))
        met = [text for text in due if read_condition(text).is_met(self)]
        return bool(met) and self._store.wake_waiting(queues, met) > 0

    def find_waits(self, queues: Sequence[str]) -> None:
        """Find the conditions that runs wait for. Without any, do not listen to the machine."""
        now_ms = self._clock.monotonic_ms()
        texts = self._store.find_waited(queues)
        self.checks = {text: self.checks.get(text) or self._first(text, now_ms) for text in texts}
        kinds = {one.kind for one in find_of_machine(texts)}
        if not kinds & _REPORTED:
            self.close()
        elif self._fd is None:
            self._fd = self._reports.open()

    def hear(self) -> None:
        """Check everything that runs wait for: the machine has reported a change."""
        self._reports.clear()
        self._known_at_ms.clear()
        self._check_all(self._clock.monotonic_ms())

    def settle(self) -> None:
        """Distrust what the machine shows for a moment: it has just woken up."""
        self._settled_at_ms = self._clock.monotonic_ms() + _SETTLE_MS
        self._known.clear()
        self._known_at_ms.clear()
        self._check_all(self._settled_at_ms)

    def close(self) -> None:
        """Stop listening to the machine."""
        if self._fd is not None:
            self._fd = None
            self._reports.close()

    def _is_settling(self, now_ms: int) -> bool:
        if self._settled_at_ms is not None and now_ms >= self._settled_at_ms:
            self._settled_at_ms = None
        return self._settled_at_ms is not None

    def _check_all(self, at_ms: int) -> None:
        at_ms = max(at_ms, self._settled_at_ms or 0)
        self.checks = {text: _Check(at_ms, _FIRST_PAUSE_MS) for text in self.checks}

    def _first(self, text: str, now_ms: int) -> _Check:
        """When a new wait is checked: now, unless this pass has looked at the machine for it."""
        if self._is_settling(now_ms):
            return _Check(self._settled_at_ms or now_ms, _FIRST_PAUSE_MS)
        seen = [self._known_at_ms.get(one, 0) for one in find_of_machine([text])]
        is_fresh = bool(seen) and min(seen) > now_ms - _FRESH_MS
        at_ms = now_ms + _FIRST_PAUSE_MS if is_fresh else now_ms
        return _Check(at_ms, 2 * _FIRST_PAUSE_MS if is_fresh else _FIRST_PAUSE_MS)

    # The facts by which a condition is judged.

    @property
    def now_ms(self) -> int:
        return self._clock.now_ms()

    def last_success_ms(self, schedule: str) -> int | None:
        return self._store.find_last_success_ms(schedule)

    def holds(self, condition: MachineCondition) -> bool | None:
        return self._known.get(condition)
