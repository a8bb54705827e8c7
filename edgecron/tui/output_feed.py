"""A thread that follows the output of a run and delivers it to the screen."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial

from edgecron.base.errors import EdgecronError, NotFound
from edgecron.base.values import NamedTuple
from edgecron.client.following import Follower, Piece
from edgecron.client.protocol import Client
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.run import Execution
from edgecron.tui.database_thread import Deliver, raise_here

_PACE_S = 0.05  # between two deliveries
_MOST_BYTES = 256 * 1024  # of one delivery; a longer piece goes alone
_RETRY_S = 1.0
_JOIN_S = 8.0  # longer than the wait for a silent supervisor


class OutputEnd(NamedTuple):
    """The end of a run: how much it printed, and when retention removed the output."""

    execution: Execution
    printed_bytes: int
    removed_at: datetime | None


class OutputFeed:
    """Follow a run to its end; call `take`, `ended` and `refused` on the screen's thread.

    The same error is reported once. One delivery is on its way at a time. If a run prints faster
    than the screen can show, its supervisor keeps the last part and counts the skipped bytes.
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
        self._last_error: str | None = None  # message of the last error
        self._closing = threading.Event()
        self._is_taken = threading.Event()
        self._is_taken.set()
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._serve, name=f"dashboard-output-{execution_id}")

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the thread within 8 s, and deliver nothing more. Call it once."""
        self._closing.set()
        self._is_taken.set()
        os.write(self._wake_write, b"x")
        self._thread.join(_JOIN_S)
        if not self._thread.is_alive():
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _serve(self) -> None:
        try:
            while not self._closing.is_set() and not self._is_followed():
                self._closing.wait(_RETRY_S)
        except Exception as error:  # noqa: BLE001 - a defect, raised on the screen's thread
            self._call(partial(raise_here, error))

    def _is_followed(self) -> bool:
        """Follow the run; return False if the database can't be used now, to try again."""
        is_open = False
        try:
            with self._opened() as client:
                client.change_mark()  # It opens the database.
                is_open = True
                self._follow(client)
        except EdgecronError as error:
            if error.message != self._last_error:
                self._last_error = error.message
                self._call(partial(self._refused, error))
            return is_open and isinstance(error, NotFound)
        return True

    def _follow(self, client: Client) -> None:
        execution = client.execution(self._execution_id)
        with client.follower(self._execution_id, position=self._position) as follower:
            if execution.status in ACTIVE:
                self._deliver_pieces(follower.read_kept(execution))
            while execution.status in ACTIVE and not self._closing.is_set():
                execution = self._wait(client, follower, execution)
                self._deliver_pieces(follower.read(execution))
            self._deliver_pieces(follower.read_stored())
        output = client.output(self._execution_id)
        end = OutputEnd(
            execution,
            0 if output is None else output.stdout_bytes + output.stderr_bytes,
            None if output is None else output.removed_at,
        )
        self._call(partial(self._ended, end))

    def _wait(self, client: Client, follower: Follower, execution: Execution) -> Execution:
        """Wait until the run may have something new; return its current state."""
        due_s = 0.0
        if execution.status is Status.QUEUED:
            due_s = (execution.due_at - client.now()).total_seconds()
        elif follower.is_due_for_check:
            client.take_over()  # Without an engine, this ends a run that is over.
        follower.wait((self._wake_read,), until_s=due_s)
        return client.execution(self._execution_id)

    def _deliver_pieces(self, pieces: Iterable[Piece]) -> None:
        batch: list[Piece] = []
        batch_bytes = 0
        for skipped, chunk in pieces:
            if batch and batch_bytes + len(chunk.content) > _MOST_BYTES:
                self._deliver_batch(batch)
                batch, batch_bytes = [], 0
            batch.append((skipped, chunk))
            batch_bytes += len(chunk.content)
        if batch:
            self._deliver_batch(batch)

    def _deliver_batch(self, batch: list[Piece]) -> None:
        self._is_taken.wait()
        if self._closing.is_set():
            return
        self._position += sum(skipped + len(chunk.content) for skipped, chunk in batch)
        self._is_taken.clear()
        self._call(partial(self._take_batch, batch))
        self._closing.wait(_PACE_S)

    def _take_batch(self, batch: Sequence[Piece]) -> None:
        self._is_taken.set()
        self._take(batch)

    def _call(self, function: Callable[[], None]) -> None:
        """Call a function on the screen's thread, unless the feed is closed by then."""
        self._deliver(lambda: None if self._closing.is_set() else function())
