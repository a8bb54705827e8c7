"""Pause schedules.

    edgecron pause nightly
    edgecron pause nightly weekly --until "tomorrow 09:00"
    edgecron pause --group night
    edgecron pause --all

Scheduled runs stop until `resume`, or until the time of --until. Running jobs continue, and
`edgecron run` still works.
"""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.errors import NotFound, Unreadable, UsageError
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.formats.value_texts import read_time
from edgecron.model.listing import Choice
from edgecron.views.acts import paused_words
from edgecron.views.json_objects import schedule_object

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.schedule import Schedule

USAGE = "NAME...|--group G|--all [--until TIME]"


def add_arguments(parser: Parser) -> None:
    add_choice_arguments(parser)
    parser.add("--until TIME", "resume at this time")


def run(cli: Session, args: Namespace) -> int:
    client = cli.client(must_exist=True)
    names = chosen_names(cli, args)
    until = None
    if args.until is not None:
        until = read_time(args.until, what="--until", timezone="local", now=client.now())
    zone, now, is_trusted = cli.zone(), client.now(), client.is_clock_trusted()

    def pause(name: str) -> tuple[Schedule, str]:
        before = client.schedule(name)
        after = client.pause(name, until=until)
        words = paused_words(
            after,
            is_changed=_pause_of(after) != _pause_of(before),
            until=until,
            zone=zone,
            now=now,
            is_clock_trusted=is_trusted,
        )
        return after, words

    put_changed(cli, [pause(name) for name in names])
    return 0


def _pause_of(schedule: Schedule) -> tuple[bool, datetime | None]:
    return schedule.enabled, schedule.paused_until


def add_choice_arguments(parser: Parser) -> None:
    """Add the arguments that choose schedules: names, a group or all."""
    parser.add("[NAME...]", "the schedules", dest="names")
    parser.add("--group G", "every schedule of this group")
    parser.add("--all", "every schedule")


def chosen_names(cli: Session, args: Namespace) -> list[str]:
    """Return the names of the chosen schedules, each once.

    Raises UsageError unless exactly one of names, group and all is given, and NotFound for an
    unknown name or group.
    """
    client = cli.client()
    if (bool(args.names), args.group is not None, args.all).count(True) != 1:
        raise UsageError(
            "expected one of NAME, --group and --all",
            hint=f"such as: {cli.command(f'{cli.command_name} nightly')}",
        )
    if args.names:
        names = list(dict.fromkeys(args.names))
        need_all(client, names)
        return names
    found = client.standings(choice=Choice(group=args.group))
    if args.group is not None and not found:
        raise NotFound(
            f"no schedule is in group {args.group!r}", hint=f"see: {cli.command('list --groups')}"
        )
    if not found:
        cli.say("there is no schedule")
    return [standing.name for standing in found]


def need_all(client: Client, names: list[str]) -> None:
    """Raise NotFound for the first name that no schedule has, before any is changed."""
    for name in names:
        try:
            client.schedule(name)
        except Unreadable:
            continue  # It is there; changing it reports what is wrong.
        except NotFound as error:
            if len(names) == 1:
                raise
            message = f"{error.message}; nothing was changed"
            raise NotFound(message, hint=error.hint) from None


def put_changed(cli: Session, changed: list[tuple[Schedule, str]]) -> None:
    """Print what was done to each schedule."""
    if cli.is_json:
        cli.put_json(schedule_object(schedule) for schedule, _ in changed)
        return
    for _, words in changed:
        cli.put(words)
