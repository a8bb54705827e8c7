"""Restore removed schedules.

    edgecron undo                 undo the last removal
    edgecron undo nightly weekly

Without NAME, edgecron undoes the last removal: all of its schedules if one change removed several,
such as `apply --prune`. Restored schedules run from now on; paused ones stay paused. The history
shows the times that passed meanwhile as one skipped row. Runs that were queued at the removal stay
cancelled.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from edgecron.cli.session import Session
from edgecron.views.json_objects import schedule_object


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="schedules to restore (default: the last removal)"
    )


def run(cli: Session, args: Namespace) -> int:
    client = cli.client(must_exist=True)
    restored = [
        schedule
        for name in dict.fromkeys(args.names) or [None]
        for schedule in client.undo_removal(name)
    ]
    if cli.is_json:
        cli.put_json(schedule_object(schedule) for schedule in restored)
    else:
        for schedule in restored:
            cli.put(f"restored {schedule.name}; {cli.next_sentence(schedule)}")
    cli.warn_without_engine(client)
    return 0
