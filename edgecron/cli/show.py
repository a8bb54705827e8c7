"""All about one schedule: what it runs and when, what will happen next and why, how it does.

    edgecron show backup
    edgecron show backup --json

It says what comes next or why nothing does, what is active and what that waits for, what would
become of a fire now, and which fire was left out last and why. With --json, `state` is what its
functions have it remember.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.cli.session import Session

if TYPE_CHECKING:
    from edgecron.outlook import Outlook
    from edgecron.remote import Face

USAGE = "NAME [--json]"
_UPCOMING = 5


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")


def run(cli: Session, args: Namespace) -> int:
    client = cli.client(must_exist=True)
    # What ended while no engine was alive must not look like a run that goes on.
    client.take_over()
    outlook = client.outlook(args.name, upcoming=_UPCOMING)
    schedule = outlook.schedule
    if cli.is_json:
        from edgecron.objects import outlook_object, schedule_details, state_object

        details = schedule_details(schedule, outlook.upcoming)
        details["state"] = state_object(client.state(schedule.name))
        cli.put_json([details | {"outlook": outlook_object(outlook, now=client.now())}])
        return 0
    from edgecron.cli.screen import paint
    from edgecron.safetext import clean

    is_colored = cli.use_color(sys.stdout)
    cli.put(paint(schedule.name, "bold", is_on=is_colored))
    for label, text in _lines(cli, client, outlook):
        shown = clean(text, keep="\n").replace("\n", "\n" + " " * 15)
        cli.put(f"  {paint(f'{label:<11}', 'dim', is_on=is_colored)}  {shown}")
    if schedule.trigger_error is not None:
        cli.say(f"mend it: {cli.command(f'edit {schedule.name}')} --cron ... --tz ...")
    return 0


def _lines(cli: Session, client: Face, outlook: Outlook) -> list[tuple[str, str]]:
    from edgecron.words.prospects import prospect_lines
    from edgecron.words.schedules import (
        bound_lines,
        job_lines,
        policy_words,
        record_lines,
        state_lines,
        trigger_lines,
    )

    now, zone, schedule = client.now(), cli.zone(), outlook.schedule
    spec = schedule.spec
    lines = [("description", spec.description)] if spec.description else []
    for text, words in trigger_lines(client, schedule):
        lines.append(("when", f"{text}   {words}"))
    lines += job_lines(schedule)
    lines += bound_lines(schedule, zone=zone)
    lines.append(("policies", policy_words(spec.policies)))
    lines += prospect_lines(cli, outlook, zone=zone, now=now)
    lines += record_lines(schedule, zone=zone, now=now)
    return lines + state_lines(client.count_state(schedule.name))
