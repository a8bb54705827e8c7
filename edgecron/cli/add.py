"""Add a schedule.

    edgecron add nightly --cron "0 2 * * *" -- tar czf /backup/home.tgz /home/me
    edgecron add probe --every 5m --timeout 30s --shell "curl -fsS example.org"
    edgecron add sync --when "every weekday at 9" -- ./sync.sh
    edgecron add remind --at "tomorrow 09:00" -- notify-send "the bins"
    edgecron add verify --cron "0 6 * * *" --needs success:nightly:8h -- verify

Cron times are local unless you give --tz. By default, a missed run is caught up once, and a
schedule never runs twice at the same time. Your own defaults are in [defaults] of the
configuration: see `edgecron config show defaults`.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable
from os.path import basename
from shlex import quote
from statistics import median_low
from typing import TYPE_CHECKING

from edgecron.base.checks import check_name
from edgecron.base.errors import InvalidName, Problems, UsageError
from edgecron.base.units import to_ms
from edgecron.base.zones import (
    LOCAL,
    check_zone,
    is_same_zone,
    local_zone_mark,
    local_zone_name,
    machine_zone_name,
)
from edgecron.cli.parser import Parser
from edgecron.cli.schedule_arguments import (
    add_schedule_arguments,
    find_ineffective,
    find_least_niceness,
    find_missing_paths,
    find_secrets,
    niceness_warning,
    read_group_limit,
    read_job,
    read_policies,
    read_rest,
    read_triggers,
    rename_former_option,
    with_defaults,
)
from edgecron.cli.session import Session
from edgecron.model.choices import Status
from edgecron.model.conditions import find_of_machine
from edgecron.model.listing import NO_TIMES_LEFT, RunChoice
from edgecron.model.machine_conditions import Kind
from edgecron.model.options import NO_NOTICES, Policies
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.planning.times import jitter_warning, timing_of, window_warning
from edgecron.triggers import CronTrigger, OnceInTrigger, Trigger, describe
from edgecron.views.changes import find_missing_command, secret_words
from edgecron.views.json_objects import schedule_object

if TYPE_CHECKING:
    from edgecron.model.job import Job

TAKES_ARGV = True
_LAST_RUNS = 50  # whose durations count
USAGE = "NAME WHEN... [options] -- COMMAND..."


def add_arguments(parser: Parser) -> None:
    parser.add("NAME", "letters, digits, _ - .")
    add_schedule_arguments(parser)


def run(cli: Session, args: Namespace) -> int:
    _check_name(args.name, has_job=args.argv is not None or args.shell is not None)
    rename_former_option(cli, args)
    given = args
    args = with_defaults(cli, args)
    problems = Problems()
    zone = "local" if args.tz is None else args.tz
    timezone = problems.read(lambda: check_zone(zone), LOCAL)
    at = cli.now()
    before = len(problems)
    triggers = read_triggers(args, problems, name=args.name, timezone=timezone, now=at)
    if not triggers and len(problems) == before:
        hint = "give --when, --cron, --every, --at, --once, --on-boot, --after or --on-demand"
        what = f"schedule {args.name!r} has no time to run at"
        problems.note(UsageError(what, hint=hint))
    job = read_job(args, None, problems)
    policies = read_policies(args, Policies(), problems)
    rest = read_rest(args, problems, timezone=timezone, now=at)
    problems.refuse()
    spec = ScheduleSpec(
        name=args.name,
        triggers=tuple(trigger.text for trigger in triggers),
        job=job,
        timezone=timezone,
        policies=policies,
        **rest,
    )
    limit = read_group_limit(args)
    client = cli.client()
    schedule = client.add(spec, origin="cli")
    if limit is not None:
        client.limit_group(*limit)
        schedule = client.schedule(schedule.name)
    if cli.is_json:
        cli.put_json([schedule_object(schedule)])
    else:
        # The stored triggers: H depends on the database's seed.
        words = ", and ".join(map(describe, client.triggers(schedule)))
        cli.put(f"added {schedule.name}: {words}; {cli.next_sentence(schedule)}")
    if cli.is_advised():
        name = schedule.name
        see, fire = cli.command(f"show {name}"), cli.command(f"run {name} --wait")
        cli.flush()
        cli.say(f"see it: {see}\nrun it now: {fire}\nremove it: {cli.command(f'rm {name}')}")
    warn_of_ineffective(cli, given, schedule.spec)
    warn_of(cli, args, triggers, spec.job)
    warn_of_gap(cli, schedule)
    warn_of_jitter(cli, schedule)
    warn_of_windows(cli, schedule)
    warn_of_zone(cli, schedule)
    warn_of_missing(cli, [schedule.spec])
    cli.warn_without_engine(client, schedule)
    return 0


def _check_name(name: str, *, has_job: bool) -> None:
    try:
        check_name(name, what="schedule name")
    except InvalidName as error:
        if has_job:
            raise
        from edgecron.cli.suggestions import hint_for_line  # Only for errors.

        hint = hint_for_line(name, is_any_time=True) or error.hint
        raise InvalidName(error.message, hint=hint) from None


def warn_of(cli: Session, args: Namespace, triggers: list[Trigger], job: Job) -> None:
    """Warn about options that might not mean what the user thinks."""
    for trigger in triggers:
        for warning in trigger.warnings:
            cli.warn(f"{trigger.text!r}: {warning}")
    for name in find_secrets(args):
        cli.warn(secret_words(name))
    if cli.remote_url() is not None:
        return  # Files of the machine that runs it can't be seen from here.
    for sentence in find_missing_paths(args):
        cli.warn(sentence)
    niceness = niceness_warning(job, least=find_least_niceness())
    if niceness is not None:
        cli.warn(niceness)
    if args.argv is not None:
        _warn_of_other_database(cli, job)
    missing = find_missing_command(job) if args.argv is not None else None
    if missing is not None:
        is_line = len(job.argv) == 1 and " " in job.argv[0].strip()
        shell = f"; a line for the shell is given with --shell {quote(job.argv[0])}"
        cli.warn(missing + (shell if is_line else ""))


def warn_of_ineffective(cli: Session, args: Namespace, spec: ScheduleSpec) -> None:
    """Warn about given options that do nothing for this schedule."""
    for sentence in find_ineffective(args, spec):
        cli.warn(sentence)
    if args.wake and cli.remote_url() is None and os.geteuid() != 0:
        cli.warn("--wake has no effect under your engine: only root's engine can wake the machine")


def warn_of_gap(cli: Session, schedule: Schedule) -> None:
    """Warn if only the user's shell finds the program of a schedule."""
    if cli.remote_url() is not None:
        return  # A server's programs can't be seen from here.
    from edgecron.client.job_environment import find_gap_ahead  # It loads the supervisor.

    gap = find_gap_ahead(cli.local_client(), schedule.spec.job)
    if gap is not None:
        cli.warn(f"{gap.words}; fix it: {cli.command(gap.fix(schedule.name))}")


