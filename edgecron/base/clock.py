"""Read clocks. Only this module does so.

All other code gets a Clock, so that tests can use a fake one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Protocol

from edgecron.base.units import from_ms

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STA_UNSYNC = 0x0040  # of `struct timex`, adjtimex(2)
_TIMEX_BYTES = 512  # more than any system's `struct timex` takes


class Clock(Protocol):
    """The interface of a clock."""

    def now_ms(self) -> int:
        """Wall time, in milliseconds since 1970."""

    def monotonic_ms(self) -> int:
        """Elapsed time since an arbitrary point of this boot, never stepping back."""

    def boottime_ms(self) -> int:
        """As `monotonic_ms`, including the time for which the machine is suspended."""

    def boot_id(self) -> str:
        """A text that is the same until the machine boots again."""

    def is_synchronised(self) -> bool | None:
        """Whether the kernel reports that wall time is synchronised; None if it reports nothing."""


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def boottime_ms(self) -> int:
        return _boottime_ns() // 1_000_000

    def boot_id(self) -> str:
        return _system_boot_id()

    def is_synchronised(self) -> bool | None:
        return _kernel_is_synchronised()


class ServerTime:
    """The wall time of another machine, as far as its answers show it: a Clock.

    Elapsed time is this machine's. Until the first answer, so is wall time. Threads can share it.
    """

    def __init__(self, own: Clock) -> None:
        self._own = own
        self._ahead_ms: int | None = None  # of the time since this machine's boot

    @property
    def is_known(self) -> bool:
        """Whether the other machine has reported its time."""
        return self._ahead_ms is not None

    def note(self, now_ms: int, *, asked_ms: int | None = None) -> None:
        """Take the time that an answer reports which has just come.

        `asked_ms` is when it was requested, by the time since the boot. The clock never runs ahead
        of the other machine's, and changes only if an answer contradicts it.
        """
        # By elapsed time: this machine's wall clock can be wrong, and can be set.
        answered_ms = self._own.boottime_ms()
        least_ms = now_ms - answered_ms
        most_ms = least_ms if asked_ms is None else now_ms - asked_ms
        known_ms = least_ms if self._ahead_ms is None else self._ahead_ms
        self._ahead_ms = min(max(known_ms, least_ms), most_ms)

    def own_ms(self, instant_ms: int) -> int:
        """Return what this machine's wall clock shows at an instant."""
        return self._own.now_ms() + instant_ms - self.now_ms()

    def instant_ms(self, own_ms: int) -> int:
        """Return the instant at which this machine's wall clock shows `own_ms`."""
        return self.now_ms() + own_ms - self._own.now_ms()

    def now_ms(self) -> int:
        ahead_ms = self._ahead_ms
        return self._own.now_ms() if ahead_ms is None else self._own.boottime_ms() + ahead_ms

    def monotonic_ms(self) -> int:
        return self._own.monotonic_ms()

    def boottime_ms(self) -> int:
        return self._own.boottime_ms()

    def boot_id(self) -> str:
        return self._own.boot_id()

    def is_synchronised(self) -> bool | None:
        """Whether wall time can be trusted: that of the other machine always."""
        return True if self.is_known else self._own.is_synchronised()


def instant_by(clock: Clock | None, own_ms: int) -> int:
    """Return an instant that another process of this machine has read from its wall clock."""
    return clock.instant_ms(own_ms) if isinstance(clock, ServerTime) else own_ms


def now(clock: Clock) -> datetime:
    """Wall time of a clock as an aware UTC datetime."""
    return from_ms(clock.now_ms())


def _system_boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        # macOS has no boot id file: the instant of the boot identifies it as well.
        import subprocess

        shown = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"],
            capture_output=True,
            text=True,
            check=True,
        )
        return shown.stdout.strip()


if hasattr(time, "CLOCK_BOOTTIME"):

    def _boottime_ns() -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

else:

    def _boottime_ns() -> int:
        # Without such a clock, a suspend looks like a step of wall time.
        return time.monotonic_ns()


def _kernel_is_synchronised() -> bool | None:
    """Ask adjtimex(2), which needs no rights; None if it does not exist or is refused."""
    if sys.platform != "linux":
        return None
    return _timex_reader()()


@cache
def _timex_reader() -> Callable[[], bool | None]:
    import ctypes

    class Timex(ctypes.Structure):
        """The beginning of `struct timex`; the rest is only room for the kernel to write to."""

        _fields_ = (
            ("modes", ctypes.c_uint),  # 0: nothing is set
            ("offset", ctypes.c_long),
            ("freq", ctypes.c_long),
            ("maxerror", ctypes.c_long),
            ("esterror", ctypes.c_long),
            ("status", ctypes.c_int),
            ("rest", ctypes.c_char * _TIMEX_BYTES),
        )

    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):
        return lambda: None

    def read() -> bool | None:
        answer = Timex()
        if adjtimex(ctypes.byref(answer)) < 0:
            return None  # A sandbox can forbid even this question.
        return not answer.status & _STA_UNSYNC

    return read
