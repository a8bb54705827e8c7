"""Which descriptor is ready, and what is then to be done: epoll, or poll where there is none."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

READ = select.POLLIN
WRITE = select.POLLOUT
_MOST_SLEEP_S = 1_000_000.0  # epoll takes 24 days at most

_EPOLL = getattr(select, "epoll", None)


class Reactor:
    """Calls what was registered for each descriptor that is ready.

    Plainer than `selectors`, which asks the kernel once more for each descriptor that is closed:
    an eighth of the time of a short command. The kernel forgets a closed one by itself.
    """

    def __init__(self) -> None:
        self._poll = select.poll() if _EPOLL is None else _EPOLL()
        self._on_ready: dict[int, Callable[[], None]] = {}

    def watch(self, fd: int, on_ready: Callable[[], None], events: int = READ) -> None:
        self._poll.register(fd, events)
        self._on_ready[fd] = on_ready

    def change(self, fd: int, on_ready: Callable[[], None], events: int = READ) -> None:
        """Watch a descriptor that is watched already for something else."""
        self._poll.modify(fd, events)
        self._on_ready[fd] = on_ready

    def close(self, fd: int) -> None:
        """Watch it no longer, and close it."""
        del self._on_ready[fd]
        if _EPOLL is None:
            self._poll.unregister(fd)
        os.close(fd)

    def turn(self, timeout_s: float | None) -> None:
        """Wait until something is ready, at most so long, and do what is to be done.

        A call may come for what was just closed, or for another that has its number: whoever is
        called finds nothing to read then, and leaves it.
        """
        ready = self._poll.poll(self._timeout(timeout_s))
        for fd, _ in ready:
            on_ready = self._on_ready.get(fd)
            if on_ready is not None:
                on_ready()

    def _timeout(self, timeout_s: float | None) -> float | None:
        if timeout_s is None:
            return None
        bounded_s = min(max(timeout_s, 0.0), _MOST_SLEEP_S)
        # poll counts in milliseconds, epoll in seconds.
        return bounded_s * 1000 if _EPOLL is None else bounded_s
