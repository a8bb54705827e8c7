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
from typing import TYPE_CHECKING

from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.views.phrases import count_words

if TYPE_CHECKING:
    from edgecron.client.migration import Migrated

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
    from edgecron.client.migration import migrate

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


def _object(done: Migrated) -> dict[str, object]:
    return {
        "from": done.source,
        "to": done.target,
        "tables": {
            table: {"rows": content.rows, "sha256": content.sha256}
            for table, content in done.tables.items()
        },
    }
