"""What is active of a schedule, and whether more would have a place: for people to read."""

from __future__ import annotations

from collections.abc import Mapping

from edgecron.base.values import dataclass
from edgecron.model.choices import Cause
from edgecron.model.run import Execution
from edgecron.model.schedule import Schedule
from edgecron.planning.overlap import Occupancy
from edgecron.store.connection import Database
from edgecron.store.ledger import Ledger
from edgecron.store.needs import Needs
from edgecron.store.rows import EXECUTION_COLUMNS, execution_of

_MOST_SKIPPED = 2_000  # newest skipped rows that are looked at
_FAST_MS = 1_000  # an interval shorter than this is shorter than the run of most commands


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospects:
    """What bears on a fire of this moment, and on the runs that are active.

    `active` are the first of `active_count`, in the order in which they go on; `unmet` is the
    text of a condition that a fire of the schedule's triggers would wait for, or None.
    """

    active: tuple[Execution, ...]
    active_count: int
    occupancies: Mapping[tuple[str, str], Occupancy]
    is_group_full: bool
    unmet: str | None


def find_prospects(
    database: Database, schedule: Schedule, *, most_active: int, now_ms: int
) -> Prospects:
    """How things stand for a schedule."""
    group = schedule.spec.group
    return Prospects(
        active=tuple(_find_active(database, schedule.id, limit=most_active)),
        active_count=_count_active(database, schedule.id),
        occupancies=_find_occupancies(database, schedule),
        is_group_full=group is not None and _is_group_full(database, group),
        unmet=_find_unmet(database, schedule, now_ms=now_ms),
    )


def _find_occupancies(database: Database, schedule: Schedule) -> dict[tuple[str, str], Occupancy]:
    """What is active of a schedule, in each of its scopes."""
    ledger = Ledger(database, None, [schedule.id])
    return {scope: ledger.occupancy((schedule.id, *scope)) for scope in schedule.spec.scopes}


def _find_unmet(database: Database, schedule: Schedule, *, now_ms: int) -> str | None:
    """The text of a condition that a fire of a schedule would wait for now, or None."""
    needs = Needs(database, now_ms=now_ms)
    unmet = needs.find_unmet(schedule.spec.policies.needs, Cause.SCHEDULE)
    return None if unmet is None else unmet.text


def _is_group_full(database: Database, group: str) -> bool:
    """Whether as many run of a group as may."""
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


def _find_active(database: Database, schedule_id: int, *, limit: int) -> list[Execution]:
    """The active executions of a schedule, in the order in which they go on."""
    columns = ", ".join(f"e.{column}" for column in EXECUTION_COLUMNS)
    rows = database.rows(
        f"""SELECT {columns}, s.name
            FROM executions AS e INDEXED BY executions_active
            CROSS JOIN schedules AS s ON s.id = e.schedule_id
            WHERE e.schedule_id = :id AND e.status IN ('queued', 'running')
            ORDER BY e.status != 'running', e.priority DESC, e.due_at, e.id LIMIT :limit""",
        {"id": schedule_id, "limit": limit},
    )
    return [execution_of(row) for row in rows]


def _count_active(database: Database, schedule_id: int) -> int:
    """How many executions of a schedule are queued or running."""
    [(count,)] = database.rows(
        """SELECT count(*) FROM executions INDEXED BY executions_active
           WHERE schedule_id = :id AND status IN ('queued', 'running')""",
        {"id": schedule_id},
    )
    return int(count)


def find_late(database: Database, *, now_ms: int) -> tuple[list[tuple[int, str]], int]:
    """The late runs that are running, as (id, schedule), and how many more are due and wait for a
    place."""
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
    database: Database, *, since_ms: int, least: int, schedule_id: int | None = None
) -> list[tuple[int, str, str, int, int]]:
    """(id, name, queue, skipped, from) of the schedules of which at least so many times since an
    instant were skipped although engines were running, the most first.

    These are times that an engine did not get to. They are also times that overlap skipped, if
    runs are shorter than the interval and so waited for a place, or if no run can be as short.
    """
    return database.rows(
        f"""SELECT s.id, s.name, s.queue, sum(r.missed_count) AS skipped, min(r.missed_from_at)
           FROM (SELECT * FROM executions INDEXED BY {
            "executions_unwell" if schedule_id is None else "executions_unwell_by_schedule"
        }
               WHERE status = 'skipped'
                   AND status IN ('failed', 'skipped', 'cancelled', 'interrupted')
                   {"" if schedule_id is None else "AND schedule_id = :schedule"}
               ORDER BY id DESC LIMIT {_MOST_SKIPPED}) AS r
           CROSS JOIN schedules AS s ON s.id = r.schedule_id
           WHERE r.missed_to_at >= :since AND s.deleted_at IS NULL AND s.enabled
               AND (r.reason = 'misfire' AND r.error_code = 'stalled'
                   OR r.reason = 'overlap' AND r.missed_count > 1 AND (
                       r.missed_to_at - r.missed_from_at < {_FAST_MS} * (r.missed_count - 1)
                       OR s.run_count > 0 AND s.duration_sum_ms * (r.missed_count - 1)
                           < s.run_count * (r.missed_to_at - r.missed_from_at)))
           GROUP BY s.id HAVING skipped >= :least ORDER BY skipped DESC""",
        {"since": since_ms, "least": least, "schedule": schedule_id},
    )
