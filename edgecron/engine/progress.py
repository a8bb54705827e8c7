"""The progress of what runs, put on record once a second at most: flash is not for writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.engine.liveruns import LiveRuns
from edgecron.model.reports import Reported

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

_EVERY_MS = 1_000


class ProgressWriter:
    """Writes what functions of the program report. Where none does, it costs nothing."""

    def __init__(self, *, store: Store, clock: Clock, live: LiveRuns) -> None:
        self._store = store
        self._clock = clock
        self._live = live
        self._unwritten: list[Reported] = []
        self._next_ms = clock.monotonic_ms()
        self._is_going_on = False  # there was some at the last look

    @property
    def wake_ms(self) -> int | None:
        """How long until it is to be looked for more; None where that will be told."""
        if not self._is_going_on:
            return None
        return max(self._next_ms - self._clock.monotonic_ms(), 0)

    def look(self) -> bool:
        """Whether there is some to write now."""
        if not self._unwritten and self._clock.monotonic_ms() >= self._next_ms:
            self._unwritten = self._live.take_progress()
            self._is_going_on = bool(self._unwritten)
        return bool(self._unwritten)

    def write(self) -> None:
        """Put on record what there is, where it is time."""
        if self.look():
            self._next_ms = self._clock.monotonic_ms() + _EVERY_MS
            self._store.note_progress(self._unwritten)
            self._unwritten = []
