"""Back up the database, and put a backup in its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.errors import DatabaseUnusable, NotFound
from edgecron.client.engines import Engines

if TYPE_CHECKING:
    from edgecron.client.backup import Backup
    from edgecron.client.restore import Restoration


def _say_nothing(done: int, count: int) -> None:
    """Progress that nobody follows."""


class Copies(Engines):
    """Safe copies, made while engines run, and the way back."""

    def backup(
        self,
        path: str | Path,
        *,
        replace: bool = False,
        on_progress: Callable[[int, int], object] = _say_nothing,
    ) -> Backup:
        """Copy the database to a file, or into a folder under a dated name, while it is in use.

        The file gets its name only when it is whole, on the disk, and nothing in it is damaged.
        Raises AlreadyExists where it is there and may not be replaced, InvalidInput or NotFound
        for a place where no backup may be, DatabaseUnusable for a damaged database.
        """
        from edgecron.client.backup import make_backup

        return make_backup(
            self.path, str(path), now=self.now(), replace=replace, on_progress=on_progress
        )

    def write_backup(
        self,
        write: Callable[[bytes], object],
        *,
        on_progress: Callable[[int, int], object] = _say_nothing,
    ) -> Backup:
        """The same, to where `write` takes it, part by part, once nothing in it is damaged."""
        from edgecron.client.backup import write_backup

        return write_backup(self.path, write, now=self.now(), on_progress=on_progress)

    def restoring(
        self,
        path: str | Path,
        *,
        on_progress: Callable[[int, int], object] = _say_nothing,
    ) -> AbstractContextManager[Restoration]:
        """Look a backup through that is to take the place of the database; nothing changes yet.

        Entered, it says what there is, and its `carry_out` does it. Raises NotFound where there
        is no such file, DatabaseUnusable for a damaged one, Conflict where an engine, a
        supervisor or another program has the database open.
        """
        from edgecron.client.restore import prepare_restore

        # Else there is nothing to lose, which must not be made now, or nothing that could be read.
        if os.path.lexists(self.path):
            with suppress(NotFound, DatabaseUnusable):
                self.take_over()
        self.close()
        return prepare_restore(self.path, Path(path), clock=self.clock, on_progress=on_progress)
