"""Reading what a run prints while it prints it, with an engine alive or without."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from edgecron.base.errors import SupervisorUnavailable
from edgecron.base.paths import state_dir
from edgecron.base.values import NamedTuple
from edgecron.engine.health import printed_so_far
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.claim import OutputChunk
from edgecron.model.run import Execution
from edgecron.supervisor.control import LIVE, Control, rest_of
from edgecron.supervisor.output import Part
from edgecron.supervisor.protocol import Phase
from edgecron.supervisor.runner import THREADS

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.store.sqlite.store import SqliteStore

# Between two looks at a run whose supervisor can't be listened to: so that the first byte of one
# that starts, and the end of one that ends, are there at once, and a long wait costs little.
_FIRST_PAUSE_S = 0.002
_LAST_PAUSE_S = 0.04
_LISTEN_S = 1.0  # how long a supervisor is listened to between two looks
_LOOKS_PER_CHECK = 25  # of those with pauses: about a second
_FIRST_CHECK = 6  # after about a tenth of one

_MOST_ACTIVE = 1000  # runs of a schedule that are looked at for the next one to begin
_LATER_S = 0.1  # between two looks for the next run of a schedule
_LATER_PER_CHECK = 20

# A chunk, and the number of bytes before it that were printed and not kept.
Piece = tuple[int, OutputChunk]


class Follower:
    """What a run prints, from a position on, each byte once. For one thread; nothing here waits
    but `wait`, and a supervisor that does not answer.

    While it runs, `read` what its supervisor tells; when it has ended, `read_stored` the rest.
    """

    def __init__(self, store: SqliteStore, execution_id: int, *, position: int = 0) -> None:
        self._store = store
        self.execution_id = execution_id
        self._position = position
        self._control: Control | None = None
        self._has_ended = False  # as its supervisor says
        self._is_queued = False  # as its row said last
        self._change_mark = store.change_mark
        self._pauses = 0  # since there was news
        self.is_silent = False  # it runs, and was listened to for a second in vain

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    @property
    def is_due_for_check(self) -> bool:
        """Whether nobody has told anything for a while, now and then: it is time to see who looks
        after the run."""
        is_time = self._pauses % _LOOKS_PER_CHECK == _FIRST_CHECK
        return is_time and self._control is None

    def read(self, execution: Execution) -> list[Piece]:
        """What has come since, of the run as it is on record now; it may be some of it only."""
        self._is_queued = execution.status is Status.QUEUED
        if execution.status is not Status.RUNNING or self._has_ended:
            return []
        try:
            control = self._control or self._listen()
            followed = [] if control is None else control.take_followed()
        except SupervisorUnavailable:  # Its end, or the next engine, is waited for.
            self.close()
            return []
        pieces: list[Piece] = []
        for phase, part in followed:
            pieces += _pieces(part, self._position)
            self._position = part.next_position
            if phase not in LIVE:  # Its start, or its end, is to be told by its row.
                self.close()
            if phase in LIVE or phase is Phase.ENDED:
                self._pauses = 0
            self._has_ended = phase is Phase.ENDED
        return pieces

    def read_kept(self, execution: Execution, *, most_bytes: int | None = None) -> list[Piece]:
        """What it has printed so far, of the run as it is on record now, as far as it is kept;
        of what goes on, not much more than `most_bytes` of it."""
        if execution.status not in ACTIVE:
            return list(self.read_stored())
        row = self._store.find_running_row(self.execution_id)
        if row is None:  # It waits still, or has just ended.
            return list(self.read_stored())
        pieces: list[Piece] = []
        with suppress(SupervisorUnavailable):  # It has ended, or died: its row will say so.
            folder = state_dir(self._store.path)
            begin = self._position
            for part in printed_so_far(row, folder, position=begin):
                pieces += _pieces(part, self._position)
                self._position = part.next_position
                if most_bytes is not None and self._position - begin >= most_bytes:
                    break
        return pieces

    def read_stored(self) -> Iterator[Piece]:
        """What it printed that was not read before, once its end is on record."""
        self.close()
        output = self._store.find_output(self.execution_id)
        while output is not None and (part := rest_of(output, self._position)).chunks:
            yield from _pieces(part, self._position)
            self._position = part.next_position

    def wait(self, also: Sequence[int] = (), *, until_s: float = 0.0) -> set[int]:
        """Sleep until there may be something new of the run, or one of these descriptors is
        readable; which of them are. Before `until_s` from now it does not start.
        """
        if self._control is None:
            self.is_silent = False
            return self._wait_for_change(also, until_s)
        ready = _wait_readable([*also, self._control.fileno()], _LISTEN_S)
        self.is_silent = not ready
        # It raises where the log of the database was deleted: no engine can go on while we have it.
        self._change_mark = self._store.change_mark
        return ready

    def _wait_for_change(self, also: Sequence[int], until_s: float) -> set[int]:
        """Pause; where it is queued, again and again until something was committed: it can't
        start without, and to ask for that costs less than to look at the run."""
        while True:
            pause_s = min(_FIRST_PAUSE_S * 2 ** min(self._pauses, 10), _LAST_PAUSE_S)
            self._pauses += 1
            ready = _wait_readable(also, max(pause_s, min(until_s, _LISTEN_S)))
            before, self._change_mark = self._change_mark, self._store.change_mark
            has_changed = before != self._change_mark
            if ready or has_changed or not self._is_queued or self.is_due_for_check or until_s > 0:
                return ready

    def _listen(self) -> Control | None:
        """Ask the supervisor of the run to tell what it prints; None where none runs it."""
        row = self._store.find_running_row(self.execution_id)
        if row is None or row.supervisor_id == THREADS:
            return None
        self._control = Control(state_dir(self._store.path), row.supervisor_id)
        self._control.begin_follow(row.lease_token, self._position)
        return self._control


class LaterTold(NamedTuple):
    """Which runs of a schedule need not be told any more: those up to an id, and some after it."""

    schedule_id: int
    after_id: int
    done: frozenset[int]


def told_before(store: SqliteStore, schedule_id: int, *, known_id: int | None) -> LaterTold:
    """What there is to know of a schedule's runs that have ended by now, and of one more."""
    active = store.find_executions(
        schedule_id=schedule_id, statuses=tuple(ACTIVE), limit=_MOST_ACTIVE
    ).runs
    newest = store.find_executions(schedule_id=schedule_id, limit=1).runs
    after_id = min(one.id for one in [*active, *newest]) - 1 if newest else 0
    rows = store.find_later(schedule_id, after_id=after_id, limit=_MOST_ACTIVE)
    done = {one.id for one in rows if one.status not in ACTIVE}
    done |= set() if known_id is None else {known_id}
    return LaterTold(schedule_id, after_id, frozenset(done))


