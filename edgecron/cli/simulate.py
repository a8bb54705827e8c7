"""Show what schedules would do.

    edgecron simulate
    edgecron simulate --to "in 30d"
    edgecron simulate --from 2027-01-01 --to 2028-01-01
    edgecron simulate --file schedules.toml

This command simulates the next seven days, or a span of up to ten years, and changes nothing. It
shows the runs of each schedule, overlaps, fires that windows exclude, how many runs are active
together, minutes in which many schedules start, and the effect of clock changes.

A run takes as long as the median of the schedule's last 50 successful runs. If there are none, its
duration is unknown and counts as less than a minute. The simulation assumes that an engine is
always running, that each run succeeds, and that conditions (--needs) are met. Limits of groups and
of the engine delay no run here; the output says if there would be more runs than places.

With --file, edgecron simulates the schedules of a TOML file before you apply it, with the durations
of schedules of the same name.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from edgecron.base.clock import SystemClock, now
from edgecron.base.errors import InvalidDocument
from edgecron.base.files import read_file
from edgecron.base.units import format_instant
from edgecron.base.value_texts import read_time
from edgecron.cli.apply import planner
from edgecron.cli.parser import Parser
from edgecron.cli.plans import say_problems
from edgecron.cli.session import Session
from edgecron.client.engine_health import count_places
from edgecron.client.json_forms import form_of
from edgecron.formats.document import MOST_BYTES, read_document
from edgecron.planning.simulation import SimulatedDay, Simulation
from edgecron.views.busy import busiest_words, sections
from edgecron.views.phrases import count_words
from edgecron.views.statistics import plot
from edgecron.views.times import local_time, short_duration

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.formats.document_tables import Document

_USUAL_SPAN = timedelta(days=7)
_MOST_LINES = 5  # of each section
_MOST_BARS = 60


def add_arguments(parser: Parser) -> None:
    parser.add("--from TIME", "begin (default: now)", dest="from_at")
    parser.add("--to TIME", "end (default: 7 days later)")
    parser.add("--file FILE|-", "simulate the schedules of a TOML file; - is stdin")


def run(cli: Session, args: Namespace) -> int:
    document = None if args.file is None else _read(cli, args.file)
    at = now(SystemClock())
    from_at = at
    if args.from_at is not None:
        from_at = read_time(args.from_at, what="--from", timezone="local", now=at, is_past_ok=True)
    until_at = from_at + _USUAL_SPAN
    if args.to is not None:
        until_at = read_time(args.to, what="--to", timezone="local", now=at, is_past_ok=True)
    if document is None:
        found, places = _simulate(cli, cli.reading_client(), from_at, until_at, None)
    else:
        with planner(cli, is_dry=True) as client:
            found, places = _simulate(cli, client, from_at, until_at, document)
    if until_at <= at:
        see = cli.command(f"history --since {format_instant(from_at)}")
        cli.warn(f"the span is over, and runs are simulated from now on; to see past runs: {see}")
    if cli.is_json:
        cli.put_json([form_of(Simulation).encode(found)])
    else:
        _put(cli, found, places)
    return 0


def _read(cli: Session, file: str) -> Document:
    content = read_file(file, most_bytes=MOST_BYTES)
    try:
        return read_document(content, now=now(SystemClock()), is_portable=True)
    except InvalidDocument as error:
        say_problems(cli, error)
        raise


def _simulate(
    cli: Session,
    client: Client,
    from_at: datetime,
    until_at: datetime,
    document: Document | None,
) -> tuple[Simulation, int | None]:
    """Return the simulation, and the places of the working engines, if they are known."""
    progress = cli.progress("simulated")
    days = max(1, (until_at - from_at).days)
    slices = client.simulate(from_at=from_at, until_at=until_at, document=document)
    for number, found in enumerate(slices):
        if found is not None:
            progress(days, days)
            return found, count_places(client.engines())
        progress(min(number, days - 1), days)
    raise AssertionError("the simulation has no end")


def _put(cli: Session, found: Simulation, places: int | None) -> None:
    zone = cli.zone()
    span = f"{local_time(found.from_at, zone=zone)} to {local_time(found.until_at, zone=zone)}"
    schedules = count_words(len(found.schedules), "schedule")
    cli.put(f"{span}: {count_words(found.runs, 'run')} of {schedules}")
    if found.runs:
        cli.put(f"busiest minute: {busiest_words(found, places, zone=zone)}")
        if len(found.days) > 1:
            bars = [float(sum(day.runs for day in days)) for days in _parts(found)]
            cli.put(f"runs over time: {plot(bars)}")
        cli.put()
        _put_schedules(cli, found)
    for heading, lines in sections(found, zone=zone):
        if lines:
            cli.put()
            cli.put(heading)
            for line in lines[:_MOST_LINES]:
                cli.put(f"  {line}")
            if len(lines) > _MOST_LINES:
                cli.put(f"  and {len(lines) - _MOST_LINES} more, see --json")


def _parts(found: Simulation) -> Iterable[Sequence[SimulatedDay]]:
    """Cut the days into as many equal parts as there are bars."""
    days = found.days
    size = -(-len(days) // _MOST_BARS)
    return (days[start : start + size] for start in range(0, len(days), size))


def _put_schedules(cli: Session, found: Simulation) -> None:
    rows = [
        (
            one.name,
            f"{one.runs:,}",
            short_duration(one.duration_ms),
            short_duration(one.busy_ms),
            f"{one.skipped + one.replaced:,}",
            f"{one.delayed:,}",
            f"{one.excluded:,}",
            local_time(one.first_at, zone=cli.zone()),
            local_time(one.last_at, zone=cli.zone()),
        )
        for one in found.schedules
    ]
    cli.put_table(
        (
            "name",
            "runs",
            "duration",
            "busy",
            "overlapped",
            "delayed",
            "excluded",
            "first_at",
            "last_at",
        ),
        rows,
        styles=[
            ("bold", *(None,) * 3, "yellow" if row[4] != "0" else None, None, None, "dim", "dim")
            for row in rows
        ],
        flexible=((0, 12), 8, 7),
    )
