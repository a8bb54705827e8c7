"""Print the output of a run.

    edgecron logs nightly
    edgecron logs nightly --since yesterday  all runs since then
    edgecron logs 41 --stream stderr -n 20
    edgecron logs -f nightly                 follow run after run, until Ctrl-C
    edgecron logs nightly > nightly.log      the exact bytes

If you name a schedule, edgecron prints its newest run. Both streams go to stdout. Facts about the
run go to stderr. On a terminal, control characters are shown, not sent.
"""

from __future__ import annotations

import json
from argparse import Namespace
from datetime import tzinfo
from typing import TYPE_CHECKING

from edgecron.base.errors import NotFound, UsageError
from edgecron.base.value_texts import hint_for_word, read_count
from edgecron.cli.history import add_time_arguments, read_times, say_removed
from edgecron.cli.parser import Parser
from edgecron.cli.run_output import OF_BOTH, Printer, chunk_objects, last_lines, only, pieces_of
from edgecron.cli.session import Session
from edgecron.client.sentences import (
    end_words,
    follow_words,
    prints_elsewhere,
    queued_words,
    stalled_engine_words,
    state_words,
)
from edgecron.formats.option_texts import read_run_number
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.listing import RunChoice
from edgecron.model.run import Execution
from edgecron.views.phrases import count_words
from edgecron.views.run_words import PRINTS_ELSEWHERE
from edgecron.views.times import near_time

if TYPE_CHECKING:
    from edgecron.cli.run_output import Piece
    from edgecron.client.following import LaterRuns
    from edgecron.client.protocol import Client


LIVES_LONG = True
_STREAMS = ("stdout", "stderr")
_STARTED = tuple(one for one in Status if one not in (Status.QUEUED, Status.SKIPPED))
_PAGE = 1000


def add_arguments(parser: Parser) -> None:
    parser.add("RUN|NAME", "a run's number, or a schedule", dest="run")
    parser.add("-f --follow", "follow the run until it ends; for a schedule, run after run")
    parser.add("-n LINES", "print only this many lines, the last", dest="lines")
    parser.add("--stream stdout|stderr", "print only one stream")
    parser.add("-t --times", "print time and stream before each line")
    parser.add("--result", "print the JSON result of the run")
    add_time_arguments(parser, "print all runs of the schedule")


def run(cli: Session, args: Namespace) -> int:
    if args.stream is not None and args.stream not in _STREAMS:
        raise UsageError(
            f"--stream is {args.stream!r}, expected stdout or stderr",
            hint=hint_for_word(args.stream, _STREAMS, what="--stream"),
        )
    if args.result:
        _refuse_beside_result(args)
    if args.follow and cli.is_json:
        raise UsageError("logs -f has no JSON output", hint="remove -f or --json")
    has_times = args.since is not None or args.until is not None
    if has_times and (args.follow or args.result or _is_number(args.run)):
        raise UsageError(
            "--since and --until print the past runs of a schedule",
            hint="give the name of a schedule, and remove -f and --result",
        )
    lines = None if args.lines is None else read_count(args.lines, what="-n", least=0)
    cli.waits_for_server = args.follow
    client = cli.reading_client()
    if args.follow:
        follower = LogFollower(
            cli, stream=args.stream, lines=lines, zone=cli.zone() if args.times else None
        )
        if not _is_number(args.run):
            return follower.follow_schedule(args.run)
        follower.follow_run(find_shown(cli, client, args.run))
        return 0
    if has_times:
        _show_all(cli, client, args, lines=lines)
        return 0
    execution = find_shown(cli, client, args.run)
    if args.result:
        put_result(cli, execution)
    else:
        _show(cli, execution, args, lines=lines)
    return 0


def _show_all(cli: Session, client: Client, args: Namespace, *, lines: int | None) -> None:
    """Print the output of all runs within times, the oldest first, each after a line about it."""
    since, until = read_times(args, client)
    found: list[Execution] = []
    choice = RunChoice(statuses=_STARTED, since=since, until=until)
    while page := client.history(args.run, choice=choice, limit=_PAGE):
        found += page
        choice = choice._replace(before_id=page[-1].id)
    say_removed(cli, client, args.run)
    objects: list[dict[str, object]] = []
    for execution in reversed(found):
        pieces = last_lines(_pieces_of_run(client, execution, args.stream) or (), lines)
        if cli.is_json:
            objects += chunk_objects(execution.id, pieces)
            continue
        say_begin(cli, execution)
        printer = Printer(cli, zone=cli.zone() if args.times else None)
        printer.put(pieces)
        printer.end()
    if cli.is_json:
        cli.put_json(objects)
    elif not found:
        cli.say("no such runs")


