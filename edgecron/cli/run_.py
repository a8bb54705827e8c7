"""Run a schedule now, and cancel runs."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.base.errors import (
    Conflict,
    EdgecronError,
    NotFound,
    ServerLost,
    SupervisorUnavailable,
    UsageError,
)
from edgecron.base.json_texts import check_json
from edgecron.cli.logs import put_result
from edgecron.cli.parser import Parser
from edgecron.cli.run_output import Printer, pieces_of
from edgecron.cli.session import OWN_ERROR, Session
from edgecron.client.sentences import blocking_words
from edgecron.formats.option_texts import RUN_OPTIONS, read_run_options
from edgecron.formats.value_texts import read_run_number
from edgecron.model.choices import Reason, Status
from edgecron.model.listing import ACTIVE_RUNS
from edgecron.model.run import AS_SCHEDULED, Execution, RunOptions
from edgecron.views.acts import cancelled_words, fired_words
from edgecron.views.json_objects import execution_object
from edgecron.views.phrases import failure_words, status_words
from edgecron.views.times import near_time

if TYPE_CHECKING:
    from edgecron.model.run import Execution

_MOST_TOLD = 10  # runs of which `run` says why each was skipped
_PAGE = 500


class RunCommand:
    """Run a schedule now.

        edgecron run nightly
        edgecron run nightly --wait && echo done
        edgecron run count --wait --result      print its JSON result
        edgecron run sync --wait --as-scheduled
        edgecron run sync --payload '{"host": "plc2"}'
        edgecron run sync --at 'in 5m' --priority high
        edgecron run sync --key order-4711      only the first time

    The next planned run does not change. A run with --at waits until then, and takes no place
    before. It survives restarts, and `cancel` removes it. A second run with the same --key starts
    nothing and shows the first one, as long as the history holds that. Each schedule and scope has
    its own keys.

    With --wait, edgecron prints the output as it comes and exits with the job's exit code: 128+N if
    signal N ended the job, 125 for every error of edgecron. It also exits with 125 if the run was
    skipped, cancelled or interrupted, or was ended but exited with 0. If the run is retried,
    edgecron follows each attempt and takes the last exit code. With --json, it prints the last
    attempt as `history --json` does, without the output.

    If an engine runs the job, the job gets the same environment, user, folder and stdin as a
    scheduled run; only the variables about the run differ, such as EDGECRON_CAUSE. `edgecron env
    show NAME` lists them. --as-scheduled demands this: without a running engine, --wait then
    refuses to run the job.

    If no engine is running, or all are stalled, this command runs the job itself, with the
    variables of this shell in place of the engine's. Ctrl-C then ends the job; a second Ctrl-C
    leaves that to its supervisor. If an engine runs the job, Ctrl-C only ends the wait. The job
    also continues if the reader of the output goes away; the exit code is then 125.

    With --url and --wait, edgecron waits for a server that is restarting. If an answer was lost, it
    repeats the request with the same key, so that the run starts once. Without --wait it tries for
    some seconds, then reports that the result is unknown.
    """

    LIVES_LONG = True
    USAGE = "NAME [--payload JSON] [--at TIME] [--key KEY] [--as-scheduled] [--wait [--result]]"

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("NAME", "the schedule to run")
        parser.add("--wait", "show the output; exit with the exit code of the job")
        parser.add("--result", "print the JSON result of the run")
        parser.add(
            "--as-scheduled", "let only an engine run it, with the environment of a scheduled run"
        )
        parser.add("--payload JSON", "give this JSON value to the run, as EDGECRON_PAYLOAD")
        parser.add("--at TIME", "run it then: 'in 5m', 'tomorrow 09:00', RFC 3339")
        parser.add("--key KEY", "run it once for this key of your own")
        parser.add(
            "--priority low|normal|high|N",
            "start it before queued runs of lower priority (default: the schedule's)",
        )
        parser.add("--timeout DURATION", "end it after this time (default: the schedule's)")
        parser.add("--scope KIND:ID", "run it only in this scope (default: all of them)")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        if args.result and not args.wait:
            raise UsageError("--result only works with --wait", hint="add --wait")
        if args.payload is not None:
            check_json(args.payload, what="--payload")  # The client would not name the option.
        cli.waits_for_server = args.wait
        cli.client(must_exist=True)
        if args.wait:
            return _run_and_wait(cli, args)
        executions = _fire(cli, args)
        _put(cli, executions)
        return tell_fired(cli, executions)


def _run_and_wait(cli: Session, args: Namespace) -> int:
    """Fire a schedule and follow its run in each scope, one after the other.

    Returns the exit code.
    """
    from edgecron.cli.run_waiting import (
        Waiter,
        refuse_absent_program,
        refuse_without_engine,
    )

    result = args.result
    schedule = cli.client().schedule(args.name)
    refuse_absent_program(cli, schedule)
    refuse_without_engine(cli, schedule, is_as_scheduled=args.as_scheduled)
    printer = None if cli.is_json or result else Printer(cli, is_split=True)
    waiter = Waiter(cli, schedule, printer=printer, is_as_scheduled=args.as_scheduled)
    executions = _fire(cli, args)
    ended: list[Execution] = []
    codes: list[int] = []
    try:
        for execution in executions:
            if len(executions) > 1:
                cli.say(
                    f"edgecron: run {execution.id}, {execution.scope_kind}:{execution.scope_id}"
                )
            ended.append(waiter.wait(execution))
            if not cli.is_json:
                codes.append(_show_end(cli, ended[-1], result=result))
    except (KeyboardInterrupt, OSError, EdgecronError):
        cli.waits_for_server = False
        with suppress(EdgecronError):  # Report the first error.
            waiter.leave(executions[len(ended) :])
        raise
    if cli.is_json:
        _put(cli, ended)
        codes = [_show_end(cli, execution, result=result) for execution in ended]
    return next((code for code in codes if code), 0)


def _fire(cli: Session, args: Namespace) -> list[Execution]:
    """Queue the run that the options describe."""
    given = {name: getattr(args, name, None) for name in RUN_OPTIONS}
    options = read_run_options(
        given, timezone="local", now=cli.client().now(), label=lambda name: f"--{name}"
    )
    return fire_now(cli, args.name, payload=args.payload, key=args.key, options=options)


def fire_now(
    cli: Session,
    name: str,
    *,
    payload: str | None = None,
    key: str | None = None,
    options: RunOptions = AS_SCHEDULED,
) -> list[Execution]:
    """Queue a manual fire of a schedule in each of its scopes, or in one; once for a key."""
    # A run that ended while no engine was running must not count as an overlap.
    cli.client().take_over()
    try:
        if key is not None:
            return cli.client().run_once(name, key=key, payload=payload, options=options)
        return cli.client().run_now(name, payload=payload, options=options)
    except KeyboardInterrupt:
        url = cli.remote_url()
        if url is not None:
            # The server may have received the request.
            from edgecron.client.remote_link import LOOK, NOT_KNOWN

            cli.report(f"edgecron: {url} has not answered yet; {NOT_KNOWN} ({LOOK})")
        else:
            from shlex import quote  # Rarely needed.

            look = cli.command(f"history {quote(name)} -n 1")
            cli.report(f"edgecron: interrupted; the run might be queued; to look: {look}")
        raise


def tell_fired(cli: Session, executions: list[Execution]) -> int:
    """Say why a fire was skipped, or what it lacks to start. Returns the exit code."""
    try:
        _tell_what_lacks(cli, executions)
    except ServerLost as error:
        # The fire is queued: an error would make people fire again.
        cli.warn(f"{error.message}; the run is queued, but its state is unknown")
    return 1 if all(execution.status is Status.SKIPPED for execution in executions) else 0


def _tell_what_lacks(cli: Session, executions: list[Execution]) -> None:
    skipped = [execution for execution in executions if execution.status is Status.SKIPPED]
    # Only the first few: each reason costs a query of the history.
    for execution in skipped[:_MOST_TOLD]:
        words = blocking_words(cli, execution)
        if words is not None:
            cli.report(f"edgecron: run {execution.id} was skipped: {words}")
    if len(skipped) > _MOST_TOLD:
        cli.report(f"edgecron: {len(skipped) - _MOST_TOLD} more runs of other scopes were skipped")
    if any(execution.status is Status.QUEUED for execution in executions):
        schedule = cli.client().schedule(executions[0].schedule)
        cli.warn_without_engine(cli.client(), schedule)


def put_fired(cli: Session, executions: list[Execution]) -> None:
    """Print a line for each run of a fire."""
    zone, now = cli.zone(), cli.client().now()
    for execution in executions:
        is_later = execution.status is Status.QUEUED and execution.due_at > now
        due = f", due {near_time(execution.due_at, zone=zone, now=now)}" if is_later else ""
        cli.put(f"{fired_words(execution)}{due}")


def _put(cli: Session, executions: list[Execution]) -> None:
    if cli.is_json:
        cli.put_json(execution_object(execution) for execution in executions)
    else:
        put_fired(cli, executions)


def _show_end(cli: Session, execution: Execution, *, result: bool) -> int:
    """Say how a run ended if the exit code can't; return the exit code.

    If wanted, the result goes to stdout. If a failed run left none, its output goes to stderr,
    because the caller reads JSON on stdout.
    """
    if result and not cli.is_json and (execution.result or execution.status is Status.SUCCESS):
        put_result(cli, execution)
    elif result and not cli.is_json:
        _put_on_stderr(cli, execution)
    if execution.status is Status.SUCCESS:
        return execution.exit_code or 0
    if execution.reason is Reason.DECLINED:
        why = failure_words(execution)
        cli.report(f"edgecron: run {execution.id} of {execution.schedule} was skipped: {why}")
        return 0  # Nothing was to be done, and nothing failed.
    more = f" ({failure_words(execution)})" if execution.error_msg else ""
    what = f"edgecron: run {execution.id} of {execution.schedule}"
    if execution.exit_code is None:
        if execution.status is Status.SKIPPED:
            more = f": {blocking_words(cli, execution) or 'its schedule had an earlier run'}"
        cli.report(f"{what} did not complete: {status_words(execution)}{more}")
        return OWN_ERROR
    if execution.status is Status.FAILED and execution.reason is Reason.EXIT:
        if cli.client().output(execution.id) is None:  # Else the job said why itself.
            cli.say(f"{what} failed: exit code {execution.exit_code}")
        return execution.exit_code
    # 143 alone would not tell a timeout from an exit code of the job's own.
    cli.report(f"{what} ended early: {status_words(execution)}{more}")
    # A command that was ended has not done its work, even if it exits with 0.
    return execution.exit_code or OWN_ERROR


def _put_on_stderr(cli: Session, execution: Execution) -> None:
    output = cli.client().output(execution.id)
    if output is not None:
        printer = Printer(cli, to=sys.stderr)
        printer.put(pieces_of(output))
        printer.end()


class CancelCommand:
    """Cancel queued and running runs.

        edgecron cancel 41 42
        edgecron cancel nightly      every active run of this schedule

    Queued runs do not start, and running ones end. A command gets TERM, and KILL after --kill-grace
    (default: 10s), with all processes of its session. If no engine is running, the next one records
    the end. If a run has ended already, cancel exits with 1; if a schedule has no active run, with
    3.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("RUN|NAME...", "a run's number (see history), or a schedule", dest="runs")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        client = cli.client(must_exist=True)
        refused: list[EdgecronError] = []
        found = {word: _find_numbers(cli, word) for word in args.runs}
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


def _find_numbers(cli: Session, word: str) -> list[int]:
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
