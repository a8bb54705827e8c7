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
from argparse import ArgumentParser, Namespace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import NotFound
from edgecron.base.units import to_ms
from edgecron.cli.output import wrapped
from edgecron.cli.session import Session
from edgecron.client.sentences import prospect_sentences, verdict_sentences
from edgecron.formats.value_texts import read_run_number, read_time
from edgecron.model.choices import Status
from edgecron.model.listing import Idle, RunChoice
from edgecron.triggers import clock_change_notes, parse_when
from edgecron.views.explanation import Verdict
from edgecron.views.json_objects import execution_object, instant, outlook_object
from edgecron.views.run_words import run_sentence

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.client.job_environment import PathGap
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution
    from edgecron.views.explanation import Explanation

_FIX = "Fix it: "
_MOST_RUNS = 5  # of one time that are explained one by one
_MOST_OF_A_DAY = 10
_DAY = re.compile(
    r"\d{4}-\d\d-\d\d|yesterday|today|(mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|mon|tue|wed|thu|fri|sat|sun",
    re.ASCII | re.IGNORECASE,
)
USAGE = "NAME [TIME|RUN] | RUN"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME|RUN", help="a schedule, or a run's number")
    parser.add_argument("time", nargs="?", metavar="TIME|RUN", help="a time, or a run's number")


def run(cli: Session, args: Namespace) -> int:
    client = cli.client(must_exist=True)
    if args.time is None and args.name.isascii() and args.name.isdigit():
        client.take_over()
        return _why_run(cli, client, args.name)
    # A run that ended while no engine was running must not look active.
    client.take_over()
    if args.time is None:
        return _why_now(cli, client, args.name)
    if args.time.isascii() and args.time.isdigit():
        return _why_run(cli, client, args.time, of=args.name)

    at = read_time(args.time, what="TIME", timezone="local", now=client.now(), is_past=True)
    if _DAY.fullmatch(args.time.strip()) and at <= client.now():
        page = _find_day(cli, client, args.name, at)
        if page:
            _put_day(cli, client, args.name, page)
            return 0
    found = client.explain(args.name, at)
    _put(cli, client, found, _sentences(cli, client, found))
    return 0


def _find_day(cli: Session, client: Client, name: str, begin: datetime) -> list[Execution]:
    """Return the runs of the local day that begins then, newest first, at most one too many."""
    following = begin.astimezone(cli.zone()).date() + timedelta(days=1)
    end = parse_when(following.isoformat(), timezone="local", now=client.now())
    return client.history(name, choice=RunChoice(since=begin, until=end), limit=_MOST_OF_A_DAY + 1)


def _put_day(cli: Session, client: Client, name: str, runs: list[Execution]) -> None:
    shown = runs[:_MOST_OF_A_DAY][::-1]
    answers = [_run_sentences(cli, client, run) for run in shown]
    if cli.is_json:
        cli.put_json(_run_object(run, said) for run, said in zip(shown, answers, strict=True))
        return
    sentences = [sentence for said in answers for sentence in said]
    if len(runs) > len(shown):
        history = cli.command(f"history {name}")
        sentences.insert(0, f"These are the last {len(shown)} of the day; earlier ones: {history}.")
    _put_sentences(cli, sentences)


def _run_object(run: Execution, sentences: list[str]) -> dict[str, Any]:
    return {
        "schedule": run.schedule,
        "at": None,
        "verdict": "recorded",
        "answer": " ".join(sentences),
        "runs": [execution_object(run)],
        "outlook": None,
    }


