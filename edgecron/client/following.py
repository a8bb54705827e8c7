"""Follow the output of a run, and the runs of a schedule: interfaces, and the local database."""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, Self

from edgecron.base.errors import SupervisorUnavailable
from edgecron.base.paths import state_dir
from edgecron.base.values import NamedTuple
from edgecron.client.engine_health import printed_so_far
from edgecron.engine.state_folder import find_machine
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.run import Execution, Output, OutputChunk
from edgecron.supervisor.control import LIVE, Control, rest_of
from edgecron.supervisor.output import Part
from edgecron.supervisor.protocol import Phase
from edgecron.supervisor.runner import THREADS

if TYPE_CHECKING:
    from edgecron.store.contract import RunningRow
    from edgecron.store.sql.writes import Writes

# Pauses between two reads of a run without a supervisor to listen to: short at first, so that its
# first byte and its end come immediately, then longer, so that a long wait costs little.
_FIRST_PAUSE_S = 0.002
_LAST_PAUSE_S = 0.04
_LISTEN_S = 1.0  # to a supervisor, between two reads of the run
_ELSEWHERE_S = 1.0  # between two reads of a run of another machine, which stores it as often
_LOOKS_PER_CHECK = 25  # about a second
_FIRST_CHECK = 6  # after about a tenth of a second

_MOST_ACTIVE = 1000  # runs of a schedule that can be the next one to begin
_LATER_S = 0.1  # between two reads of the runs of a schedule
_LATER_PER_CHECK = 20

# A chunk, and the number of bytes before it that were printed and not kept.
Piece = tuple[int, OutputChunk]


class Follower(Protocol):
    """The output of a run from a position on, each byte once. For one thread."""

    execution_id: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def is_due_for_check(self) -> bool:
        """Whether nothing was heard for a while: check whether anything looks after the run."""

    @property
    def is_silent(self) -> bool:
        """Whether the last `wait` ended without news."""

    def read(self, execution: Execution) -> list[Piece]:
        """Return what it printed since the last call; `execution` is the run as it is now."""

    def read_kept(self, execution: Execution) -> list[Piece]:
        """Return what it has printed so far, if it is still kept."""

    def read_stored(self) -> Iterable[Piece]:
        """Return the rest, after its end was recorded."""

    def wait(self, also: Sequence[int] = (), *, until_s: float = 0.0) -> set[int]:
        """Sleep until there can be news, or one of these descriptors is readable; return those."""


class LaterRuns(Protocol):
    """The runs of a schedule that begin from now on, and the active ones, except a known one."""

    @property
    def is_due_for_check(self) -> bool:
        """Whether it is time to check that the schedule still exists."""

    def wait(self) -> None:
        """Sleep until a run may have begun."""

    def find_next(self) -> Execution | None:
        """Return the next run that has begun, each once; None if there is none yet."""


