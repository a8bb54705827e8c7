"""What a run printed: of a run by its number, or of the newest run of a schedule.

    edgecron logs backup
    edgecron logs backup -n 20              the last 20 lines
    edgecron logs 41 --stream stderr
    edgecron logs 41 --times                when each line came, and where
    edgecron logs -f 41                     as it comes, until the run has ended
    edgecron logs -f backup                 run after run, until Ctrl-C
    edgecron logs backup > backup.log       the very bytes
    edgecron logs backup --result           the JSON that it left

On a terminal, what it would obey is shown and not sent. Both streams go to stdout; which run it
is, how it ended and what was not kept is said on stderr.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.base.errors import NotFound
from edgecron.cli.session import Session

if TYPE_CHECKING:
    from edgecron.cli.printing import Piece
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution

LIVES_LONG = True
USAGE = "RUN|NAME [-f] [-n LINES] [--stream stdout|stderr] [--times] [--result] [--json]"
_MOST_ID = 2**63 - 1
_STREAMS = ("stdout", "stderr")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN|NAME", help="a run's number, or a schedule")
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="until the run has ended; of a schedule, run after run",
    )
    parser.add_argument("-n", dest="lines", metavar="LINES", help="the last lines only")
    parser.add_argument("--stream", metavar="stdout|stderr", help="one of them only")
    parser.add_argument(
        "-t", "--times", action="store_true", help="time and stream before each line"
    )
    parser.add_argument("--result", action="store_true", help="the JSON result that it left")


def run(cli: Session, args: Namespace) -> int:
    from edgecron.base.errors import UsageError
    from edgecron.formats.option_texts import read_count

    if args.stream is not None and args.stream not in _STREAMS:
        raise UsageError(f"--stream is {args.stream!r}, expected stdout or stderr")
    if args.result:
        _refuse_beside_result(args)
    if args.follow and cli.is_json:
        raise UsageError("logs -f gives no JSON", hint="leave out -f or --json")
    lines = None if args.lines is None else read_count(args.lines, what="-n", least=0)
    cli.is_patient = args.follow
    client = cli.client(must_exist=True)
    if args.follow:
        from edgecron.cli.followlogs import LogFollower

        follower = LogFollower(
            cli, stream=args.stream, lines=lines, zone=cli.zone() if args.times else None
        )
        if not _is_number(args.run):
            return follower.follow_schedule(args.run)
        follower.follow_run(_refreshed(client, _find_run(cli, client, args.run)))
        return 0
    execution = find_shown(cli, args.run)
    if args.result:
        put_result(cli, execution)
    else:
        _show(cli, execution, args, lines=lines)
    return 0


def find_shown(cli: Session, word: str) -> Execution:
    """The run of a number, or the newest of the schedule of a name, as it is now.

    Raises NotFound.
    """
    client = cli.client(must_exist=True)
    return _refreshed(client, _find_run(cli, client, word))


def _show(cli: Session, execution: Execution, args: Namespace, *, lines: int | None) -> None:
    """What a run has printed up to now, and on stderr what else is to be known of it."""
    from edgecron.cli.printing import OF_BOTH, Printer, chunk_objects, last_lines, put_pieces
    from edgecron.client.run_words import PRINTS_ELSEWHERE, prints_elsewhere, state_words
    from edgecron.model.choices import ACTIVE, Status

    pieces = _pieces_of_run(cli.client(), execution, args.stream)
    shown = last_lines(pieces or (), lines)
    if cli.is_json:
        cli.put_json(chunk_objects(execution.id, shown))
    else:
        printer = Printer(zone=cli.zone() if args.times else None)
        is_live = args.stream is not None and execution.status is Status.RUNNING
        put_pieces(cli, shown, printer, of=OF_BOTH if is_live else "")
        printer.end()
    if execution.status in ACTIVE or (pieces is None and not cli.is_json):
        words = state_words(cli, execution, zone=cli.zone())
        more = ": -f goes on until it has ended" if execution.status is Status.RUNNING else ""
        if more and prints_elsewhere(execution):
            more += f"; {PRINTS_ELSEWHERE}"
        cli.say(f"run {execution.id} of {execution.schedule} {words}{more}")
    elif prints_elsewhere(execution) and not cli.is_json:
        cli.say(f"this is where it ended; {PRINTS_ELSEWHERE}")
    if not _is_number(args.run) and not cli.is_json:
        _say_queued(cli, execution)


def _pieces_of_run(client: Client, execution: Execution, stream: str | None) -> list[Piece] | None:
    """What a run has printed on a stream, or on both; None where nothing of it is there."""
    from edgecron.cli.printing import only, pieces_of
    from edgecron.model.choices import Status

    output = client.output(execution.id)
    if output is not None and output.removed_at is None:
        return pieces_of(output, stream)
    if execution.status is not Status.RUNNING:
        return None
    with client.follower(execution.id) as follower:
        return only(follower.read_kept(execution), stream)


def _say_queued(cli: Session, execution: Execution) -> None:
    """Say which newer run of the schedule is still to start."""
    from edgecron.client.run_words import queued_words
    from edgecron.model.choices import Status
    from edgecron.views.phrases import count_words

    found = cli.client().history(execution.schedule, statuses=(Status.QUEUED,), limit=1000)
    newer = [one for one in found[::-1] if one.id > execution.id]
    if newer and cli.client().removed_at(execution.schedule) is None:
        more = f"; {count_words(len(newer) - 1, 'more run')} after it" if len(newer) > 1 else ""
        words = queued_words(cli, newer[0], zone=cli.zone())
        cli.say(f"run {newer[0].id}, which is newer, {words}{more}")


def put_result(cli: Session, execution: Execution) -> None:
    """The JSON that a run left, on a line. Raises NotFound where it left none."""
    import json

    if execution.result is None:
        raise NotFound(
            f"run {execution.id} of {execution.schedule} {_no_result_words(execution)}",
            hint="a job may write up to 64 KiB of JSON into the file that EDGECRON_RESULT names",
        )
    result = json.loads(execution.result)
    if cli.is_json:
        cli.put_json([{"run": execution.id, "result": result}])
    else:
        # As edgecron writes all JSON: no letter of it can reach for the terminal.
        cli.put(json.dumps(result))


def _no_result_words(execution: Execution) -> str:
    from edgecron.model.choices import ACTIVE

    if execution.status in ACTIVE:
        return "has not ended yet, and its result comes with its end"
    if "result_too_big" in execution.flags:
        return "left a result that was too big to keep"
    if "result_invalid" in execution.flags:
        return "left a result that is no JSON"
    return "left no result"


def _refuse_beside_result(args: Namespace) -> None:
    from edgecron.base.errors import UsageError

    if args.follow or args.times or args.stream is not None or args.lines is not None:
        raise UsageError(
            "--result is the result alone", hint="leave out -f, -n, --times and --stream"
        )


def _refreshed(client: Client, execution: Execution) -> Execution:
    """A run as it is now: it may have ended with no engine there to write it down."""
    from edgecron.model.choices import Status

    if execution.status is not Status.RUNNING:
        return execution
    client.take_over()
    return client.execution(execution.id)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


def _find_run(cli: Session, client: Client, word: str) -> Execution:
    """The run of this number, or the newest of the schedule of this name. Raises NotFound."""
    if not _is_number(word):
        from edgecron.cli.history import say_removed

        execution = client.last_run(word)
        say_removed(cli, client, word)
        return execution
    from edgecron.formats.option_texts import read_count

    return client.execution(read_count(word, what="RUN", most=_MOST_ID))
