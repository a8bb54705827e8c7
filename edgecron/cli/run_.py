"""Run a schedule now. Its next time does not change.

    edgecron run backup
    edgecron run backup --wait && echo fine
    edgecron run count --wait --result      the JSON that it left, instead of what it printed

With --wait, its output is printed when it has ended, and the exit code is the job's own: 128+N
where signal N ended it, 125 for every error of edgecron's, also where it was skipped. Where no
engine is alive, or all are stalled, it is run from here. Ctrl-C ends a run that is run from here.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.cli.session import Session, find_living, stalled_engine_words

if TYPE_CHECKING:
    from edgecron.engine.host import EngineHost
    from edgecron.model import Execution

USAGE = "NAME [--wait [--result]] [--json]"
_LOOK_S = 0.1  # how often a run elsewhere is looked at
_LOOKS_PER_CHECK = 20  # and after how many looks at one that waits, whether an engine still lives
_KILL_WAIT_S = 15.0


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--wait", action="store_true", help="until it has ended; exit as the job")
    parser.add_argument("--result", action="store_true", help="print the JSON result that it left")


def run(cli: Session, args: Namespace) -> int:
    if args.result and not args.wait:
        from edgecron.cli.options import UsageError

        raise UsageError("--result is there when the run has ended", hint="add --wait")
    cli.scheduler(must_exist=True)
    executions = fire_now(cli, args.name)
    if not args.wait:
        _put(cli, executions)
        return tell_fired(cli, executions)
    queue = cli.scheduler().schedule(args.name).spec.queue
    ended = [_wait_or_tell(cli, execution.id, queue) for execution in executions]
    if cli.is_json:
        _put(cli, ended)
    codes = [_show_end(cli, execution, result=args.result) for execution in ended]
    return next((code for code in codes if code), 0)


def fire_now(cli: Session, name: str) -> list[Execution]:
    """Queue a fire of a schedule, in each of its scopes."""
    # What ended while no engine was alive must not look like a run that this one overlaps.
    cli.scheduler().take_over()
    return cli.scheduler().run_now(name)


def tell_fired(cli: Session, executions: list[Execution]) -> int:
    """Say why a fire was left out, and what it lacks to be run; our exit code."""
    from edgecron.model import Status

    for execution in executions:
        words = _blocking_words(cli, execution)
        if execution.status is Status.SKIPPED and words is not None:
            cli.say(f"edgecron: run {execution.id} was skipped: {words}")
    if any(execution.status is Status.QUEUED for execution in executions):
        queue = cli.scheduler().schedule(executions[0].schedule).spec.queue
        cli.warn_without_engine(cli.scheduler(), queue=queue)
    return 1 if all(execution.status is Status.SKIPPED for execution in executions) else 0


def put_fired(cli: Session, executions: list[Execution]) -> None:
    """What became of a fire, a line for each of its runs."""
    from edgecron.cli.phrases import status_words

    for execution in executions:
        cli.put(f"run {execution.id} of {execution.schedule}: {status_words(execution)}")


def _put(cli: Session, executions: list[Execution]) -> None:
    if cli.is_json:
        from edgecron.cli.objects import execution_object

        cli.put_json(execution_object(execution) for execution in executions)
    else:
        put_fired(cli, executions)


def _wait_or_tell(cli: Session, execution_id: int, queue: str) -> Execution:
    """Wait for the end of a run; who stops waiting is told what becomes of it."""
    from edgecron.model import ACTIVE

    try:
        return _wait(cli, execution_id, queue)
    except KeyboardInterrupt:
        if cli.scheduler().execution(execution_id).status in ACTIVE:
            end = cli.command(f"cancel {execution_id}")
            cli.say(f"edgecron: run {execution_id} goes on; to end it: {end}")
        raise


def _wait(cli: Session, execution_id: int, queue: str) -> Execution:
    """Wait for the end of a run; where no engine is alive and at work, run it here.

    A stalled engine that wakes finds the row claimed; what it has claimed itself is left to it.
    """
    from edgecron.errors import NotSupported
    from edgecron.model import ACTIVE, COMMAND_QUEUE, Status

    looks = 0
    said: str | None = None
    while True:
        scheduler = cli.scheduler()
        execution = scheduler.execution(execution_id)
        if execution.status not in ACTIVE:
            return execution
        if looks % _LOOKS_PER_CHECK == 0 and execution.status is Status.RUNNING:
            # Its end may be on record with no engine there to take it over.
            scheduler.take_over()
            words = _abandoned_words(cli, execution)
            if words is not None and said is None:
                cli.warn(words)
            said = words
        elif looks % _LOOKS_PER_CHECK == 0 and not scheduler.has_engine(queue):
            if queue != COMMAND_QUEUE:
                raise NotSupported(
                    f"run {execution_id} is for the program of queue {queue!r}, which does not run",
                    hint="start that program; the run stays queued",
                )
            driven = _run_or_withdraw(cli, execution_id)
            if driven.status not in ACTIVE:
                return driven
        looks += 1
        if looks == _LOOKS_PER_CHECK:
            _say_blocked(cli, execution)
        time.sleep(_LOOK_S)


def _abandoned_words(cli: Session, execution: Execution) -> str | None:
    """Who does not look after a running run, and what it waits for; None where all is well."""
    states = [state for state in cli.scheduler().engines() if state.is_alive]
    has_own = any(state.info.id == execution.engine_id for state in states)
    if not has_own and not any(state.is_working and state.info.queues for state in states):
        return "its engine has gone, and it goes on without one; waiting for its end"
    return stalled_engine_words(cli, execution)


def _run_or_withdraw(cli: Session, execution_id: int) -> Execution:
    """Run it here; where that can't be, it is not left for an engine to come upon later."""
    from edgecron.errors import EdgecronError
    from edgecron.model import Status

    try:
        return _run_here(cli, execution_id)
    except EdgecronError:
        with suppress(EdgecronError):  # The first error is the one to tell.
            if cli.scheduler().execution(execution_id).status is Status.QUEUED:
                cli.scheduler().cancel(execution_id)
        raise


