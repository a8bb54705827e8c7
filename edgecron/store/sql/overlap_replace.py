"""Make room for a newer fire: overlap `replace`, and a live fire that takes over a catch-up."""

from __future__ import annotations

from collections.abc import Sequence

from edgecron.base.values import NamedTuple
from edgecron.model.choices import COVERS_MARK, REPLACED_MARK, Cause, Reason, Status
from edgecron.store.contract import Decided
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.due import IS_DELAYED

# id, status, revision, plan_at, cause, attempt, cancel_requested_at, due_at
_Row = tuple[int, str, int, int, str, int, int | None, int]


def replace_oldest(
    database: Connection,
    key: tuple[int, str, str],
    *,
    count: int,
    by: int,
    spares_late: bool = False,
    only_waiting: bool = False,
    now_ms: int,
) -> list[Decided]:
    """Replace the `count` oldest active runs of a schedule and scope by the run `by`.

    Queued runs are cancelled now, and returned for the log. Running ones are marked, and their
    engine ends them; the newer run waits for that. With `spares_late`, catch-ups stay; with
    `only_waiting`, runs and retries of fires that have begun stay.
    """
    withdrawn = []
    found = _find_oldest(database, key, by, spares_late=spares_late, now_ms=now_ms)
    if only_waiting:
        found = [row for row in found if row[1] == "queued" and row[4] != "retry"]
    for row in found[: max(count, 0)]:
        if row[1] == "queued":
            withdrawn.append(_withdraw(database, key[0], row, now_ms))
        else:
            _mark_running(database, row[0], now_ms)
    return withdrawn


class TakenOver(NamedTuple):
    """A waiting catch-up that a live fire took over, and its missed range."""

    skipped: Decided
    missed_from_ms: int
    missed_count: int

    @property
    def flag(self) -> str:
        """Return the flag of the run that took it over; `covered_range` reads it."""
        return f"{COVERS_MARK}{self.missed_count}:{self.missed_from_ms}"


def take_over_catch_up(
    database: Connection, key: tuple[int, str, str], *, plan_ms: int, now_ms: int
) -> TakenOver | None:
    """Skip the waiting catch-up of a schedule and scope for its live fire at `plan_ms`, inside the
    caller's transaction.

    None if no run waits for a place, or if the live fire has a row already and does not run. Also
    None if another run of the schedule is active, apart from a waiting backfill.
    """
    names = {"schedule": key[0], "kind": key[1], "scope": key[2]}
    active = database.rows(
        """SELECT id, status, cause, waiting_for FROM executions INDEXED BY executions_active
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND status IN ('queued', 'running')
               AND NOT (status = 'queued' AND fire_key LIKE 'backfill:%')""",
        names,
    )
    if len(active) != 1 or active[0][1:] != ("queued", "catch_up", None):
        return None
    found = database.returning(
        """UPDATE executions SET status = 'skipped', reason = 'misfire', finished_at = :now,
               missed_from_at = plan_at, missed_to_at = plan_at, missed_count = 1,
               error_code = iif(flags LIKE '["missed:%', substr(flags ->> 0, 8), NULL),
               error_msg = 'the next run of its schedule covers it'
           WHERE id = :id AND status = 'queued' AND attempt = 1 AND plan_at < :plan
               AND NOT EXISTS (SELECT 1 FROM executions AS f WHERE f.schedule_id = :schedule
                   AND f.scope_kind = :kind AND f.scope_id = :scope AND f.plan_at = :plan
                   AND f.fire_key = '')
           RETURNING revision, plan_at""",
        {**names, "id": active[0][0], "plan": plan_ms, "now": now_ms},
    )
    if found is None:
        return None
    revision, missed_ms = found
    database.change(
        "UPDATE schedules SET skipped_count = skipped_count + 1 WHERE id = :schedule", names
    )
    range_before = database.row(
        """SELECT missed_from_at, missed_count FROM executions
           WHERE id = (SELECT max(id) FROM executions WHERE schedule_id = :schedule
                   AND scope_kind = :kind AND scope_id = :scope AND id < :id)
               AND status = 'skipped' AND fire_key = 'missed' AND missed_to_at < :missed""",
        {**names, "id": active[0][0], "missed": missed_ms},
    )
    from_ms, count = range_before or (missed_ms, 0)
    skipped = Decided(
        execution_id=active[0][0],
        schedule_id=key[0],
        revision=revision,
        plan_ms=missed_ms,
        status=Status.SKIPPED,
        reason=Reason.MISFIRE,
        cause=Cause.CATCH_UP,
        missed_from_ms=missed_ms,
        missed_to_ms=missed_ms,
        missed_count=1,
    )
    return TakenOver(skipped=skipped, missed_from_ms=from_ms, missed_count=count + 1)


