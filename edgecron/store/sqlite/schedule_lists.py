"""Read how schedules stand: the few columns of each that lists show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from edgecron.base.errors import SENSELESS, Unreadable
from edgecron.base.units import from_ms
from edgecron.base.values import NamedTuple
from edgecron.model.listing import Standing
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.sqlite_errors import texts_of, unreadable
from edgecron.store.sqlite.statements import Params

if TYPE_CHECKING:
    from edgecron.model.listing import Choice


_T = TypeVar("_T")
_FAILS_EVER_SINCE = 3  # fires after the last success, before a schedule is said to fail
_LOOKED_AT = 100  # newest runs of a schedule, to find them
_LATE_MS = 60_000  # a time that has passed by less is not missed
# What the words of a choice are looked for in. A newline is in no word.
_WORDS = "concat_ws(char(10), name, group_name, description, job)"
# What says why a schedule has no next time: whether it is done, whether a run of it is active, and
# which of the schedules that it comes after are gone.
IDLE_COLUMNS = (
    "next_run_at IS NULL AND done_revision IS revision",
    """next_run_at IS NULL AND EXISTS (
        SELECT 1 FROM executions AS e INDEXED BY executions_active
        WHERE e.schedule_id = schedules.id AND e.status IN ('queued', 'running'))""",
    """(SELECT group_concat(u.upstream, ' ') FROM schedule_upstreams AS u
        WHERE u.schedule_id = schedules.id AND NOT EXISTS (
            SELECT 1 FROM schedules AS x WHERE x.name = u.upstream AND x.deleted_at IS NULL))""",
)
COLUMNS = (
    "name", "triggers", "enabled", "paused_until", "next_run_at", "trigger_error", "last_status",
    "last_run_at", "run_count", "planned_count", "max_runs", "until_at", "vanished_at",
    *IDLE_COLUMNS,
)  # fmt: skip


def count_schedules(database: Database) -> tuple[int, int, int]:
    """How many schedules there are; of how many the triggers can't be read; and how many nobody
    runs, as no engine of their programs offers them."""
    [counts] = database.rows(
        """SELECT (SELECT count(*) FROM schedules WHERE deleted_at IS NULL),
               (SELECT count(*) FROM schedules INDEXED BY schedules_broken
                WHERE trigger_error IS NOT NULL AND deleted_at IS NULL),
               (SELECT count(*) FROM schedules INDEXED BY schedules_vanished
                WHERE vanished_at IS NOT NULL AND deleted_at IS NULL)"""
    )
    count, broken, vanished = counts
    return count, broken, vanished


class Ailing(NamedTuple):
    """A schedule that fails every time, or of which nothing has ever run."""

    name: str
    failed_count: int  # with interrupted runs; 0: it has never run
    skipped_count: int
    last_error: str | None
    last_success_ms: int | None  # every later fire has failed


def find_ailing(database: Database, *, now_ms: int, limit: int) -> tuple[list[Ailing], int]:
    """Enabled schedules that fail every time or have never run although a time has passed; at most
    `limit` of them, and how many there are.

    A schedule that has succeeded fails every time if all fires since then have failed, three or
    more of them. A fire with retries is one.
    """
    rows = database.rows(
        f"""SELECT name, failed_count + interrupted_count, skipped_count, last_error,
               last_success_at, count(*) OVER ()
           FROM schedules
           WHERE deleted_at IS NULL AND enabled AND iif(
               success_count > 0,
               last_run_at > last_success_at AND (
                   SELECT count(*) FROM (
                       SELECT DISTINCT plan_at, fire_key FROM (
                           SELECT * FROM executions AS e INDEXED BY executions_by_schedule
                           WHERE e.schedule_id = schedules.id
                           ORDER BY e.id DESC LIMIT {_LOOKED_AT})
                       WHERE status IN ('failed', 'interrupted')
                           AND finished_at > last_success_at
                       LIMIT {_FAILS_EVER_SINCE})) = {_FAILS_EVER_SINCE},
               iif(run_count > 0, last_status IN ('failed', 'interrupted'),
                   skipped_count > 0 OR next_run_at BETWEEN 0 AND :late))
           ORDER BY name LIMIT :limit""",
        {"late": now_ms - _LATE_MS, "limit": limit},
    )
    return [Ailing(*row[:5]) for row in rows], rows[0][5] if rows else 0


def find_standings(
    database: Database,
    choice: Choice | None = None,
    *,
    now_ms: int,
    after: str | None = None,
    limit: int | None = None,
) -> list[Standing]:
    """How schedules stand, by name: of all, of a choice, or of a page of either.

    A schedule that can't be read is shown as broken.
    """
    where, params = page_where(choice, now_ms=now_ms, after=after, limit=limit)
    rows = read_rows(database, COLUMNS, f"FROM schedules {where}", params)
    return [shown_standing(row) for row in rows]


def page_where(
    choice: Choice | None, *, now_ms: int, after: str | None, limit: int | None
) -> tuple[str, dict[str, Any]]:
    """The end of a statement that reads a page of schedules by name, and its values."""
    wheres = ["deleted_at IS NULL", "name > :after"]
    params: dict[str, Any] = {"after": after or "", "limit": -1 if limit is None else limit}
    if choice is not None:
        if choice.group is not None:
            wheres.append("group_name = :group")
            params["group"] = choice.group
        if choice.is_failed:
            wheres.append("last_status IN ('failed', 'interrupted')")
        if choice.is_paused:
            wheres.append("(NOT enabled OR paused_until > :now)")
            params["now"] = now_ms
        for number, word in enumerate(choice.words):
            # SQLite's own `lower` knows only ASCII.
            fold = "lower" if word.isascii() else "casefold"
            wheres.append(f"instr({fold}({_WORDS}), :word_{number})")
            params[f"word_{number}"] = word.casefold()
    return f"WHERE {' AND '.join(wheres)} ORDER BY name LIMIT :limit", params


def standing_of(row: tuple[Any, ...]) -> Standing:
    """How a schedule stands, from COLUMNS, or Unreadable."""
    try:
        return Standing(
            name=row[0],
            triggers=texts_of(json.loads(row[1])),
            enabled=bool(row[2]),
            paused_until=None if row[3] is None else from_ms(row[3]),
            next_run_at=None if row[4] is None else from_ms(row[4]),
            trigger_error=row[5],
            last_status=row[6],
            last_run_at=None if row[7] is None else from_ms(row[7]),
            run_count=row[8],
            planned_count=row[9],
            max_runs=row[10],
            until_at=None if row[11] is None else from_ms(row[11]),
            vanished_at=None if row[12] is None else from_ms(row[12]),
            is_done=bool(row[13]),
            is_active=bool(row[14]),
            gone_upstreams=tuple((row[15] or "").split()),
        )
    except SENSELESS as error:
        raise unreadable("schedule", error, name=row[0]) from error


def read_rows(
    database: Database, columns: Sequence[str], rest: str, params: Params
) -> list[tuple[Any, ...]]:
    """Columns of schedules; with a mark in the place of each byte that is no text."""
    return readably(
        lambda is_lossy: list(each_row(database, columns, rest, params, is_lossy=is_lossy))
    )


def shown_standing(row: tuple[Any, ...]) -> Standing:
    """How a schedule stands; as a broken one where that can't be read."""
    try:
        return standing_of(row)
    except Unreadable as error:
        return Standing(
            name=row[0],
            triggers=(),
            enabled=True,
            paused_until=None,
            next_run_at=None,
            trigger_error=error.message,
            last_status=None,
            last_run_at=None,
            run_count=0,
            planned_count=0,
            max_runs=None,
            until_at=None,
            vanished_at=None,
        )


def readably(read: Callable[[bool], _T]) -> _T:
    """Read texts as they are; where one of them is no text, with what can be told of it."""
    try:
        return read(False)
    except Unreadable:
        return read(True)


def each_row(
    database: Database, columns: Sequence[str], rest: str, params: Params, *, is_lossy: bool
) -> Iterator[tuple[Any, ...]]:
    """Rows; where `is_lossy`, with a mark in the place of each byte of a text that is none."""
    if not is_lossy:
        yield from database.each(f"SELECT {', '.join(columns)} {rest}", params)
        return
    raw = (f"iif(typeof({one}) = 'text', CAST({one} AS BLOB), {one})" for one in columns)
    for row in database.each(f"SELECT {', '.join(raw)} {rest}", params):
        yield tuple(
            value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row
        )
