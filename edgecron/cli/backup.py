"""Copy a database: back it up, restore it, and migrate it to another store."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from shlex import join
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import Conflict, EdgecronError, InvalidInput, UsageError
from edgecron.base.paths import user_name
from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.views.json_objects import instant
from edgecron.views.phrases import count_words, named_words, size_words

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.client.backup import Backup
    from edgecron.client.restore import Restoration, Restored
    from edgecron.store.sql.transfer import Progress, TableContent
    from edgecron.store.sqlite.copies import Contents, StoredCommand


class BackupCommand:
    """Copy the database while it is in use.

        edgecron backup /mnt/usb/edgecron.db
        edgecron backup /var/backups/edgecron/    a folder; the time names the file
        edgecron backup - | ssh nas 'cat > edgecron.db'
        edgecron add keep --cron "0 3 * * *" -- edgecron backup /var/backups/

    The backup is one plain file. edgecron checks it for damage before it gets its name; until then,
    an earlier file of that name stays as it is. Engines do not wait, and later changes are not part
    of the backup. Do not copy the database with cp: its newest part is in another file. {date} in
    the name is the time, in UTC.
    """

    LIVES_LONG = True

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("FILE|FOLDER|-", "the file to write, or - for stdout", dest="file")
        parser.add("--force", "replace an existing file")

    @staticmethod
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
                raise EdgecronError(
                    "the backup is incomplete: its reader closed the pipe"
                ) from None
            cli.say(_backup_words(done))
            return 0
        done = client.backup(args.file, replace=args.force, on_progress=progress)
        if cli.is_json:
            cli.put_json([_backup_object(done)])
        else:
            cli.put(_backup_words(done))
        return 0


def _refuse_stdout(cli: Session, args: Namespace) -> None:
    if cli.is_json or args.force:
        option = "--json" if cli.is_json else "--force"
        raise UsageError(f"{option} does not work with a backup to stdout")
    if sys.stdout.isatty():
        raise UsageError(
            "a backup is binary, and stdout is a terminal", hint="name a file, or use a pipe"
        )


def _backup_words(done: Backup) -> str:
    where = "stdout" if done.path is None else str(done.path)
    size = size_words(done.size_bytes)
    return f"backed up {_contents_words(done.contents)} to {where}, {size}; nothing is damaged"


def _backup_object(done: Backup) -> dict[str, Any]:
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


def _contents_words(contents: Contents) -> str:
    """Say `12 schedules and 4,711 runs`."""
    return f"{count_words(contents.schedules, 'schedule')} and {count_words(contents.runs, 'run')}"


class RestoreCommand:
    """Replace the database with a backup.

        edgecron restore /mnt/usb/edgecron.db
        edgecron --db /var/lib/edgecron/edgecron.db restore edgecron.db --yes
        edgecron restore edgecron.db --skip-missed
        sudo edgecron restore /home/ada/edgecron.db --take-over

    First stop every engine, and wait for its jobs. restore checks the backup for damage and asks
    before it replaces anything. It upgrades an older backup, and refuses one of a newer edgecron.

    Runs that were queued or running in the backup do not start again, because their end is unknown.
    They become cancelled or interrupted; --on-interrupt retry runs a schedule's run again. The
    times since the backup count as missed: --catch-up decides for each schedule. --skip-missed
    records all of them as skipped.

    If a user other than you and root could have written the backup, restore shows its commands and
    stops, because they would run as you. --take-over restores it anyway.

    The restored database has a new seed: delays by jitter change, plan times do not.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("FILE", "a file that `edgecron backup` made")
        parser.add("--skip-missed", "skip times that were missed since the backup")
        parser.add("--take-over", "accept another user's backup; its commands run as you")
        parser.add("-y --yes", "restore without asking")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        client = cli.local_client()
        with client.restoring(args.file, on_progress=cli.progress("read")) as restoration:
            if restoration.opening is not None:
                _need_agreement(cli, restoration, take_over=args.take_over)
            if (
                restoration.has_present
                and not args.yes
                and not _agrees_to_replace(cli, restoration)
            ):
                cli.say("nothing was done")
                return 1
            done = restoration.carry_out(skip_missed=args.skip_missed, take_over=args.take_over)
        if cli.is_json:
            cli.put_json([_restored_object(restoration, done)])
            return 0
        for line in _restored_lines(cli, restoration, done):
            cli.put(line)
        cli.say(f"start an engine: {cli.command('daemon')}")
        return 0


