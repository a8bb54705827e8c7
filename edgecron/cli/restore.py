"""Replace the database with a backup.

    edgecron restore /mnt/usb/edgecron.db
    edgecron --db /var/lib/edgecron/edgecron.db restore edgecron.db --yes
    edgecron restore edgecron.db --skip-missed
    sudo edgecron restore /home/ada/edgecron.db --take-over

First stop every engine, and wait for its jobs. restore checks the backup for damage and asks before
it replaces anything. It upgrades an older backup, and refuses one of a newer edgecron.

Runs that were queued or running in the backup do not start again, because their end is unknown.
They become cancelled or interrupted; --on-interrupt retry runs a schedule's run again. The times
since the backup count as missed: --catch-up decides for each schedule. --skip-missed records all of
them as skipped.

If a user other than you and root could have written the backup, restore shows its commands and
stops, because they would run as you. --take-over restores it anyway.

The restored database has a new seed: delays by jitter change, plan times do not.
"""

from __future__ import annotations

import json
from argparse import Namespace
from shlex import join
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import EdgecronError, UsageError
from edgecron.base.paths import user_name
from edgecron.base.safetext import clean
from edgecron.cli.backup import contents_words
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.views.phrases import count_words, named_words

if TYPE_CHECKING:
    from edgecron.client.restore import Restoration, Restored
    from edgecron.store.sqlite.copies import StoredCommand


def add_arguments(parser: Parser) -> None:
    parser.add("FILE", "a file that `edgecron backup` made")
    parser.add("--skip-missed", "skip times that were missed since the backup")
    parser.add("--take-over", "accept another user's backup; its commands run as you")
    parser.add("-y --yes", "restore without asking")


def run(cli: Session, args: Namespace) -> int:
    client = cli.local_client()
    with client.restoring(args.file, on_progress=cli.progress("read")) as restoration:
        if restoration.opening is not None:
            _need_agreement(cli, restoration, take_over=args.take_over)
        if restoration.has_present and not args.yes and not _agrees(cli, restoration):
            cli.say("nothing was done")
            return 1
        done = restoration.carry_out(skip_missed=args.skip_missed, take_over=args.take_over)
    if cli.is_json:
        cli.put_json([_object(restoration, done)])
        return 0
    for line in _lines(cli, restoration, done):
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


def _agrees(cli: Session, restoration: Restoration) -> bool:
    """Show what the backup would replace, and ask."""
    if not cli.can_ask():
        raise UsageError(
            f"database {restoration.database} would be replaced,"
            " and there is no terminal to ask on",
            hint="repeat with --yes; edgecron keeps the present file under a dated name",
        )
    present = restoration.present
    there = restoration.present_error if present is None else contents_words(present)
    cli.say(f"the backup has {contents_words(restoration.contents)}")
    cli.say(f"the database has {there}" if present is not None else f"the database: {there}")
    cli.say("edgecron keeps the present file under a dated name.")
    return cli.ask(f"replace {restoration.database}?")


def _lines(cli: Session, restoration: Restoration, done: Restored) -> list[str]:
    lines = [f"restored {contents_words(done.contents)} to {done.database}"]
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


def _object(restoration: Restoration, done: Restored) -> dict[str, Any]:
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
