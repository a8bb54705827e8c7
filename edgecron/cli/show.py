"""Show one schedule or one run, and the environment of a job."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgecron.base.checks import suggest
from edgecron.base.errors import EdgecronError, UsageError
from edgecron.base.value_texts import read_count
from edgecron.cli.output import paint
from edgecron.cli.parser import Parser
from edgecron.cli.plans import put_lines
from edgecron.cli.session import Session
from edgecron.client.why import prospect_lines, trigger_lines
from edgecron.formats.option_texts import is_secret, read_run_number
from edgecron.model.schedule import MOST_CHANGES, Act
from edgecron.views.changes import act_words, author_words, change_lines, change_object, mask_change
from edgecron.views.json_objects import (
    MASK,
    execution_object,
    mask_values,
    outlook_object,
    schedule_details,
    state_object,
)
from edgecron.views.run_words import run_lines, run_sentence
from edgecron.views.schedule_words import (
    bound_lines,
    job_lines,
    policy_words,
    record_lines,
    state_lines,
)
from edgecron.views.times import near_time

if TYPE_CHECKING:
    from edgecron.client.job_environment import JobEnvironment, Variable
    from edgecron.client.protocol import Client
    from edgecron.views.outlook import Outlook

_UPCOMING = 5
_ACT_STYLES = {Act.ADD: "green", Act.REMOVE: "red", Act.EDIT: "yellow", Act.UNDO: "cyan"}
_PATH = "PATH"


class ShowCommand:
    """Show one schedule or one run.

        edgecron show nightly
        edgecron show nightly --reveal   also environment, payload and stdin
        edgecron show nightly --changes  who changed it, when, from where
        edgecron show 4711              a run, by its number

    For a schedule, edgecron shows the job, the times, the next run or why there is none, the active
    runs, and the last skipped run. With --json, `state` is what functions of a program have stored.
    Values of environment, payload and stdin are shown as *** unless you give --reveal.

    --changes lists the changes of a schedule, newest first, each with its revision: `edgecron undo
    NAME REVISION` returns to it. Retention removes a definition that no run in the history needs if
    it was replaced over 30 days ago, or 20 are newer. The line about a change stays.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("NAME|RUN", "a schedule, or a run's number", dest="name")
        parser.add("--reveal", "show values of environment, payload and stdin")
        parser.add("--changes", "list the changes of a schedule, newest first")
        parser.add("-n N", "with --changes: show N changes (default: 20)", dest="limit")
        parser.add("--before REVISION", "with --changes: show changes before this revision")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        if args.changes:
            return _show_changes(cli, args)
        if args.limit is not None or args.before is not None:
            option = "-n" if args.limit is not None else "--before"
            raise UsageError(
                f"{option} is given without --changes",
                hint=f"list the changes: edgecron show {args.name} --changes",
            )
        client = cli.reading_client()
        if args.name.isascii() and args.name.isdigit():  # No name is digits alone.
            return _show_run(cli, client, args.name, is_masked=not args.reveal)

        outlook = client.outlook(args.name, upcoming=_UPCOMING)
        schedule = outlook.schedule
        if cli.is_json:
            details = schedule_details(schedule, outlook.upcoming)
            details["state"] = state_object(client.state(schedule.name))
            details["outlook"] = outlook_object(outlook, now=client.now())
            cli.put_json([details if args.reveal else mask_values(details)])
            return 0
        mask = None if args.reveal else MASK
        _put(cli, schedule.name, _schedule_lines(cli, client, outlook, mask=mask))
        job = schedule.spec.job
        if mask is not None and (job.env or job.payload is not None or job.stdin is not None):
            cli.say(
                f"values are hidden; to see them: {cli.command(f'show {schedule.name} --reveal')}"
            )
        if schedule.trigger_error is not None:
            cli.say(f"fix it: {cli.command(f'edit {schedule.name}')} --cron ... --tz ...")
        return 0


