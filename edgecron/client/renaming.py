"""Names that change in one step: nobody sees a moment between, and no kill leaves one behind.

Linux has such steps; elsewhere, and on file systems without them, the answer is no.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_NOREPLACE = 1
_EXCHANGE = 2
_UNKNOWN = frozenset((errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP))


def exchange(path: Path, other: Path) -> bool:
    """Let two files have each other's name; False where that can't be done in one step."""
    return _rename(path, other, _EXCHANGE)


def rename_new(path: Path, target: Path) -> bool:
    """Rename a file; False where that can't be done in one step. Raises FileExistsError."""
    return _rename(path, target, _NOREPLACE)


def _rename(path: Path, target: Path, flag: int) -> bool:
    try:
        import ctypes

        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, AttributeError):
        return False
    if function(_AT_FDCWD, os.fsencode(path), _AT_FDCWD, os.fsencode(target), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), str(path), None, str(target))
