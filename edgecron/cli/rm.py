"""Remove schedules. What is queued is cancelled, what runs finishes, the history stays.

edgecron rm backup
edgecron rm backup report
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.cli.session import Session
from edgecron.errors import Unreadable

if TYPE_CHECKING:
    from edgecron.model import Schedule

USAGE = "NAME... [--json]"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME")


def run(cli: Session, args: Namespace) -> int:
    client = cli.client(must_exist=True)
    _need_all(cli, args.names)
    removed = []
    for name in dict.fromkeys(args.names):
        try:
            removed.append(client.remove(name))
        except Unreadable as error:
            if not client.remove_unreadable(name):
                raise
            cli.warn(f"removed {name} unread: {error.message}")
    for schedule in removed:
        left = ", ".join(client.find_dependents(schedule.name))
        if left:
            cli.warn(f"what comes after {schedule.name} or needs it waits in vain now: {left}")
    if cli.is_json:
        from edgecron.objects import schedule_object

        cli.put_json(schedule_object(schedule) for schedule in removed)
        return 0

    from edgecron.words.engines import reverting_words

    for schedule in removed:
        history = cli.command(f"history {schedule.name}")
        cli.put(f"removed {schedule.name}; its history stays: {history}")
        reverting = reverting_words(schedule)
        if reverting is not None:
            cli.say(f"edgecron: {reverting}")
    _advise_of_return(cli, removed)
    return 0


def _need_all(cli: Session, names: list[str]) -> None:
    """Raise NotFound for the first name that no schedule has, before any is removed."""
    for name in names:
        try:
            cli.client().schedule(name)
        except Unreadable:
            continue  # It is there.


def _advise_of_return(cli: Session, removed: list[Schedule]) -> None:
    """Say how to have it again, in words that a shell takes as they are."""
    if not cli.is_advised():
        return
    from edgecron.documents.writing import write_document

    it = "it" if len(removed) == 1 else "them"
    cli.flush()  # That it was removed comes first.
    cli.say(f"to have {it} again:\n{cli.command('apply -')} <<'END'\n{write_document(removed)}END")