def _why_now(cli: Session, client: Client, name: str) -> int:
    now, zone = client.now(), cli.zone()
    outlook = client.outlook(name, upcoming=1)
    last = client.history(name, limit=1)
    sentences = [sentence for run in last for sentence in _run_sentences(cli, client, run)]
    if not last:
        sentences = ["It has not run yet, and no time was skipped."]
    ahead = prospect_sentences(cli, outlook, zone=zone, now=now)
    # That nobody runs the schedule matters more than its last run.
    first = 1 if outlook.idle is Idle.VANISHED else 0
    sentences = ahead[:first] + sentences + ahead[first:]
    if cli.is_json:
        cli.put_json(
            [
                {
                    "schedule": name,
                    "at": None,
                    "verdict": "now",
                    "answer": " ".join(sentences),
                    "runs": [execution_object(run) for run in last],
                    "outlook": outlook_object(outlook, now=now),
                }
            ]
        )
        return 0
    _put_sentences(cli, sentences)
    return 0


def _why_run(cli: Session, client: Client, text: str, *, of: str | None = None) -> int:
    run = client.execution(read_run_number(text))
    if of is not None and run.schedule != of:
        raise NotFound(
            f"run {run.id} belongs to schedule {run.schedule!r}",
            hint=f"edgecron why {run.id}",
        )
    sentences = _run_sentences(cli, client, run)
    if cli.is_json:
        cli.put_json([_run_object(run, sentences)])
    else:
        _put_sentences(cli, sentences)
    return 0


def _run_sentences(cli: Session, client: Client, run: Execution) -> list[str]:
    """Explain a run, and how to fix it if it did not find a program that this shell finds."""
    sentence = run_sentence(run, zone=cli.zone(), now=client.now(), spec=client.spec_of(run))
    gap = find_gap_here(cli, run)
    if gap is None:
        return [sentence]
    return [f"{sentence} {gap.words}.", f"{_FIX}{cli.command(gap.fix(run.schedule))}"]


def find_gap_here(cli: Session, run: Execution) -> PathGap | None:
    """Find the program that a failed run did not find and this shell does; None for --url."""
    if run.status is not Status.FAILED or cli.remote_url() is not None:
        return None
    from edgecron.client.job_environment import find_gap_of_run  # It loads the supervisor.

    return find_gap_of_run(cli.local_client(), run)


def _put(cli: Session, client: Client, found: Explanation, sentences: list[str]) -> None:
    if not cli.is_json:
        _put_sentences(cli, sentences)
        return

    body: dict[str, Any] = {
        "schedule": found.schedule.name,
        "at": instant(found.at),
        "verdict": found.verdict.value,
        "answer": " ".join(sentences),
        "runs": [execution_object(run) for run in found.runs],
        "plan_at": instant(found.plan_at),
        "due_at": instant(found.due_at),
        "source": found.source,
        "previous_at": instant(found.previous_at),
        "next_at": instant(found.next_at),
        "revision": found.words.revision,
    }
    cli.put_json([body])


def _put_sentences(cli: Session, sentences: list[str]) -> None:
    for sentence in sentences:
        # A command line must stay on one line, to be copied.
        cli.put(sentence if sentence.startswith(_FIX) else wrapped(sentence))


def _sentences(cli: Session, client: Client, found: Explanation) -> list[str]:
    now, zone = client.now(), cli.zone()
    if found.verdict is Verdict.RECORDED:
        shown: tuple[Execution, ...] = found.runs[-_MOST_RUNS:]
        lines = [sentence for run in shown for sentence in _run_sentences(cli, client, run)]
        more = len(found.runs) - len(shown)
        if more > 0:
            history = cli.command(f"history {found.schedule.name}")
            lines.insert(0, f"Of {len(found.runs)} runs these are the last; see {history}.")
        return lines
    lines = verdict_sentences(cli, found, zone=zone, now=now)
    return lines + _change_notes(client, found)


def _change_notes(client: Client, found: Explanation) -> list[str]:
    """Return what clock changes within a day do to such a time."""
    day = timedelta(days=1)
    since, until = to_ms(found.at - day), to_ms(found.at + day)
    notes: dict[str, None] = {}
    for trigger in client.triggers_at(found.schedule.name, found.at):
        for change in clock_change_notes(trigger, since, until):
            notes[f"On {change.date} {change.text}."] = None
    return list(notes)
