"""Show one schedule or one run.

    edgecron show nightly
    edgecron show nightly --reveal   also environment, payload and stdin
    edgecron show 4711              a run, by its number

For a schedule, edgecron shows the job, the times, the next run or why there is none, the active
runs, and the last skipped run. With --json, `state` is what functions of a program have stored.
Values of environment, payload and stdin are shown as *** unless you give --reveal.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.cli.screen import paint
from edgecron.cli.session import Session
from edgecron.client.sentences import prospect_lines, trigger_lines
from edgecron.formats.option_texts import read_run_number
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

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.views.outlook import Outlook

_UPCOMING = 5


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME|RUN", help="a schedule, or a run's number")
    parser.add_argument(
        "--reveal", action="store_true", help="show values of environment, payload and stdin"
    )


def run(cli: Session, args: Namespace) -> int:
    client = cli.client(must_exist=True)
    # A run that ended while no engine was running must not look active.
    client.take_over()
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
    _put(cli, schedule.name, _lines(cli, client, outlook, mask=mask))
    job = schedule.spec.job
    if mask is not None and (job.env or job.payload is not None or job.stdin is not None):
        cli.say(f"values are hidden; to see them: {cli.command(f'show {schedule.name} --reveal')}")
    if schedule.trigger_error is not None:
        cli.say(f"fix it: {cli.command(f'edit {schedule.name}')} --cron ... --tz ...")
    return 0


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


def _lines(
    cli: Session, client: Client, outlook: Outlook, *, mask: str | None
) -> list[tuple[str, str]]:
    now, zone, schedule = client.now(), cli.zone(), outlook.schedule
    spec = schedule.spec
    lines = [("description", spec.description)] if spec.description else []
    for text, words in trigger_lines(client, schedule):
        lines.append(("when", f"{text}   {words}"))
    lines += job_lines(schedule, mask=mask)
    lines += bound_lines(schedule, zone=zone)
    lines.append(("policies", policy_words(spec.policies)))
    lines += prospect_lines(cli, outlook, zone=zone, now=now, mask=mask)
    lines += record_lines(schedule, zone=zone, now=now)
    return lines + state_lines(client.count_state(schedule.name))