def warn_of_jitter(cli: Session, schedule: Schedule) -> None:
    """Warn if the jitter of a schedule is longer than its interval."""
    if not schedule.spec.policies.jitter_s:
        return

    client = cli.client()
    timing = timing_of(schedule.spec, client.triggers(schedule), seed=b"")
    warning = jitter_warning(timing, after_ms=to_ms(client.now()))
    if warning is not None:
        cli.warn(f"schedule {schedule.name}: {warning}")


def warn_of_windows(cli: Session, schedule: Schedule) -> None:
    """Warn if no time of a schedule is within its windows, or if its usual run is longer."""
    if schedule.is_excluded:
        cli.warn(f"schedule {schedule.name} has {NO_TIMES_LEFT}")
        return
    if not schedule.spec.has_windows:
        return
    client = cli.client()
    timing = timing_of(schedule.spec, client.triggers(schedule), seed=b"")
    succeeded = RunChoice(statuses=(Status.SUCCESS,))
    runs = client.history(schedule.name, choice=succeeded, limit=_LAST_RUNS)
    durations_ms = [run.duration_ms for run in runs if run.duration_ms is not None]
    if not durations_ms:
        return
    usual_ms = median_low(durations_ms)
    warning = window_warning(timing, usual_ms=usual_ms, after_ms=to_ms(client.now()))
    if warning is not None:
        cli.warn(f"schedule {schedule.name}: {warning}")


def warn_of_missing(cli: Session, specs: Iterable[ScheduleSpec]) -> None:
    """Warn about rules and extras that schedules need and that are missing; record the rules."""
    if cli.remote_url() is not None:
        return  # A server's configuration and extras can't be seen from here.
    specs = tuple(specs)
    texts = [text for one in specs for text in (*one.all_needs, *one.policies.while_needs)]
    if any(one.kind is Kind.UNMETERED for one in find_of_machine(texts)):
        from edgecron.base.system_bus import missing_note  # Rarely needed: it is for an extra.

        missing = missing_note()
        if missing is not None:
            cli.warn(f"it is unknown whether the network is metered: {missing}")
    named = {name for spec in specs for name in spec.policies.notify} - {NO_NOTICES}
    if not named:
        return
    from edgecron.client.notice_rules import sync_config

    for name in sorted(named - sync_config(cli.local_client(), cli.config()).keys()):
        cli.warn(f"the configuration has no rule {name} for notices; see: edgecron help alerts")


def warn_of_zone(cli: Session, schedule: Schedule) -> None:
    """Warn if the engines' local time differs, or can differ, from this shell's."""
    triggers = cli.client().triggers(schedule)
    is_of_zone = any(isinstance(one, CronTrigger | OnceInTrigger) for one in triggers)
    if schedule.spec.timezone != LOCAL or not is_of_zone:
        return
    theirs, ours = cli.client().local_zone(), local_zone_mark()
    if theirs is not None:
        whose = f"{theirs.partition(':')[0]} for the engine"
    elif cli.remote_url() is None:
        theirs, ours = machine_zone_name(), local_zone_name()
        whose = f"{theirs} for an engine without this shell's TZ"
    if theirs is not None and not is_same_zone(theirs, ours):
        cli.warn(
            f"local time is that of {local_zone_name()} here, but that of {whose};"
            f" choose one: {cli.command(f'edit {schedule.name} --tz ZONE')}"
        )


def _warn_of_other_database(cli: Session, job: Job) -> None:
    """Warn if a job that calls edgecron would use another database than this one."""
    given = cli.config().find("database")
    told = (word.partition("=")[0] for word in job.argv)
    if given is None or basename(job.argv[0]) != "edgecron" or "--db" in told:
        return
    if given.origin in ("--db", "EDGECRON_DB") and "EDGECRON_DB" not in job.env:
        cli.warn(
            f"a job does not see {given.origin}: an edgecron that it starts uses this user's"
            " default database;"
            f" add --db {cli.location()} to its command"
        )
