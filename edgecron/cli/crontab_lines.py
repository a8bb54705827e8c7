"""Crontab lines that cron still runs after an import: comment them out, or say who can."""

from __future__ import annotations

import os
import pwd
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidInput, UsageError
from edgecron.base.files import write_whole
from edgecron.cli.files import STDIN
from edgecron.cli.session import Session
from edgecron.formats.crontab_identity import comment_out
from edgecron.formats.crontab_lines import find_spool_owner
from edgecron.views.phrases import count_words

if TYPE_CHECKING:
    from edgecron.formats.crontab_lines import Entry

MOST_BYTES = 16 * 1024 * 1024  # of a crontab


def part_from_cron(
    cli: Session, args: Namespace, content: bytes, entries: tuple[Entry, ...]
) -> None:
    """Say that cron still runs the lines, and comment them out if wanted."""
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
    elif cli.can_ask():
        if cli.ask(f"comment {shown} of {args.file} out?"):
            _comment_out(args.file, content, lines)
            cli.say(f"done: cron no longer runs {them}")
    else:
        cli.say(f"comment {them} out: repeat with --comment-out")


def refuse_comment_out(file: str) -> None:
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
        return "crontab -e" if owner == own_name() else f"crontab -u {owner} -e"
    folder = os.path.dirname(os.path.realpath(file))
    if os.path.exists(file) and not (os.access(file, os.W_OK) and os.access(folder, os.W_OK)):
        return "you may not write it; repeat as its owner with --comment-out"
    return None


def _comment_out(file: str, content: bytes, lines: list[int]) -> None:
    """Replace the file atomically, with its mode and owner, if it has not changed since."""
    path = os.path.realpath(file)
    with open(path, "rb") as crontab:
        if crontab.read(MOST_BYTES + 1) != content:
            raise InvalidInput(f"file {file!r} was changed meanwhile, and is left as it is")
        seen = os.fstat(crontab.fileno())
    # cron ignores file names with a dot, so it never runs the temporary file.
    write_whole(Path(path), [comment_out(content, lines)], owner=seen.st_uid)


def own_name() -> str:
    """Return the name of this user; the number if it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
