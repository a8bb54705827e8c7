"""List the next runs.

edgecron next
edgecron next nightly -n 3
edgecron next --filter due:03       runs between 3 and 4, within 7 days
"""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime, tzinfo
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


def run(cli: Session, args: Namespace) -> int:
    limit = read_count(args.limit, what="-n", most=_MOST)
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
    if cli.is_json:
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
