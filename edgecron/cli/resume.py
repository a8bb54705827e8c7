"""Resume paused schedules.

    edgecron resume nightly
    edgecron resume nightly --now   and run it once, immediately
    edgecron resume --group night
    edgecron resume --all

Scheduled runs continue from now on. Times that passed during the pause are not caught up: the
history shows them as one skipped row. --now also runs a schedule that was not paused.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from edgecron.cli.parser import Parser
from edgecron.cli.pause import add_choice_arguments, chosen_names, put_changed
from edgecron.cli.run_ import fire_now, put_fired, tell_fired
from edgecron.cli.session import Session
from edgecron.views.acts import is_held, resumed_words
from edgecron.views.json_objects import execution_object, schedule_object

if TYPE_CHECKING:
    from edgecron.model.schedule import Schedule

USAGE = "NAME...|--group G|--all [--now]"


def add_arguments(parser: Parser) -> None:
    add_choice_arguments(parser)
    parser.add("--now", "also run it once, immediately")


def run(cli: Session, args: Namespace) -> int:
    client = cli.client(must_exist=True)
    changed, is_trusted = [], client.is_clock_trusted()
    for name in chosen_names(cli, args):
        now = client.now()
        was_held = is_held(client.schedule(name), now)
        if not args.names and not was_held:
            continue  # A group or all means the paused ones.
        schedule = client.resume(name)
        words = resumed_words(
            schedule, was_held=was_held, zone=cli.zone(), now=now, is_clock_trusted=is_trusted
        )
        changed.append((schedule, words))
    if not changed:
        cli.say("no schedule was paused")
    if not args.now:
        put_changed(cli, changed)
        return 0
    return _fire(cli, changed)


def _fire(cli: Session, changed: list[tuple[Schedule, str]]) -> int:
    """Run each schedule once, and print that it was resumed and its run."""
    fired = [fire_now(cli, schedule.name) for schedule, _ in changed]
    if cli.is_json:
        cli.put_json(
            schedule_object(schedule) | {"runs": [execution_object(run) for run in runs]}
            for (schedule, _), runs in zip(changed, fired, strict=True)
        )
    else:
        put_changed(cli, changed)
        put_fired(cli, [run for runs in fired for run in runs])
    return max((tell_fired(cli, runs) for runs in fired), default=0)
