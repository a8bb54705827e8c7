"""What is active of a schedule, and whether more would have a place: for people to read."""

from __future__ import annotations

from collections.abc import Mapping

from edgecron.admission import Occupancy
from edgecron.model import Cause, Execution, Schedule
from edgecron.store.connection import Database
from edgecron.store.ledger import Ledger
from edgecron.store.needs import Needs
from edgecron.store.rows import EXECUTION_COLUMNS, execution_of
from edgecron.values import dataclass


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
