"""An engine, or the supervisor below it, that ends by SIGKILL at its n-th statement or file
operation."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any

from edgecron.base.clock import SystemClock
from edgecron.base.errors import SupervisorUnavailable
from edgecron.client import Client
from edgecron.engine.events import Event, EventKind
from edgecron.engine.host import EngineHost

# C functions that leave something outside of the process: locks, names, messages, starts, ...
STEPS = frozenset(
    (
        *("_fork_exec", "pidfd_open", "killpg", "send", "sendmsg", "write", "flock", "link"),
        *("unlink", "rename", "ftruncate", "mkfifo"),
    )
)
# ... and with these SQL, and what is in files: too many for every day.
OPERATIONS = STEPS | {"execute", "wal_checkpoint", "open", "pwrite"}
# Whose files these operations are in change nothing: they look at /proc, or read a time zone.
LOOKING = frozenset(("run_session.py", "zones.py"))


class Victim(StrEnum):
    ENGINE = "engine"
    SUPERVISOR = "supervisor"  # from the moment on that it takes its lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The end of a victim just before its n-th of these operations; `told` then names that."""

    victim: Victim
    number: int
    operations: frozenset[str]
    told: Path


def _watch_for(kill: Kill) -> Callable[[FrameType, str, Any], None]:
    """For `sys.setprofile`, in the engine's process before its supervisor is forked."""
    engine_pid = os.getpid()
    victim_pid = engine_pid if kill.victim is Victim.ENGINE else 0
    count = 0

    def watch(frame: FrameType, event: str, function: Any) -> None:
        nonlocal count, victim_pid
        if event != "c_call" or function.__name__ not in kill.operations:
            return
        place = Path(frame.f_code.co_filename).name
        pid = os.getpid()
        if not victim_pid and pid != engine_pid and function.__name__ == "flock":
            victim_pid = pid  # of all that an engine forks, it alone takes a lock
        if pid != victim_pid or place in LOOKING:
            return
        count += 1
        if count == kill.number and not kill.told.exists():  # its successor lives on
            sys.setprofile(None)
            where = f"{function.__name__} of {place}:{frame.f_lineno}"
            kill.told.write_text(f"{kill.victim} at {where}", "utf-8")
            os.kill(pid, signal.SIGKILL)

    return watch


def run_until_quiet(database: Path, kill: Kill | None = None) -> None:
    """Run an engine until no run is queued or running, or until it is killed."""
    if kill is not None:
        sys.setprofile(_watch_for(kill))

    def report(event: Event) -> None:
        if event.kind is EventKind.ENDED and not client.active_counts():
            host.loop.stop()

    try:
        host = EngineHost(database, clock=SystemClock(), report=report)
    except SupervisorUnavailable:
        return  # it was killed before it said hello
    client = Client(database)
    host.engine.step()
    if client.active_counts():
        host.loop.run()
    host.close()
    client.close()