def _run_here(cli: Session, execution_id: int) -> Execution:
    """Run one queued execution by an engine of our own, which takes nothing else.

    It comes back running where another engine was first.
    """
    from edgecron.cli.daemon import open_host

    path = cli.scheduler().path
    # The supervisor is forked next, and must not inherit an open database.
    cli.close()
    host = open_host(path, report=lambda event: None, only=execution_id)
    try:
        return _drive(cli, host, execution_id)
    except KeyboardInterrupt:
        cli.say("edgecron: ending the run; Ctrl-C again leaves it to its supervisor")
        host.engine.stop_runs()
        _drive(cli, host, execution_id, at_most_s=_KILL_WAIT_S)
        raise
    finally:
        host.engine.retire()
        host.close()


def _drive(
    cli: Session, host: EngineHost, execution_id: int, *, at_most_s: float | None = None
) -> Execution:
    """Step until the run has ended, or another engine has taken it."""
    import select

    from edgecron.model import ACTIVE, Status

    turns = None if at_most_s is None else round(at_most_s / _LOOK_S)
    has_looked = False
    while True:
        host.engine.step()
        execution = cli.scheduler().execution(execution_id)
        if not has_looked:
            # Nothing else starts here: what holds it back now stays until another engine takes it.
            _say_blocked(cli, execution)
            has_looked = True
        if execution.status is Status.RUNNING and execution.engine_id != host.engine.engine_id:
            return execution
        if execution.status not in ACTIVE or turns == 0:
            return execution
        turns = None if turns is None else turns - 1
        poller = select.poll()
        for fd in host.engine.filenos():
            poller.register(fd, select.POLLIN)
        poller.poll(_LOOK_S * 1000)


def _blocking_words(cli: Session, execution: Execution) -> str | None:
    """Which earlier run of its schedule keeps a run from its start, and what to do; or None."""
    from edgecron.cli.phrases import stalled_words
    from edgecron.model import ACTIVE, COMMAND_QUEUE, Cause, Status

    scheduler = cli.scheduler()
    before = [
        other
        for other in scheduler.history(execution.schedule, statuses=tuple(ACTIVE), limit=1000)
        if other.id < execution.id
        # What has not begun of a backfill keeps nothing back.
        and (other.status is Status.RUNNING or other.cause is not Cause.BACKFILL)
        and (other.scope_kind, other.scope_id) == (execution.scope_kind, execution.scope_id)
    ]
    running = [other for other in before if other.status is Status.RUNNING]
    if not before or (execution.status is Status.QUEUED and not running):
        return None  # What is queued before it keeps back what would be queued, and nothing else.
    words = f"run {running[-1].id} still runs" if running else f"run {before[-1].id} is queued"
    states = find_living(scheduler, COMMAND_QUEUE)
    if not states:
        return f"{words}, and no engine is alive: start one with {cli.command('daemon')}"
    if all(state.is_stalled for state in states):
        return f"{words}, and {stalled_words(states)}; see {cli.command('doctor')}"
    queued = [other for other in before if other.status is Status.QUEUED]
    if execution.status is Status.SKIPPED and running and queued:
        return f"{words}, and run {queued[0].id} waits for its end already"
    if execution.status is Status.SKIPPED:
        wait = cli.command(f"edit {execution.schedule} --overlap queue")
        return f"{words}; to let one wait for it: {wait}"
    return words


def _say_blocked(cli: Session, execution: Execution) -> None:
    from edgecron.model import Status

    words = _blocking_words(cli, execution) if execution.status is Status.QUEUED else None
    if words is not None:
        cli.say(f"edgecron: run {execution.id} waits: {words}")


def _show_end(cli: Session, execution: Execution, *, result: bool) -> int:
    """Print what a run printed and how it ended, where that is no exit code; our exit code.

    Instead of what it printed, the result that it left, where that is asked for and there is one.
    """
    from edgecron.cli.logs import put_output, put_result
    from edgecron.cli.options import OWN_ERROR
    from edgecron.cli.phrases import status_words
    from edgecron.model import Reason, Status

    if result and not cli.is_json and (execution.result or execution.status is Status.SUCCESS):
        put_result(cli, execution)
    elif not cli.is_json:
        output = cli.scheduler().output(execution.id)
        if output is not None:
            # Whoever asked for the result reads JSON there.
            put_output(cli, output, to_stderr=result)
    if execution.status is Status.SUCCESS:
        return execution.exit_code or 0
    if execution.status is not Status.FAILED or execution.exit_code is None:
        more = f": {execution.error_msg}" if execution.error_msg else ""
        if execution.status is Status.SKIPPED:
            more = f": {_blocking_words(cli, execution) or 'its schedule had an earlier run'}"
        cli.say(f"edgecron: run {execution.id} of {execution.schedule} was not completed:"
                f" {status_words(execution)}{more}")  # fmt: skip
        return OWN_ERROR
    if execution.reason is not Reason.EXIT:
        # 143 alone would not tell a timeout from an exit code of the job's own.
        more = f" ({execution.error_msg})" if execution.error_msg else ""
        how = f"{status_words(execution)}{more}"
        cli.say(f"edgecron: run {execution.id} of {execution.schedule} ended early: {how}")
    return execution.exit_code
