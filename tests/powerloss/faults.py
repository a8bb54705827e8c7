"""Disks that refuse: the Nth operation of a kind fails, or all from there on until it heals."""

from __future__ import annotations

import errno
import os
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import apsw


class Op(StrEnum):
    OPEN = "open"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    DELETE = "delete"


class Trouble(StrEnum):
    FULL = "full"  # no space is left
    IOERR = "ioerr"  # the medium fails
    READONLY = "readonly"  # the system has mounted it anew, after errors
    SHORT = "short"  # of what we write ourselves it takes the first half, and can't be cut back


class Duration(StrEnum):
    ONCE = "once"  # that one operation, and the next is fine
    LASTING = "lasting"  # every operation that it meets, until it heals


# The operations that a trouble meets once it lasts, whichever it began with.
_MEETS = {
    Trouble.FULL: frozenset({Op.WRITE}),
    Trouble.IOERR: frozenset({Op.WRITE, Op.TRUNCATE, Op.SYNC}),
    Trouble.READONLY: frozenset({Op.WRITE, Op.TRUNCATE, Op.DELETE}),
    Trouble.SHORT: frozenset({Op.WRITE, Op.TRUNCATE}),
}
_IOERRS = {
    Op.OPEN: apsw.SQLITE_CANTOPEN,
    Op.WRITE: apsw.SQLITE_IOERR_WRITE,
    Op.TRUNCATE: apsw.SQLITE_IOERR_TRUNCATE,
    Op.SYNC: apsw.SQLITE_IOERR_FSYNC,
    Op.DELETE: apsw.SQLITE_IOERR_DELETE,
}
_ERRNOS = {
    Trouble.FULL: errno.ENOSPC,
    Trouble.IOERR: errno.EIO,
    Trouble.READONLY: errno.EROFS,
    Trouble.SHORT: errno.EIO,
}


@dataclass
class Faults:
    """What is to go wrong: the `nth` operation `op`, counted from one since `arm`.

    Only files whose path ends with one of `names` count; the shared memory never does.
    """

    trouble: Trouble
    op: Op
    nth: int
    duration: Duration = Duration.ONCE
    names: tuple[str, ...] = ()
    is_armed: bool = False
    is_on: bool = False  # the trouble goes on
    counts: Counter[Op] = field(default_factory=Counter)
    met: int = 0  # how many operations have failed

    def arm(self) -> None:
        self.is_armed = True

    def heal(self) -> None:
        self.is_armed = self.is_on = False

    def meet(self, op: Op, path: str) -> None:
        """Count an operation of SQLite's, and raise its error where that is to fail."""
        # SQLite minds no deletion that fails as it closes a database; apsw would tell of it.
        if (op is not Op.DELETE or op is self.op) and self._is_hit(op, path):
            raise self._of_sqlite(op)

    def meet_call(self, op: Op, path: str) -> None:
        """The same for one of our own, whose error is an OSError."""
        if self._is_hit(op, path):
            number = _ERRNOS[self.trouble]
            raise OSError(number, os.strerror(number), path)

    @staticmethod
    def is_ours(error: BaseException) -> bool:
        return getattr(error, "is_made_up", False) is True

    def _is_hit(self, op: Op, path: str) -> bool:
        if not self.is_armed or (self.names and not path.endswith(self.names)):
            return False
        self.counts[op] += 1
        is_first = op is self.op and self.counts[op] == self.nth
        if is_first and self.duration is Duration.LASTING:
            self.is_on = True
        is_hit = is_first or (self.is_on and (op in _MEETS[self.trouble] or op is self.op))
        self.met += is_hit
        return is_hit

    def _of_sqlite(self, op: Op) -> apsw.Error:
        error: Any
        if op is Op.OPEN:
            error = apsw.CantOpenError("made up")
        elif self.trouble is Trouble.FULL and op is Op.WRITE:
            error = apsw.FullError("made up")
        elif self.trouble is Trouble.READONLY and op is Op.WRITE:
            # So does SQLite: EROFS at a write is an error of the disk to it.
            error = apsw.IOError("made up")
            error.extendedresult = apsw.SQLITE_IOERR_WRITE
        else:
            error = apsw.IOError("made up")
            error.extendedresult = _IOERRS[op]
        error.is_made_up = True
        return error


NO_FAULTS = Faults(trouble=Trouble.IOERR, op=Op.WRITE, nth=0)
