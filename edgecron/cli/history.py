"""What has run, and what did not and why, newest first.

edgecron history
edgecron history backup -n 50
edgecron history --status failed --status interrupted
edgecron history --before 1200        the next page, after run 1200
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.cli.session import Session

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.model import Execution, Status
    from edgecron.remote import Face

USAGE = "[NAME] [--status STATUS] [-n N] [--before RUN] [--json]"
_MOST = 10_000
_MOST_ID = 2**63 - 1


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME")
    from edgecron.model import Status

    parser.add_argument(
        "--status", action="append", metavar="STATUS", help=f"of these only: {', '.join(Status)}"
    )
    parser.add_argument("-n", dest="limit", default="20", metavar="N", help="how many (20)")
    parser.add_argument("--before", metavar="RUN", help="runs older than this one")


def run(cli: Session, args: Namespace) -> int:
    from edgecron.cli.options import read_count

    limit = read_count(args.limit, what="-n", most=_MOST)
    statuses = _read_statuses(args.status)
    before_id = (
        None if args.before is None else read_count(args.before, what="--before", most=_MOST_ID)
    )
    if args.name is not None:
        client: Face | None = cli.client(must_exist=True)
    else:
        client = cli.find_client()
    executions: list[Execution] = []
    if client is not None:
        executions = client.history(args.name, statuses=statuses, before_id=before_id, limit=limit)
        if args.name is not None:
            say_removed(cli, client, args.name)
    if cli.is_json:
        from edgecron.objects import execution_object

        cli.put_json(execution_object(execution) for execution in executions)
    elif client is not None and executions:
        put_executions(cli, client, executions)
        if len(executions) == limit:
            cli.say(f"older ones: --before {executions[-1].id}")
        elif args.name is not None and not statuses:
            _say_pruned(cli, client, args.name)
    elif client is not None and (args.name is not None or client.count_schedules()[0]):
        cli.say("no runs yet" if not statuses and before_id is None else "no such runs")
    else:
        from edgecron.cli.list_ import say_empty

        say_empty(cli)
    return 0


def say_removed(cli: Session, client: Face, name: str) -> None:
    """Say of a schedule that it was removed, where that is so."""
    from edgecron.words.times import near_time

    removed_at = client.removed_at(name)
    if removed_at is not None and not cli.is_json:
        when = near_time(removed_at, zone=cli.zone(), now=client.now())
        cli.say(f"schedule {name} was removed at {when}; this is what it left")


def _say_pruned(cli: Session, client: Face, name: str) -> None:
    """Say of a schedule that its older runs are not there any more, where that is so."""
    if client.removed_at(name) is not None:
        return
    pruned_until = client.schedule(name).pruned_until
    if pruned_until is not None:
        from edgecron.words.times import local_time

        until = local_time(pruned_until, zone=cli.zone())
        cli.say(f"retention has removed runs of times up to {until}")


def put_executions(cli: Session, client: Face, executions: list[Execution]) -> None:
    """Runs as a table on stdout."""
    from edgecron.cli.screen import STATUS_STYLES, table
    from edgecron.words.phrases import note_words, status_words
    from edgecron.words.times import near_time, short_duration

    now, zone = client.now(), cli.zone()
    rows, styles = [], []
    for execution in executions:
        rows.append(
            (
                str(execution.id),
                execution.schedule,
                status_words(execution),
                near_time(_shown_time(execution), zone=zone, now=now),
                short_duration(execution.duration_ms),
                note_words(execution, zone=zone, now=now),
            )
        )
        styles.append(
            ("dim", "bold", STATUS_STYLES[execution.status.value], None, None, "dim"),
        )
    for line in table(
        ("RUN", "SCHEDULE", "STATUS", "TIME", "TOOK", ""),
        rows,
        is_colored=cli.use_color(sys.stdout),
        styles=styles,
        flexible=((5, 30), (1, 24), (5, 20), (1, 10), (5, 12)),
        title=1,
    ):
        cli.put(line)


def _shown_time(execution: Execution) -> datetime:
    """When it started; else when it is due, or was to be."""
    from edgecron.model import Status

    is_queued = execution.status is Status.QUEUED
    return execution.started_at or (execution.due_at if is_queued else execution.plan_at)


def _read_statuses(given: list[str] | None) -> tuple[Status, ...]:
    from edgecron.cli.options import UsageError
    from edgecron.model import Status

    statuses = []
    for text in given or ():
        if text not in list(Status):
            raise UsageError(f"--status is {text!r}, expected one of {', '.join(Status)}")
        statuses.append(Status(text))
    return tuple(statuses)
