"""List schedules of cron, systemd and launchd.

    edgecron scan
    edgecron scan --all
    edgecron scan --json
    edgecron scan --root /mnt/other-system

This command changes nothing and needs no database. It reads crontabs, the folders of run-parts,
systemd timers and property lists of launchd. As root it reads those of all users, otherwise your
own and those that you can read. It also shows minutes in which many jobs start, jobs that do not
run later if the machine sleeps, and services that failed, according to the journal.

`edgecron adopt NAME` moves one of them to edgecron. `edgecron help moving` explains the move.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from edgecron.base.clock import SystemClock, now
from edgecron.base.errors import NotFound, UsageError
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.views.phrases import count_words
from edgecron.views.times import distance, local_time

if TYPE_CHECKING:
    from edgecron.client.machine_files import MachineJob
    from edgecron.client.machine_scan import MachineTimeline, TimedJob

_MOST_PILE_UPS = 5


def add_arguments(parser: Parser) -> None:
    parser.add("--all", "also list timers that are off")
    parser.add("--root DIR", "read this system (default: /)", default="/")


def run(cli: Session, args: Namespace) -> int:
    # No other command needs what reads units and crontabs.
    from edgecron.client.machine_scan import job_object, read_timeline

    root, at = read_root(args.root), now(SystemClock())
    found = read_timeline(root, at)
    jobs = [one for one in found.jobs if one.job.is_enabled or args.all]
    if cli.is_json:
        cli.put_json(job_object(one) for one in jobs)
    elif jobs:
        _put_table(cli, jobs, at)
        _put_findings(cli, found, jobs, at)
    for sentence in found.unread:
        cli.warn(f"not read: {sentence}")
    _say_more(cli, found, jobs, root)
    return 0


def read_root(given: str) -> Path:
    """Return the folder below which a system's files lie.

    Raises NotFound, and UsageError for a file.
    """
    root = Path(given)
    if root.exists() and not root.is_dir():
        raise UsageError(
            f"{given!r} is a file, expected a folder", hint="name a system's root, such as /"
        )
    if not root.is_dir():
        raise NotFound(f"folder {given!r} does not exist", hint="name a system's root, such as /")
    return root.absolute()


def on_root(words: str, root: Path) -> str:
    """Return the words of `scan` or `adopt` with the system that this command reads."""
    return words if root == Path("/") else f"{words} --root {quote(str(root))}"


def _put_table(cli: Session, jobs: list[TimedJob], at: datetime) -> None:
    rows = [
        (
            local_time(one.next_at, zone=cli.zone(), absent=_absent(job)),
            "" if one.next_at is None else distance(one.next_at, at),
            job.name,
            "yes" if job.spec is not None else "no",
            job.source if job.line is None else f"{job.source}:{job.line}",
            job.command,
        )
        for one in jobs
        for job in (one.job,)
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
    cli: Session, found: MachineTimeline, timed: list[TimedJob], at: datetime
) -> None:
    from edgecron.client.machine_scan import failure_words, pile_up_words

    jobs = [one.job for one in timed]
    _put_section(
        cli,
        "many start in the same minute:",
        [pile_up_words(one, zone=cli.zone()) for one in found.pile_ups[:_MOST_PILE_UPS]],
    )
    missed = [job.name for job in jobs if job.is_enabled and job.is_caught_up is False]
    _put_section(
        cli,
        "not run later if the machine sleeps or is off at their time:",
        [", ".join(missed)] if missed else [],
    )
    _put_section(
        cli,
        "failed in the last 7 days, says the journal:",
        [
            f"{one.job.name}: {failure_words(one.failure, zone=cli.zone(), now=at)}"
            for one in timed
            if one.failure is not None
        ],
    )
    _put_section(
        cli,
        "edgecron can't adopt:",
        [f"{', '.join(names)}: {reason}" for reason, names in _by_reason(jobs).items()],
    )
    _put_section(
        cli,
        "to know before you adopt:",
        [f"{job.name}: {'; '.join(job.notes)}" for job in jobs if job.notes and job.spec],
    )


def _by_reason(jobs: Iterable[MachineJob]) -> dict[str, list[str]]:
    """Group the names of jobs that can't be adopted by the reason."""
    found: dict[str, list[str]] = {}
    for job in jobs:
        if job.reason is not None:
            found.setdefault(job.reason, []).append(job.name)
    return found


def _put_section(cli: Session, heading: str, lines: list[str]) -> None:
    if lines:
        cli.put()
        cli.put(heading)
        for line in lines:
            cli.put(f"  {line}")


def _say_more(cli: Session, found: MachineTimeline, jobs: list[TimedJob], root: Path) -> None:
    """Report timers that are off, and how to move a job."""
    count = len(found.jobs) - len(jobs)
    if count:
        verb = "is" if count == 1 else "are"
        listing = f"edgecron {on_root('scan --all', root)}"
        cli.say(f"{count_words(count, 'timer')} {verb} off; to list: {listing}")
    if found.moved_count:
        verb = "was" if found.moved_count == 1 else "were"
        cli.say(f"{count_words(found.moved_count, 'job')} {verb} moved to edgecron")
    if not jobs:
        cli.say("no jobs of cron, systemd or launchd were found")
    able = next(
        (one.job.name for one in jobs if one.job.spec is not None and one.job.is_enabled), None
    )
    if able is not None and not cli.is_json:
        command = cli.command(on_root(f"adopt {able}", root))
        cli.say(f"to move one to edgecron: {command}")
