"""What is expensive to make, once for all workers of a test run."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar

T = TypeVar("T")

_FOLDER = "TESTS_SHARED"  # a variable that the workers inherit


def begin_sharing() -> None:
    """Make the folder of this test run, in the process that starts the workers."""
    os.environ[_FOLDER] = mkdtemp(prefix="edgecron-shared-")


def end_sharing() -> None:
    """Remove it."""
    shutil.rmtree(os.environ.pop(_FOLDER))


def shared_path(name: str) -> Path:
    """A path that all workers of a test run know, in a folder that goes with it."""
    return Path(os.environ[_FOLDER], name)


def made_once(name: str, make: Callable[[], T]) -> T:
    """What `make` returns, by the first worker that needs it; the others read it, and wait.

    Without a test run it is made for each process.
    """
    if _FOLDER not in os.environ:
        return make()
    kept = shared_path(name)
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            made = make()
            kept.write_bytes(pickle.dumps(made))
            return made
    found: T = pickle.loads(kept.read_bytes())
    return found
