"""Change a schedule.

    edgecron edit nightly                       its TOML in $VISUAL or $EDITOR
    edgecron edit nightly --cron "30 3 * * *"   replace all of its times
    edgecron edit nightly --timeout none        clear an option
    edgecron edit nightly --name weekly         rename it, with its runs

Options that you do not give stay as they are. If you change times, the next run is computed from
now; edgecron never runs times of the past. Other changes keep the next run. --env adds variables;
--env none clears them. The editor shows every option; an option with its default is a comment. To
rename the schedule, change the name in the heading. If the text has errors, edgecron shows them and
keeps the text.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.base.values import replace
from edgecron.cli.add import (
    warn_of,
    warn_of_gap,
    warn_of_ineffective,
    warn_of_jitter,
    warn_of_missing,
    warn_of_windows,
    warn_of_zone,
)
from edgecron.cli.plans import put_changed
from edgecron.cli.schedule_arguments import (
    add_schedule_arguments,
    apply_rest,
    is_anything_given,
    keep_uncleared,
    read_group_limit,
    read_job,
    read_policies,
    read_triggers,
    rename_former_options,
)
from edgecron.cli.session import Session
from edgecron.formats.document_plan import FieldChange, find_changes
from edgecron.formats.document_writing import schedule_table
from edgecron.model.options import NONE
from edgecron.triggers import Trigger, check_zone

if TYPE_CHECKING:
    from edgecron.model.schedule import ScheduleSpec

TAKES_ARGV = True
USAGE = "NAME [options] [-- COMMAND...]"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the schedule to change")
    parser.add_argument("--name", dest="new_name", metavar="NEW", help="rename the schedule")
    add_schedule_arguments(parser)


def run(cli: Session, args: Namespace) -> int:
    rename_former_options(cli, args)
    client = cli.client(must_exist=True)
    if not is_anything_given(args):
        from edgecron.cli.editor import edit_text

        return edit_text(cli, args.name)
    triggers: list[Trigger] = []

    def change(spec: ScheduleSpec) -> ScheduleSpec:
        nonlocal triggers
        now = client.now()
        if args.new_name is not None:
            spec = replace(spec, name=args.new_name)
        timezone = _timezone(args, spec)
        triggers = read_triggers(args, name=spec.name, timezone=timezone, now=now)
        changed = replace(
            spec,
            triggers=tuple(trigger.text for trigger in triggers)
            or keep_uncleared(args, spec.triggers),
            timezone=timezone,
            job=read_job(args, spec.job),
            policies=read_policies(args, spec.policies),
        )
        return apply_rest(changed, args, now=now)

    limit = read_group_limit(args)
    before = schedule_table(client.schedule(args.name))
    schedule = client.edit(args.name, change, origin="cli")
    if limit is not None:
        client.limit_group(*limit)
        schedule = client.schedule(schedule.name)
    changes = find_changes(before, schedule_table(schedule))
    if schedule.name != args.name:
        changes = (FieldChange(key="name", old=args.name, new=schedule.name), *changes)
    put_changed(cli, schedule, changes)
    warn_of_ineffective(cli, args, schedule.spec)
    warn_of(cli, args, triggers, schedule.spec.job)
    if any((args.argv, args.shell, args.env, args.env_from_shell)):
        warn_of_gap(cli, schedule)
    if triggers or args.jitter is not None:
        warn_of_jitter(cli, schedule)
    if triggers or any((args.between, args.not_between, getattr(args, "except"))):
        warn_of_windows(cli, schedule)
    if triggers or args.tz is not None:
        warn_of_zone(cli, schedule)
    if any(one is not None for one in (args.notify, args.needs, getattr(args, "while"))):
        warn_of_missing(cli, [schedule.spec])
    return 0


def _timezone(args: Namespace, spec: ScheduleSpec) -> str | None:
    if args.tz is None:
        return spec.timezone
    return check_zone("local" if args.tz == NONE else args.tz)