def _need_agreement(cli: Session, restoration: Restoration, *, take_over: bool) -> None:
    """Show whose commands would run as us. Raises EdgecronError without `take_over`."""
    lines = []
    for one in restoration.commands:
        who = f" (as {one.user})" if one.user else ""
        more = f" with {', '.join(one.variables)}" if one.variables else ""
        lines.append(clean(f"{one.schedule}{who}: {_words_of(one)}{more}"))
    if not cli.is_json:
        would = (
            f"the commands of the backup {'will' if take_over else 'would'} run as {user_name()}"
        )
        cli.say(f"edgecron: {restoration.opening}: {would}:")
        for line in lines:
            cli.say(f"  {line}")
    if not take_over:
        shown = f" ({'; '.join(lines)})" if cli.is_json else ""
        raise EdgecronError(
            f"backup {restoration.source} could be another user's: {restoration.opening};"
            f" its commands would run as {user_name()}{shown}",
            hint="to accept these commands, repeat with --take-over",
        )


def _words_of(command: StoredCommand) -> str:
    if command.kind != "command":
        return f"{command.kind} {command.job}"
    try:
        return join(str(word) for word in json.loads(command.job))
    except (ValueError, TypeError):
        return command.job


def _agrees_to_replace(cli: Session, restoration: Restoration) -> bool:
    """Show what the backup would replace, and ask."""
    if not cli.can_ask():
        raise UsageError(
            f"database {restoration.database} would be replaced,"
            " and there is no terminal to ask on",
            hint="repeat with --yes; edgecron keeps the present file under a dated name",
        )
    present = restoration.present
    there = restoration.present_error if present is None else _contents_words(present)
    cli.say(f"the backup has {_contents_words(restoration.contents)}")
    cli.say(f"the database has {there}" if present is not None else f"the database: {there}")
    cli.say("edgecron keeps the present file under a dated name.")
    return cli.ask(f"replace {restoration.database}?")


def _restored_lines(cli: Session, restoration: Restoration, done: Restored) -> list[str]:
    lines = [f"restored {_contents_words(done.contents)} to {done.database}"]
    if done.aside is not None:
        lines.append(f"the former database is kept: {done.aside}")
    if done.interrupted:
        was = "was running" if done.interrupted == 1 else "were running"
        lines.append(
            f"{count_words(done.interrupted, 'run')} {was} when the backup was made:"
            f" interrupted; see: {cli.command('history --status interrupted')}"
        )
    if done.cancelled:
        was = "was queued" if done.cancelled == 1 else "were queued"
        lines.append(
            f"{count_words(done.cancelled, 'run')} {was} when the backup was made:"
            f" cancelled; see: {cli.command('history --status cancelled')}"
        )
    if done.skipped:
        lines.append(f"skipped the times missed since the backup: {named_words(done.skipped)}")
    if done.due:
        are = "is" if len(done.due) == 1 else "are"
        lines.append(
            f"{count_words(len(done.due), 'schedule')} {are} due since the backup was made,"
            f" and --catch-up of each decides: {named_words(done.due)}"
        )
    return lines


def _restored_object(restoration: Restoration, done: Restored) -> dict[str, Any]:
    return {
        "database": str(done.database),
        "file": str(restoration.source),
        "kept_aside": None if done.aside is None else str(done.aside),
        "version": done.contents.version,
        "schedules": done.contents.schedules,
        "runs": done.contents.runs,
        "interrupted": done.interrupted,
        "cancelled": done.cancelled,
        "due": list(done.due),
        "skipped": list(done.skipped),
    }