class LocalFollower:
    """The output of a run in a database that this machine opens: a Follower.

    While the run is active, `read` what its supervisor sends; after its end, `read_stored` the
    rest. Only `wait` sleeps. If the run is on another machine, its engine is asked to store its
    output while that is followed.
    """

    def __init__(self, store: Writes, execution_id: int, *, position: int = 0) -> None:
        self._store = store
        self.execution_id = execution_id
        self._position = position
        self._control: Control | None = None
        self._has_ended = False  # according to its supervisor
        self._is_queued = False  # according to its row
        self._is_elsewhere = False  # on another machine
        self._change_mark = store.change_mark
        self._pauses = 0  # since the last news
        self.is_silent = False  # its supervisor sent nothing for a second

    def __enter__(self) -> LocalFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    @property
    def is_due_for_check(self) -> bool:
        """Whether nothing was heard for a while: check whether anything looks after the run."""
        is_time = self._pauses % _LOOKS_PER_CHECK == _FIRST_CHECK
        return is_time and self._control is None

    def read(self, execution: Execution) -> list[Piece]:
        """Return what came since the last call; `execution` is the run as it is now."""
        self._is_queued = execution.status is Status.QUEUED
        if execution.status is not Status.RUNNING or self._has_ended:
            return []
        if self._is_elsewhere:
            return self._read_elsewhere()
        try:
            control = self._control or self._listen()
            followed = [] if control is None else control.take_followed()
        except SupervisorUnavailable:  # Wait for its end, or for the next engine.
            self.close()
            return []
        pieces: list[Piece] = []
        for phase, part in followed:
            pieces += _pieces(part, self._position)
            self._position = part.next_position
            if phase not in LIVE:  # Its row will show its start or its end.
                self.close()
            if phase in LIVE or phase is Phase.ENDED:
                self._pauses = 0
            self._has_ended = phase is Phase.ENDED
        return pieces

    def read_kept(self, execution: Execution, *, most_bytes: int | None = None) -> list[Piece]:
        """Return what the run has printed so far, if it is still kept.

        Of a running run, not much more than `most_bytes`.
        """
        if execution.status not in ACTIVE:
            return list(self.read_stored())
        row = self._store.find_running_row(self.execution_id)
        if row is None:  # It is queued, or has just ended.
            return list(self.read_stored())
        if self._is_of_another_machine(row):
            return self._read_elsewhere()
        pieces: list[Piece] = []
        with suppress(SupervisorUnavailable):  # It has ended: its row will say so.
            folder = state_dir(self._store.path)
            begin = self._position
            for part in printed_so_far(row, folder, position=begin):
                pieces += _pieces(part, self._position)
                self._position = part.next_position
                if most_bytes is not None and self._position - begin >= most_bytes:
                    break
        return pieces

    def read_stored(self) -> Iterator[Piece]:
        """Return the rest, after the end of the run was recorded."""
        self.close()
        yield from self._pieces_of(self._store.find_output(self.execution_id))

    def _read_elsewhere(self) -> list[Piece]:
        """Ask the engine of another machine for the output, and return what it has stored."""
        leases = self._store.leases
        assert leases is not None
        leases.ask_for_output(self.execution_id)
        if leases.count_stored_bytes(self.execution_id) <= self._position:
            return []
        return list(self._pieces_of(self._store.find_output(self.execution_id)))

    def _is_of_another_machine(self, row: RunningRow) -> bool:
        self._is_elsewhere = self._store.leases is not None and row.machine != find_machine(
            state_dir(self._store.path)
        )
        return self._is_elsewhere

    def _pieces_of(self, output: Output | None) -> Iterator[Piece]:
        while output is not None and (part := rest_of(output, self._position)).chunks:
            yield from _pieces(part, self._position)
            self._position = part.next_position

    def wait(self, also: Sequence[int] = (), *, until_s: float = 0.0) -> set[int]:
        """Sleep until there can be news, or one of these descriptors is readable; return those.

        A queued run does not start before `until_s` from now.
        """
        if self._is_elsewhere:
            self._pauses += 1
            return _wait_readable(also, _ELSEWHERE_S)
        if self._control is None:
            self.is_silent = False
            return self._wait_for_change(also, until_s)
        ready = _wait_readable([*also, self._control.fileno()], _LISTEN_S)
        self.is_silent = not ready
        # It raises if the log of the database was deleted, which would block engines.
        self._change_mark = self._store.change_mark
        return ready

    def _wait_for_change(self, also: Sequence[int], until_s: float) -> set[int]:
        """Pause. A queued run can't start without a commit: wait for that, which is cheap."""
        while True:
            pause_s = min(_FIRST_PAUSE_S * 2 ** min(self._pauses, 10), _LAST_PAUSE_S)
            self._pauses += 1
            ready = _wait_readable(also, max(pause_s, min(until_s, _LISTEN_S)))
            before, self._change_mark = self._change_mark, self._store.change_mark
            has_changed = before != self._change_mark
            if ready or has_changed or not self._is_queued or self.is_due_for_check or until_s > 0:
                return ready

    def _listen(self) -> Control | None:
        """Ask the supervisor of the run to send its output; None if there is no supervisor."""
        row = self._store.find_running_row(self.execution_id)
        if row is None or row.supervisor_id == THREADS or self._is_of_another_machine(row):
            return None
        self._control = Control(state_dir(self._store.path), row.supervisor_id)
        self._control.begin_follow(row.lease_token, self._position)
        return self._control


class BegunRuns(NamedTuple):
    """The runs of a schedule that were returned already: all up to an id, and some after it."""

    schedule_id: int
    after_id: int
    done: frozenset[int]


def begun_runs(store: Writes, schedule_id: int, *, known_id: int | None) -> BegunRuns:
    """Return the position behind the ended runs of a schedule, and behind a known one."""
    active = store.find_executions(
        schedule_id=schedule_id, statuses=tuple(ACTIVE), limit=_MOST_ACTIVE
    ).runs
    newest = store.find_executions(schedule_id=schedule_id, limit=1).runs
    after_id = min(one.id for one in [*active, *newest]) - 1 if newest else 0
    rows = store.find_later(schedule_id, after_id=after_id, limit=_MOST_ACTIVE)
    done = {one.id for one in rows if one.status not in ACTIVE}
    done |= set() if known_id is None else {known_id}
    return BegunRuns(schedule_id, after_id, frozenset(done))


class LocalLaterRuns:
    """The runs of a schedule in a database of this machine: LaterRuns."""

    def __init__(self, store: Writes, told: BegunRuns) -> None:
        self._store = store
        self._schedule_id = told.schedule_id
        self._after_id = told.after_id
        self._done = set(told.done)
        self._waits = 0

    @property
    def told(self) -> BegunRuns:
        """The position behind the runs that were returned."""
        return BegunRuns(self._schedule_id, self._after_id, frozenset(self._done))

    @property
    def is_due_for_check(self) -> bool:
        """Whether it is time to check that the schedule still exists."""
        return self._waits % _LATER_PER_CHECK == 0

    def wait(self) -> None:
        """Sleep until a run may have begun."""
        self._waits += 1
        time.sleep(_LATER_S)

    def find_next(self) -> Execution | None:
        """Return the next run that has begun, each once; None if there is none yet."""
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


def _pieces(part: Part, position: int) -> Iterator[Piece]:
    for number, chunk in enumerate(part.chunks):
        yield (part.position - position if number == 0 else 0), chunk


def _wait_readable(fds: Sequence[int], timeout_s: float) -> set[int]:
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return {fd for fd, _ in poller.poll(timeout_s * 1000)}
