"""Read due queued rows in the order in which they get places.

Order: by priority; then schedules without a running run first, so that a thousand scopes of one
schedule delay no other; then by due time, then by id. Each page starts after the end of the one
before it. Later pages skip rows that can't start however many places are free.

Late runs (catch-ups and backfills) get few places, in an order of their own. To sort a long backlog
takes long inside a transaction, so its order is used for a second.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any

from edgecron.base.errors import SENSELESS
from edgecron.base.values import NamedTuple, dataclass, field
from edgecron.model.choices import Cause, Overlap
from edgecron.model.conditions import needs_of_fire
from edgecron.model.engine import Offers
from edgecron.planning.admission import Occupancy, is_full
from edgecron.planning.windows import closing_ms
from edgecron.store.contract import Claimant, QueuedRow
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.due import among, priorities
from edgecron.store.sql.limits import RunCounts, ScopeKey
from edgecron.store.sql.revisions import snapshot_of
from edgecron.store.sql.rows import needs_of, unreadable, windows_in

# To look up a member takes a third of the time of `Cause(text)`, for each row that waits.
_CAUSES = {str(one): one for one in Cause}
_OVERLAPS = {str(one): one for one in Overlap}
LateKey = tuple[int, str, str, str]  # a schedule, a scope, and the cause of its late runs

_LONG = 256  # the order of more late runs than this is kept
_KEPT_MS = 1000
_KEPT_ROWS = 512
_KEPT_TURNS = 64  # of one schedule and scope
_IS_LATE = """e.status = 'queued' AND e.cause IN ('catch_up', 'backfill')
    AND e.waiting_for IS NULL AND e.due_at <= :now
    AND s.enabled AND s.deleted_at IS NULL
    AND (s.paused_until IS NULL OR s.paused_until <= :now)"""


class _LateOrder(NamedTuple):
    """The order of late runs at a time: (id, key)."""

    queues: tuple[str, ...]
    at_ms: int
    rows: Sequence[tuple[int, LateKey]]


def find_next_late(
    database: Connection,
    queues: tuple[str, ...],
    *,
    now_ms: int,
    limit: int,
    full: set[ScopeKey],
    stuck: set[LateKey],
) -> dict[int, LateKey]:
    """Return the late runs that get the next places, by id: at most one per schedule and scope.

    Order: by priority, then the shortest backlog first (the waiting late runs of a schedule times
    its mean duration; an unknown duration comes last). Of one schedule the newest goes first, but
    runs in sequence (`catch_up=all`, a backfill) start with the oldest. Keys that are `full` or
    `stuck` are skipped. The order of a long backlog is up to a second old.
    """
    kept: _LateOrder | None = database.notes.get("late order")
    if kept is not None and kept.queues == queues and 0 <= now_ms - kept.at_ms < _KEPT_MS:
        rows = [row for row in kept.rows if row[1][:3] not in full and row[1] not in stuck]
        found = _first_of_each(_still_late(database, rows, now_ms=now_ms), limit)
        if len(found) >= limit:
            return found
    order = _find_late_order(database, queues, now_ms=now_ms, full=full, stuck=stuck)
    database.notes["late order"] = order if len(order.rows) > _LONG else None
    return _first_of_each(order.rows, limit)


def _first_of_each(rows: Iterable[tuple[int, LateKey]], limit: int) -> dict[int, LateKey]:
    """Return the first of each schedule and scope."""
    found: dict[int, LateKey] = {}
    seen: set[ScopeKey] = set()
    for id_, key in rows:
        if len(found) >= limit:
            break
        if key[:3] not in seen:
            seen.add(key[:3])
            found[id_] = key
    return found


def _still_late(
    database: Connection, rows: Sequence[tuple[int, LateKey]], *, now_ms: int
) -> list[tuple[int, LateKey]]:
    """Return the rows that still wait only for a place."""
    still = {
        row[0]
        for row in database.rows(
            f"""SELECT e.id FROM json_each(:ids) AS j
                CROSS JOIN executions AS e ON e.id = CAST(j.value AS BIGINT)
                CROSS JOIN schedules AS s ON s.id = e.schedule_id WHERE {_IS_LATE}""",
            {"ids": json.dumps([id_ for id_, _ in rows]), "now": now_ms},
        )
    }
    return [row for row in rows if row[0] in still]


def _find_late_order(
    database: Connection,
    queues: tuple[str, ...],
    *,
    now_ms: int,
    full: set[ScopeKey],
    stuck: set[LateKey],
) -> _LateOrder:
    rows = database.rows(
        f"""SELECT id, schedule_id, scope_kind, scope_id, cause FROM (
               SELECT e.id, e.schedule_id, e.scope_kind, e.scope_id, e.cause,
                   count(*) OVER (PARTITION BY e.schedule_id) * coalesce(
                       1.0 * s.duration_sum_ms / nullif(s.run_count, 0), 1e15) AS backlog,
                   row_number() OVER in_turn AS turn,
                   first_value(e.priority) OVER in_turn AS first_priority,
                   first_value(e.due_at) OVER in_turn AS first_due_at,
                   first_value(e.id) OVER in_turn AS first_id
               FROM executions AS e INDEXED BY executions_active
               CROSS JOIN schedules AS s ON s.id = e.schedule_id
               WHERE {_IS_LATE} AND e.status IN ('queued', 'running')
                   AND e.queue IN (SELECT value FROM json_each(:queues))
                   AND (e.schedule_id, e.scope_kind, e.scope_id) NOT IN
                       (SELECT CAST(value ->> 0 AS BIGINT), value ->> 1, value ->> 2
                        FROM json_each(:full))
                   AND (e.schedule_id, e.scope_kind, e.scope_id, e.cause) NOT IN
                       (SELECT CAST(value ->> 0 AS BIGINT), value ->> 1, value ->> 2, value ->> 3
                        FROM json_each(:stuck))
               WINDOW in_turn AS (
                   PARTITION BY e.schedule_id, e.scope_kind, e.scope_id
                   ORDER BY e.priority DESC, iif(s.catch_up = 'all' OR e.cause = 'backfill',
                       e.plan_at, -e.plan_at), e.id)) AS late
           WHERE turn <= :turns
           ORDER BY first_priority DESC, backlog, first_due_at DESC, first_id, turn LIMIT :limit""",
        {
            "now": now_ms,
            "queues": json.dumps(queues),
            "full": json.dumps(sorted(full)),
            "stuck": json.dumps(sorted(stuck)),
            "turns": _KEPT_TURNS,
            "limit": _KEPT_ROWS,
        },
    )
    order = [(id_, (schedule_id, *scope, cause)) for id_, schedule_id, *scope, cause in rows]
    return _LateOrder(queues, now_ms, order)


_FIRST_PAGE = 32  # usually few places are free
_MORE = 4  # rows of the first page beyond the free places
_PAGE = 256
_OF_EACH = 8  # rows of each other schedule that are read behind a full first page
# Conditions by the fields of `Blocked`; only those that are not empty: to build all lists takes
# longer than to read a page.
_BLOCKED = {
    "causes": "AND e.cause NOT IN (SELECT value FROM json_each(:causes))",
    "late": """AND (e.cause NOT IN ('catch_up', 'backfill')
        OR e.id IN (SELECT CAST(value AS BIGINT) FROM json_each(:late)))""",
    "keys": """AND (e.schedule_id, e.scope_kind, e.scope_id) NOT IN
        (SELECT CAST(value ->> 0 AS BIGINT), value ->> 1, value ->> 2 FROM json_each(:keys))""",
    "backfills": """AND (e.cause != 'backfill' OR (e.schedule_id, e.scope_kind, e.scope_id) NOT IN
        (SELECT CAST(value ->> 0 AS BIGINT), value ->> 1, value ->> 2
            FROM json_each(:backfills)))""",
    "groups": """AND (s.group_name IS NULL
        OR s.group_name NOT IN (SELECT value FROM json_each(:groups)))""",
}

# A run uses the revision of its row. But if a program's job has become another kind since (function
# or process), it uses the current revision, which is what the program's engines offer.
_REVISION = f"""iif(e.revision = s.revision OR e.queue != s.queue OR e.queue LIKE 'command%',
    e.revision, coalesce((SELECT iif(json_valid(r.snapshot) AND r.snapshot ->> 'kind' != s.kind,
            s.revision, e.revision)
        FROM schedule_revisions AS r WHERE r.schedule_id = s.id
            AND r.revision = {snapshot_of("s.id", "e.revision")}), e.revision))"""
_ROW = f"""e.id, e.schedule_id, {_REVISION}, e.scope_kind, e.scope_id, e.cause, e.priority,
    e.due_at, s.overlap, s.max_running, s.group_name, s.needs, s.needs_deadline_s,
    e.fire_key LIKE 'backfill:%', e.plan_at,
    iif(e.fire_key = '', e.trigger_text, NULL),
    s.between_times, s.not_between_times, s.except_days, s.timezone"""
_IS_OPEN = """(e.cause = 'manual' OR (s.enabled AND s.deleted_at IS NULL
    AND (s.paused_until IS NULL OR s.paused_until <= :now)))"""

_Placed = tuple[tuple[int, bool, int, int], QueuedRow]  # with its place in the order


@dataclass(slots=True)
class Blocked:
    """Keys, groups and causes whose runs can't start any more in this transaction."""

    keys: set[ScopeKey] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    backfills: set[ScopeKey] = field(default_factory=set)  # whose next has to wait its turn
    causes: set[Cause] = field(default_factory=set)
    late: dict[int, LateKey] | None = None  # the next late runs, by id; all others wait
    has_all_keys: bool = False

    def find_all_keys(self, database: Connection) -> None:
        """Block all schedules and scopes that have no free place."""
        self.keys.update(_find_full(database))
        self.has_all_keys = True

    def sql(self) -> str:
        """Return the SQL conditions; usually empty."""
        return " ".join(sql for name, sql in _BLOCKED.items() if getattr(self, name))

    def params(self) -> dict[str, str]:
        """Return the values of these conditions."""
        held = {name: getattr(self, name) for name in _BLOCKED}
        return {name: json.dumps(sorted(values)) for name, values in held.items() if values}

    def holds(self, row: QueuedRow) -> bool:
        is_behind = row.cause is Cause.BACKFILL and row.key in self.backfills
        is_full = row.key in self.keys or row.group in self.groups
        return is_full or is_behind or row.cause in self.causes


