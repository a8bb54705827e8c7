"""Schedules of cron, systemd and launchd: list them, and move them to edgecron."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from edgecron.base.checks import suggest
from edgecron.base.clock import SystemClock, now
from edgecron.base.errors import NotFound, NotSupported, UsageError
from edgecron.base.values import replace
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.formats.config import default_policies, option_defaults
from edgecron.views.json_objects import schedule_object
from edgecron.views.phrases import count_words
from edgecron.views.times import distance, local_time

if TYPE_CHECKING:
    from edgecron.client.adoption import Adoption, Book
    from edgecron.client.machine_files import MachineJob
    from edgecron.client.machine_scan import MachineTimeline, TimedJob
    from edgecron.client.protocol import Client
    from edgecron.model.schedule import Schedule, ScheduleSpec

_MOST_PILE_UPS = 5
# cron decides at the start of a minute what it runs. A change then could be seen late.
_QUIET_S = (4, 55)


class ScanCommand:
    """List schedules of cron, systemd and launchd.

        edgecron scan
        edgecron scan --all
        edgecron scan --json
        edgecron scan --root /mnt/other-system

    This command changes nothing and needs no database. It reads crontabs, the folders of run-parts,
    systemd timers and property lists of launchd. As root it reads those of all users, otherwise
    your own and those that you can read. It also shows minutes in which many jobs start, jobs that
    do not run later if the machine sleeps, and services that failed, according to the journal.

    `edgecron adopt NAME` moves one of them to edgecron. `edgecron help moving` explains the move.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("--all", "also list timers that are off")
        parser.add("--root DIR", "read this system (default: /)", default="/")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        # No other command needs what reads units and crontabs.
        from edgecron.client.machine_scan import job_object, read_timeline

        root, at = _read_root(args.root), now(SystemClock())
        found = read_timeline(root, at)
        jobs = [one for one in found.jobs if one.job.is_enabled or args.all]
        if cli.is_json:
            cli.put_json(job_object(one) for one in jobs)
        elif jobs:
            _put_jobs(cli, jobs, at)
            _put_findings(cli, found, jobs, at)
        for sentence in found.unread:
            cli.warn(f"not read: {sentence}")
        _say_more(cli, found, jobs, root)
        return 0


def _read_root(given: str) -> Path:
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


def _on_root(words: str, root: Path) -> str:
    """Return the words of `scan` or `adopt` with the system that this command reads."""
    return words if root == Path("/") else f"{words} --root {quote(str(root))}"


def _put_jobs(cli: Session, jobs: list[TimedJob], at: datetime) -> None:
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
        listing = f"edgecron {_on_root('scan --all', root)}"
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
        command = cli.command(_on_root(f"adopt {able}", root))
        cli.say(f"to move one to edgecron: {command}")


