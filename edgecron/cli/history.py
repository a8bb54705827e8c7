"""Past runs: list them, and explain why a schedule ran or did not."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from edgecron.base.errors import NotFound, Unreadable, UsageError
from edgecron.base.value_texts import (
    parse_when,
    read_choice,
    read_count,
    read_past,
    read_time,
)
from edgecron.cli.list_ import say_empty, warn_of_unreadable
from edgecron.cli.output import STATUS_STYLES, wrapped
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.client.why import Answer, answer_now, answer_object, answer_run, answer_time, say_run
from edgecron.formats.option_texts import read_run_number
from edgecron.model.choices import Cause, Status
from edgecron.model.listing import RunChoice
from edgecron.views.json_objects import execution_object
from edgecron.views.phrases import note_words, status_words
from edgecron.views.run_words import is_planned_earlier
from edgecron.views.times import local_time, near_time, short_duration

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.client.job_environment import PathGap
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution

_MOST = 10_000
_MOST_GAPS = 3  # schedules for which `history` looks for a program that was not found
_FIX = "Fix it: "
_MOST_OF_A_DAY = 10
_DAY = re.compile(
    r"\d{4}-\d\d-\d\d|yesterday|today|(mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|mon|tue|wed|thu|fri|sat|sun",
    re.ASCII | re.IGNORECASE,
)


class HistoryCommand:
    """List past and skipped runs.

        edgecron history
        edgecron history nightly -n 50
        edgecron history --status failed --status interrupted
        edgecron history --since yesterday --until "1h ago"
        edgecron history --before 1200        the next page, after run 1200

    The newest runs come first, and the reasons are in the column NOTE. --since and --until count by
    the column STARTED, which has the due time of runs that have not started. PLAN is the plan time
    of runs that started late, were retried or were backfilled.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("[NAME]", "show runs of this schedule (default: all)")
        parser.add(
            "--status STATUS",
            f"show only runs with this status: {', '.join(Status)}",
            action="append",
        )
        parser.add(
            "--cause CAUSE", f"show only runs with this cause: {', '.join(Cause)}", action="append"
        )
        parser.add("-n N", "show N runs (default: 20)", dest="limit", default="20")
        parser.add("--before RUN", "show runs older than this one")
        add_time_arguments(parser, "show runs")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        limit = read_count(args.limit, what="-n", most=_MOST)
        for option, texts in (("--status", args.status), ("--cause", args.cause)):
            _refuse_lists(option, texts or ())
        statuses = tuple(read_choice(text, Status, what="--status") for text in args.status or ())
        causes = tuple(read_choice(text, Cause, what="--cause") for text in args.cause or ())
        before_id = None if args.before is None else read_run_number(args.before, what="--before")
        client = cli.reading_client()
        since, until = read_times(args, client)
        has_times = since is not None or until is not None
        choice = RunChoice(
            statuses=statuses,
            causes=causes,
            before_id=before_id,
            since=since,
            until=until,
            with_former=True,
        )
        executions, unreadable = client.history_page(args.name, choice=choice, limit=limit + 1)
        has_older = len(executions) > limit
        if has_older:  # The next page shows the rest, and names what is unreadable among it.
            del executions[limit:]
            unreadable = [run_id for run_id in unreadable if run_id > executions[-1].id]
        if args.name is not None:
            say_removed(cli, client, args.name)
        if cli.is_json:
            cli.put_json(execution_object(execution) for execution in executions)
        elif executions:
            _put_by_schedule(cli, client, executions, name=args.name)
            _say_gaps(cli, executions)
            if has_older:
                cli.say(f"older runs: --before {executions[-1].id}")
            elif args.name is not None and not statuses and not causes and not has_times:
                _say_pruned(cli, client, args.name)
        elif unreadable:
            pass  # The warning below names them.
        elif args.name is not None or client.count_schedules()[0]:
            is_any = not statuses and not causes and before_id is None and not has_times
            cli.say("no runs yet" if is_any else "no such runs")
        else:
            say_empty(cli, client)
        warn_of_unreadable(cli, "run", [str(run_id) for run_id in unreadable])
        return 0


def add_time_arguments(parser: Parser, act: str) -> None:
    """Add --since and --until. `act` is what they limit."""
    times = "a time, yesterday, 2h"
    parser.add("--since TIME", f"{act} that started at TIME or later: {times}")
    parser.add("--until TIME", f"{act} that started before TIME")


