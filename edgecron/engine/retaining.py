"""Retention by an engine: a slice at a time, after what is due, and where it is awake anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.engine.events import EventKind
from edgecron.engine.telling import Teller
from edgecron.planning.retention import Kind, Removed, Retention, limits_at
from edgecron.planning.trust import resolve_mark_ms

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

_FIRST_MS = 60_000  # after the start, which has enough to do
_EVERY_MS = 3_600_000
PAUSE_MS = 2  # between transactions: longer than who waits for the lock naps


class Retaining:
    """Begins a pass at most once an hour, in a step that had something to write.

    An engine that nothing wakes removes nothing: nothing has come since, either. By a clock that
    nothing keeps right, ages are those of what has surely passed: a year that a person set wrong is
    believed for fires, which can be made good, and would take most of the history with it.
    """

    def __init__(self, *, store: Store, clock: Clock, teller: Teller, retention: Retention) -> None:
        self._store = store
        self._clock = clock
        self._teller = teller
        self._retention = retention
        self._next_ms = clock.monotonic_ms() + _FIRST_MS
        self._going: Iterator[Removed | None] | None = None
        self._removed: Counter[Kind] = Counter()
        self._size_bytes = 0

    @property
    def wake_ms(self) -> int | None:
        """How long until the next slice; None where no pass is going on."""
        return None if self._going is None else PAUSE_MS

    def work(self, *, is_busy: bool, is_trusted: bool) -> None:
        """Do the next slice of a pass. `is_busy`: this step had something to write."""
        if self._going is None and is_busy and self._clock.monotonic_ms() >= self._next_ms:
            self._begin(is_trusted=is_trusted)
        if self._going is None:
            return
        for removed in self._going:
            if removed is not None:
                self._removed[removed.kind] += removed.count
                self._size_bytes += removed.size_bytes
            return
        self._end()

    def _begin(self, *, is_trusted: bool) -> None:
        self._next_ms = self._clock.monotonic_ms() + _EVERY_MS
        if not self._retention.is_unlimited:
            limits = limits_at(
                self._retention,
                self._clock.now_ms(),
                is_trusted=is_trusted,
                passed_ms=self._find_passed_ms(),
            )
            self._going = self._store.begin_pruning(limits)

    def _find_passed_ms(self) -> int | None:
        """The instant that has surely passed, where nothing keeps the clock right."""
        if self._clock.is_synchronised():
            return None
        return resolve_mark_ms(self._store.find_clock_marks().trusted_high_ms)

    def _end(self) -> None:
        """Tell what went, where anything did."""
        self._going = None
        if any(self._removed.values()):
            details: dict[str, object] = {
                f"{kind.value}s": count for kind, count in self._removed.items() if count
            }
            self._teller.tell(EventKind.PRUNED, details=details | {"size_bytes": self._size_bytes})
        self._removed.clear()
        self._size_bytes = 0
