"""Let paused schedules fire again, from now on.

    edgecron resume backup

The times that passed meanwhile are not caught up: they become one skipped row of the history.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from edgecron.cli.pause import need_all, put_changed
from edgecron.cli.session import Session

USAGE = "NAME... [--json]"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME")


def run(cli: Session, args: Namespace) -> int:
    scheduler = cli.scheduler(must_exist=True)
    need_all(cli, args.names)
    put_changed(cli, [scheduler.resume(name) for name in args.names], "resumed")
    return 0