def _show_changes(cli: Session, args: Namespace) -> int:
    limit = read_count(args.limit or "20", what="-n", most=MOST_CHANGES)
    before = None
    if args.before is not None:
        before = read_count(args.before, what="--before", most=2**62)
    client = cli.client(must_exist=True)
    name = args.name
    found = client.changes(name, before=before, limit=limit + 1)
    has_older = len(found) > limit
    del found[limit:]
    shown = found if args.reveal else [mask_change(one) for one in found]
    if cli.is_json:
        cli.put_json(map(change_object, shown))
        return 0
    removed_at = client.removed_at(name)
    zone, now = cli.zone(), client.now()
    if removed_at is not None:
        when = near_time(removed_at, zone=zone, now=now)
        cli.say(f"schedule {name} was removed at {when}; these are its changes")
    is_colored = cli.use_color(sys.stdout)
    for change in shown:
        number = paint(f"{change.revision:>4}", "bold", is_on=is_colored)
        what = paint(act_words(change), _ACT_STYLES.get(change.act), is_on=is_colored)
        when = near_time(change.at, zone=zone, now=now)
        by = paint(f"by {author_words(change)}", "dim", is_on=is_colored)
        cli.put(f"{number}  {when}  {what} {by}")
        put_lines(cli, change_lines(change, zone=zone, now=now), indent="      ")
        if not change.is_complete:
            cli.put("      retention removed the definition: what else differed is unknown")
    if not shown:
        cli.say("no such changes" if before is not None else "no changes are recorded")
    elif has_older:
        cli.say(f"older changes: --before {shown[-1].revision}")
    if shown and before is None:
        _say_undo(cli, client, name)
    return 0


def _say_undo(cli: Session, client: Client, name: str) -> None:
    """Say how to undo the last change, or why edgecron would refuse that."""
    try:
        client.plan_undo(name)
    except EdgecronError as error:
        cli.say(error.message)
        if error.hint is not None:
            cli.say(f"hint: {cli.complete_commands(error.hint)}")
    else:
        cli.say(f"undo the last change: {cli.command(f'undo {name}')}")


def _show_run(cli: Session, client: Client, text: str, *, is_masked: bool) -> int:
    run = client.execution(read_run_number(text))
    if cli.is_json:
        shown = execution_object(run)
        cli.put_json([mask_values(shown) if is_masked else shown])
        return 0

    now, zone = client.now(), cli.zone()
    mask = MASK if is_masked else None
    _put(cli, f"run {run.id} of {run.schedule}", run_lines(run, zone=zone, now=now, mask=mask))
    cli.say(run_sentence(run, zone=zone, now=now, spec=client.spec_of(run)))
    cli.say(f"see its output: {cli.command(f'logs {run.id}')}")
    if is_masked and run.payload is not None:
        cli.say(f"the payload is hidden; to see it: {cli.command(f'show {run.id} --reveal')}")
    return 0


def _put(cli: Session, title: str, lines: list[tuple[str, str]]) -> None:
    cli.put(paint(title, "bold", is_on=cli.use_color(sys.stdout)))
    cli.put_pairs(lines, width=13, indent="  ")


def _schedule_lines(
    cli: Session, client: Client, outlook: Outlook, *, mask: str | None
) -> list[tuple[str, str]]:
    now, zone, schedule = client.now(), cli.zone(), outlook.schedule
    spec = schedule.spec
    lines = [("description", spec.description)] if spec.description else []
    for text, words in trigger_lines(client, schedule):
        lines.append(("when", f"{text}   {words}"))
    lines += job_lines(schedule, mask=mask)
    if cli.remote_url() is None and (spec.job.memory_max or spec.job.cpu_max):
        from edgecron.client.doctor_machine import limit_words_of  # Few schedules have limits.

        lines.append(("limits", limit_words_of(spec, client.engines()) or ""))
    lines += bound_lines(schedule, zone=zone)
    lines.append(("policies", policy_words(spec.policies)))
    lines += prospect_lines(cli, outlook, zone=zone, now=now, mask=mask)
    lines += record_lines(schedule, zone=zone, now=now)
    return lines + state_lines(client.count_state(schedule.name))