def read_times(args: Namespace, client: Client) -> tuple[datetime | None, datetime | None]:
    """Return the instants of --since and --until. Raises InvalidTime or UsageError."""
    now = client.now()
    since, until = (
        None if text is None else read_past(text, what=what, now=now)
        for what, text in (("--since", args.since), ("--until", args.until))
    )
    if since is not None and until is not None and since >= until:
        raise UsageError(
            f"--since is {args.since!r}, which is not before --until {args.until!r}",
            hint="exchange them, or remove one",
        )
    return since, until


def _say_gaps(cli: Session, executions: list[Execution]) -> None:
    """Say how to fix schedules whose newest failure shown did not find a program."""
    failed = {run.schedule: run for run in reversed(executions) if run.status is Status.FAILED}
    for run in list(failed.values())[:_MOST_GAPS]:
        gap = _find_gap_here(cli, run)
        if gap is not None:
            cli.say(f"{gap.words}; fix it: {cli.command(gap.fix(run.schedule))}")


def say_removed(cli: Session, client: Client, name: str) -> None:
    """Say that a schedule was removed, if so."""
    removed_at = client.removed_at(name)
    if removed_at is not None and not cli.is_json:
        when = near_time(removed_at, zone=cli.zone(), now=client.now())
        cli.say(f"schedule {name} was removed at {when}; these are its runs")


def _put_by_schedule(
    cli: Session, client: Client, executions: list[Execution], *, name: str | None
) -> None:
    """Print runs as a table; one table for each removed schedule of this name."""
    removals = [] if name is None else client.removals(name)
    if removals and name is not None and client.removed_at(name) is not None:
        del removals[0]  # `say_removed` reports it.
    earlier = dict(removals)
    if not earlier:
        _put_executions(cli, client, executions)
        return
    for schedule_id, runs in groupby(executions, key=lambda run: run.schedule_id):
        if schedule_id in earlier:
            when = near_time(earlier[schedule_id], zone=cli.zone(), now=client.now())
            cli.put(f"an earlier schedule {name}, removed at {when}:")
        _put_executions(cli, client, list(runs))


def _say_pruned(cli: Session, client: Client, name: str) -> None:
    """Say that retention has removed older runs of a schedule, if so."""
    if client.removed_at(name) is not None:
        return
    pruned_until = None
    with suppress(Unreadable):
        pruned_until = client.schedule(name).pruned_until
    if pruned_until is not None:
        until = local_time(pruned_until, zone=cli.zone())
        cli.say(f"retention removed the runs up to {until}")


def _put_executions(cli: Session, client: Client, executions: list[Execution]) -> None:
    """Print runs as a table."""
    now, zone = client.now(), cli.zone()
    plans = [
        near_time(run.plan_at, zone=zone, now=now) if is_planned_earlier(run) else ""
        for run in executions
    ]
    has_plans = any(plans)
    rows, styles = [], []
    for execution, plan in zip(executions, plans, strict=True):
        rows.append(
            (
                str(execution.id),
                execution.schedule,
                status_words(execution),
                near_time(_shown_time(execution), zone=zone, now=now),
                *([plan] if has_plans else []),
                short_duration(execution.duration_ms),
                note_words(execution, zone=zone, now=now),
            )
        )
        styles.append(
            (
                *("dim", "bold", STATUS_STYLES.get(execution.status.value), None),
                *(["dim"] if has_plans else []),
                *(None, "dim"),
            ),
        )
    note = 5 + has_plans
    cli.put_table(
        (
            "id",
            "schedule",
            "status",
            "started_at",
            *(["plan_at"] if has_plans else []),
            "duration_ms",
            "note",
        ),
        rows,
        styles=styles,
        flexible=((note, 30), (1, 24), (note, 20), (1, 10), (note, 12)),
        title=1,
    )


def _shown_time(execution: Execution) -> datetime:
    """Return when a run started; else when it is or was due."""
    is_queued = execution.status is Status.QUEUED
    return execution.started_at or (execution.due_at if is_queued else execution.plan_at)


def _refuse_lists(option: str, texts: Iterable[str]) -> None:
    """Raise UsageError for a value such as `failed,skipped`: the option is repeated instead."""
    for text in texts:
        if "," in text:
            each = " ".join(f"{option} {part.strip()}" for part in text.split(",") if part.strip())
            raise UsageError(f"{option} is {text!r}, expected one word", hint=f"write {each}")


