"""Copy the database while it is in use.

    edgecron backup /mnt/usb/edgecron.db
    edgecron backup /var/backups/edgecron/    a folder; the time names the file
    edgecron backup - | ssh nas 'cat > edgecron.db'
    edgecron add keep --cron "0 3 * * *" -- edgecron backup /var/backups/

The backup is one plain file. edgecron checks it for damage before it gets its name; until then, an
earlier file of that name stays as it is. Engines do not wait, and later changes are not part of the
backup. Do not copy the database with cp: its newest part is in another file. {date} in the name is
the time, in UTC.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import EdgecronError, UsageError
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.views.json_objects import instant
from edgecron.views.phrases import count_words, size_words

if TYPE_CHECKING:
    from edgecron.client.backup import Backup
    from edgecron.store.sqlite.copies import Contents


LIVES_LONG = True


def add_arguments(parser: Parser) -> None:
    parser.add("FILE|FOLDER|-", "the file to write, or - for stdout", dest="file")
    parser.add("--force", "replace an existing file")


def run(cli: Session, args: Namespace) -> int:
    client = cli.local_client(must_exist=True)
    progress = cli.progress("copied")
    if args.file == "-":
        _refuse_stdout(cli, args)
        try:
            # Not `sys.stdout.buffer`: if Python does not buffer, it can silently write a part.
            with open(sys.stdout.fileno(), "wb", closefd=False) as stdout:
                done = client.write_backup(stdout.write, on_progress=progress)
        except BrokenPipeError:
            # For other commands this is no error; here the backup is incomplete.
            raise EdgecronError("the backup is incomplete: its reader closed the pipe") from None
        cli.say(_words(done))
        return 0
    done = client.backup(args.file, replace=args.force, on_progress=progress)
    if cli.is_json:
        cli.put_json([_object(done)])
    else:
        cli.put(_words(done))
    return 0


def _refuse_stdout(cli: Session, args: Namespace) -> None:
    if cli.is_json or args.force:
        option = "--json" if cli.is_json else "--force"
        raise UsageError(f"{option} does not work with a backup to stdout")
    if sys.stdout.isatty():
        raise UsageError(
            "a backup is binary, and stdout is a terminal", hint="name a file, or use a pipe"
        )


def _words(done: Backup) -> str:
    where = "stdout" if done.path is None else str(done.path)
    size = size_words(done.size_bytes)
    return f"backed up {contents_words(done.contents)} to {where}, {size}; nothing is damaged"


def _object(done: Backup) -> dict[str, Any]:
    return {
        "file": None if done.path is None else str(done.path),
        "database": str(done.database),
        "taken_at": instant(done.taken_at),
        "size_bytes": done.size_bytes,
        "version": done.contents.version,
        "schedules": done.contents.schedules,
        "runs": done.contents.runs,
        "running": done.contents.running,
        "queued": done.contents.queued,
    }


def contents_words(contents: Contents) -> str:
    """Say `12 schedules and 4,711 runs`."""
    return f"{count_words(contents.schedules, 'schedule')} and {count_words(contents.runs, 'run')}"
