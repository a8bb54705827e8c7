"""List schedules of cron, systemd and launchd.

    edgecron scan
    edgecron scan --all
    edgecron scan --json
    edgecron scan --root /mnt/other-system

This command changes nothing and needs no database. It reads crontabs, the folders of run-parts,
timers and property lists. As root it reads those of all users, otherwise your own and those that
you can read. It also shows minutes in which many jobs start, times that a sleeping machine misses,
and services that failed, according to the journal.
`edgecron adopt NAME` moves one of them to edgecron.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import SystemClock, now
from edgecron.base.errors import NotFound
from edgecron.base.units import from_ms
from edgecron.cli.session import Session
from edgecron.views.phrases import count_words
from edgecron.views.times import distance, local_time, near_time

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.client.machine_files import Failure
    from edgecron.client.machine_jobs import MachineJob, Scan

_MOST_PILE_UPS = 5


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also list timers that are off")
    parser.add_argument("--root", metavar="DIR", default="/", help="read this system (default: /)")


def run(cli: Session, args: Namespace) -> int:
    # No other command needs what reads units and crontabs.
    from edgecron.client.machine_files import find_failures, is_this_system
    from edgecron.client.machine_jobs import scan_machine
    from edgecron.client.machine_timeline import job_object, next_time

    root = read_root(args.root)
    found, at = scan_machine(root), now(SystemClock())
    failures = find_failures() if is_this_system(root) else {}
    jobs = [job for job in found.jobs if job.is_enabled or args.all]
    times = {job.name: next_time(job, at) for job in jobs}
    jobs.sort(key=lambda job: (times[job.name] is None, times[job.name] or at))
    if cli.is_json:
        cli.put_json(job_object(job, at, _failure_of(job, failures)) for job in jobs)
    elif jobs:
        _put_table(cli, jobs, times, at)
        _put_findings(cli, jobs, failures, at)
    for sentence in found.unread:
        cli.warn(f"not read: {sentence}")
    _say_more(cli, found, jobs)
    return 0


def read_root(given: str) -> Path:
    """Return the folder below which a system's files lie. Raises NotFound."""
    root = Path(given)
    if not root.is_dir():
        raise NotFound(f"folder {given!r} does not exist", hint="name a system's root, such as /")
    return root.absolute()


def _put_table(
    cli: Session, jobs: list[MachineJob], times: dict[str, datetime | None], at: datetime
) -> None:
    rows = [
        (
            local_time(times[job.name], zone=cli.zone(), absent=_absent(job)),
            "" if (due := times[job.name]) is None else distance(due, at),
            job.name,
            "yes" if job.spec is not None else "no",
            job.source if job.line is None else f"{job.source}:{job.line}",
            job.command,
        )
        for job in jobs
    ]
    cli.put_table(
        ("next_run_at", "from_now", "name", "can_adopt", "source", "job"),
        rows,
        styles=[
            (None, "cyan", "bold", "green" if row[3] == "yes" else "yellow", "dim", "dim")
            for row in rows
        ],
        flexible=((5, 12), (4, 16), (2, 12), 1),
        title=2,
    )


def _absent(job: MachineJob) -> str:
    return ", ".join(job.triggers) if job.is_enabled and job.triggers else "-"


def _put_findings(
    cli: Session, jobs: list[MachineJob], failures: dict[str, Failure], at: datetime
) -> None:
    from edgecron.client.machine_timeline import find_pile_ups

    pile_ups = find_pile_ups(jobs, at)
    _put_section(
        cli,
        "many start in the same minute:",
        [
            f"{near_time(one.at, zone=cli.zone(), now=at)}: {', '.join(one.names)}"
            + (f" ({one.count} times in 7 days)" if one.count > 1 else "")
            for one in pile_ups[:_MOST_PILE_UPS]
        ],
    )
    missed = [job.name for job in jobs if job.is_enabled and job.is_caught_up is False]
    _put_section(
        cli,
        "not run later if the machine sleeps or is off at their time:",
        [", ".join(missed)] if missed else [],
    )
    failed = [(job, _failure_of(job, failures)) for job in jobs]
    _put_section(
        cli,
        "failed in the last 7 days, says the journal:",
        [
            f"{job.name}: {count_words(one.count, 'time')},"
            f" last at {near_time(from_ms(one.last_at_us // 1000), zone=cli.zone(), now=at)}"
            for job, one in failed
            if one is not None
        ],
    )
    _put_section(
        cli,
        "edgecron can't adopt:",
        [f"{job.name}: {job.reason}" for job in jobs if job.reason is not None],
    )
    _put_section(
        cli,
        "to know before you adopt:",
        [f"{job.name}: {'; '.join(job.notes)}" for job in jobs if job.notes and job.spec],
    )


def _put_section(cli: Session, heading: str, lines: list[str]) -> None:
    if lines:
        cli.put()
        cli.put(heading)
        for line in lines:
            cli.put(f"  {line}")


def _failure_of(job: MachineJob, failures: dict[str, Failure]) -> Failure | None:
    return failures.get(f"{job.source.removesuffix('.timer')}.service")


def _say_more(cli: Session, found: Scan, jobs: list[MachineJob]) -> None:
    """Report timers that are off, and how to move a job."""
    count = len(found.jobs) - len(jobs)
    if count:
        verb = "is" if count == 1 else "are"
        cli.say(f"{count_words(count, 'timer')} {verb} off; to list: edgecron scan --all")
    if found.moved:
        verb = "was" if len(found.moved) == 1 else "were"
        cli.say(f"{count_words(len(found.moved), 'job')} {verb} moved to edgecron")
    if not jobs:
        cli.say("no other schedules were found")
    able = next((job.name for job in jobs if job.spec is not None and job.is_enabled), None)
    if able is not None and not cli.is_json:
        cli.say(f"to move one to edgecron: edgecron adopt {able}")
