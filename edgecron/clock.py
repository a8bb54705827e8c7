"""The only place that reads a clock.

Everything else is handed a Clock, so that any story can be told by hand with a fake one.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Protocol

from edgecron.timetext import from_ms

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """What the engine asks about time."""

    def now_ms(self) -> int:
        """Wall time, in milliseconds since 1970."""

    def monotonic_ms(self) -> int:
        """Elapsed time since an arbitrary point of this boot, never stepping back."""

    def boot_id(self) -> str:
        """A text that is the same until the machine boots again."""


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def boot_id(self) -> str:
        return _system_boot_id()


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
