"""Follow a database of another machine: its changes, the output of a run, new runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from edgecron.model.choices import Status

if TYPE_CHECKING:
    from edgecron.client.following import BegunRuns, Piece
    from edgecron.client.remote_connection import ServerConnection
    from edgecron.client.resource_functions import Begun, Printed
    from edgecron.model.run import Execution

# How long the server holds a request for news. It answers a change immediately; in between, the
# client checks whether anything still looks after the run.
_HELD_S = 5.0
_HELD_QUEUED_S = 2.0
_Ask = Callable[..., Any]


class ChangeWatch:
    """Know whether the database has changed, at no cost: the server holds a request until then."""

    def __init__(self, mark: int, connection: ServerConnection) -> None:
        self._mark = mark
        self._connection = connection

    def mark(self) -> int:
        """Return the newest mark. Raises ServerLost if the server no longer answers."""
        connection = self._connection
        if connection.is_begun:
            _, is_answered = connection.poll(timeout_s=0)
            if not is_answered:
                return self._mark
            found: int | None = connection.finish("await_change")
            self._mark = self._mark if found is None else found
        connection.begin("await_change", wait_s=_HELD_S, mark=self._mark)
        return self._mark

    def close(self) -> None:
        self._connection.close()


class RemoteFollower:
    """The output of a run on another machine: a Follower."""

    def __init__(
        self, ask: _Ask, connection: ServerConnection, execution_id: int, *, position: int
    ) -> None:
        self._ask = ask
        self._connection = connection
        self.execution_id = execution_id
        self._position = position
        self._status: Status | None = None  # of the run, as last read
        self._pieces: list[Piece] = []  # received, and not read yet
        self.is_silent = False  # the last wait ended without news

    def __enter__(self) -> RemoteFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def is_due_for_check(self) -> bool:
        """Whether nothing was heard for a while: check whether anything looks after the run."""
        return self.is_silent

    def read(self, execution: Execution) -> list[Piece]:
        """Return what came since the last call; `execution` is the run as it is now."""
        self._status = execution.status
        found, self._pieces = self._pieces, []
        return found

    def read_kept(self, execution: Execution) -> list[Piece]:
        """Return what the run has printed so far, if it is still kept."""
        found = self.read(execution)
        self._connection.close()  # Its request asks for the same output.
        has_more = True
        while has_more:
            printed: Printed = self._ask(
                "printed", execution_id=self.execution_id, position=self._position
            )
            found += self._take(printed)
            has_more = printed.has_more
        return found

    def read_stored(self) -> Iterator[Piece]:
        """Return the rest, after the end of the run was recorded."""
        yield from self.read_kept(self._ask("execution", execution_id=self.execution_id))

    def wait(self, also: Sequence[int] = (), *, until_s: float = 0.0) -> set[int]:
        """Sleep until there can be news, or one of these descriptors is readable; return those."""
        connection = self._connection
        if not connection.is_begun:
            status = self._status or Status.QUEUED
            least_s = _HELD_QUEUED_S if status is Status.QUEUED else _HELD_S
            connection.begin(
                "await_printed",
                wait_s=min(max(least_s, until_s), _HELD_S),
                execution_id=self.execution_id,
                position=self._position,
                status=status,
            )
        ready, is_answered = connection.poll(also)
        self.is_silent = False
        if is_answered:
            printed: Printed | None = connection.finish("await_printed")
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
    """The runs of a schedule on another machine: LaterRuns."""

    is_due_for_check = True  # each wait is long

    def __init__(self, ask: _Ask, connection: ServerConnection, told: BegunRuns) -> None:
        self._ask = ask
        self._connection = connection
        self._told = told
        self._begun: Begun | None = None

    def wait(self) -> None:
        """Sleep until a run may have begun."""
        if self._begun is None:
            self._connection.begin("await_begun", wait_s=_HELD_S, told=self._told)
            self._connection.poll()
            self._begun = self._connection.finish("await_begun")

    def find_next(self) -> Execution | None:
        """Return the next run that has begun, each once; None if there is none yet."""
        found: Begun | None = self._begun or self._ask("await_begun", told=self._told)
        self._begun = None
        if found is None:
            return None
        self._told = found.told
        return found.run
