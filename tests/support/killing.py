"""An engine, or the supervisor below it, that ends by SIGKILL at its n-th statement or file
operation."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any

from edgecron.api import Scheduler
from edgecron.clock import SystemClock
from edgecron.engine.events import Event, EventKind
from edgecron.engine.host import EngineHost
from edgecron.errors import SupervisorUnavailable

# C functions that leave something outside of the process: SQL, files, locks, messages, starts.
OPERATIONS = frozenset(
    (
        *("execute", "wal_checkpoint", "_fork_exec", "pidfd_open", "send", "sendmsg", "flock"),
        *("open", "write", "pwrite", "link", "unlink", "rename", "ftruncate", "mkfifo", "killpg"),
    )
)
# Whose files these operations are in change nothing: they look at /proc, or read a time zone.
LOOKING = frozenset(("groups.py", "zones.py"))


class Victim(StrEnum):
    ENGINE = "engine"
    SUPERVISOR = "supervisor"  # from the moment on that it takes its lock


def kill_at(victim: Victim, number: int, told: Path) -> None:
    """End the victim just before its operation of this number; `told` then names that.

    To be called by the engine's process, before its supervisor is forked.
    """
    sys.setprofile(_counting(victim, number, told))


def _counting(victim: Victim, number: int, told: Path) -> Callable[[FrameType, str, Any], None]:
    engine_pid = os.getpid()
    victim_pid = engine_pid if victim is Victim.ENGINE else 0
    count = 0

    def watch(frame: FrameType, event: str, function: Any) -> None:
        nonlocal count, victim_pid
        if event != "c_call" or function.__name__ not in OPERATIONS:
            return
        place = Path(frame.f_code.co_filename).name
        pid = os.getpid()
        if not victim_pid and pid != engine_pid and function.__name__ == "flock":
            victim_pid = pid  # of all that an engine forks, it alone takes a lock
        if pid != victim_pid or place in LOOKING:
            return
        count += 1
        if count == number:
            sys.setprofile(None)
            where = f"{function.__name__} of {place}:{frame.f_lineno}"
            told.write_text(f"{victim} at {where}", "utf-8")
            os.kill(pid, signal.SIGKILL)

    return watch


def run_until_quiet(database: Path, kill: tuple[Victim, int, Path] | None = None) -> None:
    """Run an engine until no run is queued or running, or until it is killed."""
    if kill is not None:
        kill_at(*kill)

    def report(event: Event) -> None:
        if event.kind is EventKind.ENDED and not scheduler.active_counts():
            host.loop.stop()

    try:
        host = EngineHost(database, clock=SystemClock(), report=report)
    except SupervisorUnavailable:
        return  # it was killed before it said hello
    scheduler = Scheduler(database)
    host.engine.step()
    if scheduler.active_counts():
        host.loop.run()
    host.close()
    scheduler.close()
