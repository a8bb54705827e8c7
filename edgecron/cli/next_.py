"""List the next runs.

edgecron next
edgecron next nightly -n 3
edgecron next --filter due:03       runs between 3 and 4, within 7 days
edgecron next -n 100 --ics > runs.ics
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from typing import TYPE_CHECKING

from edgecron.base.errors import UsageError
from edgecron.base.window_texts import split_once_in
from edgecron.cli.list_ import say_empty
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.formats.value_texts import read_count
from edgecron.model.filters import parse_filter
from edgecron.planning.forecast import UpcomingFire
from edgecron.views.json_objects import fire_object
from edgecron.views.phrases import moved_words
from edgecron.views.times import distance, local_time, short_duration

if TYPE_CHECKING:
    from edgecron.client.questions import Reader


_MOST = 10_000


def add_arguments(parser: Parser) -> None:
    parser.add("[NAME]", "show runs of this schedule (default: all)")
    parser.add(
        "--filter TEXT", "show runs that match, such as due:03 or command:restic", dest="wanted"
    )
    parser.add("-n N", "show N runs (default: 10)", dest="limit", default="10")
    parser.add("--ics", "write an iCalendar file for a calendar")


def run(cli: Session, args: Namespace) -> int:
    limit = read_count(args.limit, what="-n", most=_MOST)
    if args.ics and cli.is_json:
        raise UsageError("--ics and --json exclude each other", hint="use one of them")
    wanted = None if args.wanted is None else parse_filter(args.wanted)
    if wanted is not None and wanted.unused_on_fires:
        raise UsageError(
            f"--filter has {wanted.unused_on_fires[0]}:, which does not apply to upcoming runs",
            hint="use job:, command: and due:",
        )
    if wanted is not None and args.name is not None:
        raise UsageError(
            "--filter and NAME exclude each other", hint=f"write: --filter 'job:{args.name} ...'"
        )
    client = cli.reader()
    fires = list(islice(client.next_fires(args.name, matches=wanted), limit))
    if args.ics:
        # Not `print`: a calendar has CRLF at the end of its lines.
        text = write_calendar(fires, origin=_origin_of(cli, client), now=client.now())
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    elif cli.is_json:
        cli.put_json(fire_object(fire) for fire in fires)
    elif fires:
        _put_table(cli, client, fires)
    elif wanted is not None:
        cli.say("no upcoming run matches")
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
    parts = None if fire.source is None else split_once_in(fire.source)
    if fire.source is None:
        return "started manually"
    if not moved:
        return "at the earliest" if parts is not None and parts.conditions else ""
    words = short_duration(round(moved.total_seconds() * 1000))
    return f"{words} of jitter" if parts is None else f"{words} into its window"


def _say_nothing_to_come(cli: Session, client: Reader, name: str | None) -> None:
    if name is None:
        cli.say(
            "no upcoming run has a known time; to see what each schedule waits for:"
            f" {cli.command('list')}"
        )
        return
    cli.say(f"{name}: {cli.next_sentence(client.schedule(name))}")


# A calendar (RFC 5545).

_MOST_OCTETS = 75  # of a line, without its end (RFC 5545, 3.1)
_LASTS = timedelta(minutes=1)  # calendars hide an event that takes no time


def _origin_of(cli: Session, client: Reader) -> str:
    """Return a name of the database that no other database has, or of the server that has it."""
    from urllib.parse import urlsplit  # Rarely needed: only a calendar has identities.

    from edgecron.client.schedules import Schedules

    if isinstance(client, Schedules):
        return client.store.uuid
    return urlsplit(cli.remote_url() or "").netloc


def write_calendar(fires: Iterable[UpcomingFire], *, origin: str, now: datetime) -> str:
    """Return the text of a calendar with one event per fire, at the time when it can start.

    An event keeps its identity (`origin`, schedule and plan time), so that a later import replaces
    it, and that of another machine does not. It does not mark a person as busy.
    """
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//edgecron//next//EN"]
    for fire in fires:
        lines += [
            "BEGIN:VEVENT",
            f"UID:{_stamp(fire.plan_at)}-{fire.schedule}@{origin}",
            f"DTSTAMP:{_stamp(now)}",
            f"DTSTART:{_stamp(fire.due_at)}",
            f"DTEND:{_stamp(fire.due_at + _LASTS)}",
            f"SUMMARY:{_text(fire.schedule)}",
            *([f"DESCRIPTION:{_text(fire.source)}"] if fire.source else []),
            "TRANSP:TRANSPARENT",
            "END:VEVENT",
        ]
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _folded(line))


def _stamp(at: datetime) -> str:
    """An aware UTC instant in whole seconds."""
    return f"{at:%Y%m%dT%H%M%SZ}"


def _text(text: str) -> str:
    """Escape what has a meaning in a text (RFC 5545, 3.3.11)."""
    for special in ("\\", ";", ","):
        text = text.replace(special, f"\\{special}")
    return text.replace("\r\n", "\\n").replace("\n", "\\n").replace("\r", "\\n")


def _folded(line: str) -> Iterator[str]:
    """Cut a line into parts of at most 75 octets; each further part begins with a space."""
    part = ""
    for letter in line:
        if len((part + letter).encode()) > _MOST_OCTETS:
            yield part
            part = " "
        part += letter
    yield part
