"""Runs a command, and ends all that it has started once it has ended itself.

    python warden.py SECONDS COMMAND...

A copy may lack the very guard that ends what a dead process has left. Exits as the command did;
with 124 where that took longer than it may.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_TOO_LONG = 124


def main() -> int:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with subprocess.Popen(sys.argv[2:]) as process:
        try:
            return process.wait(timeout=float(sys.argv[1]))
        except subprocess.TimeoutExpired:
            process.kill()
            return _TOO_LONG
        finally:
            if sys.platform.startswith("linux"):
                end_all(os.getpid())


def end_all(pid: int) -> None:
    """Kill and reap all that descends from us."""
    while left := _children_of(pid):
        for child in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children_of(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name before it may hold anything, blanks and brackets too.
            fields = status.read_text("utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[1]) == pid:
                found.append(int(status.parent.name))
    return found


if __name__ == "__main__":
    sys.exit(main())
