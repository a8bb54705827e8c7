"""Record starts and ends: in the journal, then with the engine until it acknowledges them."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from edgecron.base.clock import Clock
from edgecron.supervisor.groups import read_start_time
from edgecron.supervisor.journal import Journal
from edgecron.supervisor.protocol import ExitRecord, Kind
from edgecron.supervisor.reactor import Deadlines, Peer

WAKE_JOURNAL = "journal"  # the deadline at which `retry` is called
RETRY_MS = 1_000
RETRY_MOST_MS = 30_000


class Recorder:
    """Writes the journal, reports to the engine, and knows the ends that are not acknowledged."""

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
        self._retry_ms = RETRY_MS
        self._unacknowledged: dict[str, str | None] = {}  # the spool of each token

    @property
    def has_backlog(self) -> bool:
        return self._journal.has_backlog

    def close(self) -> None:
        """Close the journal without writing the backlog."""
        self._journal.close()

    def knows(self, token: str) -> bool:
        """Return whether a run has ended and its end is not acknowledged."""
        return token in self._unacknowledged

    def open_tokens(self, tokens: Sequence[str]) -> bool:
        """Record tokens before they start. False if that failed: they must not start."""
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
        """Report tokens to the engine that were not started, and are not on record."""
        self.engine.send(Kind.NOT_STARTED, [[token, code, message] for token in tokens])

    def revoke(self, tokens: Sequence[str]) -> None:
        """Record with the next `flush` that open tokens will never start, and report it.

        They can then be queued again, even if the supervisor dies.
        """
        if tokens:
            self._journal.add_revoked(tokens)
            self.refuse(tokens, "ECANCELED", "it was revoked before its start")

    def find_unacknowledged(self) -> list[dict[str, Any]]:
        """Return the JSON of all ends that are not acknowledged. Raises OSError."""
        return self._journal.find_exits(self._unacknowledged.keys())

    def record_start(self, token: str, *, pid: int, started_ms: int) -> None:
        """Record a start with the next `flush`."""
        start_time = read_start_time(pid)
        self._journal.add_start(token, pid=pid, start_time=start_time, started_ms=started_ms)

    def record_exit(self, record: ExitRecord) -> None:
        """Record an end with the next `flush`, and report it."""
        body = record.to_json()
        self._journal.add_exit(body)
        self._unacknowledged[record.token] = record.output.get("spool")
        self.engine.send(Kind.EXITED, body)

    def acknowledge(self, tokens: Sequence[str], *, busy: Collection[str]) -> None:
        """Forget ends that the engine has on record. `busy` are the tokens that have not ended."""
        for token in tokens:
            spool = self._unacknowledged.pop(token, None)
            if spool is not None:
                with contextlib.suppress(OSError):  # the cleanup of the journal removes it
                    (self._state_dir / spool).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a long journal does no harm
            self._journal.shrink(busy | self._unacknowledged.keys())

    def flush(self) -> None:
        """Write what this turn has recorded, unless the disk was full a moment ago."""
        if self._journal.has_backlog and WAKE_JOURNAL not in self._deadlines:
            self.retry()

    def retry(self) -> None:
        """Write the backlog, or try again later."""
        try:
            self._journal.write_backlog()
        except OSError:
            self._deadlines.set(WAKE_JOURNAL, self._clock.monotonic_ms() + self._retry_ms)
            self._retry_ms = min(2 * self._retry_ms, RETRY_MOST_MS)
        else:
            self._retry_ms = RETRY_MS