def walk_queued(
    database: Connection,
    queues: tuple[str, ...],
    *,
    now_ms: int,
    counts: RunCounts,
    blocked: Blocked,
    offers: Offers | None,
) -> Iterator[QueuedRow]:
    """Yield the due queued rows of these queues in order, without those that are `blocked`.

    With `offers`, yield only offered jobs of a program's queue.
    """
    search = _Search(database, now_ms=now_ms, offers=offers)
    walks = [_walk(search, queue, counts, blocked) for queue in queues]
    rows = walks[0] if len(walks) == 1 else merge(*walks, key=itemgetter(0))
    for _, row in rows:
        if not blocked.holds(row):
            yield row


def is_any_due(database: Connection, queue: str, *, now_ms: int, offers: Offers | None) -> bool:
    """Whether a due row of a queue waits for a place."""
    search = _Search(database, now_ms=now_ms, offers=offers)
    return any(
        _find_page(search, queue, priority, None, Blocked(), limit=1)
        for priority in priorities(database, queue)
    )


def has_waiting(database: Connection, claimant: Claimant, now_ms: int) -> bool:
    """Whether a due row of this engine's queues waits for a place."""
    return any(
        is_any_due(database, queue, now_ms=now_ms, offers=claimant.offers)
        for queue in claimant.queues
    )


