"""Following: what a run prints while it prints it, and the runs of a schedule as they begin."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from types import TracebackType
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import ServerLost
from edgecron.client.remote_requests import Waiting
from edgecron.model.choices import Status

if TYPE_CHECKING:
    from edgecron.client.follow import LaterTold, Piece
    from edgecron.client.questions import Begun, Printed
    from edgecron.model.run import Execution

# How long the server holds a request for news. It answers a change immediately; in between, the
# client checks whether anything still looks after the run.
_HELD_S = 5.0
_HELD_QUEUED_S = 2.0
_LOST_S = 15.0  # without an answer: the server is gone
_Ask = Callable[..., Any]


class ChangeWatch:
    """Know whether the database has changed, at no cost: the server holds a request until then."""

    def __init__(self, mark: int, waiting: Waiting, *, place: str) -> None:
        self._mark = mark
        self._waiting = waiting
        self._place = place
        self._asked_ms = 0

    def mark(self) -> int:
        """Return the newest mark. Raises ServerLost if the server no longer answers."""
        now_ms = self._waiting.time.boottime_ms()
        if self._waiting.is_begun:
            if not _is_readable(self._waiting.fileno()):
                if now_ms - self._asked_ms > _LOST_S * 1000:
                    raise ServerLost(f"{self._place} does not answer")
                return self._mark
            found: int | None = self._waiting.finish()
            self._mark = self._mark if found is None else found
        self._waiting.begin(wait_s=_HELD_S, mark=self._mark)
        self._asked_ms = now_ms
        return self._mark

    def close(self) -> None:
        self._waiting.close()


def _is_readable(fileno: int | None) -> bool:
    if fileno is None:
        return True
    poller = select.poll()
    poller.register(fileno, select.POLLIN)
    return bool(poller.poll(0))


class RemoteFollower:
    """What a run prints, from a position on, each byte once: as a Follower tells it."""

    def __init__(self, ask: _Ask, waiting: Waiting, execution_id: int, *, position: int) -> None:
        self._ask = ask
        self._waiting = waiting
        self.execution_id = execution_id
        self._position = position
        self._status: Status | None = None  # as the run was seen last
        self._pieces: list[Piece] = []  # that have come, and were not read
        self.is_silent = False  # it was waited for in vain

    def __enter__(self) -> RemoteFollower:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._waiting.close()

    @property
    def is_due_for_check(self) -> bool:
        """Whether nobody has told anything for a while: it is time to see who looks after it."""
        return self.is_silent

    def read(self, execution: Execution) -> list[Piece]:
        """What has come since, of the run as it is on record now."""
        self._status = execution.status
        found, self._pieces = self._pieces, []
        return found

    def read_kept(self, execution: Execution) -> list[Piece]:
        """What it has printed so far, as far as it is kept."""
        found = self.read(execution)
        self._waiting.close()  # It asked for what is read now.
        has_more = True
        while has_more:
            printed: Printed = self._ask(
                "printed", execution_id=self.execution_id, position=self._position
            )
            found += self._take(printed)
            has_more = printed.has_more
        return found

    def read_stored(self) -> Iterator[Piece]:
        """What it printed that was not read before, once its end is on record."""
        yield from self.read_kept(self._ask("execution", execution_id=self.execution_id))

    def wait(self, also: Sequence[int] = (), *, until_s: float = 0.0) -> set[int]:
        """Sleep until there may be something new of the run, or one of these descriptors is
        readable; which of them are."""
        if not self._waiting.is_begun:
            status = self._status or Status.QUEUED
            least_s = _HELD_QUEUED_S if status is Status.QUEUED else _HELD_S
            self._waiting.begin(
                wait_s=min(max(least_s, until_s), _HELD_S),
                execution_id=self.execution_id,
                position=self._position,
                status=status,
            )
        ready, answer = _wait(self._waiting, also)
        self.is_silent = False
        if answer is not _Answer.TO_COME:
            printed: Printed | None = self._waiting.finish(is_late=answer is _Answer.LATE)
            self.is_silent = printed is None
            if printed is not None:
                self._pieces += self._take(printed)
                self._status = printed.run.status
        return ready

    def _take(self, printed: Printed) -> list[Piece]:
        pieces: list[Piece] = [(skipped, chunk) for skipped, chunk in printed.chunks]
        self._position += sum(skipped + len(chunk.content) for skipped, chunk in pieces)
        return pieces


class RemoteLaterRuns:
    """The runs of a schedule that begin from now on, and those that go on now, but for one."""

    is_due_for_check = (
        True  # whether there is such a schedule still: after each wait, which is long
    )

    def __init__(self, ask: _Ask, waiting: Waiting, told: LaterTold) -> None:
        self._ask = ask
        self._waiting = waiting
        self._told = told
        self._begun: Begun | None = None

    def wait(self) -> None:
        """Sleep until one may have begun."""
        if self._begun is None:
            self._waiting.begin(wait_s=_HELD_S, told=self._told)
            _, answer = _wait(self._waiting, ())
            self._begun = self._waiting.finish(is_late=answer is _Answer.LATE)

    def find_next(self) -> Execution | None:
        """The first that has begun, each once; None where none has."""
        found: Begun | None = self._begun or self._ask("await_begun", told=self._told)
        self._begun = None
        if found is None:
            return None
        self._told = found.told
        return found.run


class _Answer(Enum):
    """An answer that is waited for."""

    THERE = auto()
    TO_COME = auto()  # something else is there before it
    LATE = auto()  # it should have been there long ago


def _wait(waiting: Waiting, also: Sequence[int]) -> tuple[set[int], _Answer]:
    """Sleep until one of these can be read from, or the answer is there: which, and how it is."""
    own = waiting.fileno()
    if own is None:
        return set(), _Answer.THERE
    poller = select.poll()
    for fd in (own, *also):
        poller.register(fd, select.POLLIN)
    ready = {fd for fd, _ in poller.poll(_LOST_S * 1000)}
    if not ready:
        return set(), _Answer.LATE
    return ready - {own}, _Answer.THERE if own in ready else _Answer.TO_COME
