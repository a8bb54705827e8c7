"""Whom the kernel ends first when memory runs out: what runs, and not who watches it.

A service manager may spare engine and supervisor (systemd: `OOMScoreAdjust=-500`). What they start
inherits that, so that a command which eats all memory would be spared as well. Such a command is
born with the value that everybody has.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

PLACE = "/proc/self/oom_score_adj"
_EVERYBODYS = 0


class Sparing:
    """The value of this process, as it was when this was made: 0 where nobody is spared."""

    def __init__(self, place: str = PLACE) -> None:
        self._place = place
        self._own = _read(place)

    @contextlib.contextmanager
    def set_aside(self) -> Iterator[None]:
        """For as long as the context lasts be as everybody, so that what is born then is it too."""
        if self._own >= _EVERYBODYS or not _write(self._place, _EVERYBODYS):
            yield
            return
        try:
            yield
        finally:
            _write(self._place, self._own)


def _read(place: str) -> int:
    try:
        with open(place, "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return _EVERYBODYS  # No Linux: there is no such thing.


def _write(place: str, value: int) -> bool:
    try:
        fd = os.open(place, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(fd, str(value).encode())
        finally:
            os.close(fd)
    except OSError:
        return False
    return True
