"""All about one schedule: its times, its job, its policies, and how it does.

edgecron show backup
edgecron show backup --json
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from edgecron.cli.session import Session
from edgecron.errors import InvalidInput

if TYPE_CHECKING:
    from edgecron.api import Scheduler
    from edgecron.model import Policies, Schedule
    from edgecron.upcoming import UpcomingFire

USAGE = "NAME [--json]"
_UPCOMING = 5


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")


def run(cli: Session, args: Namespace) -> int:
    scheduler = cli.scheduler(must_exist=True)
    schedule = scheduler.schedule(args.name)
    upcoming: list[UpcomingFire] = []
    # Where its trigger can't be read any more, the rest is shown and says so.
    with suppress(InvalidInput):
        upcoming += islice(scheduler.next_fires(args.name), _UPCOMING)
    if cli.is_json:
        from edgecron.cli.objects import schedule_details

        cli.put_json([schedule_details(schedule, upcoming)])
        return 0
    from edgecron.cli.screen import clean, paint

    is_colored = cli.use_color(sys.stdout)
    cli.put(paint(clean(schedule.name), "bold", is_on=is_colored))
    for label, text in _lines(cli, scheduler, schedule, upcoming):
        shown = clean(text, keep="\n").replace("\n", "\n" + " " * 15)
        cli.put(f"  {paint(f'{label:<11}', 'dim', is_on=is_colored)}  {shown}")
    if schedule.trigger_error is not None:
        cli.say(f"mend it: {cli.command(f'edit {schedule.name}')} --cron ... --tz ...")
    return 0


def _lines(
    cli: Session, scheduler: Scheduler, schedule: Schedule, upcoming: list[UpcomingFire]
) -> list[tuple[str, str]]:
    from edgecron.cli.phrases import (
        count_words,
        full_time,
        group_words,
        is_overdue,
        job_words,
        last_words,
        needs_words,
        next_words,
    )
    from edgecron.cli.screen import distance, local_time

    now, zone = scheduler.now(), cli.zone()
    spec, job = schedule.spec, schedule.spec.job
    lines = [("description", spec.description)] if spec.description else []
    lines += [("when", text) for text in _trigger_words(scheduler, schedule)]
    lines.append(("job", f"{job_words(spec)}  ({job.kind})"))
    for label, value in (
        ("folder", job.cwd),
        ("user", job.user),
        ("env file", job.env_file),
        ("env", "\n".join(f"{key}={value}" for key, value in job.env.items())),
        ("stdin", job.stdin),
        ("payload", job.payload),
        ("group", group_words(schedule)),
        ("needs", needs_words(spec.policies)),
        ("from", local_time(spec.from_at, zone=zone, absent="")),
        ("until", local_time(spec.until_at, zone=zone, absent="")),
        ("max runs", str(spec.max_runs or "")),
    ):
        if value:
            lines.append((label, value))
    if spec.scopes != (("global", ""),):
        lines.append(("scopes", ", ".join(f"{kind}:{id_}" for kind, id_ in spec.scopes)))
    lines.append(("policies", _policy_words(spec.policies)))
    if upcoming:
        before = None
        for fire in upcoming:
            time = full_time(fire.due_at, spec.timezone, zone=zone)
            label = "due since" if is_overdue(fire.due_at, now) else "next"
            shown = "" if label == before else label
            lines.append((shown, f"{time}  {distance(fire.due_at, now)}"))
            before = label
    else:
        lines.append(("next", next_words(schedule, zone=zone, now=now)))
    waiting = _waiting_words(cli, scheduler, schedule)
    lines += [("" if number else "waits", text) for number, text in enumerate(waiting)]
    lines.append(("last", last_words(schedule, now=now)))
    if schedule.last_error:
        lines.append(("last error", schedule.last_error))
    counts = [f"{count} {status}" for status, count in schedule.counts.items() if count]
    runs = count_words(schedule.run_count, "run")
    lines.append(("so far", ", ".join([runs, *counts])))
    return lines


def _waiting_words(cli: Session, scheduler: Scheduler, schedule: Schedule) -> list[str]:
    """What its runs that are owed wait for, the newest first."""
    from edgecron.cli.phrases import waiting_words
    from edgecron.model import Status

    if not schedule.spec.policies.needs:
        return []
    now, zone = scheduler.now(), cli.zone()
    return [
        f"run {run.id} {waiting_words(run.waiting_for, run.wait_until, zone=zone, now=now)}"
        for run in scheduler.history(schedule.name, statuses=(Status.QUEUED,), limit=_UPCOMING)
        if run.waiting_for is not None and run.wait_until is not None
    ]


def _trigger_words(scheduler: Scheduler, schedule: Schedule) -> list[str]:
    from edgecron.triggers import describe

    try:
        triggers = scheduler.triggers(schedule)
    except InvalidInput as error:
        return [f"{', '.join(schedule.spec.triggers)}  broken: {error}"]
    return [f"{trigger.text}   {describe(trigger)}" for trigger in triggers]


def _policy_words(policies: Policies) -> str:
    from edgecron.cli.screen import seconds_words
    from edgecron.model import OnInterrupt

    words = [f"catch up {policies.catch_up}", f"overlap {policies.overlap}"]
    if policies.grace_s is not None:
        words.append(f"grace {seconds_words(policies.grace_s)}")
    if policies.max_running is not None:
        words.append(f"at most {policies.max_running} at once")
    timeout = "none" if policies.timeout_s is None else seconds_words(policies.timeout_s)
    words.append(f"timeout {timeout}")
    if policies.timeout_s is not None:
        words.append(f"kill grace {seconds_words(policies.kill_grace_s)}")
    if policies.retries:
        delay = seconds_words(policies.retry_delay_s)
        words.append(f"{policies.retries} retries, the first after {delay}")
        if policies.retry_factor != 1:
            most = seconds_words(policies.retry_max_delay_s)
            words.append(f"each {policies.retry_factor:g} times later, up to {most}")
    if policies.on_interrupt is not OnInterrupt.LEAVE:
        words.append("run again after an interruption")
    if policies.jitter_s:
        words.append(f"jitter {seconds_words(policies.jitter_s)}")
    if policies.priority:
        words.append(f"priority {policies.priority}")
    if policies.ok_codes != (0,):
        words.append(f"ok codes {', '.join(map(str, policies.ok_codes))}")
    return ", ".join(words)
