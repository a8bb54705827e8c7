"""Remove schedules.

    edgecron rm nightly
    edgecron rm nightly weekly
    edgecron undo nightly         restore it

edgecron cancels queued runs, lets running ones finish, and keeps the history.

On a terminal, edgecron asks first if other schedules follow or need a removed one.
"""

from __future__ import annotations

from argparse import Namespace

from edgecron.base.errors import Unreadable
from edgecron.base.paths import adoptions_path, is_there
from edgecron.cli.parser import Parser
from edgecron.cli.pause import need_all
from edgecron.cli.session import Session
from edgecron.views.json_objects import schedule_object
from edgecron.views.schedule_words import reverting_words


def add_arguments(parser: Parser) -> None:
    parser.add("NAME...", "the schedules to remove", dest="names")
    parser.add("-y --yes", "do not ask")


def run(cli: Session, args: Namespace) -> int:
    client = cli.client(must_exist=True)
    need_all(client, args.names)
    if not args.yes and not _agrees(cli, args.names):
        cli.say("nothing was removed")
        return 1
    removed = []
    for name in dict.fromkeys(args.names):
        try:
            removed.append(client.remove(name))
        except Unreadable as error:
            if not client.remove_unreadable(name):
                raise
            cli.warn(f"removed {name}, which was not readable: {error.message}")
    for schedule in removed:
        left = ", ".join(client.find_dependents(schedule.name))
        if left:
            cli.warn(f"these schedules follow or need {schedule.name}, and no longer run: {left}")
        warn_of_original(cli, schedule.name, schedule.id)
    if cli.is_json:
        cli.put_json(schedule_object(schedule) for schedule in removed)
        return 0

    for schedule in removed:
        undo = cli.command(f"undo {schedule.name}")
        cli.put(f"removed {schedule.name}; its history stays; restore it: {undo}")
        reverting = reverting_words(schedule)
        if reverting is not None:
            cli.say(f"note: {reverting}")
    return 0


def warn_of_original(cli: Session, name: str, schedule_id: int) -> None:
    """Warn that nothing runs a schedule that is off, if it was moved from another program."""
    if cli.remote_url() is not None or not is_there(adoptions_path(cli.local_client().path)):
        return
    from edgecron.client.adoption import Book, Phase  # Rarely needed, and slow to load.

    adoption = Book(cli.local_client().path).find_of(schedule_id)
    if adoption is not None and adoption.phase is Phase.ADOPTED:
        back = cli.command(f"adopt --undo {adoption.name}")
        cli.warn(
            f"nothing runs {name} now: its original in {adoption.place.words} stays off;"
            f" to give it back: {back}"
        )


def _agrees(cli: Session, names: list[str]) -> bool:
    """Ask a person at a terminal if other schedules name one of these."""
    if not cli.can_ask():
        return True
    client = cli.client()
    for name in dict.fromkeys(names):
        left = [one for one in client.find_dependents(name) if one not in names]
        if left:
            cli.say(
                f"these schedules follow or need {name}, and would no longer run: {', '.join(left)}"
            )
            if not cli.ask(f"remove {name}?"):
                return False
    return True