class AdoptCommand:
    """Move schedules of cron and systemd to edgecron.

        edgecron scan                     see what this machine runs
        edgecron adopt logrotate          move one of them
        edgecron adopt --undo logrotate   give it back
        edgecron adopt                    list what was moved

    edgecron makes a paused schedule, disables the original, and then lets the schedule run. A
    crontab line becomes a comment, a script of run-parts gets another name, and a timer is
    disabled. If a step fails, edgecron puts everything back. After a power cut, repeat the command:
    it completes the move. With --undo, edgecron removes the schedule and restores the original.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("[NAME...]", "a job of `edgecron scan`", dest="names")
        parser.add("--undo", "give schedules back to cron or systemd")
        parser.add("--root DIR", "move schedules of this system (default: /)", default="/")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        # `scan` does not need it.
        from edgecron.cli.import_ import show_mail_rules
        from edgecron.client.adoption import Book, undo

        if args.undo and not args.names:
            raise UsageError(
                "--undo needs a NAME", hint=f"see what was moved: {cli.command('adopt')}"
            )
        root = _read_root(args.root)
        client = cli.local_client()
        book = Book(cli.local_client().path)
        if not args.names:
            _list_adoptions(cli, book)
            return 0
        # Before the first move, so that an unknown name changes nothing.
        jobs = {} if args.undo else _find_jobs(cli, book, args.names, root)
        mail_rules = {rule: to for job in jobs.values() for rule, to in job.mail_rules.items()}
        adopted: list[Schedule] = []
        returned: list[Adoption] = []
        with book.opened():
            for name in dict.fromkeys(args.names):
                _wait_for_quiet(root)
                if args.undo:
                    returned.append(undo(client, book, name))
                    _put_returned(cli, returned[-1])
                else:
                    adopted.append(_adopt(cli, client, book, name, jobs, root))
        if cli.is_json and args.undo:
            cli.put_json(_adoption_object(one) for one in returned)
        elif cli.is_json:
            cli.put_json(schedule_object(schedule) for schedule in adopted)
        show_mail_rules(cli, mail_rules)
        if adopted:
            cli.warn_without_engine(client, *adopted)
        return 0


def _adopt(
    cli: Session, client: Client, book: Book, name: str, jobs: dict[str, MachineJob], root: Path
) -> Schedule:
    from edgecron.client.adoption import adopt, complete

    schedule, place = None, ""
    if name not in jobs:
        place = book.read()[name].place.source
        schedule = complete(client, book, name)
    if schedule is None:
        job = jobs.get(name) or _find_jobs(cli, book, [name], root)[name]
        place = job.source if job.line is None else f"line {job.line} of {job.source}"
        schedule = adopt(client, book, job, _spec_of(cli, job), root)
    if not cli.is_json:
        cli.put(f"adopted {schedule.name}; {cli.next_sentence(schedule)}")
        cli.say(f"disabled {place}; to go back: {cli.command(f'adopt --undo {schedule.name}')}")
    return schedule


def _find_jobs(cli: Session, book: Book, names: Sequence[str], root: Path) -> dict[str, MachineJob]:
    """Find jobs by the names that a scan gives them; a move that has begun needs none.

    Raises NotFound, and NotSupported with the reason.
    """
    from edgecron.client.machine_scan import scan_machine

    begun = book.read()
    found = {job.name: job for job in scan_machine(root).jobs}
    for name in names:
        if name in begun:
            continue
        if name not in found:
            close = suggest(name, found)
            hint = (
                f"see all: edgecron {_on_root('scan --all', root)}"
                if close is None
                else f"did you mean {close}?"
            )
            where = "on this machine" if root == Path("/") else f"below {root}"
            raise NotFound(f"no job {name!r} was found {where}", hint=hint)
        if found[name].spec is None:
            raise NotSupported(
                f"{name} can't be adopted: {found[name].reason}",
                hint=_hint_for(found[name]),
            )
    return {name: found[name] for name in names if name not in begun}


def _hint_for(job: MachineJob) -> str:
    """Return the command that adopts a job as another user, or where to read on."""
    match job.become:
        case None:
            return "see: edgecron help moving"
        case "sudo":  # Root sees more jobs, so a name there can mean another one.
            return "see its name as root: sudo edgecron scan"
    return f"{job.become} edgecron adopt {job.name}"


def _spec_of(cli: Session, job: MachineJob) -> ScheduleSpec:
    """Return the schedule of a job, with the default policies except what its source sets."""
    from edgecron.cli.import_ import with_default_policies
    from edgecron.client.machine_files import Origin

    assert job.spec is not None
    policies = default_policies(option_defaults(cli.config()))
    if job.origin in (Origin.TIMER, Origin.USER_TIMER):
        own = job.spec.policies
        policies = replace(policies, catch_up=own.catch_up, wake=own.wake)
    return with_default_policies(job.spec, policies)


def _wait_for_quiet(root: Path) -> None:
    """Wait for a moment in which cron does not read its tables, at most 9 s."""
    from edgecron.client.machine_files import is_this_system

    first, last = _QUIET_S
    while is_this_system(root) and not first <= now(SystemClock()).second <= last:
        time.sleep(0.2)


def _list_adoptions(cli: Session, book: Book) -> None:
    adoptions = list(book.read().values())
    if cli.is_json:
        cli.put_json(_adoption_object(one) for one in adoptions)
        return
    if not adoptions:
        cli.say("nothing was adopted; to list jobs that you can adopt: edgecron scan")
        return
    cli.put_table(
        ("name", "status", "origin", "source"),
        [(one.name, one.phase.value, one.place.origin.value, one.place.words) for one in adoptions],
        styles=[("bold", None, "dim", "dim")] * len(adoptions),
    )
    from edgecron.client.adoption import Phase

    for one in adoptions:
        if one.phase is not Phase.ADOPTED:
            cli.warn(
                f"the move of {one.name} was interrupted; to complete it:"
                f" {cli.command(one.completion)}"
            )


def _adoption_object(adoption: Adoption) -> dict[str, object]:
    place = adoption.place
    return {
        "name": adoption.name,
        "status": adoption.phase.value,
        "origin": place.origin.value,
        "source": place.source,
        "line": place.line,
        "root": place.root,
    }


def _put_returned(cli: Session, adoption: Adoption) -> None:
    if not cli.is_json:
        cli.put(f"gave {adoption.name} back to {adoption.place.origin}: {adoption.place.words}")
