"""List the next runs.

edgecron next
edgecron next nightly -n 3
edgecron next -n 100 --ics > runs.ics
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from itertools import islice
from typing import TYPE_CHECKING

from edgecron.base.errors import UsageError
from edgecron.cli.list_ import say_empty
from edgecron.cli.session import Session
from edgecron.formats.option_texts import read_count
from edgecron.views.icalendar import write_calendar
from edgecron.views.json_objects import fire_object
from edgecron.views.phrases import moved_words
from edgecron.views.times import distance, local_time, short_duration

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from edgecron.client.questions import Reader
    from edgecron.planning.forecast import UpcomingFire

_MOST = 10_000


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="show runs of this schedule (default: all)"
    )
    parser.add_argument(
        "-n", dest="limit", default="10", metavar="N", help="show N runs (default: 10)"
    )
    parser.add_argument("--ics", action="store_true", help="write an iCalendar file for a calendar")


def run(cli: Session, args: Namespace) -> int:
    limit = read_count(args.limit, what="-n", most=_MOST)
    if args.ics and cli.is_json:
        raise UsageError("--ics and --json exclude each other", hint="use one of them")
    client = cli.reader()
    fires = list(islice(client.next_fires(args.name), limit))
    if args.ics:
        # Not `print`: a calendar has CRLF at the end of its lines.
        sys.stdout.buffer.write(write_calendar(fires, now=client.now()).encode())
        sys.stdout.buffer.flush()
    elif cli.is_json:
        cli.put_json(fire_object(fire) for fire in fires)
    elif fires:
        _put_table(cli, client, fires)
    elif client.count_schedules()[0]:
        _say_nothing_to_come(cli, client, args.name)
    else:
        say_empty(cli)
    return 0


def _put_table(cli: Session, client: Reader, fires: list[UpcomingFire]) -> None:
    now, zone = client.now(), cli.zone()
    is_trusted = client.is_clock_trusted()
    rows = [
        (
            local_time(fire.due_at, zone=zone),
            distance(fire.due_at, now, is_clock_trusted=is_trusted),
            fire.schedule,
            fire.source or "",
            _note(fire, zone=zone, now=now),
        )
        for fire in fires
    ]
    cli.put_table(
        ("due_at", "from_now", "schedule", "source", "note"),
        rows,
        styles=[(None, "cyan", "bold", "dim", "dim")] * len(rows),
        flexible=((2, 24), (3, 12), (4, 12), (2, 12), 3, 4),
        title=1,
    )


def _note(fire: UpcomingFire, *, zone: tzinfo, now: datetime) -> str:
    if fire.is_moved:
        return moved_words(fire, zone=zone, now=now)
    moved = fire.due_at - fire.plan_at
    if not moved:
        return ""
    return f"{short_duration(round(moved.total_seconds() * 1000))} of jitter"


def _say_nothing_to_come(cli: Session, client: Reader, name: str | None) -> None:
    if name is None:
        cli.say(
            "no upcoming run has a known time; to see what each schedule waits for:"
            f" {cli.command('list')}"
        )
        return
    cli.say(f"{name}: {cli.next_sentence(client.schedule(name))}")