def say_begin(cli: Session, execution: Execution) -> None:
    """Say on stderr which run the output that follows is of."""
    started = execution.started_at or execution.claimed_at or execution.due_at
    time = near_time(started, zone=cli.zone(), now=cli.client().now())
    attempt = f", attempt {execution.attempt}" if execution.attempt > 1 else ""
    scope = f", {execution.scope_kind}:{execution.scope_id}" if execution.scope_id else ""
    cli.say(f"==> run {execution.id} of {execution.schedule}{attempt}{scope}, {time} <==")


def find_shown(cli: Session, client: Client, word: str) -> Execution:
    """Return a run by its number, or the newest run of a schedule. Raises NotFound."""
    if not _is_number(word):
        execution = client.last_run(word)
        say_removed(cli, client, word)
        return execution

    return client.execution(read_run_number(word))


def _show(cli: Session, execution: Execution, args: Namespace, *, lines: int | None) -> None:
    """Print what a run has printed so far, and its state on stderr."""
    pieces = _pieces_of_run(cli.client(), execution, args.stream)
    shown = last_lines(pieces or (), lines)
    if cli.is_json:
        cli.put_json(chunk_objects(execution.id, shown))
    else:
        printer = Printer(cli, zone=cli.zone() if args.times else None)
        is_live = args.stream is not None and execution.status is Status.RUNNING
        printer.put(shown, of=OF_BOTH if is_live else "")
        printer.end()
    if execution.status in ACTIVE or (pieces is None and not cli.is_json):
        words = state_words(cli, execution, zone=cli.zone())
        more = ": to follow it to its end, use -f" if execution.status is Status.RUNNING else ""
        if more and prints_elsewhere(execution):
            more += f"; {PRINTS_ELSEWHERE}"
        cli.say(f"run {execution.id} of {execution.schedule} {words}{more}")
    elif prints_elsewhere(execution) and not cli.is_json:
        cli.say(f"the output ends here; {PRINTS_ELSEWHERE}")
    if not _is_number(args.run) and not cli.is_json:
        _say_queued(cli, execution)


def _pieces_of_run(client: Client, execution: Execution, stream: str | None) -> list[Piece] | None:
    """Return the output of a run on one stream, or on both; None if nothing is kept."""
    if execution.status is not Status.RUNNING:
        output = client.output(execution.id)
        is_kept = output is not None and output.removed_at is None
        return pieces_of(output, stream) if output is not None and is_kept else None
    with client.follower(execution.id) as follower:
        return only(follower.read_kept(execution), stream)


def _say_queued(cli: Session, execution: Execution) -> None:
    """Name a newer run of the schedule that has not started yet."""
    queued = RunChoice(statuses=(Status.QUEUED,))
    found = cli.client().history(execution.schedule, choice=queued, limit=1000)
    newer = [one for one in found[::-1] if one.id > execution.id]
    if newer and cli.client().removed_at(execution.schedule) is None:
        more = f"; {count_words(len(newer) - 1, 'more run')} after it" if len(newer) > 1 else ""
        words = queued_words(cli, newer[0], zone=cli.zone())
        cli.say(f"run {newer[0].id}, which is newer, {words}{more}")


def put_result(cli: Session, execution: Execution) -> None:
    """Print the JSON that a run left, on one line. Raises NotFound if there is none."""
    if execution.result is None:
        raise NotFound(
            f"run {execution.id} of {execution.schedule} {_no_result_words(execution)}",
            hint="a job can write up to 64 KiB of JSON to the file named by EDGECRON_RESULT",
        )
    result = json.loads(execution.result)
    if cli.is_json:
        cli.put_json([{"run": execution.id, "result": result}])
    else:
        # Written by edgecron's own JSON writer: it escapes all control codes.
        cli.put_data(json.dumps(result))


def _no_result_words(execution: Execution) -> str:
    if execution.status in ACTIVE:
        return "is still active; it can have a result when it ends"
    if "result_too_big" in execution.flags:
        return "left a result that was too big to keep"
    if "result_invalid" in execution.flags:
        return "left a result that is not JSON"
    return "left no result"


