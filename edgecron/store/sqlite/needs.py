"""Let queued rows wait for a condition until its deadline.

Nothing polls. What makes a condition true wakes the waiting rows in its own transaction, and each
is checked again right before it starts.
"""

from __future__ import annotations

from edgecron.base.units import MAX_DURATION_MS, format_duration_ms
from edgecron.model.choices import Cause, Reason, Status, WaitsFor
from edgecron.model.conditions import Condition, find_unmet
from edgecron.store.contract import Decided, QueuedRow
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.rows import needs_of

# A person's word is enough; and what has begun had what it needed.
_NEED_NOTHING = frozenset({Cause.MANUAL, Cause.RETRY})
_MOST_EXPIRED = 250  # rows that one transaction gives up; the others are next


class Needs:
    """How things stand in a transaction, each fact read once: the `Facts` of conditions."""

    def __init__(self, database: Database, *, now_ms: int) -> None:
        self._database = database
        self._now_ms = now_ms
        self._successes: dict[str, int | None] = {}

    @property
    def now_ms(self) -> int:
        return self._now_ms

    def last_success_ms(self, schedule: str) -> int | None:
        if schedule not in self._successes:
            self._successes[schedule] = _last_success_ms(self._database, schedule)
        return self._successes[schedule]

    def find_unmet(self, needs: tuple[str, ...], cause: Cause) -> Condition | None:
        """The first condition that keeps a fire of this cause from its start, or None."""
        if not needs or cause in _NEED_NOTHING:
            return None
        return find_unmet(needs, self)


def deadline_ms(due_ms: int, needs_deadline_s: float) -> int:
    """Until when a fire waits for what it needs: it counts from due."""
    return due_ms + _bounded_ms(needs_deadline_s)


def _bounded_ms(deadline_s: float) -> int:
    """The milliseconds of a stored deadline, also of one that makes no sense."""
    return round(min(deadline_s * 1000, MAX_DURATION_MS))


def give_up(database: Database, row: QueuedRow, unmet: Condition, *, now_ms: int) -> Decided:
    """Skip a row for a condition that does not hold, after its deadline."""
    return _give_up(database, row.execution_id, unmet, row.needs_deadline_s, now_ms)


def owe(database: Database, row: QueuedRow, unmet: Condition, *, until_ms: int) -> Decided:
    """Let a row wait for a condition that does not hold."""
    found = database.returning(
        """UPDATE executions SET waiting_for = :text, wait_until = :until
           WHERE id = :id AND status = 'queued' AND waiting_for IS NULL
           RETURNING schedule_id, revision, plan_at, cause, attempt""",
        {"id": row.execution_id, "text": unmet.text, "until": until_ms},
    )
    assert found is not None
    return Decided(
        execution_id=row.execution_id,
        schedule_id=found[0],
        revision=found[1],
        plan_ms=found[2],
        status=Status.QUEUED,
        cause=Cause(found[3]),
        attempt=found[4],
        waits_for=WaitsFor.CONDITION,
        condition=unmet.text,
        wait_until_ms=until_ms,
    )


def wake_for_success(database: Database, schedule: str) -> int:
    """Let what waits for a success of a schedule be judged again; how many rows."""
    return database.change(
        """UPDATE executions SET waiting_for = NULL, wait_until = NULL
           WHERE waiting_for = :ever OR (waiting_for > :from AND waiting_for < :to)""",
        # No name holds a colon, and ';' comes right after it.
        {
            "ever": f"success:{schedule}",
            "from": f"success:{schedule}:",
            "to": f"success:{schedule};",
        },
    )


def is_any_waiting(database: Database) -> bool:
    """Whether anything at all waits for a condition."""
    row = database.row("SELECT 1 FROM executions WHERE waiting_for IS NOT NULL LIMIT 1")
    return row is not None


def wake_schedule(database: Database, schedule_id: int) -> int:
    """Let what waits of a schedule be judged again, since what it needs was changed."""
    return database.change(
        """UPDATE executions INDEXED BY executions_active
           SET waiting_for = NULL, wait_until = NULL
           WHERE schedule_id = :id AND status IN ('queued', 'running')
               AND waiting_for IS NOT NULL""",
        {"id": schedule_id},
    )


def is_any_expired(database: Database, queue: str, *, now_ms: int) -> bool:
    """Whether anything of a queue has waited for a condition until its deadline."""
    return (
        database.row(
            "SELECT 1 FROM executions WHERE queue = :queue AND wait_until <= :now LIMIT 1",
            {"queue": queue, "now": now_ms},
        )
        is not None
    )


def give_up_expired(database: Database, queue: str, needs: Needs) -> list[Decided]:
    """Skip what has waited until its deadline; what needs nothing any more is woken instead."""
    rows = database.rows(
        """SELECT e.id, e.cause, s.needs, s.needs_deadline_s
           FROM executions AS e CROSS JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.queue = :queue AND e.wait_until <= :now
           ORDER BY e.wait_until LIMIT :limit""",
        {"queue": queue, "now": needs.now_ms, "limit": _MOST_EXPIRED},
    )
    decided = []
    for execution_id, cause, texts, deadline_s in rows:
        unmet = needs.find_unmet(needs_of(texts), Cause(cause))
        if unmet is None:
            _wake(database, execution_id)
        else:
            decided.append(_give_up(database, execution_id, unmet, deadline_s, needs.now_ms))
    return decided


def _wake(database: Database, execution_id: int) -> None:
    database.change(
        """UPDATE executions SET waiting_for = NULL, wait_until = NULL
           WHERE id = :id AND status = 'queued'""",
        {"id": execution_id},
    )


def _give_up(
    database: Database, execution_id: int, unmet: Condition, deadline_s: float, now_ms: int
) -> Decided:
    within = format_duration_ms(_bounded_ms(deadline_s))
    message = f"needed {unmet.words()}, which did not come true within {within}"
    found = database.returning(
        """UPDATE executions SET status = 'skipped', reason = 'condition', error_msg = :message,
               waiting_for = NULL, wait_until = NULL, finished_at = :now
           WHERE id = :id AND status = 'queued'
           RETURNING schedule_id, revision, plan_at, cause, attempt""",
        {"id": execution_id, "message": message, "now": now_ms},
    )
    assert found is not None
    database.change(
        "UPDATE schedules SET skipped_count = skipped_count + 1 WHERE id = :id", {"id": found[0]}
    )
    return Decided(
        execution_id=execution_id,
        schedule_id=found[0],
        revision=found[1],
        plan_ms=found[2],
        status=Status.SKIPPED,
        reason=Reason.CONDITION,
        cause=Cause(found[3]),
        attempt=found[4],
        error_msg=message,
    )


def _last_success_ms(database: Database, schedule: str) -> int | None:
    row = database.row(
        "SELECT last_success_at FROM schedules WHERE name = :name AND deleted_at IS NULL",
        {"name": schedule},
    )
    return None if row is None else row[0]
