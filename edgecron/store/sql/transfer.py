"""Copy a whole database into the empty database of another store, and compare the two."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from edgecron.base.errors import Conflict
from edgecron.base.values import NamedTuple
from edgecron.store.sql.connection import Connection

# Each table comes after those that its rows refer to.
TABLES = (
    "meta",
    "groups",
    "schedules",
    "schedule_scopes",
    "schedule_upstreams",
    "schedule_revisions",
    "schedule_changes",
    "executions",
    "outputs",
    "state",
    "engines",
    "pending_apply",
    "imported_entries",
    "notify_rules",
    "watches",
    "happenings",
    "incidents",
    "notices",
)
_OF_LEASES = (
    "machine",
    "heartbeat_at",
    "stale_after",
    "polls_ms",
)  # of engines; only a server has them
_BATCH = 500  # rows of a statement
_MODULUS = 1 << 256

# Gets how many rows are copied or compared, and how many there are: each row counts twice.
Progress = Callable[[int, int], object]


class TableContent(NamedTuple):
    """A table's number of rows, and a hash of these rows in any order."""

    rows: int
    sha256: str


def copy_all(
    source: Connection, target: Connection, *, on_progress: Progress
) -> dict[str, TableContent]:
    """Copy all tables, read both databases again, and return the content of each table.

    The target keeps its UUID, and gets everything else. Nothing else writes to either database
    meanwhile. A NUL letter in a text becomes U+FFFD: PostgreSQL can't hold it. Raises Conflict if
    the target has schedules or runs, or if a table differs in the end; then nothing is copied.
    """
    columns = {table: _columns_of(source, target, table) for table in TABLES}
    counts = {table: _count(source, table) for table in TABLES}
    done, most = 0, 2 * sum(counts.values())
    with source.transaction(), target.transaction():
        for database in (source, target):
            database.allow_idle()
            _refuse_active(database)
        _refuse_full(target)
        with target.without_triggers(TABLES):
            for table in TABLES:
                for some in _batches(_read(source, table, columns[table])):
                    _write(target, table, columns[table], some)
                    done += len(some)
                    on_progress(done, most)
            target.set_last_ids(source.find_last_ids())
        contents = {}
        for table in TABLES:
            expected = _content(_read(source, table, columns[table]))
            found = _content(_read(target, table, columns[table]))
            if found != expected:
                raise Conflict(
                    f"table {table} has {found.rows} rows in the copy and {expected.rows} in the"
                    " original, or other values: nothing was copied",
                    hint="check the original: edgecron doctor --deep",
                )
            contents[table] = found
            done += found.rows
            on_progress(done, most)
    return contents


def _columns_of(source: Connection, target: Connection, table: str) -> list[str]:
    kept = ("uuid",) if table == "meta" else _OF_LEASES if table == "engines" else ()
    columns = [name for name in source.find_columns(table) if name not in kept]
    missing = set(columns) ^ {name for name in target.find_columns(table) if name not in kept}
    assert not missing, f"{table} lacks {missing} in one of the stores"
    return columns


def _count(database: Connection, table: str) -> int:
    [(count,)] = database.rows(f"SELECT count(*) FROM {table}")
    return int(count)


def _refuse_full(target: Connection) -> None:
    schedules, runs = _count(target, "schedules"), _count(target, "executions")
    if schedules or runs:
        raise Conflict(
            f"the target has {schedules} schedules and {runs} runs, expected an empty database",
            hint="name a new database",
        )


def _refuse_active(database: Connection) -> None:
    """Raise Conflict if a run is active: its engine has started after the first look."""
    running = database.row("SELECT id FROM executions WHERE status = 'running' LIMIT 1")
    if running is not None:
        raise Conflict(f"run {running[0]} has started meanwhile", hint="stop every engine first")


def _read(database: Connection, table: str, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    listed = ", ".join(f"t.{name}" for name in columns)
    for row in database.each(f"SELECT {listed} FROM {table} AS t"):
        yield tuple(_storable(value) for value in row)


def _storable(value: Any) -> Any:
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


def _batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    rows = iter(rows)
    while some := list(islice(rows, _BATCH)):
        yield some


def _write(target: Connection, table: str, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    names = [f"v{number}" for number in range(len(columns))]
    params = [dict(zip(names, row, strict=True)) for row in rows]
    if table == "meta":  # A new database has this row.
        changes = ", ".join(f"{one} = :{name}" for one, name in zip(columns, names, strict=True))
        target.change_many(f"UPDATE meta SET {changes}", params)
        return
    values = ", ".join(f":{name}" for name in names)
    target.change_many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})", params)


def _content(rows: Iterable[tuple[Any, ...]]) -> TableContent:
    """The content of a table. The two stores give its rows in different orders."""
    count = total = 0
    for row in rows:
        count += 1
        total += int.from_bytes(hashlib.sha256(repr(row).encode()).digest(), "big")
    return TableContent(count, f"{total % _MODULUS:064x}")
