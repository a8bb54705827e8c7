"""All schedules: when they run, what comes next, and how the last run ended.

edgecron list
edgecron list --json | jq -r '.[] | select(.last_status=="failed").name'
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.cli.session import Session

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.remote import Face
    from edgecron.standing import Standing

USAGE = "[--json]"
_EXAMPLE = 'add backup --cron "0 2 * * *" -- tar czf /backup/home.tgz /home/me'


def add_arguments(parser: ArgumentParser) -> None:
    """No options but the global ones."""


def run(cli: Session, args: Namespace) -> int:
    client = cli.find_client()
    if cli.is_json:
        from edgecron.objects import schedule_object

        schedules = [] if client is None else client.schedules()
        cli.put_json(schedule_object(schedule) for schedule in schedules)
        return 0
    standings = [] if client is None else client.standings()
    if client is not None and standings:
        _put_table(cli, client, standings)
        if any(standing.trigger_error is not None for standing in standings):
            cli.say(f"what is broken, and how to mend it: {cli.command('doctor')}")
        if any(standing.vanished_at is not None for standing in standings):
            cli.say(f"what nobody runs, and what to do: {cli.command('doctor')}")
    else:
        say_empty(cli)
    return 0


def say_empty(cli: Session) -> None:
    """Tell somebody who has no schedule yet how to make one."""
    client = cli.client()
    cli.say(f"no schedules yet in {client.place}")
    cli.say(f"make one: {cli.command(_EXAMPLE)}")


def _put_table(cli: Session, client: Face, standings: list[Standing]) -> None:
    from edgecron.cli.screen import STATUS_STYLES, table
    from edgecron.words.phrases import last_words, next_words, trigger_words

    now, zone = client.now(), cli.zone()
    rows, styles = [], []
    for standing in standings:
        state, style = _state(standing, now)
        last = standing.last_status
        rows.append(
            (
                state,
                standing.name,
                trigger_words(standing),
                next_words(standing, zone=zone, now=now),
                last_words(standing, now=now),
                str(standing.run_count),
            )
        )
        next_style = style if style in ("yellow", "red", "dim") else None
        styles.append(
            (style, "bold", "dim", next_style, STATUS_STYLES.get(last or "", "dim"), None)
        )
    for line in table(
        ("", "NAME", "WHEN", "NEXT", "LAST", "RUNS"),
        rows,
        is_colored=cli.use_color(sys.stdout),
        styles=styles,
        flexible=((1, 24), (2, 12), (1, 16), (4, 8), (3, 20), (1, 12), 2, (1, 10), (3, 13)),
        title=1,
    ):
        cli.put(line)


def _state(standing: Standing, now: datetime) -> tuple[str, str]:
    """One sign for how a schedule stands, and its style."""
    from edgecron.standing import Idle, find_idle
    from edgecron.words.letters import glyph

    idle = find_idle(standing, now=now)
    if idle is Idle.VANISHED:
        return "?", "yellow"
    if idle is Idle.BROKEN:
        return glyph("✗", "!"), "red"
    if not standing.enabled or (standing.paused_until is not None and standing.paused_until > now):
        return glyph("‖", "="), "yellow"
    if idle in (Idle.MAX_RUNS, Idle.ENDED, Idle.DONE):
        return glyph("·", "."), "dim"
    return glyph("●", "*"), "green"
