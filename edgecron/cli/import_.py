"""Take over a crontab: every line becomes a schedule, or nothing is imported at all.

    crontab -l | edgecron import crontab -
    edgecron import crontab my.crontab --comment-out
    sudo edgecron import crontab /etc/cron.d/backup

Lines of /etc have a user column, as have those of any file with --system; those of --user-format
have none. Policies of new schedules are those of `config show defaults`. A second import adds
nothing. cron still runs the lines until they are commented out,
which is offered.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, NoReturn

from edgecron.cli.files import STDIN, read_file
from edgecron.cli.options import UsageError
from edgecron.cli.session import Session
from edgecron.errors import InvalidCrontab, InvalidInput

if TYPE_CHECKING:
    from edgecron.crontab import Comparison, Crontab, Entry
    from edgecron.model import Policies, Schedule, ScheduleSpec

USAGE = "crontab FILE|- [--system|--user-format] [--comment-out] [--json]"
_MOST_BYTES = 16 * 1024 * 1024


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("format", metavar="crontab", help="what is imported")
    parser.add_argument("file", nargs="?", metavar="FILE|-", help="the file; - is stdin")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--system", action="store_true", help="lines have a user column")
    which.add_argument("--user-format", action="store_true", help="lines have no user column")
    parser.add_argument(
        "--comment-out", action="store_true", help="make comments of the imported lines in FILE"
    )


def run(cli: Session, args: Namespace) -> int:
    if args.file is None and args.format != "crontab":
        from shlex import quote

        words = cli.command(f"import crontab {quote(args.format)}")
        raise UsageError("what is imported is missing, expected crontab FILE", hint=words)
    if args.format != "crontab":
        raise UsageError(f"{args.format!r} can't be imported, expected crontab")
    if args.file is None:
        raise UsageError("the crontab is missing, expected FILE, or - for stdin")
    if args.comment_out:
        _refuse_comment_out(args.file)
    content = _read(args.file)
    crontab = _parse(args, content)
    if crontab.problems:
        _refuse(cli, crontab)
    for warning in crontab.warnings:
        cli.warn(str(warning))
    comparison, added = _import(cli, crontab)
    if cli.is_json:
        from edgecron.objects import schedule_object

        cli.put_json(schedule_object(schedule) for schedule in added)
    else:
        _put(cli, added, comparison)
    if crontab.entries:
        _part_from_cron(cli, args, content, crontab.entries)
    if added:
        cli.warn_without_engine(cli.client())
    return 0


def _refuse(cli: Session, crontab: Crontab) -> NoReturn:
    """Say what is wrong, line by line, and raise InvalidCrontab."""
    count = len(crontab.problems)
    if not cli.is_json:
        for warning in crontab.warnings:
            cli.warn(str(warning))
        for problem in crontab.problems:
            hint = f" ({problem.hint})" if problem.hint else ""
            cli.say(f"line {problem.line}: {problem.message}{hint}: {_shown(problem.raw)}")
    raise InvalidCrontab(
        "nothing is imported, as"
        f" {'a line' if count == 1 else f'{count} of its lines'} can't be carried over",
        problems=[
            {
                "line": problem.line,
                "text": problem.raw,
                "message": problem.message,
                "hint": problem.hint,
            }
            for problem in crontab.problems
        ],
    )


def _shown(line: str) -> str:
    """A line as a person knows it: a tab between its fields is nothing to escape."""
    return line[:120].strip().replace("\t", " ")


def _read(file: str) -> bytes:
    content = read_file(file, most_bytes=_MOST_BYTES)
    if len(content) > _MOST_BYTES:
        raise InvalidInput(f"file {file!r} is larger than 16 MiB, expected a crontab")
    return content


def _parse(args: Namespace, content: bytes) -> Crontab:
    from edgecron.crontab import find_spool_owner, is_system_path, read_crontab

    owner = None if args.file == STDIN else find_spool_owner(args.file)
    system = None
    if args.user_format or owner is not None:
        system = args.system
    elif args.system or is_system_path(args.file):
        system = True
    return read_crontab(
        content,
        system=system,
        importer=_own_name(),
        is_root=os.geteuid() == 0,
        user_exists=_user_exists,
        owner=owner,
    )


def _import(cli: Session, crontab: Crontab) -> tuple[Comparison, list[Schedule]]:
    from edgecron.config.defaults import default_policies, option_defaults
    from edgecron.crontab import find_new

    client = cli.client()
    policies = default_policies(option_defaults(cli.config()))
    comparison = find_new(crontab.entries, [schedule.spec for schedule in client.schedules()])
    if not comparison.new:
        return comparison, []
    specs = [_with_policies(entry.spec, policies) for entry in comparison.new]
    return comparison, client.add_all(specs, origin="crontab")


def _with_policies(spec: ScheduleSpec, policies: Policies) -> ScheduleSpec:
    """A line's schedule with the policies of new ones, but for what the crontab says itself.

    So it does of zone, folder and variables, if only by what it leaves out: cron's own then.
    """
    from edgecron.values import replace

    if spec.policies.jitter_s:
        policies = replace(policies, jitter_s=spec.policies.jitter_s)
    return replace(spec, policies=policies)


def _put(cli: Session, added: list[Schedule], comparison: Comparison) -> None:
    from edgecron.cli.screen import table
    from edgecron.standing import standing_of
    from edgecron.words.phrases import count_words, job_words, next_words, trigger_words

    now, zone = cli.client().now(), cli.zone()
    if added:
        rows = [
            (
                schedule.name,
                trigger_words(standing_of(schedule)),
                next_words(standing_of(schedule), zone=zone, now=now),
                job_words(schedule.spec),
            )
            for schedule in added
        ]
        for line in table(
            ("IMPORTED", "WHEN", "NEXT", "JOB"),
            rows,
            is_colored=cli.use_color(sys.stdout),
            styles=[("bold", "dim", None, "dim")] * len(rows),
            flexible=(3, 1, 0),
        ):
            cli.put(line)
    if comparison.known:
        names = ", ".join(entry.spec.name for entry in comparison.known)
        cli.say(f"there already: {names}")
    if added:
        cli.say(f"imported {count_words(len(added), 'schedule')}")
    else:
        cli.say(
            "nothing new to import" if comparison.known else "nothing to import: it has no jobs"
        )


def _part_from_cron(
    cli: Session, args: Namespace, content: bytes, entries: tuple[Entry, ...]
) -> None:
    """Say that cron still runs the lines, and comment them out where that is wanted."""
    from edgecron.words.phrases import count_words

    lines = [entry.line for entry in entries]
    shown = count_words(len(lines), "line")
    which, them = ("this line", "it") if len(lines) == 1 else (f"these {shown}", "them")
    if args.comment_out:
        _comment_out(args.file, content, lines)
        cli.say(f"{shown} of {args.file} commented out: cron no longer runs {them}")
        return
    cli.say(f"cron still runs {which}, too")
    why_not = _why_not_writable(args.file)
    if why_not is not None:
        cli.say(f"comment {them} out: {why_not}")
    elif not cli.is_json and sys.stdin.isatty() and sys.stderr.isatty():
        if cli.ask(f"comment {shown} of {args.file} out? [y/N] "):
            _comment_out(args.file, content, lines)
            cli.say(f"done: cron no longer runs {them}")
    else:
        cli.say(f"comment {them} out: repeat with --comment-out")


def _refuse_comment_out(file: str) -> None:
    why_not = _why_not_writable(file)
    if why_not is not None:
        raise UsageError(f"--comment-out can't change {file!r}", hint=why_not)


def _why_not_writable(file: str) -> str | None:
    """What to do instead of changing a file in place; None where that can be done."""
    from edgecron.crontab import find_spool_owner

    if file == STDIN:
        return "crontab -e"
    owner = find_spool_owner(file)
    if owner is not None:
        # cron takes no notice of a spool file that is changed behind its back.
        return "crontab -e" if owner == _own_name() else f"crontab -u {owner} -e"
    folder = os.path.dirname(os.path.realpath(file))
    if os.path.exists(file) and not (os.access(file, os.W_OK) and os.access(folder, os.W_OK)):
        return "you may not write it; repeat as its owner with --comment-out"
    return None


def _comment_out(file: str, content: bytes, lines: list[int]) -> None:
    """Replace the file at once, keeping its mode and owner, if it is still as it was read."""
    import tempfile

    from edgecron.crontab import comment_out

    path = os.path.realpath(file)
    with open(path, "rb") as crontab:
        if crontab.read(_MOST_BYTES + 1) != content:
            raise InvalidInput(f"file {file!r} was changed meanwhile, and is left as it is")
        seen = os.fstat(crontab.fileno())
    # cron leaves out files with a dot in their name, so that it never runs this one.
    fd, temporary = tempfile.mkstemp(prefix=".edgecron-", dir=os.path.dirname(path))
    try:
        with open(fd, "wb") as changed:
            changed.write(comment_out(content, lines))
            changed.flush()
            if (seen.st_uid, seen.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(fd, seen.st_uid, seen.st_gid)
            os.fchmod(fd, seen.st_mode & 0o7777)
            os.fsync(fd)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _own_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _user_exists(name: str) -> bool:
    import pwd

    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True
