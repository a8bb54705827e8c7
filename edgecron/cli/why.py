"""Explain why a schedule ran or did not.

    edgecron why nightly
    edgecron why nightly 02:00
    edgecron why nightly "tomorrow 02:00"
    edgecron why nightly yesterday            every time of that day
    edgecron why 4711                         one run

The answer says why a run ran, did not run, or will not run. Without a time, edgecron explains the
last run and the next one. A time without seconds means the whole minute, 02:00 means today, "monday
02:00" the last Monday. A day without a time (yesterday, monday, 2026-11-20) means every time of
that day.
"""

from __future__ import annotations

import re
from argparse import Namespace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from edgecron.base.errors import NotFound
from edgecron.cli.output import wrapped
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.client.why import (
    Answer,
    answer_now,
    answer_object,
    answer_run,
    answer_time,
    say_run,
)
from edgecron.formats.value_texts import read_run_number, read_time
from edgecron.model.choices import Status
from edgecron.model.listing import RunChoice
from edgecron.triggers import parse_when

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.client.job_environment import PathGap
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution

_FIX = "Fix it: "
_MOST_OF_A_DAY = 10
_DAY = re.compile(
    r"\d{4}-\d\d-\d\d|yesterday|today|(mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|mon|tue|wed|thu|fri|sat|sun",
    re.ASCII | re.IGNORECASE,
)
USAGE = "NAME [TIME|RUN] | RUN"


def add_arguments(parser: Parser) -> None:
    parser.add("NAME|RUN", "a schedule, or a run's number", dest="name")
    parser.add("[TIME|RUN]", "a time, or a run's number", dest="time")


def run(cli: Session, args: Namespace) -> int:
    client = cli.client(must_exist=True)
    if args.time is None and args.name.isascii() and args.name.isdigit():
        client.take_over()
        return _why_run(cli, client, args.name)
    # A run that ended while no engine was running must not look active.
    client.take_over()
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
    return _put(cli, answer_time(cli, args.name, at, zone=cli.zone(), say=say))


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
    return _put(cli, answer_now(cli, name, zone=cli.zone(), say=say))


def _why_run(cli: Session, client: Client, text: str, *, of: str | None = None) -> int:
    run = client.execution(read_run_number(text))
    if of is not None and run.schedule != of:
        raise NotFound(
            f"run {run.id} belongs to schedule {run.schedule!r}",
            hint=f"edgecron why {run.id}",
        )
    return _put(cli, answer_run(run, say=partial(_run_sentences, cli)))


def _run_sentences(cli: Session, run: Execution) -> list[str]:
    """Explain a run, and how to fix it if it did not find a program that this shell finds."""
    sentences = say_run(cli.client(), run, zone=cli.zone())
    gap = find_gap_here(cli, run)
    if gap is None:
        return sentences
    return [f"{' '.join(sentences)} {gap.words}.", f"{_FIX}{cli.command(gap.fix(run.schedule))}"]


def find_gap_here(cli: Session, run: Execution) -> PathGap | None:
    """Find the program that a failed run did not find and this shell does; None for --url."""
    if run.status is not Status.FAILED or cli.remote_url() is not None:
        return None
    from edgecron.client.job_environment import find_gap_of_run  # It loads the supervisor.

    return find_gap_of_run(cli.local_client(), run)


def _put(cli: Session, answer: Answer) -> int:
    if cli.is_json:
        cli.put_json([answer_object(answer, now=cli.client().now())])
    else:
        _put_sentences(cli, answer.sentences)
    return 0


def _put_sentences(cli: Session, sentences: list[str]) -> None:
    for sentence in sentences:
        # A command line must stay on one line, to be copied.
        cli.put(sentence if sentence.startswith(_FIX) else wrapped(sentence))
