"""Hold schedules: nothing of them starts until they are resumed, or until a time.

    edgecron pause backup
    edgecron pause backup report --until "tomorrow 09:00"

What runs already goes on, and `edgecron run` still works.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.cli.session import Session

if TYPE_CHECKING:
    from edgecron.model import Schedule

USAGE = "NAME... [--until TIME] [--json]"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--until", metavar="TIME", help="resume by itself then")


def run(cli: Session, args: Namespace) -> int:
    from edgecron.documents.values import read_time
    from edgecron.words.acts import paused_words

    client = cli.client(must_exist=True)
    need_all(cli, args.names)
    until = None
    if args.until is not None:
        until = read_time(args.until, what="--until", timezone="local", now=client.now())
    paused = [client.pause(name, until=until) for name in args.names]
    zone, now = cli.zone(), client.now()
    put_changed(
        cli,
        [(one, paused_words(one, until=until, zone=zone, now=now)) for one in paused],
    )
    return 0


def need_all(cli: Session, names: list[str]) -> None:
    """Raise NotFound for the first name that no schedule has, before any is changed."""
    for name in names:
        cli.client().schedule(name)


def put_changed(cli: Session, changed: list[tuple[Schedule, str]]) -> None:
    """What was done to schedules, each in words."""
    if cli.is_json:
        from edgecron.objects import schedule_object

        cli.put_json(schedule_object(schedule) for schedule, _ in changed)
        return
    for _, words in changed:
        cli.put(words)
