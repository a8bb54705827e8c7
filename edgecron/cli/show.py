"""All about one schedule: what it runs and when, what will happen next and why, how it does.

    edgecron show backup
    edgecron show backup --json

It says what comes next or why nothing does, what is active and what that waits for, what would
become of a fire now, and which fire was left out last and why.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.cli.session import Session
from edgecron.errors import InvalidInput

if TYPE_CHECKING:
    from edgecron.api import Scheduler
    from edgecron.model import Policies, Schedule
    from edgecron.outlook import Outlook

USAGE = "NAME [--json]"
_UPCOMING = 5


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")


def run(cli: Session, args: Namespace) -> int:
    scheduler = cli.scheduler(must_exist=True)
    # What ended while no engine was alive must not look like a run that goes on.
    scheduler.take_over()
    outlook = scheduler.outlook(args.name, upcoming=_UPCOMING)
    schedule = outlook.schedule
    if cli.is_json:
        from edgecron.cli.objects import outlook_object, schedule_details

        details = schedule_details(schedule, outlook.upcoming)
        cli.put_json([details | {"outlook": outlook_object(outlook, now=scheduler.now())}])
        return 0
    from edgecron.cli.screen import paint
    from edgecron.safetext import clean

    is_colored = cli.use_color(sys.stdout)
    cli.put(paint(schedule.name, "bold", is_on=is_colored))
    for label, text in _lines(cli, scheduler, outlook):
        shown = clean(text, keep="\n").replace("\n", "\n" + " " * 15)
        cli.put(f"  {paint(f'{label:<11}', 'dim', is_on=is_colored)}  {shown}")
    if schedule.trigger_error is not None:
        cli.say(f"mend it: {cli.command(f'edit {schedule.name}')} --cron ... --tz ...")
    return 0


def _lines(cli: Session, scheduler: Scheduler, outlook: Outlook) -> list[tuple[str, str]]:
    from edgecron.standing import standing_of
    from edgecron.words.phrases import count_words, group_words, job_words, last_words, needs_words
    from edgecron.words.prospects import prospect_lines
    from edgecron.words.times import local_time

    now, zone, schedule = scheduler.now(), cli.zone(), outlook.schedule
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
    lines += prospect_lines(cli, outlook, zone=zone, now=now)
    lines.append(("last", last_words(standing_of(schedule), now=now)))
    if schedule.last_error:
        lines.append(("last error", schedule.last_error))
    counts = [f"{count} {status}" for status, count in schedule.counts.items() if count]
    runs = count_words(schedule.run_count, "run")
    lines.append(("so far", ", ".join([runs, *counts])))
    if schedule.pruned_until is not None:
        until = local_time(schedule.pruned_until, zone=zone)
        lines.append(("history", f"retention has removed runs of times up to {until}"))
    return lines


def _trigger_words(scheduler: Scheduler, schedule: Schedule) -> list[str]:
    from edgecron.triggers import describe

    try:
        triggers = scheduler.triggers(schedule)
    except InvalidInput as error:
        return [f"{', '.join(schedule.spec.triggers)}  broken: {error}"]
    return [f"{trigger.text}   {describe(trigger)}" for trigger in triggers]


def _policy_words(policies: Policies) -> str:
    from edgecron.model import OnInterrupt
    from edgecron.words.times import seconds_words

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
        if policies.retries == 1:
            words.append(f"1 retry after {delay}")
        else:
            words.append(f"{policies.retries} retries, the first after {delay}")
        if policies.retries > 1 and policies.retry_factor != 1:
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
