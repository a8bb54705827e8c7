"""Copy the database to another store.

    edgecron migrate --to postgresql://edgecron@db.lan/jobs
    edgecron migrate --from ./app.db --to postgresql://edgecron@db.lan/jobs
    edgecron migrate --from postgresql://edgecron@db.lan/jobs --to ./app.db

A store is a file, or the database of a PostgreSQL server. First stop every engine of both
databases. The target must be a new or an empty database. migrate copies schedules, their former
definitions, history, output, state and notices. Then it reads both databases again and compares
them. If they differ, nothing is copied. A NUL letter in a text becomes U+FFFD, in the comparison
too, because PostgreSQL has no NUL.

The original stays as it is, but migrate records the ends of runs whose engine has died. Start
engines only with the target: an engine of the original would run each schedule once more.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgecron.base.errors import Conflict, InvalidInput
from edgecron.base.values import NamedTuple
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.views.phrases import count_words

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.store.sql.transfer import Progress, TableContent

LIVES_LONG = True


def add_arguments(parser: Parser) -> None:
    parser.add(
        "--from DATABASE",
        "copy this file or server's database (default: that of --db)",
        dest="source",
    )
    parser.add(
        "--to DATABASE", "write to this file or server's database", dest="target", required=True
    )


def run(cli: Session, args: Namespace) -> int:
    from edgecron.client import Client

    source = Client(args.source or cli.location(), must_exist=True)
    target = Client(args.target)
    try:
        done = migrate(source, target, on_progress=cli.progress("copied and compared"))
    finally:
        target.close()
        source.close()
    if cli.is_json:
        cli.put_json([_object(done)])
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


class Migrated(NamedTuple):
    """A copied database: the places of the original and the copy, and the content of each table."""

    source: str
    target: str
    tables: Mapping[str, TableContent]


def migrate(source: Client, target: Client, *, on_progress: Progress) -> Migrated:
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
    return Migrated(source.place, target.place, tables)


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


def _object(done: Migrated) -> dict[str, object]:
    return {
        "from": done.source,
        "to": done.target,
        "tables": {
            table: {"rows": content.rows, "sha256": content.sha256}
            for table, content in done.tables.items()
        },
    }