def note_covered(database: Connection, execution_id: int, taken: TakenOver) -> None:
    """Record which missed range a new run covers, inside the caller's transaction."""
    database.change(
        "UPDATE executions SET flags = json_array(:flag) WHERE id = :id",
        {"id": execution_id, "flag": taken.flag},
    )


def keep_turn(database: Connection, execution_id: int, withdrawn: Sequence[Decided]) -> None:
    """Give a run the due time of the queued runs that it has replaced.

    With its own due time, a newer run would replace it before it gets a place. On an engine that is
    always full, no run would ever start.
    """
    dues = [one.due_ms for one in withdrawn if one.due_ms is not None and one.cause != Cause.RETRY]
    if dues:
        database.change(
            "UPDATE executions SET due_at = min(due_at, :due) WHERE id = :id AND status = 'queued'",
            {"id": execution_id, "due": min(dues)},
        )


def ask_for_place(
    database: Connection, key: tuple[int, str, str], *, by: int, limit: int, now_ms: int
) -> bool:
    """End the oldest running runs so that the run `by`, whose condition is now met, can start.

    False if enough of them are ending already.
    """
    running = [row for row in _find_oldest(database, key, by, now_ms=now_ms) if row[1] == "running"]
    leaving = sum(row[6] is not None for row in running)
    staying = [row for row in running if row[6] is None]
    wanted = staying[: max(0, len(running) - leaving + 1 - limit)]
    for row in wanted:
        _mark_running(database, row[0], now_ms)
    return bool(wanted)


def count_late(database: Connection, key: tuple[int, str, str]) -> int:
    """Count the active catch-ups of a schedule and scope."""
    [(count,)] = database.rows(
        """SELECT count(*) FROM executions INDEXED BY executions_active
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND status IN ('queued', 'running') AND cause = 'catch_up'""",
        {"schedule": key[0], "kind": key[1], "scope": key[2]},
    )
    return int(count)


def _find_oldest(
    database: Connection,
    key: tuple[int, str, str],
    by: int,
    *,
    spares_late: bool = False,
    now_ms: int,
) -> list[_Row]:
    """Return active runs other than `by`, backfills, and manual runs that are due later.

    Queued ones come first, the oldest first.
    """
    return database.rows(
        f"""SELECT id, status, revision, plan_at, cause, attempt, cancel_requested_at, due_at
           FROM executions INDEXED BY executions_active
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND status IN ('queued', 'running') AND id != :by
               AND fire_key NOT LIKE 'backfill:%'
               AND NOT (:spares_late = 1 AND cause = 'catch_up')
               AND NOT (status = 'queued' AND cause = 'manual' AND {IS_DELAYED})
           ORDER BY status != 'queued', id""",
        {
            "schedule": key[0],
            "kind": key[1],
            "scope": key[2],
            "by": by,
            "spares_late": spares_late,
            "now": now_ms,
        },
    )


def _withdraw(
    database: Connection,
    schedule_id: int,
    row: _Row,
    now_ms: int,
) -> Decided:
    execution_id, _, revision, plan_ms, cause, attempt, _, due_ms = row
    database.change(
        """UPDATE executions SET status = 'cancelled', reason = 'replaced', finished_at = :now,
               waiting_for = NULL, wait_until = NULL
           WHERE id = :id AND status = 'queued'""",
        {"id": execution_id, "now": now_ms},
    )
    database.change(
        "UPDATE schedules SET cancelled_count = cancelled_count + 1 WHERE id = :id",
        {"id": schedule_id},
    )
    return Decided(
        execution_id=execution_id,
        schedule_id=schedule_id,
        revision=revision,
        plan_ms=plan_ms,
        status=Status.CANCELLED,
        reason=Reason.REPLACED,
        cause=Cause(cause),
        attempt=attempt,
        due_ms=due_ms,
    )


def _mark_running(database: Connection, execution_id: int, now_ms: int) -> None:
    database.change(
        """UPDATE executions SET flags = CASE
                   WHEN flags LIKE '%"' || :mark || '"]' THEN flags
                   WHEN json_valid(flags) THEN json_insert(flags, '$[#]', :mark)
                   ELSE CAST(json_array(:mark) AS TEXT) END,
               cancel_requested_at = coalesce(cancel_requested_at, :now)
           WHERE id = :id AND status = 'running'""",
        {"id": execution_id, "mark": REPLACED_MARK, "now": now_ms},
    )
