"""Cancel queued and running runs.

    edgecron cancel 41 42
    edgecron cancel nightly      every active run of this schedule

Queued runs do not start, and running ones end. A command gets TERM, and KILL after --kill-grace
(default: 10s), with all processes of its session. If no engine is running, the next one records the
end. If a run has ended already, cancel exits with 1; if a schedule has no active run, with 3.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from edgecron.base.errors import Conflict, EdgecronError, NotFound, SupervisorUnavailable
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.formats.value_texts import read_run_number
from edgecron.model.listing import ACTIVE_RUNS
from edgecron.views.acts import cancelled_words
from edgecron.views.json_objects import execution_object

if TYPE_CHECKING:
    from edgecron.model.run import Execution

_PAGE = 500


def add_arguments(parser: Parser) -> None:
    parser.add("RUN|NAME...", "a run's number (see history), or a schedule", dest="runs")


def run(cli: Session, args: Namespace) -> int:
    client = cli.client(must_exist=True)
    refused: list[EdgecronError] = []
    found = {word: _numbers(cli, word) for word in args.runs}
    for name, active in found.items():
        if not active:
            refused.append(
                NotFound(
                    f"schedule {name!r} has no active run",
                    hint=f"see its past runs: {cli.command(f'history {name}')}",
                )
            )
    numbers = list(dict.fromkeys(one for active in found.values() for one in active))
    for number in numbers:
        client.execution(number)
    cancelled: list[Execution] = []
    for number in numbers:
        try:
            cancelled.append(client.cancel(number))
        except (Conflict, SupervisorUnavailable) as error:
            refused.append(error)  # Cancel the others first.
    if cli.is_json and (cancelled or not refused):
        cli.put_json(execution_object(execution) for execution in cancelled)
    elif not cli.is_json:
        for execution in cancelled:
            cli.put(cancelled_words(execution))
    if not refused:
        return 0
    *before, last = refused
    for one in before:
        cli.report(f"error: {one.message}")
    raise last


def _numbers(cli: Session, word: str) -> list[int]:
    """Return one run by its number, or the active runs of a schedule. Raises NotFound."""
    if word.isascii() and word.isdigit():  # No name is digits alone.
        return [read_run_number(word)]
    client = cli.client()
    client.schedule(word)
    found: list[int] = []
    choice = ACTIVE_RUNS
    while page := client.history(word, choice=choice, limit=_PAGE):
        found += [run.id for run in page]
        choice = choice._replace(before_id=found[-1])
    return found