class _Search(NamedTuple):
    """The parameters of a search for queued rows."""

    database: Connection
    now_ms: int
    offers: Offers | None


def _walk(search: _Search, queue: str, counts: RunCounts, blocked: Blocked) -> Iterator[_Placed]:
    # Nearly always the first rows can start.
    first = min(_FIRST_PAGE, counts.places + _MORE)
    for priority in priorities(search.database, queue):
        size, seen, is_later = first, set[int](), False
        page = _find_page(search, queue, priority, None, blocked, limit=size)
        while True:
            counts.look_at(row.key for row in page)
            later = []  # rows of schedules that run something
            for row in page:
                if counts.has_running(row.schedule_id):
                    later.append(row)
                else:
                    yield _placed(row, is_later=is_later)
            if not is_later:
                seen.update(row.schedule_id for row in page)
                # If no row is put off, the next page shows the rows behind this one.
                if len(page) == size and later:
                    others = _find_others(search, queue, priority, seen, blocked)
                    counts.look_at(row.key for row in others[:first])
                    for row in others:
                        if not counts.has_running(row.schedule_id):
                            yield _placed(row, is_later=False)
                is_later = bool(later)
            for row in later:
                yield _placed(row, is_later=True)
            if len(page) < size:
                break
            size = min(_PAGE, max(2 * size, counts.places + _MORE))
            # Many pages can consist of rows that can't start; a few running rows show which.
            if not blocked.has_all_keys:
                blocked.find_all_keys(search.database)
            page = _find_page(search, queue, priority, page[-1], blocked, limit=size)


def _placed(row: QueuedRow, *, is_later: bool) -> _Placed:
    return (-row.priority, is_later, row.due_ms, row.execution_id), row


