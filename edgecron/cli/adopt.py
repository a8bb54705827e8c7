"""Move schedules of cron and systemd to edgecron.

    edgecron scan                   see what this machine runs
    edgecron adopt logrotate        move one of them
    edgecron adopt --undo logrotate give it back
    edgecron adopt                  list what was moved

edgecron makes a paused schedule, disables the original, and then lets the schedule run. A crontab
line becomes a comment, a script of run-parts gets another name, and a timer is disabled. If a step
fails, edgecron puts everything back. After a power cut, repeat the command: it completes the move.
With --undo, edgecron removes the schedule and restores the original.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import SystemClock, now
from edgecron.base.errors import NotFound, NotSupported, UsageError
from edgecron.base.values import replace
from edgecron.cli.import_ import show_mail_rules, with_default_policies
from edgecron.cli.parser import Parser
from edgecron.cli.scan import on_root, read_root
from edgecron.cli.session import Session
from edgecron.formats.config_values import default_policies, option_defaults
from edgecron.views.json_objects import schedule_object

if TYPE_CHECKING:
    from edgecron.client.adoption import Adoption, Book
    from edgecron.client.machine_files import MachineJob
    from edgecron.client.protocol import Client
    from edgecron.model.schedule import Schedule, ScheduleSpec

# cron decides at the start of a minute what it runs. A change then could be seen late.
_QUIET_S = (4, 55)


def add_arguments(parser: Parser) -> None:
    parser.add("[NAME...]", "a job of `edgecron scan`", dest="names")
    parser.add("--undo", "give schedules back to cron or systemd")
    parser.add("--root DIR", "move schedules of this system (default: /)", default="/")


def run(cli: Session, args: Namespace) -> int:
    from edgecron.client.adoption import Book, undo

    if args.undo and not args.names:
        raise UsageError("--undo needs a NAME", hint=f"see what was moved: {cli.command('adopt')}")
    root = read_root(args.root)
    client = cli.local_client()
    book = Book(cli.local_client().path)
    if not args.names:
        _list(cli, book)
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
    from edgecron.base.checks import suggest
    from edgecron.client.machine_scan import scan_machine

    begun = book.read()
    found = {job.name: job for job in scan_machine(root).jobs}
    for name in names:
        if name in begun:
            continue
        if name not in found:
            close = suggest(name, found)
            hint = (
                f"see all: edgecron {on_root('scan --all', root)}"
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


def _list(cli: Session, book: Book) -> None:
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
