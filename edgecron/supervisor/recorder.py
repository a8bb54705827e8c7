"""What the supervisor owes an account of: each end, in the journal and to the engine, until it is
acknowledged."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from edgecron.base.clock import Clock
from edgecron.supervisor.groups import read_start_time
from edgecron.supervisor.journal import Journal
from edgecron.supervisor.peer import Peer
from edgecron.supervisor.protocol import Kind
from edgecron.supervisor.reactor import Deadlines
from edgecron.supervisor.records import ExitRecord

WAKE_JOURNAL = "journal"  # the deadline at which `retry` is called
RETRY_MS = 1_000
RETRY_MOST_MS = 30_000


class Recorder:
    """The journal, the engine's copy of it, and what was not acknowledged yet."""

    def __init__(
        self,
        state_dir: Path,
        *,
        key: str,
        clock: Clock,
        deadlines: Deadlines,
        engine: Peer,
    ) -> None:
        self._state_dir = state_dir
        self._clock = clock
        self._deadlines = deadlines
        self.engine = engine
        self._journal = Journal(state_dir, key, boot_id=clock.boot_id())
        self._pause_ms = RETRY_MS
        self._unacknowledged: dict[str, str | None] = {}  # token: its spool

    @property
    def has_backlog(self) -> bool:
        return self._journal.has_backlog

    def close(self) -> None:
        """Close the journal; what waits to be written is not."""
        self._journal.close()

    def knows(self, token: str) -> bool:
        """Whether it has ended, and that was not acknowledged yet."""
        return token in self._unacknowledged

    def open_tokens(self, tokens: Sequence[str]) -> bool:
        """Put tokens on record before they start; False where that failed, and they must not."""
        if not tokens:
            return True
        try:
            self._journal.write_tokens(tokens)
        except OSError as error:
            code = errno.errorcode.get(error.errno or 0, "EIO")
            self.refuse(
                tokens, code, f"the journal can't be written, nothing was started: {error.strerror}"
            )
            return False
        return True

    def refuse(self, tokens: Sequence[str], code: str, message: str) -> None:
        """Tell the engine of tokens that were not started, and are not on record."""
        self.engine.send(Kind.NOT_STARTED, [[token, code, message] for token in tokens])

    def revoke(self, tokens: Sequence[str]) -> None:
        """Put on record, with the next `flush`, that tokens which were open will never start.

        Where their supervisor dies they may then be queued again. The engine is told.
        """
        if tokens:
            self._journal.add_revoked(tokens)
            self.refuse(tokens, "ECANCELED", "it was revoked before its start")

    def find_unacknowledged(self) -> list[dict[str, Any]]:
        """The JSON of all ends that were not acknowledged, for an engine that takes over.

        Raises OSError where the journal can't be read.
        """
        return self._journal.find_exits(self._unacknowledged.keys())

    def record_start(self, token: str, *, pid: int, started_ms: int) -> None:
        """Record a start with the next `flush`."""
        start_time = read_start_time(pid)
        self._journal.add_start(token, pid=pid, start_time=start_time, started_ms=started_ms)

    def record_exit(self, record: ExitRecord) -> None:
        """Put an end on record, and before the engine, with the next `flush`."""
        body = record.to_json()
        self._journal.add_exit(body)
        self._unacknowledged[record.token] = record.output.get("spool")
        self.engine.send(Kind.EXITED, body)

    def acknowledge(self, tokens: Sequence[str], *, busy: Collection[str]) -> None:
        """The engine has these ends on record. `busy` are the tokens that have not ended."""
        for token in tokens:
            spool = self._unacknowledged.pop(token, None)
            if spool is not None:
                with contextlib.suppress(OSError):  # cleared away with the journal, at last
                    (self._state_dir / spool).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a long journal is no harm; the next one tries again
            self._journal.shrink(busy | self._unacknowledged.keys())

    def flush(self) -> None:
        """Write the ends of this turn at once, unless the disk was full a moment ago."""
        if self._journal.has_backlog and WAKE_JOURNAL not in self._deadlines:
            self.retry()

    def retry(self) -> None:
        """Write what waits, or try again later."""
        try:
            self._journal.write_backlog()
        except OSError:
            self._deadlines.set(WAKE_JOURNAL, self._clock.monotonic_ms() + self._pause_ms)
            self._pause_ms = min(2 * self._pause_ms, RETRY_MOST_MS)
        else:
            self._pause_ms = RETRY_MS
