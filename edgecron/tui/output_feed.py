"""What a run prints, brought to the screen as it comes: by a thread with a database of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial

from edgecron.base.errors import EdgecronError, NotFound
from edgecron.base.values import NamedTuple
from edgecron.client.follow import Piece
from edgecron.client.protocol import Client, Follower
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.run import Execution
from edgecron.tui.database_thread import Deliver, raise_here

_PACE_S = 0.05  # between two deliveries, however much there is
_MOST_BYTES = 256 * 1024  # of one delivery, but for a piece that is longer by itself
_RETRY_S = 1.0
_JOIN_S = 8.0  # a supervisor that does not answer is given up before


class OutputEnd(NamedTuple):
    """A run that has ended: what it printed altogether, and when retention removed that."""

    execution: Execution
    printed_bytes: int
    removed_at: datetime | None


class OutputFeed:
    """Follows a run to its end. `take`, `ended` and `refused` are called on the screen's thread;
    what goes wrong again and again is told once.

    One delivery is on its way at a time: of what a run prints faster than a screen can show it,
    its supervisor keeps the last part, and the number of bytes before is told.
    """

    def __init__(
        self,
        opened: Callable[[], Client],
        execution_id: int,
        *,
        deliver: Deliver,
        take: Callable[[Sequence[Piece]], None],
        ended: Callable[[OutputEnd], None],
        refused: Callable[[EdgecronError], None],
    ) -> None:
        self._opened = opened
        self._execution_id = execution_id
        self._deliver = deliver
        self._take = take
        self._ended = ended
        self._refused = refused
        self._position = 0
        self._told: str | None = None  # what went wrong last
        self._closing = threading.Event()
        self._is_taken = threading.Event()
        self._is_taken.set()
        self._bell, self._rope = os.pipe()
        self._thread = threading.Thread(target=self._serve, name=f"dashboard-output-{execution_id}")

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether its thread still runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the thread, and deliver nothing more. Bounded; to be called once."""
        self._closing.set()
        self._is_taken.set()
        os.write(self._rope, b"x")
        self._thread.join(_JOIN_S)
        if not self._thread.is_alive():
            os.close(self._bell)
            os.close(self._rope)

    def _serve(self) -> None:
        try:
            while not self._closing.is_set() and not self._is_followed():
                self._closing.wait(_RETRY_S)
        except Exception as error:  # noqa: BLE001 - a defect of ours: it is raised where it is told
            self._tell(partial(raise_here, error))

    def _is_followed(self) -> bool:
        """Whether the run was followed to its end, or there is none; else it is to be tried again:
        a database that is busy, or has gone, may be there again."""
        is_open = False
        try:
            with self._opened() as client:
                client.change_mark()  # It opens the database.
                is_open = True
                self._follow(client)
        except EdgecronError as error:
            if error.message != self._told:
                self._told = error.message
                self._tell(partial(self._refused, error))
            return is_open and isinstance(error, NotFound)
        return True

    def _follow(self, client: Client) -> None:
        execution = client.execution(self._execution_id)
        with client.follower(self._execution_id, position=self._position) as follower:
            if execution.status in ACTIVE:
                self._hand_over(follower.read_kept(execution))
            while execution.status in ACTIVE and not self._closing.is_set():
                execution = self._wait(client, follower, execution)
                self._hand_over(follower.read(execution))
            self._hand_over(follower.read_stored())
        output = client.output(self._execution_id)
        end = OutputEnd(
            execution,
            0 if output is None else output.stdout_bytes + output.stderr_bytes,
            None if output is None else output.removed_at,
        )
        self._tell(partial(self._ended, end))

    def _wait(self, client: Client, follower: Follower, execution: Execution) -> Execution:
        """The run as it is once there may be something new of it."""
        due_s = 0.0
        if execution.status is Status.QUEUED:
            due_s = (execution.due_at - client.now()).total_seconds()
        elif follower.is_due_for_check:
            client.take_over()  # Perhaps there is no engine, and the run has ended.
        follower.wait((self._bell,), until_s=due_s)
        return client.execution(self._execution_id)

    def _hand_over(self, pieces: Iterable[Piece]) -> None:
        batch: list[Piece] = []
        batch_bytes = 0
        for skipped, chunk in pieces:
            if batch and batch_bytes + len(chunk.content) > _MOST_BYTES:
                self._hand_over_one(batch)
                batch, batch_bytes = [], 0
            batch.append((skipped, chunk))
            batch_bytes += len(chunk.content)
        if batch:
            self._hand_over_one(batch)

    def _hand_over_one(self, batch: list[Piece]) -> None:
        self._is_taken.wait()
        if self._closing.is_set():
            return
        self._position += sum(skipped + len(chunk.content) for skipped, chunk in batch)
        self._is_taken.clear()
        self._tell(partial(self._have_taken, batch))
        self._closing.wait(_PACE_S)

    def _have_taken(self, batch: Sequence[Piece]) -> None:
        self._is_taken.set()
        self._take(batch)

    def _tell(self, told: Callable[[], None]) -> None:
        """Have something done on the screen's thread, unless it wants nothing more by then."""
        self._deliver(lambda: None if self._closing.is_set() else told())