class WhyCommand:
    """Explain why a schedule ran or did not.

        edgecron why nightly
        edgecron why nightly 02:00
        edgecron why nightly "tomorrow 02:00"
        edgecron why nightly yesterday            every time of that day
        edgecron why 4711                         one run

    The answer says why a run ran, did not run, or will not run. Without a time, edgecron explains
    the last run and the next one. A time without seconds means the whole minute, 02:00 means today,
    "monday 02:00" the last Monday. A day without a time (yesterday, monday, 2026-11-20) means every
    time of that day.
    """

    USAGE = "NAME [TIME|RUN] | RUN"

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("NAME|RUN", "a schedule, or a run's number", dest="name")
        parser.add("[TIME|RUN]", "a time, or a run's number", dest="time")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        client = cli.reading_client()
        if args.time is None and args.name.isascii() and args.name.isdigit():
            return _why_run(cli, client, args.name)
        if args.time is None:
            return _why_now(cli, args.name)
        if args.time.isascii() and args.time.isdigit():
            return _why_run(cli, client, args.time, of=args.name)

        at = read_time(args.time, what="TIME", timezone="local", now=client.now(), is_past=True)
        if _DAY.fullmatch(args.time.strip()) and at <= client.now():
            page = _find_day(cli, client, args.name, at)
            if page:
                _put_day(cli, client, args.name, page)
                return 0
        say = partial(_run_sentences, cli)
        return _put_answer(cli, answer_time(cli, args.name, at, zone=cli.zone(), say=say))


def _find_day(cli: Session, client: Client, name: str, begin: datetime) -> list[Execution]:
    """Return the runs of the local day that begins then, newest first, at most one too many."""
    following = begin.astimezone(cli.zone()).date() + timedelta(days=1)
    end = parse_when(following.isoformat(), timezone="local", now=client.now())
    return client.history(name, choice=RunChoice(since=begin, until=end), limit=_MOST_OF_A_DAY + 1)


def _put_day(cli: Session, client: Client, name: str, runs: list[Execution]) -> None:
    shown = runs[:_MOST_OF_A_DAY][::-1]
    answers = [answer_run(run, say=partial(_run_sentences, cli)) for run in shown]
    if cli.is_json:
        cli.put_json(answer_object(one, now=client.now()) for one in answers)
        return
    sentences = [sentence for one in answers for sentence in one.sentences]
    if len(runs) > len(shown):
        history = cli.command(f"history {name}")
        sentences.insert(0, f"These are the last {len(shown)} of the day; earlier ones: {history}.")
    _put_sentences(cli, sentences)


def _why_now(cli: Session, name: str) -> int:
    say = partial(_run_sentences, cli)
    return _put_answer(cli, answer_now(cli, name, zone=cli.zone(), say=say))


def _why_run(cli: Session, client: Client, text: str, *, of: str | None = None) -> int:
    run = client.execution(read_run_number(text))
    if of is not None and run.schedule != of:
        raise NotFound(
            f"run {run.id} belongs to schedule {run.schedule!r}",
            hint=f"edgecron why {run.id}",
        )
    return _put_answer(cli, answer_run(run, say=partial(_run_sentences, cli)))


def _run_sentences(cli: Session, run: Execution) -> list[str]:
    """Explain a run, and how to fix it if it did not find a program that this shell finds."""
    sentences = say_run(cli.client(), run, zone=cli.zone())
    gap = _find_gap_here(cli, run)
    if gap is None:
        return sentences
    return [f"{' '.join(sentences)} {gap.words}.", f"{_FIX}{cli.command(gap.fix(run.schedule))}"]


def _find_gap_here(cli: Session, run: Execution) -> PathGap | None:
    """Find the program that a failed run did not find and this shell does; None for --url."""
    if run.status is not Status.FAILED or cli.remote_url() is not None:
        return None
    from edgecron.client.job_environment import find_gap_of_run  # It loads the supervisor.

    return find_gap_of_run(cli.local_client(), run)


def _put_answer(cli: Session, answer: Answer) -> int:
    if cli.is_json:
        cli.put_json([answer_object(answer, now=cli.client().now())])
    else:
        _put_sentences(cli, answer.sentences)
    return 0


def _put_sentences(cli: Session, sentences: list[str]) -> None:
    for sentence in sentences:
        # A command line must stay on one line, to be copied.
        cli.put(sentence if sentence.startswith(_FIX) else wrapped(sentence))
