"""Read what explains a schedule: its active runs, past decisions, and times it could not keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgecron.base.values import NamedTuple, dataclass
from edgecron.model.choices import Cause
from edgecron.model.conditions import needs_of_fire
from edgecron.model.machine_conditions import NOTHING_KNOWN, MachineCondition
from edgecron.model.run import Execution
from edgecron.model.schedule import Schedule
from edgecron.planning.admission import Occupancy
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.history import COLUMNS, FROM
from edgecron.store.sql.limits import Needs, RunCounts, is_unlimited
from edgecron.store.sql.revisions import columns_of
from edgecron.store.sql.rows import execution_of

_MOST_SKIPPED = 2_000  # newest skipped rows that are read
_FAST_MS = 1_000  # an interval shorter than this is shorter than the run of most commands


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospects:
    """Return how a fire of a schedule would be decided now, and its active runs.

    `occupancies` is empty if a fire starts however many runs are active.
    `active` has the first of `active_count` runs, in the order in which they continue. `unmet` is
    the text of a condition that a fire would wait for, or None.
    """

    active: tuple[Execution, ...]
    active_count: int
    occupancies: Mapping[tuple[str, str], Occupancy]
    is_group_full: bool
    unmet: str | None


def find_prospects(
    database: Connection,
    schedule: Schedule,
    *,
    most_active: int,
    now_ms: int,
    machine: Mapping[MachineCondition, bool] = NOTHING_KNOWN,
) -> Prospects:
    """Read the prospects of a schedule. `machine` says which conditions of the machine hold."""
    group = schedule.spec.group
    scopes = () if is_unlimited(schedule.spec) else schedule.spec.scopes
    counts = RunCounts(database, None, [schedule.id] if scopes else [], now_ms=now_ms)
    needs = Needs(database, now_ms=now_ms, machine=machine)
    texts = needs_of_fire(schedule.spec.policies.needs, schedule.next_source)
    unmet = needs.find_unmet(texts, Cause.SCHEDULE, schedule_id=schedule.id)
    return Prospects(
        active=tuple(_find_active(database, schedule.id, limit=most_active)),
        active_count=_count_active(database, schedule.id),
        occupancies={scope: counts.occupancy((schedule.id, *scope)) for scope in scopes},
        is_group_full=group is not None and _is_group_full(database, group),
        unmet=None if unmet is None else unmet.text,
    )


def _is_group_full(database: Connection, group: str) -> bool:
    """Whether as many runs of a group are running as its limit allows."""
    rows = database.rows(
        """SELECT 1 FROM groups AS g
           WHERE g.name = :group AND g.max_running <= (
               SELECT count(*) FROM executions AS e INDEXED BY executions_active
               CROSS JOIN schedules AS s ON s.id = e.schedule_id
               WHERE e.status = 'running' AND e.status IN ('queued', 'running')
                   AND s.group_name = g.name)""",
        {"group": group},
    )
    return bool(rows)


def _find_active(database: Connection, schedule_id: int, *, limit: int) -> list[Execution]:
    """The first active runs of a schedule, in the order in which they continue."""
    # To sort whole rows takes three times as long: there can be 100,000.
    rows = database.rows(
        f"""SELECT {COLUMNS} {FROM} WHERE e.id IN (
                SELECT id FROM executions INDEXED BY executions_active
                WHERE schedule_id = :id AND status IN ('queued', 'running')
                ORDER BY status != 'running', priority DESC, due_at, id LIMIT :limit)
            ORDER BY e.status != 'running', e.priority DESC, e.due_at, e.id""",
        {"id": schedule_id, "limit": limit},
    )
    return [execution_of(row) for row in rows]


def _count_active(database: Connection, schedule_id: int) -> int:
    """How many runs of a schedule are queued or running."""
    [(count,)] = database.rows(
        """SELECT count(*) FROM executions INDEXED BY executions_active
           WHERE schedule_id = :id AND status IN ('queued', 'running')""",
        {"id": schedule_id},
    )
    return int(count)


def find_late(database: Connection, *, now_ms: int) -> tuple[list[tuple[int, str]], int]:
    """The late runs that are running, as (id, schedule), and how many others wait for a place."""
    running = database.rows(
        """SELECT e.id, s.name FROM executions AS e INDEXED BY executions_active
           CROSS JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.status = 'running' AND e.status IN ('queued', 'running')
               AND e.cause IN ('catch_up', 'backfill')
           ORDER BY e.id"""
    )
    [(waiting,)] = database.rows(
        """SELECT count(*) FROM executions AS e INDEXED BY executions_active
           CROSS JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.status = 'queued' AND e.status IN ('queued', 'running')
               AND e.cause IN ('catch_up', 'backfill')
               AND e.waiting_for IS NULL AND e.due_at <= :now
               AND s.enabled AND s.deleted_at IS NULL
               AND (s.paused_until IS NULL OR s.paused_until <= :now)""",
        {"now": now_ms},
    )
    return [(row[0], row[1]) for row in running], waiting


def find_outrun(
    database: Connection, *, since_ms: int, least: int, schedule_id: int | None = None
) -> list[tuple[int, str, str, int, int]]:
    """Find the schedules with at least so many skipped times although engines were running.

    Returns (id, name, queue, skipped, from), the most skipped first. The times were skipped because
    an engine was too slow. Times skipped for overlap also count in two cases. Either the runs are
    shorter than the interval, so that they waited for a place; or no run can be so short.
    """
    return database.rows(
        f"""SELECT s.id, s.name, s.queue, sum(r.missed_count) AS skipped, min(r.missed_from_at)
           FROM (SELECT * FROM executions INDEXED BY {
            "executions_unwell" if schedule_id is None else "executions_unwell_by_schedule"
        }
               WHERE status = 'skipped'
                   {"" if schedule_id is None else "AND schedule_id = :schedule"}
               ORDER BY id DESC LIMIT {_MOST_SKIPPED}) AS r
           CROSS JOIN schedules AS s ON s.id = r.schedule_id
           WHERE r.missed_to_at >= :since AND s.deleted_at IS NULL AND s.enabled
               AND (r.reason = 'misfire' AND r.error_code = 'stalled'
                   OR r.reason = 'overlap' AND r.missed_count > 1 AND (
                       r.missed_to_at - r.missed_from_at < {_FAST_MS} * (r.missed_count - 1)
                       OR s.run_count > 0 AND s.duration_sum_ms * (r.missed_count - 1)
                           < s.run_count * (r.missed_to_at - r.missed_from_at)))
           GROUP BY s.id HAVING sum(r.missed_count) >= :least ORDER BY skipped DESC""",
        {"since": since_ms, "least": least, "schedule": schedule_id},
    )


_NEAR = 100  # rows before and after a time that are searched for a range that covers it
_LATE_MS = 86_400_000  # a run that started at a time was planned at most this much earlier
_BEFORE = "plan_at <= :to ORDER BY plan_at DESC"
_AFTER = "plan_at > :to ORDER BY plan_at"


class StoredRevision(NamedTuple):
    """The definition of a schedule from an instant on, as columns.

    `is_newest`: it is still valid. `is_removed`: retention has removed the one of that time.
    """

    revision: int
    at_ms: int
    columns: dict[str, Any]
    is_newest: bool
    is_removed: bool = False


def find_deciding(
    database: Connection,
    schedule_id: int,
    scope: tuple[str, str],
    *,
    from_ms: int,
    to_ms: int,
) -> list[Execution]:
    """The runs planned or started within a span, and the ranges that cover it, oldest first."""
    params = {"schedule": schedule_id, "kind": scope[0], "scope": scope[1], "near": _NEAR}
    params |= {"from": from_ms, "to": to_ms, "early": from_ms - _LATE_MS}
    found = _read(database, _BEFORE, "e.plan_at >= :from OR e.missed_to_at >= :from", params)
    # The plan time of a range can be its end.
    found += _read(database, _AFTER, "e.missed_from_at <= :to", params)
    if not found:
        # Runs that were planned earlier, and were late or moved by jitter or a person.
        moved = """e.plan_at >= :early
            AND (e.started_at BETWEEN :from AND :to OR e.due_at BETWEEN :from AND :to)"""
        found = _read(database, _BEFORE, moved, params)
    return sorted(found, key=lambda run: run.id)


def _read(database: Connection, near: str, wanted: str, params: dict[str, Any]) -> list[Execution]:
    """The wanted ones of the rows near a time. Only these become values, which takes longest."""
    rows = database.rows(
        f"""SELECT {COLUMNS} {FROM} WHERE e.id IN (
                SELECT id FROM executions
                WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
                AND {near} LIMIT :near)
            AND ({wanted})""",
        params,
    )
    return [execution_of(row) for row in rows]


def find_revision(database: Connection, schedule_id: int, *, at_ms: int) -> StoredRevision | None:
    """The definition of a schedule at an instant; before its creation, its first one.

    None if no definition was kept.
    """
    select = """SELECT revision, at, snapshot, known_until FROM schedule_revisions
        WHERE schedule_id = :id"""
    params = {"id": schedule_id}
    newest = database.row(f"{select} ORDER BY revision DESC LIMIT 1", params)
    row = database.row(
        f"{select} AND at <= :at ORDER BY revision DESC LIMIT 1", params | {"at": at_ms}
    )
    if newest is None:
        return None
    if row is None:
        row = database.row(f"{select} AND revision = 1", params)
    if row is None or (row[3] is not None and at_ms >= row[3]):
        return StoredRevision(0, at_ms, {}, is_newest=False, is_removed=True)
    return StoredRevision(row[0], row[1], columns_of(row[2]), is_newest=row[0] == newest[0])
