"""Run a schedule now, or for missed times of the past."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.base.checks import check_json
from edgecron.base.errors import EdgecronError, ServerLost, UsageError
from edgecron.base.units import format_instant
from edgecron.base.value_texts import read_time
from edgecron.cli.logs import put_result
from edgecron.cli.parser import Parser
from edgecron.cli.run_output import Printer, pieces_of
from edgecron.cli.session import OWN_ERROR, Session
from edgecron.client.sentences import blocking_words
from edgecron.formats.option_texts import RUN_OPTIONS, read_priority, read_run_options
from edgecron.model.choices import Reason, Status
from edgecron.model.run import AS_SCHEDULED, Execution, RunOptions
from edgecron.views.changes import fired_words, left_lines, queued_words, undecided_lines
from edgecron.views.json_objects import execution_object
from edgecron.views.phrases import count_words, failure_words, status_words
from edgecron.views.times import full_time, near_time

if TYPE_CHECKING:
    from edgecron.planning.forecast import Backfill, PastFire

_MOST_TOLD = 10  # runs of which `run` says why each was skipped
_MOST_UNASKED = 100
_SHOWN = 10  # first, and as many last
_LEAST_STEPS = 4  # each queues 250 runs


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


class BackfillCommand:
    """Run missed times of the past.

        edgecron backfill report 2026-11-01 2026-11-08 --dry-run
        edgecron backfill report yesterday now
        edgecron backfill report "2026-11-01 06:00" "2026-11-01 12:00" --yes

    Each time of the range, both ends included, gets its own run with that time as EDGECRON_PLAN_AT.
    The runs start one after the other, after all other due runs. Backfill skips times whose run
    succeeded, is queued or is running, times that the engine has not decided yet, and times whose
    runs retention has removed. For more than 100 runs, edgecron asks first.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("NAME", "the schedule")
        parser.add("FROM", "the first time: 'yesterday', '2d ago', RFC 3339", dest="from_at")
        parser.add("TO", "the last time", dest="to_at")
        parser.add("--dry-run", "show the runs; start nothing")
        parser.add(
            "--priority low|normal|high|N",
            "set the priority of the runs (default: below all other runs)",
        )
        parser.add("-y --yes", "start any number of runs without asking")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        client = cli.client(must_exist=True)
        priority = None if args.priority is None else read_priority(args.priority, "--priority")
        now = client.now()
        first, last = (
            read_time(text, what=what, timezone="local", now=now, is_past=True)
            for text, what in ((args.from_at, "FROM"), (args.to_at, "TO"))
        )
        plan = client.plan_backfill(args.name, first, last)
        if args.dry_run:
            _put_plan(cli, plan)
            return 0
        if len(plan.wanted) > _MOST_UNASKED and not args.yes and not _agrees_to_fill(cli, plan):
            cli.say("nothing was done")
            return 1
        progress = cli.progress("queued", least_steps=_LEAST_STEPS)
        ids = client.backfill(args.name, first, last, priority=priority, on_progress=progress)
        _put_done(cli, plan, ids)
        if ids:
            cli.warn_without_engine(client, plan.schedule)
        return 0


def _agrees_to_fill(cli: Session, plan: Backfill) -> bool:
    what = f"{count_words(len(plan.wanted), 'run')} of {plan.schedule.name}"
    if not cli.can_ask():
        raise UsageError(
            f"this would queue {what}, and there is no terminal to ask on",
            hint="see them with --dry-run, then repeat with --yes",
        )
    for line in _plan_lines(cli, plan):
        cli.say(line)
    return cli.ask(f"queue {what}?")


def _put_plan(cli: Session, plan: Backfill) -> None:
    if cli.is_json:
        cli.put_json(
            [
                *(_fire_object(plan, fire, "run", None) for fire in plan.wanted),
                *(_fire_object(plan, fire, "leave", "success") for fire in plan.succeeded),
                *(_fire_object(plan, fire, "leave", "active") for fire in plan.active),
            ]
        )
        for line in undecided_lines(cli.command, plan, zone=cli.zone()):
            cli.say(f"edgecron: {line}")
        return

    for line in _plan_lines(cli, plan):
        cli.put(line)
    cli.say_dry_run()


def _fire_object(
    plan: Backfill, fire: PastFire, action: str, reason: str | None
) -> dict[str, object]:
    return {
        "schedule": plan.schedule.name,
        "scope_kind": fire.scope[0],
        "scope_id": fire.scope[1],
        "plan_at": format_instant(fire.plan_at),
        "trigger_text": fire.source,
        "action": action,
        "reason": reason,
    }


def _put_done(cli: Session, plan: Backfill, ids: list[int]) -> None:
    client = cli.client()
    if cli.is_json:
        cli.put_json(execution_object(client.execution(id_)) for id_ in ids)
        return

    name = plan.schedule.name
    cli.put(queued_words(name, ids))
    if ids and not plan.schedule.enabled:
        cli.put(f"  the schedule is paused: the runs wait for {cli.command(f'resume {name}')}")
    lost = len(plan.wanted) - len(ids)
    if lost:
        cli.put(f"  {lost} skipped: another program queued them in the meantime")
    for line in left_lines(cli.command, plan, zone=cli.zone()):
        cli.put(f"  {line}")


def _plan_lines(cli: Session, plan: Backfill) -> list[str]:
    """Return the first and last ten runs to queue, and what is skipped and why."""
    name, wanted = plan.schedule.name, plan.wanted
    if not wanted:
        return [
            f"nothing to backfill for {name}",
            *(f"  {line}" for line in left_lines(cli.command, plan, zone=cli.zone())),
        ]
    lines = [f"{count_words(len(wanted), 'run')} of {name}, one after the other:"]
    if len(wanted) <= 2 * _SHOWN:
        lines += [f"  {_fire_words(cli, plan, fire)}" for fire in wanted]
    else:
        lines += [f"  {_fire_words(cli, plan, fire)}" for fire in wanted[:_SHOWN]]
        lines.append(f"  ... {len(wanted) - 2 * _SHOWN} more ...")
        lines += [f"  {_fire_words(cli, plan, fire)}" for fire in wanted[-_SHOWN:]]
    return [*lines, *left_lines(cli.command, plan, zone=cli.zone())]


def _fire_words(cli: Session, plan: Backfill, fire: PastFire) -> str:
    time = full_time(fire.plan_at, plan.schedule.spec.timezone, zone=cli.zone())
    scope = f"  {fire.scope[0]}:{fire.scope[1]}" if fire.scope[1] else ""
    return f"{time}  {fire.source}{scope}"
