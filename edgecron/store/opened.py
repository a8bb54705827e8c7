"""An open store: its connection, and the one beside it that checkpoints, now and then."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from edgecron.base.errors import DatabaseUnusable
from edgecron.store.connection import Database

# Four megabytes. With one, a thousand runs at once had a quarter of their bytes written twice; with
# many, readers would have long logs to look through.
_CHECKPOINT_PAGES = 4000


class OpenStore:
    """What each part of the store stands on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._checkpointer: Database | None = None  # while there is something to move
        self._has_hook = False  # on our connection, which then counts the pages of its log
        row = database.row("SELECT seed, uuid FROM meta")
        if row is None:
            raise DatabaseUnusable(
                f"database {database.path} has lost its seed", hint="restore a backup"
            )
        self._seed, self.uuid = bytes(row[0]), str(row[1])

    @property
    def path(self) -> Path:
        return self._database.path

    @property
    def database(self) -> Database:
        """The connection, for what is asked too rarely to be a method here."""
        return self._database

    @property
    def seed(self) -> bytes:
        return self._seed

    @property
    def change_mark(self) -> int:
        return self._database.data_version

    def close(self) -> None:
        self._close_checkpointer()
        self._database.close()

    def mend(self) -> bool:
        if not self._database.has_lost_log:
            self._database.forget_pages()
            return False
        self._close_checkpointer()
        self._database.renew()
        self._database.keep_little()
        self._has_hook = False
        return True

    def rehearsal(self) -> AbstractContextManager[None]:
        return self._database.rehearsal()

    def tidy(self) -> None:
        if not self._has_hook:
            self._database.leave_checkpoints_to_others()
            self._has_hook = True
        elif self._database.wal_pages >= _CHECKPOINT_PAGES:
            self.checkpoint()
            self._database.wal_pages = 0

    def checkpoint(self) -> None:
        """Move what the log holds into the database as far as readers allow; never waits."""
        if self._checkpointer is None:
            self._checkpointer = Database(self.path, must_exist=True)
            self._checkpointer.keep_little()
        if self._checkpointer.checkpoint():
            # It takes a fifth of a megabyte, and is not needed again soon.
            self._close_checkpointer()

    def _close_checkpointer(self) -> None:
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None
