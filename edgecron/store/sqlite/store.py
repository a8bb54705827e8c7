"""SqliteStore: the database as engines and clients use it, over one connection."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from edgecron.store.sql.connection import Opening
from edgecron.store.sql.writes import Writes
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.reading_store import ReadingStore, open_as

# 4 MB of log. With 1 MB, a thousand runs at once wrote a quarter of their bytes twice. With many
# more, readers search long logs.
_CHECKPOINT_PAGES = 4000


def open_store(
    path: Path, *, now_ms: int, seed: bytes | None = None, **how: Unpack[Opening]
) -> SqliteStore:
    """Open a database for an engine or a client that writes; see `open_as`."""
    return open_as(SqliteStore, path, now_ms=now_ms, seed=seed, **how)


class SqliteStore(ReadingStore, Writes):
    """The store of one thread: `protocol.Store`, and more for clients."""

    leases = None

    _checkpointer: Database | None = None  # open while the log has pages to move
    _has_hook = False  # on our connection, which then counts the pages of its log

    def close(self) -> None:
        """Close the connection. Does nothing if it is closed, or belongs to the parent process."""
        self._close_checkpointer()
        super().close()

    def mend(self) -> bool:
        """Recover from a deleted log without losing anything; False if the log is there.

        Raises DatabaseUnusable as long as that is impossible.
        """
        if not self.has_lost_log:
            self.forget_pages()
            return False
        self._close_checkpointer()
        self.renew()
        self._has_hook = False
        return True

    def tidy(self) -> None:
        """Keep the log short, outside of any transaction."""
        if not self._has_hook:
            self.leave_checkpoints_to_others()
            self._has_hook = True
        elif self.wal_pages >= _CHECKPOINT_PAGES:
            self.move_log()
            self.wal_pages = 0

    def move_log(self) -> None:
        """Move the log into the database as far as readers allow, without waiting.

        A second connection does this, so that commits of this one stay short.
        """
        if self._checkpointer is None:
            self._checkpointer = Database(self.path, must_exist=True)
        if self._checkpointer.checkpoint():
            self._close_checkpointer()

    def _close_checkpointer(self) -> None:
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None
