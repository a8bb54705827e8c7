"""Sleeping until an instant of the wall clock, or until something happens.

Linux: a timer of the kernel that is cancelled when the clock is set, so that nothing wakes while
nothing is due. Elsewhere: naps that notice a clock that was set.
"""

from __future__ import annotations

import errno
import os
import select
import struct
import sys
from collections.abc import Iterable
from typing import Protocol

from edgecron.base.clock import Clock

SAFETY_MS = 45_000  # even with nothing due, look at the database's change mark this often
_NAP_MS = 15_000
# 2255: armed even with nothing due, to hear of a clock that is set. The kernel's own end is 2262.
_FAR_MS = 9_000_000_000_000
_CLOCK_REALTIME = 0
_ABSTIME, _CANCEL_ON_SET = 1, 2


class Sleeper(Protocol):
    """Waits; the caller looks at the clock and at its descriptors afterwards."""

    def wait(self, fds: Iterable[int], *, until_ms: int | None) -> set[int]:
        """Return when an fd is readable, at an instant, when the clock is set, or sooner.

        The answer holds the descriptors that are readable.
        """

    def close(self) -> None: ...


class Lock(Protocol):
    """What a thread holds while it is awake: a `threading.RLock`."""

    def acquire(self) -> bool: ...

    def release(self) -> None: ...


class TimerSleeper:
    """Sleeps on a timerfd of the realtime clock (Linux)."""

    def __init__(self) -> None:
        self._timer = _timerfd_create()

    def wait(self, fds: Iterable[int], *, until_ms: int | None) -> set[int]:
        _timerfd_settime(self._timer, _FAR_MS if until_ms is None else min(until_ms, _FAR_MS))
        poller = select.poll()
        poller.register(self._timer, select.POLLIN)
        for fd in fds:
            poller.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poller.poll(SAFETY_MS)}
        try:
            os.read(self._timer, 8)
        except BlockingIOError:
            pass  # Something else woke us.
        except OSError as error:
            # ECANCELED: the clock was set. The caller reads it anew anyway.
            if error.errno != errno.ECANCELED:
                raise
        return ready - {self._timer}

    def close(self) -> None:
        os.close(self._timer)


class RestingSleeper:
    """Lets go of a lock while it waits, which its thread holds: who has it knows that it rests."""

    def __init__(self, sleeper: Sleeper, awake: Lock) -> None:
        self._sleeper = sleeper
        self._awake = awake

    def wait(self, fds: Iterable[int], *, until_ms: int | None) -> set[int]:
        self._awake.release()
        try:
            return self._sleeper.wait(fds, until_ms=until_ms)
        finally:
            self._awake.acquire()

    def close(self) -> None:
        self._sleeper.close()


class NapSleeper:
    """Sleeps in naps of at most 15 s, and ends one where wall and monotonic time part."""

    def __init__(self, clock: Clock, *, nap_ms: int = _NAP_MS) -> None:
        self._clock = clock
        self._nap_ms = nap_ms

    def wait(self, fds: Iterable[int], *, until_ms: int | None) -> set[int]:
        poller = select.poll()
        for fd in fds:
            poller.register(fd, select.POLLIN)
        offset_ms = self._clock.now_ms() - self._clock.monotonic_ms()
        slept_ms = 0
        while slept_ms < SAFETY_MS:
            nap_ms = self._nap_ms
            if until_ms is not None:
                nap_ms = max(0, min(nap_ms, until_ms - self._clock.now_ms()))
            ready = {fd for fd, _ in poller.poll(nap_ms)}
            stepped_ms = self._clock.now_ms() - self._clock.monotonic_ms() - offset_ms
            if ready or nap_ms < self._nap_ms or abs(stepped_ms) > 1000:
                return ready
            slept_ms += nap_ms
        return set()

    def close(self) -> None:
        pass


def system_sleeper(clock: Clock) -> Sleeper:
    """The best sleeper of this system."""
    if sys.platform == "linux":
        try:
            return TimerSleeper()
        except (OSError, AttributeError):
            # A sandbox may forbid timers; naps cost a wake-up every 15 s and miss nothing.
            return NapSleeper(clock)
    return NapSleeper(clock)


if sys.version_info >= (3, 13) and sys.platform == "linux":

    def _timerfd_create() -> int:
        return os.timerfd_create(_CLOCK_REALTIME, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)

    def _timerfd_settime(timer: int, at_ms: int) -> None:
        try:
            os.timerfd_settime_ns(
                timer,
                flags=os.TFD_TIMER_ABSTIME | os.TFD_TIMER_CANCEL_ON_SET,
                initial=max(1, at_ms * 1_000_000),
            )
        except OSError as error:
            # The clock was set since the last wait, and the timer is armed all the same.
            if error.errno != errno.ECANCELED:
                raise

else:

    def _timerfd_create() -> int:
        import ctypes

        timer: int = ctypes.CDLL(None, use_errno=True).timerfd_create(
            _CLOCK_REALTIME, os.O_NONBLOCK | os.O_CLOEXEC
        )
        if timer < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        return timer

    def _timerfd_settime(timer: int, at_ms: int) -> None:
        import ctypes

        # struct itimerspec: interval, then the first expiry, each seconds and nanoseconds.
        at_ms = max(1, at_ms)
        spec = struct.pack("@llll", 0, 0, at_ms // 1000, at_ms % 1000 * 1_000_000)
        result = ctypes.CDLL(None, use_errno=True).timerfd_settime(
            timer, _ABSTIME | _CANCEL_ON_SET, spec, None
        )
        # ECANCELED: as above.
        if result != 0 and ctypes.get_errno() != errno.ECANCELED:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
