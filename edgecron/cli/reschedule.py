"""Move the next run of a schedule to another time, once.

    edgecron reschedule backup "in 20m"
    edgecron reschedule backup "tomorrow 09:00"
    edgecron reschedule backup 2026-12-24T18:00:00Z

Earlier or later: the run after it follows the schedule's trigger as ever. Times that pass before
a later one are not run as well: the latest of them runs then, the others are one skipped row. The
move is forgotten when the schedule's times are changed, and when it is paused. To take it back,
move it to the old time, which is in the answer, or pause and resume it.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from edgecron.cli.session import Session
from edgecron.formats.option_texts import read_time
from edgecron.views.acts import rescheduled_words
from edgecron.views.json_objects import schedule_object


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("time", metavar="TIME", help="RFC 3339, local, 'in 20m', 'tomorrow 09:00'")


def run(cli: Session, args: Namespace) -> int:
    client = cli.client(must_exist=True)
    before = client.schedule(args.name)
    instant = read_time(args.time, what="TIME", timezone="local", now=client.now())
    schedule = client.reschedule(args.name, instant)
    if cli.is_json:
        cli.put_json([schedule_object(schedule)])
    else:
        zone, now = cli.zone(), client.now()
        is_trusted = client.is_clock_trusted()
        cli.put(
            rescheduled_words(before, schedule, zone=zone, now=now, is_clock_trusted=is_trusted)
        )
    cli.warn_without_engine(client, schedule)
    return 0
