"""Look at paths that might not answer, such as those of a network file system that hangs.

A thread of its own looks at each path, so that the caller waits only for a bounded time. A thread
that hangs in the kernel can't be ended. It is left alone, and no second thread of this process
looks at its path until it has returned. The threads are daemons and are never joined.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from edgecron.base.clock import SystemClock
from edgecron.base.values import NamedTuple


class PathFacts(NamedTuple):
    """Facts about a path. None: unknown, for example because a permission is missing."""

    exists: bool | None
    free_bytes: int | None  # that are left for users
    is_mount: bool


class _Look:
    """One look at a path, and the descriptors to write to when it has ended."""

    def __init__(self, path: str, look: Callable[[str], PathFacts]) -> None:
        self._path, self._look = path, look
        self.has_ended = threading.Event()
        self.facts: PathFacts | None = None
        self.bells: set[int] = set()

    def run(self) -> None:
        self.facts = self._look(self._path)
        with _lock:
            self.has_ended.set()
            for bell in self.bells:
                with suppress(OSError):  # A full pipe has news already.
                    os.write(bell, b".")


_clock = SystemClock()  # Threads wait by the true time.
_lock = threading.Lock()
_looks: dict[str, _Look] = {}  # of this process: whoever asks, one thread at most is at a path


class SlowPaths:
    """Looks at paths for one caller, which is one thread."""

    def __init__(self, look: Callable[[str], PathFacts]) -> None:
        self._look = look
        self._pipe: tuple[int, int] | None = None
        self.silent: frozenset[str] = frozenset()  # paths that did not answer the last question

    def look(self, paths: Iterable[str], *, wait_s: float) -> Mapping[str, PathFacts]:
        """The facts of the paths that answer within a time, for all of them together.

        A path that did not answer before is not waited for again: what it answered since is
        returned, once.
        """
        # One more, because the clock cuts fractions of a millisecond.
        until_ms = _clock.monotonic_ms() + round(wait_s * 1000) + 1
        begun = {path: self._begin(path) for path in set(paths)}
        found = {}
        for path, one in begun.items():
            left_s = 0 if path in self.silent else max(0, until_ms - _clock.monotonic_ms()) / 1000
            if one is not None and one.has_ended.wait(left_s) and one.facts is not None:
                found[path] = one.facts
                with _lock:
                    if _looks.get(path) is one:
                        del _looks[path]
        self.silent = (self.silent - found.keys()) | (begun.keys() - found.keys())
        return found

    def filenos(self) -> list[int]:
        """A descriptor that is readable after a path has answered; empty if all have."""
        if not self.silent:
            self.forget()
            return []
        if self._pipe is None:
            self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        with _lock:
            for path in self.silent:
                one = _looks.get(path)
                if one is not None and not one.has_ended.is_set():
                    one.bells.add(self._pipe[1])
                elif one is not None:
                    with suppress(BlockingIOError):
                        os.write(self._pipe[1], b".")
        return [self._pipe[0]]

    def clear(self) -> None:
        """Forget that paths have answered."""
        if self._pipe is not None:
            with suppress(BlockingIOError):
                os.read(self._pipe[0], 65_536)

    def forget(self) -> None:
        """Let go of paths that do not answer."""
        self.silent = frozenset()
        if self._pipe is not None:
            with _lock:
                for one in _looks.values():
                    one.bells.discard(self._pipe[1])
            for fd in self._pipe:
                os.close(fd)
            self._pipe = None

    def _begin(self, path: str) -> _Look | None:
        """The look at a path; None if the system has no thread for it."""
        with _lock:
            one = _looks.get(path)
            # A look that ended for another caller can be old: look again.
            if one is not None and not (one.has_ended.is_set() and path not in self.silent):
                return one
            one = _Look(path, self._look)
            try:
                threading.Thread(target=one.run, name="edgecron-path", daemon=True).start()
            except RuntimeError:
                return None
            _looks[path] = one
            return one


def look(path: str) -> PathFacts:
    """Look at a path, for as long as that takes."""
    exists: bool | None = True
    try:
        os.stat(path)
    except OSError as error:
        exists = False if error.errno in (errno.ENOENT, errno.ENOTDIR) else None
    free_bytes = None
    with suppress(OSError):
        found = os.statvfs(path)
        free_bytes = found.f_bavail * found.f_frsize
    return PathFacts(exists=exists, free_bytes=free_bytes, is_mount=os.path.ismount(path))