class MigrateCommand:
    """Copy the database to another store.

        edgecron migrate --to postgresql://edgecron@db.lan/jobs
        edgecron migrate --from ./app.db --to postgresql://edgecron@db.lan/jobs
        edgecron migrate --from postgresql://edgecron@db.lan/jobs --to ./app.db

    A store is a file, or the database of a PostgreSQL server. First stop every engine of both
    databases. The target must be a new or an empty database. migrate copies schedules, their
    former definitions, history, output, state and notices. Then it reads both databases again and
    compares them. If they differ, nothing is copied. A NUL letter in a text becomes U+FFFD, in the
    comparison too, because PostgreSQL has no NUL.

    The original stays as it is, but migrate records the ends of runs whose engine has died. Start
    engines only with the target: an engine of the original would run each schedule once more.
    """

    LIVES_LONG = True

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add(
            "--from DATABASE",
            "copy this file or server's database (default: that of --db)",
            dest="source",
        )
        parser.add(
            "--to DATABASE", "write to this file or server's database", dest="target", required=True
        )

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        from edgecron.client import Client

        source = Client(args.source or cli.location(), must_exist=True)
        target = Client(args.target)
        try:
            done = _migrate(source, target, on_progress=cli.progress("copied and compared"))
        finally:
            target.close()
            source.close()
        if cli.is_json:
            cli.put_json([_migrated_object(done)])
            return 0
        schedules, runs, outputs = (
            done.tables[table].rows for table in ("schedules", "executions", "outputs")
        )
        cli.put(
            f"copied {count_words(schedules, 'schedule')}, {count_words(runs, 'run')} and"
            f" {count_words(outputs, 'output')} to {done.target}; all"
            f" {len(done.tables)} tables are equal"
        )
        cli.say(f"start engines with --db {done.target} only; {done.source} stays as it is")
        return 0


class _Migrated(NamedTuple):
    """A copied database: the places of the original and the copy, and the content of each table."""

    source: str
    target: str
    tables: Mapping[str, TableContent]


def _migrate(source: Client, target: Client, *, on_progress: Progress) -> _Migrated:
    """Copy schedules, history and output to an empty database, and compare both.

    The source stays as it is, but the ends of runs whose engine has died are recorded. Raises
    Conflict while an engine or a run is active, if the target has schedules or runs, or if the copy
    differs: then nothing is copied.
    """
    if source.location == target.location:
        raise InvalidInput(
            f"--from and --to are both {source.place}", hint="name another database with --to"
        )
    for client in (source, target):
        _refuse_active(client)
    from edgecron.store.sql.transfer import copy_all

    tables = copy_all(source.store, target.store, on_progress=on_progress)
    return _Migrated(source.place, target.place, tables)


def _refuse_active(client: Client) -> None:
    """Raise Conflict if an engine or a run of a database is active."""
    for engine in client.engines():
        if engine.is_alive:
            where = f" on {engine.info.host}" if engine.info.host else ""
            raise Conflict(
                f"engine pid {engine.info.pid}{where} is running on {client.place}",
                hint="stop it first, for example: systemctl stop edgecron",
            )
    client.take_over()
    running = client.store.find_running()
    if running:
        raise Conflict(
            f"run {running[0].execution_id} of {running[0].schedule!r} is still running on"
            f" {client.place}",
            hint=f"wait for its end, or end it: edgecron cancel {running[0].execution_id}",
        )


def _migrated_object(done: _Migrated) -> dict[str, object]:
    return {
        "from": done.source,
        "to": done.target,
        "tables": {
            table: {"rows": content.rows, "sha256": content.sha256}
            for table, content in done.tables.items()
        },
    }
