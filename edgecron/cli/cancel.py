"""End runs, or withdraw those that wait for a place.

    edgecron cancel 41
    edgecron cancel 41 42

A command gets TERM, and KILL after its grace (10 s, or --kill-grace), with all of its session, and
all that it has started where edgecron has a cgroup. It works with no engine alive, too: the end is
on record as soon as one is.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.cli.session import Session

if TYPE_CHECKING:
    from edgecron.errors import EdgecronError
    from edgecron.model import Execution

USAGE = "RUN... [--json]"
_MOST_ID = 2**63 - 1


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run's number: see history")


def run(cli: Session, args: Namespace) -> int:
    from edgecron.errors import Conflict, SupervisorUnavailable
    from edgecron.words.acts import cancelled_words

    client = cli.client(must_exist=True)
    numbers = [_number(cli, word) for word in args.runs]
    for number in numbers:
        client.execution(number)
    cancelled: list[Execution] = []
    refused: list[EdgecronError] = []
    for number in numbers:
        try:
            cancelled.append(client.cancel(number))
        except (Conflict, SupervisorUnavailable) as error:
            refused.append(error)  # The others are still to be ended.
    if cli.is_json and cancelled:
        from edgecron.objects import execution_object

        cli.put_json(execution_object(execution) for execution in cancelled)
    elif not cli.is_json:
        for execution in cancelled:
            cli.put(cancelled_words(execution))
    if not refused:
        return 0
    *before, last = refused
    for one in before:
        cli.say(f"edgecron: {one.message}")
    raise last


def _number(cli: Session, word: str) -> int:
    """The number of a run. Raises UsageError, which names the runs of a schedule given instead."""
    from edgecron.cli.options import read_count
    from edgecron.errors import NotFound, UsageError
    from edgecron.model import Status

    try:
        return read_count(word, what="RUN", most=_MOST_ID)
    except UsageError as error:
        try:
            active = cli.client().history(word, statuses=(Status.RUNNING, Status.QUEUED))
        except NotFound:
            raise error from None
    ids = " ".join(str(run.id) for run in active)
    raise UsageError(
        f"RUN is {word!r}, a schedule, expected the number of a run",
        hint=cli.command(f"cancel {ids}") if active else "nothing of it runs or waits",
    )
