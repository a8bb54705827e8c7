"""Let paused schedules fire again, from now on.

    edgecron resume backup

The times that passed meanwhile are not caught up: they become one skipped row of the history.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.cli.pause import need_all, put_changed
from edgecron.cli.session import Session

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.model import Schedule

USAGE = "NAME... [--json]"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME")


def run(cli: Session, args: Namespace) -> int:
    scheduler = cli.scheduler(must_exist=True)
    need_all(cli, args.names)
    changed = []
    for name in dict.fromkeys(args.names):
        was_held = _is_held(scheduler.schedule(name), scheduler.now())
        words = f"resumed {name}" if was_held else f"{name} was not paused"
        changed.append((scheduler.resume(name), words))
    put_changed(cli, changed)
    return 0


def _is_held(schedule: Schedule, now: datetime) -> bool:
    """Whether there is something to resume: a pause, or a trigger that could not be read."""
    until = schedule.paused_until
    is_paused = not schedule.enabled or (until is not None and until > now)
    return is_paused or schedule.trigger_error is not None
