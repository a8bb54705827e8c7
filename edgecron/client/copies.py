"""Copies of a database: backups, and the way back.

places.py    where a backup may go, and how a file gets its name
renaming.py  names that change in one step
backup.py    a safe copy of a database that is in use
restore.py   a backup in the place of the database
"""

from __future__ import annotations

from edgecron.client.backup import Backup, make_backup, write_backup
from edgecron.client.restore import Restoration, Restored, prepare_restore

__all__ = [
    "Backup",
    "Restoration",
    "Restored",
    "make_backup",
    "prepare_restore",
    "write_backup",
]