def _refuse_beside_result(args: Namespace) -> None:
    if args.follow or args.times or args.stream is not None or args.lines is not None:
        raise UsageError(
            "--result prints only the result", hint="remove -f, -n, --times and --stream"
        )


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


class LogFollower:
    """Prints the output of runs on stdout as it comes, and notes on stderr.

    Of the output so far it shows the last `lines` (None: all), and all that comes later.
    """

    def __init__(
        self, cli: Session, *, stream: str | None, lines: int | None, zone: tzinfo | None
    ) -> None:
        self._cli = cli
        self._stream = stream
        self._lines = lines
        self._zone = zone

    def follow_run(self, execution: Execution) -> None:
        """Follow a run to its end, and say how it ended."""
        had_ended = execution.status not in ACTIVE
        words = stalled_engine_words(self._cli, execution)
        if words is not None:
            self._cli.warn(words)
        if execution.status is Status.RUNNING and prints_elsewhere(execution):
            self._cli.say(
                f"run {execution.id} of {execution.schedule} continues; {PRINTS_ELSEWHERE}"
            )
        if (place := follow_words(self._cli.client(), execution)) is not None:
            self._cli.say(f"run {execution.id} of {execution.schedule} {place}")
        printer = Printer(self._cli, zone=self._zone)
        has_printed = self._print(execution, printer)
        printer.end()
        ended = self._cli.client().execution(execution.id)
        if had_ended and not has_printed:
            words = f" {state_words(self._cli, ended, zone=self._cli.zone())}"
        else:
            words = end_words(self._cli, ended, zone=self._cli.zone())
        self._cli.say(f"run {ended.id} of {ended.schedule}{words}")

    def follow_schedule(self, name: str) -> int:
        """Follow the active runs of a schedule, else its last one, then each new one.

        Ends when the schedule is removed.
        """
        client = self._cli.client()
        first = self._find_first(name)
        later = client.later_runs(name, known=first)
        if first is None:
            self._cli.say(f"schedule {name} has not run yet; waiting for its first run")
        else:
            self._follow_next(first)
        # Show all lines of the runs to come.
        self._lines = None
        try:
            schedule = client.schedule(name)
        except NotFound:
            return self._say_removed(name)
        self._cli.warn_without_engine(client, schedule)
        while (execution := self._wait_next(later, name)) is not None:
            self._follow_next(execution)
        return self._say_removed(name)

    def _find_first(self, name: str) -> Execution | None:
        client = self._cli.client()
        choice = RunChoice(statuses=(Status.RUNNING,))
        running = client.history(name, choice=choice, limit=1000)
        if running:
            return running[-1]
        try:
            return client.last_run(name)
        except NotFound:
            if client.removed_at(name) is not None:
                raise
            return None

    def _follow_next(self, execution: Execution) -> None:
        say_begin(self._cli, execution)
        self.follow_run(execution)

    def _wait_next(self, later: LaterRuns, name: str) -> Execution | None:
        """Return the next run that starts; None if the schedule was removed and nothing runs."""
        while (execution := later.find_next()) is None:
            if later.is_due_for_check and self._cli.client().removed_at(name) is not None:
                return later.find_next()
            later.wait()
        return execution

    def _print(self, execution: Execution, printer: Printer) -> bool:
        """Print the output of a run until it ends; return whether there was any."""
        client = self._cli.client()
        has_printed = False

        def put(pieces: list[Piece], *, lines: int | None = None) -> None:
            nonlocal has_printed
            chosen = last_lines(only(pieces, self._stream), lines)
            printer.put(chosen, of=OF_BOTH if self._stream else "")
            has_printed |= bool(pieces)

        output = client.output(execution.id)
        is_over = execution.status not in ACTIVE
        if is_over and output is not None and output.removed_at is None:
            pieces = pieces_of(output, self._stream)
            printer.put(last_lines(pieces, self._lines))
            return bool(output.chunks)
        with client.follower(execution.id) as follower:
            put(follower.read_kept(execution), lines=self._lines)
            while execution.status in ACTIVE:
                if execution.status is Status.RUNNING and follower.is_due_for_check:
                    client.take_over()
                due_s = (execution.due_at - client.now()).total_seconds()
                follower.wait(until_s=due_s if execution.status is Status.QUEUED else 0)
                execution = client.execution(execution.id)
                put(follower.read(execution))
            put(list(follower.read_stored()))
        return has_printed

    def _say_removed(self, name: str) -> int:
        self._cli.say(f"schedule {name} was removed: it has no more runs")
        return 0
