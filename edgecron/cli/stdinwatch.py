"""An end that comes with stdin's: whoever holds its other end has gone, be it by kill -9."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_JOIN_S = 2.0
_MOST_BYTES = 65_536  # of what is said meanwhile, and means nothing


@contextmanager
def watching_stdin(ended: Callable[[], object]) -> Iterator[None]:
    """Within, `ended` is called once where stdin ends, on a thread of its own."""
    stdin = sys.stdin.fileno()
    told, teller = os.pipe()

    def watch() -> None:
        while True:
            ready = select.select([stdin, told], [], [])[0]
            if told in ready:
                return
            if not _has_more(stdin):
                ended()
                return

    thread = threading.Thread(target=watch, name="stdin-watch")
    thread.start()
    try:
        yield
    finally:
        os.close(teller)
        thread.join(_JOIN_S)
        os.close(told)


def _has_more(stdin: int) -> bool:
    try:
        return bool(os.read(stdin, _MOST_BYTES))
    except OSError:
        return False  # As of a terminal that has gone.
