"""Move the next run to another time.

    edgecron reschedule nightly "in 20m"
    edgecron reschedule nightly "tomorrow 09:00"
    edgecron reschedule nightly 2026-12-24T18:00:00Z

Later runs follow the trigger as before. If you move a run past other planned times, only the latest
of them runs; the others become one skipped row. A run that you move out of its windows waits for
the next window. A run of `--once` can move only within its window. A change of times or a pause
cancels the move. To take a move back, move the run to its old time, which the answer shows.
"""

from __future__ import annotations

from argparse import Namespace

from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.formats.value_texts import read_time
from edgecron.views.acts import closed_words, rescheduled_words
from edgecron.views.json_objects import schedule_object


def add_arguments(parser: Parser) -> None:
    parser.add("NAME", "the schedule")
    parser.add("TIME", "the new time: 'in 20m', 'tomorrow 09:00', RFC 3339")


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
    closed = closed_words(schedule, zone=cli.zone())
    if closed is not None:
        cli.warn(closed)
    cli.warn_without_engine(client, schedule)
    return 0
