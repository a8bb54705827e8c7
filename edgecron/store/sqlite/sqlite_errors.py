"""Turn SQLite's errors, and values that can't be read, into edgecron's errors with a next step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from edgecron.base.checks import check_name
from edgecron.base.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseFull,
    DatabaseGone,
    DatabaseUnusable,
    EdgecronError,
    InvalidInput,
    QueryInterrupted,
    SchemaTooNew,
    Unreadable,
)
from edgecron.store.sqlite.database_file import unwritable
from edgecron.store.sqlite.wal import lost_log

RESTORE = "a backup from before is put back by: edgecron restore FILE"


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, each with what to do next."""
    try:
        yield
    except apsw.BusyError as error:
        raise busy(path) from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise DatabaseDamaged(
            f"database {path} is damaged or not a database ({error})",
            hint="it was left as it is; move it away and restore a backup",
        ) from error
    except apsw.FullError as error:
        raise full(path) from error
    except apsw.ReadOnlyError as error:
        if getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
            raise gone(path) from error
        raise unwritable(path) from error
    except (apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError) as error:
        raise DatabaseUnusable(
            f"database {path} can't be opened ({error})",
            hint="check that its folder exists and belongs to you",
        ) from error
    except (apsw.SQLError, apsw.SchemaChangeError) as error:
        raise DatabaseDamaged(
            f"database {path} does not have the tables of this edgecron ({error})",
            hint="somebody changed them; restore a backup",
        ) from error
    except (apsw.IOError, apsw.ProtocolError, apsw.NoMemError, apsw.LockedError) as error:
        # The index of the log has to grow in its file too.
        if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE:
            raise full(path) from error
        raise DatabaseUnusable(
            f"database {path} can't be used ({error})",
            hint="see what its disk and the limits of this process say; more says: edgecron doctor",
        ) from error
    except EdgecronError:
        raise
    except apsw.InterruptError as error:
        raise QueryInterrupted(f"what was asked of database {path} was interrupted") from error
    except apsw.ConnectionClosedError as error:
        raise lost_log(path) from error  # Let go of, and not opened anew yet.
    except (apsw.ConstraintError, apsw.MismatchError, ArithmeticError, ValueError) as error:
        # A row that no edgecron has written: what follows from it can't be, or be understood.
        raise Unreadable(
            f"database {path} holds what can't be read or gone on from ({error!r:.300})",
            hint=f"what is wrong says: edgecron doctor --deep; {RESTORE}",
        ) from error


def busy(path: Path) -> DatabaseBusy:
    """Of a database that others keep on writing to."""
    return DatabaseBusy(
        f"database {path} is locked by another process",
        hint="try again in a moment; where it lasts, see: edgecron doctor",
    )


def gone(path: Path) -> DatabaseGone:
    """The error for a database whose name another file has now, or none."""
    hint = "put it back, or start anew"
    if os.path.lexists(path):
        # SQLite takes what lies there under its name for the log of the new one.
        hint = (
            "put it back; or move the -wal and -shm of the former away from beside the new one,"
            " before anything opens that, and start anew"
        )
    return DatabaseGone(
        f"database {path} was deleted, moved or replaced while it was open", hint=hint
    )


def emptied(path: Path) -> DatabaseGone:
    """The error for a database that holds nothing any more but what lies in its log."""
    return DatabaseGone(
        f"database {path} was emptied while it was open",
        hint="move it away with its -wal, and restore a backup",
    )


def full(path: Path) -> DatabaseFull:
    """The error for a disk without room for what is written to a database."""
    return DatabaseFull(f"no space left to write database {path}", hint="free some disk space")


def too_new(path: Path, version: int, *, known: int) -> SchemaTooNew:
    """The error for a database that a newer edgecron has made or migrated."""
    return SchemaTooNew(
        f"database {path} is version {version}, this edgecron knows up to {known}",
        hint="upgrade edgecron",
    )


_MOST_SHOWN = 200


def unreadable(what: str, error: BaseException, *, name: object = None) -> Unreadable:
    """The error for stored values of this; of a schedule, where its `name` is known."""
    if isinstance(error, Unreadable) and error.__cause__ is not None:
        error = error.__cause__  # It names the value; its message names only the database.
    reason = error.message if isinstance(error, EdgecronError) else repr(error)
    if len(reason) > _MOST_SHOWN:
        reason = f"{reason[:_MOST_SHOWN]}..."
    hint = RESTORE
    if isinstance(name, str):
        what = f"{what} {name[:60]!r}"
        if _is_name(name):
            hint = f"edgecron rm {name} removes it; {RESTORE}"
    return Unreadable(f"what is stored of {what} can't be read: {reason}", hint=hint)


def texts_of(stored: object) -> tuple[str, ...]:
    """A JSON array of texts. Raises TypeError for anything else."""
    if not isinstance(stored, list) or not {*map(type, stored)} <= {str}:
        raise TypeError("expected an array of texts")
    return tuple(stored)


def _is_name(text: str) -> bool:
    try:
        check_name(text, what="schedule name")
    except InvalidInput:
        return False
    return True
