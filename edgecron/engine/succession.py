"""Who has the say on a program's schedules once the version has left that had it last.

What the code of a program declares is put down when it starts: of two versions that run side by
side, the one that started last has the say. Where no engine of that one lives any more, another
version that does has its own code put down: what is kept would else be due, or run, as nobody
knows it who is there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from edgecron.clock import Clock
from edgecron.model import EngineInfo

# So long its engines may be away: who is started again keeps the say.
PATIENCE_MS = 60_000
# Twice as long each time, up to this, where the say was taken within a day: of who comes and goes
# again and again each change would begin the times of a schedule anew, and it never fire.
_MOST_PATIENCE_MS = 43_200_000
_CALM_MS = 86_400_000

if TYPE_CHECKING:
    from edgecron.store.protocol import Store


class Code(Protocol):
    """What a program declares, as its engine asks."""

    @property
    def queue(self) -> str:
        """The queue of the program."""

    @property
    def digest(self) -> str:
        """A hash of what it declares: the same in every process that declares the same."""

    def put_down(self, *, after: str) -> None:
        """Have the database say what it declares, where code of this digest has the say still."""


class Succession:
    """Looks whose say it is, whenever an engine looks at its peers. `code` None has none."""

    def __init__(self, *, store: Store, clock: Clock, code: Code | None) -> None:
        self._store = store
        self._clock = clock
        self._code = code
        self._last: str | None = None  # whose engines are away
        self._until_ms = 0  # and how long they may be
        self._patience_ms = PATIENCE_MS
        self._calm_at_ms = 0  # from then on it is as at first
        self.wake_ms: int | None = None  # how long to sleep at most, None where nothing is to come

    def leave(self) -> None:
        """From now on leave it to others."""
        self._code = None
        self.wake_ms = None

    def has_work(self, peers: Collection[EngineInfo]) -> bool:
        """Whether `look` would do anything. `peers` are the other engines that live."""
        return self._code is not None and self._find_absent(self._code, peers) != self._last

    def look(self, peers: Collection[EngineInfo]) -> None:
        """Have our code put down, where those who had the say have been away for long enough.

        Raises DatabaseUnusable.
        """
        if self._code is None:
            return
        now_ms = self._clock.monotonic_ms()
        absent = self._find_absent(self._code, peers)
        if absent != self._last:
            if now_ms >= self._calm_at_ms:
                self._patience_ms = PATIENCE_MS
            self._last, self._until_ms = absent, now_ms + self._patience_ms
        if absent is not None and now_ms >= self._until_ms:
            self._code.put_down(after=absent)
            self._last = self._find_absent(self._code, peers)
            if self._last is None:
                self._patience_ms = min(2 * self._patience_ms, _MOST_PATIENCE_MS)
                self._calm_at_ms = now_ms + _CALM_MS
            self._until_ms = now_ms + PATIENCE_MS  # Where it could not be, it is tried again.
        self.wake_ms = None if self._last is None else self._until_ms - now_ms

    def _find_absent(self, code: Code, peers: Collection[EngineInfo]) -> str | None:
        """The digest of who has the say and is not there; None where we have it, or a peer."""
        last = self._store.find_code(code.queue)
        if last in (None, code.digest):
            return None
        is_there = any(one.code == last and code.queue in one.queues for one in peers)
        return None if is_there else last
