"""Crontabs as files: read them, say whose they are, and comment lines out."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidInput, UsageError
from edgecron.base.files import write_whole
from edgecron.base.paths import is_user, user_name
from edgecron.cli.files import STDIN, read_file
from edgecron.formats.crontab import read_crontab
from edgecron.formats.crontab_identity import comment_out
from edgecron.formats.crontab_lines import Crontab, Entry, find_spool_owner, is_system_path
from edgecron.views.phrases import count_words

if TYPE_CHECKING:
    from edgecron.cli.session import Session

_MOST_BYTES = 16 * 1024 * 1024  # of a crontab


def read_crontab_file(file: str) -> bytes:
    """Return the content of a file, or of stdin. Raises InvalidInput if it is too large."""
    content = read_file(file, most_bytes=_MOST_BYTES)
    if len(content) > _MOST_BYTES:
        raise InvalidInput(f"file {file!r} is larger than 16 MiB, expected a crontab")
    return content


def parse_crontab(args: Namespace, content: bytes) -> Crontab:
    """Read a crontab or an anacrontab; options and the path decide whether it has user columns."""
    is_anacron = args.format == "anacrontab" or os.path.basename(args.file) == "anacrontab"
    owner = None if args.file == STDIN else find_spool_owner(args.file)
    if is_anacron:
        # No line names a user: the lines of the system's file run as root.
        owner = "root" if is_system_path(args.file) else None
    system = None
    if args.user_format or owner is not None:
        system = args.system
    elif args.system or (is_system_path(args.file) and not is_anacron):
        system = True
    return read_crontab(
        content,
        system=system,
        importer=user_name(),
        is_root=os.geteuid() == 0,
        user_exists=is_user,
        owner=owner,
        is_anacron=is_anacron,
    )


def crontab_source(file: str) -> str:
    """Return whose crontab it is, or which file.

    It is the same for a spooled crontab and for `crontab -l`.
    """
    owner = user_name() if file == STDIN else find_spool_owner(file)
    return os.path.realpath(file) if owner is None else f"crontab of {owner}"


def _is_read_by_cron(file: str) -> bool:
    """Whether cron or anacron reads this file itself: a spooled crontab, or one in /etc."""
    return find_spool_owner(file) is not None or os.path.realpath(file).startswith(
        f"{os.path.realpath('/etc')}/"
    )


def refuse_comment_out(file: str) -> None:
    """Raise UsageError if edgecron can't change a file in place."""
    why_not = _why_not_writable(file)
    if why_not is not None:
        raise UsageError(f"--comment-out can't change {file!r}", hint=why_not)


def _why_not_writable(file: str) -> str | None:
    """Say what to do instead if a file can't be changed in place; None if it can."""
    if file == STDIN:
        return "crontab -e"
    owner = find_spool_owner(file)
    if owner is not None:
        # cron does not notice that another program changes a spool file.
        return "crontab -e" if owner == user_name() else f"crontab -u {owner} -e"
    folder = os.path.dirname(os.path.realpath(file))
    if os.path.exists(file) and not (os.access(file, os.W_OK) and os.access(folder, os.W_OK)):
        return "repeat as the owner of the file with --comment-out"
    return None


def _comment_out_lines(file: str, content: bytes, lines: list[int]) -> None:
    """Replace the file atomically, with its mode and owner, if it has not changed since."""
    path = os.path.realpath(file)
    with open(path, "rb") as crontab:
        if crontab.read(_MOST_BYTES + 1) != content:
            raise InvalidInput(f"file {file!r} changed during the import and was not written")
        seen = os.fstat(crontab.fileno())
    # cron ignores file names with a dot, so it never runs the temporary file.
    write_whole(Path(path), [comment_out(content, lines)], owner=seen.st_uid)


def part_from_cron(
    cli: Session, args: Namespace, content: bytes, entries: tuple[Entry, ...]
) -> None:
    """Say that cron still runs the lines, and comment them out if wanted."""
    lines = [entry.line for entry in entries]
    shown = count_words(len(lines), "line")
    which, them = ("this line", "it") if len(lines) == 1 else (f"these {shown}", "them")
    cron, own = ("cron", "crontab -e")
    if args.format == "anacrontab":
        cron, own = ("anacron", "/etc/anacrontab")
    # We can't know whether cron's own table has the lines of another file.
    is_read = args.file == STDIN or _is_read_by_cron(args.file)
    effect = f": {cron} no longer runs {them}"
    if not is_read:
        effect = f"; if {own} shows {them}, comment {them} out there, too"
    done = f"commented out {shown} of {args.file}{effect}"
    if args.comment_out:
        _comment_out_lines(args.file, content, lines)
        cli.say(done)
        return
    cli.say(f"{cron} still runs {which}, too" + ("" if is_read else f", if {own} shows {them}"))
    why_not = _why_not_writable(args.file)
    if why_not is not None:
        cli.say(f"to comment {them} out: {why_not}")
    elif cli.can_ask():
        if cli.ask(f"comment {shown} of {args.file} out?"):
            _comment_out_lines(args.file, content, lines)
            cli.say(done)
    else:
        cli.say(f"to comment {them} out: repeat with --comment-out")