class EnvCommand:
    """Show and compare the environment of a job.

        edgecron env show nightly
        edgecron env show nightly --reveal   also show secret values
        edgecron env diff nightly            compare it with this shell

    show lists each variable that the next scheduled run gets, and its source: the engine, the
    account of the user, env_file (--env-file), env (--env) or the run. A variable without a value
    differs from run to run. If no engine is running, the variables of this shell take the place of
    the engine's, and a warning says so.

    diff ignores the variables about the run, and compares PATH entry by entry. Values of --env and
    --env-file, of the payload, and of variables that can be secret are shown as *** unless you give
    --reveal: their name suggests a secret, or they are a URL with a password. PATH is always shown.

    With --url this does not work: only the machine of the engine knows the engine's environment.
    """

    USAGE = "show|diff NAME [--reveal]"

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("show|diff", "list the variables, or compare them", dest="action")
        parser.add("[NAME]", "a schedule")
        parser.add("--reveal", "show values that can be secret")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        actions = {"show": _show_environment, "diff": _show_differences}
        if args.action not in actions:
            meant = suggest(args.action, actions) or "show"
            raise UsageError(
                f"{args.action!r} is unknown, expected show or diff",
                hint=f"for example: edgecron env {meant} {args.name or args.action}",
            )
        if args.name is None:
            raise UsageError(
                "missing NAME", hint=f"for example: edgecron env {args.action} nightly"
            )
        from edgecron.client.job_environment import find_job_environment

        client = cli.local_client(must_exist=True)
        found = find_job_environment(client, client.schedule(args.name))
        actions[args.action](cli, found, reveals=args.reveal)
        if found.problem is not None:
            cli.warn(f"{found.problem}; each run fails until it can be read")
        if found.engine_pid is None:
            daemon = cli.command("daemon")
            cli.warn(
                "no engine is running, so this shell's variables replace those of an engine;"
                f" start one: {daemon}"
            )
        return 0


def _show_environment(cli: Session, found: JobEnvironment, *, reveals: bool) -> None:
    shown = [(one.name, one.source.value, _shown(one, reveals=reveals)) for one in found.variables]
    if cli.is_json:
        cli.put_json(
            {"name": name, "source": source, "value": value} for name, source, value in shown
        )
        return
    cli.put_table(
        ("name", "source", "value"),
        [(name, source, value or "") for name, source, value in shown],
        styles=[("bold", "dim", None) for _ in shown],
        flexible=((2, 20),),
        is_data=True,
    )


def _shown(one: Variable, *, reveals: bool) -> str | None:
    """Return the value of a job's variable, masked if it can be secret."""
    from edgecron.client.job_environment import Source

    is_given = one.source in (Source.ENV_FILE, Source.SCHEDULE) or one.name == "EDGECRON_PAYLOAD"
    is_hidden = one.name != _PATH and (is_given or is_secret(one.name, one.value))
    return MASK if is_hidden and one.value is not None and not reveals else one.value


def _show_differences(cli: Session, found: JobEnvironment, *, reveals: bool) -> None:
    rows = sorted(_differences(found, reveals=reveals), key=lambda row: row["name"])
    if cli.is_json:
        cli.put_json(rows)
        return
    if not rows:
        cli.say("the job and this shell have the same variables")
        return
    cli.put_table(
        ("name", "difference", "job", "shell"),
        [
            (row["name"], row["difference"].replace("_", " "), row["job"] or "", row["shell"] or "")
            for row in rows
        ],
        styles=[("bold", None, "green", "yellow") for _ in rows],
        flexible=((3, 16), (2, 16)),
        is_data=True,
    )


def _differences(found: JobEnvironment, *, reveals: bool) -> Iterator[dict[str, Any]]:
    """Compare a job's variables, without those about the run, with those of this process."""
    from edgecron.client.job_environment import Source

    ours = dict(os.environ)
    for one in found.variables:
        if one.source is Source.RUN:
            ours.pop(one.name, None)
            continue
        here = ours.pop(one.name, None)
        job = _shown(one, reveals=reveals)
        if here is None:
            yield _difference(one.name, job=job, shell=None)
        elif here != one.value and one.name == _PATH:
            yield from _path_differences(one.value or "", here)
        elif here != one.value:
            yield _difference(one.name, job=job, shell=MASK if job == MASK else here)
    for name, here in ours.items():
        is_masked = is_secret(name, here) and not reveals
        yield _difference(name, job=None, shell=MASK if is_masked else here)


def _path_differences(job: str, shell: str) -> Iterator[dict[str, Any]]:
    """Compare two values of PATH: a row for each folder that only one of them has."""
    theirs, ours = job.split(":"), shell.split(":")
    differing = [
        *(_difference(_PATH, job=one, shell=None) for one in theirs if one not in ours),
        *(_difference(_PATH, job=None, shell=one) for one in ours if one not in theirs),
    ]
    # The same folders in another order.
    yield from differing or [_difference(_PATH, job=job, shell=shell)]


def _difference(name: str, *, job: str | None, shell: str | None) -> dict[str, Any]:
    difference = "only_shell" if job is None else "only_job" if shell is None else "different"
    return {"name": name, "difference": difference, "job": job, "shell": shell}
