"""All schedules: when they run, what comes next, and how the last run ended.

edgecron list
edgecron list --json | jq -r '.[] | select(.last_status == "failed") | .name'
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.cli.session import Session

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.api import Scheduler
    from edgecron.model import Schedule

USAGE = "[--json]"
_EXAMPLE = 'add backup --cron "0 2 * * *" -- tar czf /backup/home.tgz /home/me'


def add_arguments(parser: ArgumentParser) -> None:
    """No options but the global ones."""


def run(cli: Session, args: Namespace) -> int:
    scheduler = cli.find_scheduler()
    schedules = [] if scheduler is None else scheduler.schedules()
    if cli.is_json:
        from edgecron.cli.objects import schedule_object

        cli.put_json(schedule_object(schedule) for schedule in schedules)
    elif scheduler is not None and schedules:
        _put_table(cli, scheduler, schedules)
        if any(schedule.trigger_error is not None for schedule in schedules):
            cli.say(f"what is broken, and how to mend it: {cli.command('doctor')}")
    else:
        say_empty(cli)
    return 0


def say_empty(cli: Session) -> None:
    """Tell somebody who has no schedule yet how to make one."""
    scheduler = cli.scheduler()
    cli.say(f"no schedules yet in {scheduler.path}")
    cli.say(f"make one: {cli.command(_EXAMPLE)}")


def _put_table(cli: Session, scheduler: Scheduler, schedules: list[Schedule]) -> None:
    from edgecron.cli.phrases import last_words, next_words, trigger_words
    from edgecron.cli.screen import STATUS_STYLES, table

    now, zone = scheduler.now(), cli.zone()
    rows, styles = [], []
    for schedule in schedules:
        state, style = _state(schedule, now)
        last = schedule.last_status
        rows.append(
            (
                state,
                schedule.name,
                trigger_words(schedule),
                next_words(schedule, zone=zone, now=now),
                last_words(schedule, now=now),
                str(schedule.run_count),
            )
        )
        next_style = style if style in ("yellow", "red", "dim") else None
        styles.append(
            (style, "bold", "dim", next_style, STATUS_STYLES[last.value] if last else "dim", None)
        )
    for line in table(
        ("", "NAME", "WHEN", "NEXT", "LAST", "RUNS"),
        rows,
        is_colored=cli.use_color(sys.stdout),
        styles=styles,
        flexible=(2, 1, 3),
    ):
        cli.put(line)


def _state(schedule: Schedule, now: datetime) -> tuple[str, str]:
    """One sign for how a schedule stands, and its style."""
    from edgecron.cli.screen import glyph
    from edgecron.outlook import Idle, find_idle

    if schedule.trigger_error is not None:
        return glyph("✗", "!"), "red"
    if not schedule.enabled or (schedule.paused_until is not None and schedule.paused_until > now):
        return glyph("‖", "="), "yellow"
    if find_idle(schedule, now=now) in (Idle.MAX_RUNS, Idle.ENDED, Idle.DONE):
        return glyph("·", "."), "dim"
    return glyph("●", "*"), "green"