def _find_others(
    search: _Search, queue: str, priority: int, seen: set[int], blocked: Blocked
) -> list[QueuedRow]:
    """Return the first queued rows of each schedule that was not seen, by due time.

    This costs a seek for each schedule, however many rows of seen schedules are queued.
    """
    offered, values = among(search.database, queue, search.offers, of="s.")
    rows = search.database.rows(
        f"""WITH RECURSIVE waiting(id) AS (
               SELECT CAST(0 AS BIGINT)
               UNION ALL
               SELECT (SELECT min(schedule_id) FROM executions INDEXED BY executions_active
                   WHERE status = 'queued' AND status IN ('queued', 'running')
                       AND schedule_id > waiting.id)
               FROM waiting WHERE id IS NOT NULL)
           SELECT {_ROW}
           FROM waiting
           CROSS JOIN schedules AS s ON s.id = waiting.id
           CROSS JOIN executions AS e ON e.id IN (
               SELECT id FROM executions INDEXED BY executions_active
               WHERE status = 'queued' AND status IN ('queued', 'running')
                   AND schedule_id = waiting.id AND queue = :queue AND waiting_for IS NULL
                   AND priority = :priority AND due_at <= :now
               ORDER BY scope_kind, scope_id, cause, engine_id, due_at LIMIT {_OF_EACH})
           WHERE waiting.id NOT IN (SELECT CAST(value AS BIGINT) FROM json_each(:seen))
               {blocked.sql()} {offered}
               AND {_IS_OPEN}
           ORDER BY e.due_at, e.id LIMIT {_PAGE}""",
        {
            "queue": queue,
            "priority": priority,
            "now": search.now_ms,
            "seen": json.dumps(sorted(seen)),
            **blocked.params(),
            **values,
        },
    )
    return [_queued_row(row) for row in rows]


def _find_full(database: Connection) -> list[ScopeKey]:
    """Return the schedules and scopes that have no free place.

    It skips those that replace running runs once their condition is met or their window opens:
    their rows must be read.
    """
    # Counted here: to group them, SQLite would walk the whole history in the order of its keys.
    running = Counter(
        database.rows(
            """SELECT e.schedule_id, e.scope_kind, e.scope_id, s.overlap, s.max_running
               FROM executions AS e INDEXED BY executions_active
               CROSS JOIN schedules AS s ON s.id = e.schedule_id
               WHERE e.status = 'running' AND e.status IN ('queued', 'running')
                   AND NOT (s.overlap = 'replace' AND (s.needs != '[]' OR
                       instr(s.triggers, '"once in ') > 0 OR
                       s.between_times != '[]' OR s.not_between_times != '[]'
                       OR s.except_days != '[]'))"""
        )
    )
    return [
        row[:3]
        for row, count in running.items()
        if is_full(overlap=Overlap(row[3]), max_running=row[4], occupancy=Occupancy(running=count))
    ]


def _find_page(
    search: _Search,
    queue: str,
    priority: int,
    after: QueuedRow | None,
    blocked: Blocked,
    *,
    limit: int,
) -> list[QueuedRow]:
    offered, values = among(search.database, queue, search.offers, of="s.")
    rows = search.database.rows(
        f"""SELECT {_ROW}
           FROM executions AS e CROSS JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.status = 'queued' AND e.queue = :queue AND e.waiting_for IS NULL
               AND e.priority = :priority AND e.due_at <= :now
               AND (e.due_at, e.id) > (:due, :id)
               {blocked.sql()} {offered}
               AND {_IS_OPEN}
           ORDER BY e.due_at, e.id LIMIT :limit""",
        {
            "queue": queue,
            "priority": priority,
            "now": search.now_ms,
            "due": after.due_ms if after else -(2**62),
            "id": after.execution_id if after else 0,
            "limit": limit,
            **blocked.params(),
            **values,
        },
    )
    return [_queued_row(row) for row in rows]


def _queued_row(row: tuple[Any, ...]) -> QueuedRow:
    try:
        return QueuedRow(
            execution_id=row[0],
            schedule_id=row[1],
            revision=row[2],
            scope_kind=row[3],
            scope_id=row[4],
            cause=_CAUSES[row[5]],
            priority=row[6],
            due_ms=row[7],
            # Once it has its place, that its schedule can't be read ends it.
            overlap=_OVERLAPS.get(row[8], Overlap.SKIP),
            max_running=row[9],
            group=row[10],
            needs=needs_of_fire(needs_of(row[11]), row[15]),
            needs_deadline_s=row[12],
            is_backfill=bool(row[13]),
            plan_ms=row[14],
            windows=windows_in(*row[16:]),
            closes_ms=closing_ms(row[15], row[14], fire_key="", timezone=row[19]),
        )
    except SENSELESS as error:
        raise unreadable(f"run {row[0]}", error) from error