class LaterRuns:
    """The runs of a schedule that begin from now on, and those that go on now, but for one."""

    def __init__(self, store: SqliteStore, told: LaterTold) -> None:
        self._store = store
        self._schedule_id = told.schedule_id
        self._after_id = told.after_id
        self._done = set(told.done)
        self._waits = 0

    @property
    def told(self) -> LaterTold:
        """What has been told by now: with it, another one goes on from here."""
        return LaterTold(self._schedule_id, self._after_id, frozenset(self._done))

    @property
    def is_due_for_check(self) -> bool:
        """Whether it is time to see whether there is such a schedule still."""
        return self._waits % _LATER_PER_CHECK == 0

    def wait(self) -> None:
        """Sleep until one may have begun."""
        self._waits += 1
        time.sleep(_LATER_S)

    def find_next(self) -> Execution | None:
        """The first that has begun, each once; None where none has."""
        rows = self._look()
        for row in rows:
            if row.id not in self._done and row.claimed_at is not None:
                self._done.add(row.id)
                return row
        for row in rows:
            if row.id not in self._done and row.status in ACTIVE:
                break
            self._done.discard(row.id)
            self._after_id = row.id
        return None

    def _look(self) -> list[Execution]:
        return self._store.find_later(
            self._schedule_id, after_id=self._after_id, limit=_MOST_ACTIVE
        )


def follow_run(
    store: SqliteStore,
    execution_id: int,
    *,
    now: Callable[[], datetime],
    take_over: Callable[[], object],
) -> Iterator[Piece]:
    """What a run prints, from its beginning to its end; it waits for one that has not started.

    Each chunk comes once, with the number of bytes before it that were printed and not kept.
    `take_over` writes ends that no engine is there to write.
    """
    with Follower(store, execution_id) as follower:
        while (execution := store.find_execution(execution_id)) and execution.status in ACTIVE:
            yield from follower.read(execution)
            if follower.is_due_for_check and execution.status is Status.RUNNING:
                take_over()  # Its supervisor has told all, and perhaps there is no engine.
            is_queued = execution.status is Status.QUEUED
            due_s = (execution.due_at - now()).total_seconds() if is_queued else 0.0
            follower.wait(until_s=due_s)
        yield from follower.read_stored()


def _pieces(part: Part, position: int) -> Iterator[Piece]:
    for number, chunk in enumerate(part.chunks):
        yield (part.position - position if number == 0 else 0), chunk


def _wait_readable(fds: Sequence[int], timeout_s: float) -> set[int]:
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return {fd for fd, _ in poller.poll(timeout_s * 1000)}
