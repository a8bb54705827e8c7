"""Let queued rows wait for a condition or a window, wake them, or skip them after their deadline.

The transaction in which a schedule succeeds wakes the rows that wait for that success. The engine
wakes those that wait for anything else, and each is checked again right before it starts.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgecron.base.units import MAX_DURATION_MS, format_duration_ms
from edgecron.model.choices import Cause, Reason, Status, WaitsFor
from edgecron.model.conditions import Condition, find_of_machine, needs_of_fire, read_condition
from edgecron.model.machine_conditions import Kind
from edgecron.model.options import Policies
from edgecron.planning.windows import Windows, closing_ms, has_closed
from edgecron.store.contract import Decided, QueuedRow, Waited
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.due import IS_DELAYED
from edgecron.store.sql.history import find_usual_ms
from edgecron.store.sql.limits import Needs, ScopeKey
from edgecron.store.sql.rows import needs_of

_MOST_EXPIRED = 250  # rows that one transaction gives up; the next takes more
_UNKNOWN_MS = 15_000  # longer than an engine distrusts a machine that has just woken up
_LEAST_RUN_MS = 60_000  # also keeps the end of a wait apart from the next window


def deadline_ms(
    database: Connection,
    schedule_id: int,
    *,
    plan_ms: int,
    due_ms: int,
    needs_deadline_s: float,
    closes_ms: int | None,
    unmet: Condition,
    needs: Needs,
) -> int:
    """Return until when a fire waits for its conditions, of which one is not met now.

    In a window of its trigger, which closes at `closes_ms`, a run that usually takes an hour has to
    start an hour before the end. A fire that is later than that still waits for a condition that is
    unknown: the machine has just woken up, or the command of the condition has not answered.
    """
    until_ms = due_ms + round(min(needs_deadline_s * 1000, MAX_DURATION_MS))
    if closes_ms is not None:
        usual_ms = find_usual_ms(database, schedule_id) or 0
        until_ms = max(plan_ms, min(until_ms, closes_ms - max(usual_ms, _LEAST_RUN_MS)))
    if unmet.is_met(needs) is not None:
        return until_ms
    commands = (one for one in find_of_machine((unmet.text,)) if one.kind is Kind.COMMAND)
    answers_ms = needs.now_ms + _UNKNOWN_MS + round(sum(one.amount for one in commands))
    if closes_ms is not None:
        answers_ms = min(answers_ms, closes_ms - 1)
    return max(until_ms, answers_ms)


def wait_for_condition(
    database: Connection, row: QueuedRow, unmet: Condition, *, until_ms: int
) -> Decided:
    """Let a row wait for a condition that is not met."""
    changes = "waiting_for = :text, wait_until = :until, error_msg = NULL"
    decided = _change_queued(database, row.execution_id, changes, text=unmet.text, until=until_ms)
    return decided._replace(
        waits_for=WaitsFor.CONDITION, condition=unmet.text, wait_until_ms=until_ms
    )


def wait_for_window(database: Connection, row: QueuedRow, *, opens_ms: int) -> Decided:
    """Let a row wait until a window of its schedule opens: then it is due."""
    decided = _change_queued(database, row.execution_id, "due_at = :opens", opens=opens_ms)
    return decided._replace(due_ms=opens_ms, waits_for=WaitsFor.WINDOW)


def give_up_excluded(
    database: Connection, execution_id: int, closes_ms: int | None, *, now_ms: int
) -> Decided:
    """Skip a row that could not start in its window; that of its trigger closes at `closes_ms`."""
    message = "it could not start in the window for which it waited"
    if closes_ms is not None:
        message = "it could not start before its window closed"
    return _skip(database, execution_id, Reason.EXCLUDED, message, now_ms)


def give_up_closed(
    database: Connection,
    key: ScopeKey,
    *,
    windows: Windows | None,
    timezone: str | None,
    policies: Policies,
    needs: Needs | None,
    now_ms: int,
) -> list[Decided]:
    """Skip the rows of a schedule and scope whose windows have closed: see `has_closed`.

    With `needs`, also runs on time whose deadline is over and whose conditions are not met now: an
    edit has woken them, and no engine has checked them since.
    """
    rows = database.rows(
        """SELECT id, cause, plan_at, due_at, iif(fire_key = '', trigger_text, NULL)
           FROM executions INDEXED BY executions_active
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND status = 'queued' AND status IN ('queued', 'running')
               AND waiting_for IS NULL ORDER BY id""",
        {"schedule": key[0], "kind": key[1], "scope": key[2]},
    )
    skipped = []
    for execution_id, cause, plan_ms, due_ms, source in rows:
        closes_ms = closing_ms(source, plan_ms, fire_key="", timezone=timezone)
        if has_closed(
            windows,
            closes_ms,
            plan_ms=plan_ms,
            due_ms=due_ms,
            cause=Cause(cause),
            now_ms=now_ms,
        ):
            skipped.append(give_up_excluded(database, execution_id, closes_ms, now_ms=now_ms))
            continue
        if needs is None or Cause(cause) is not Cause.SCHEDULE:
            continue  # Runs in sequence are judged one after another, when it is their turn.
        texts = needs_of_fire(policies.needs, source)
        unmet = needs.find_unmet(texts, Cause(cause), schedule_id=key[0])
        if unmet is None:
            continue
        until_ms = deadline_ms(
            database,
            key[0],
            plan_ms=plan_ms,
            due_ms=due_ms,
            needs_deadline_s=policies.needs_deadline_s,
            closes_ms=closes_ms,
            unmet=unmet,
            needs=needs,
        )
        if until_ms <= now_ms:
            within_ms = max(0, until_ms - due_ms)
            skipped.append(
                give_up(database, execution_id, unmet, within_ms=within_ms, now_ms=now_ms)
            )
    return skipped


def wake_for_success(database: Connection, schedule: str) -> int:
    """Wake the rows that wait for a success of a schedule; how many."""
    return database.change(
        """UPDATE executions SET waiting_for = NULL, wait_until = NULL
           WHERE waiting_for = :ever OR (waiting_for > :from AND waiting_for < :to)""",
        # No name has a colon, and ';' is the character after it.
        {
            "ever": f"success:{schedule}",
            "from": f"success:{schedule}:",
            "to": f"success:{schedule};",
        },
    )


def find_waited(database: Connection, queues: Sequence[str]) -> list[Waited]:
    """The conditions that rows of these queues wait for, except successes.

    A success wakes rows by itself: see `wake_for_success`.
    """
    return [
        Waited(*row)
        for queue in queues
        for row in database.rows(
            """SELECT DISTINCT w.text, s.id, s.revision
               FROM (SELECT DISTINCT waiting_for AS text,
                       iif(waiting_for LIKE 'command%' OR waiting_for LIKE 'not:command%',
                           schedule_id, 0) AS of
                   FROM executions INDEXED BY executions_queued
                   WHERE status = 'queued' AND queue = :queue AND waiting_for IS NOT NULL
                       AND waiting_for NOT LIKE 'success:%') AS w
               LEFT JOIN schedules AS s ON s.id = w.of""",
            {"queue": queue},
        )
    ]


def note_wait(
    database: Connection, queues: Sequence[str], waited: Waited, note: str | None
) -> None:
    """Record why a condition that rows wait for is not met, or that there is nothing to say."""
    with database.transaction():
        for queue in queues:
            database.change(
                """UPDATE executions SET error_msg = :note
                   WHERE status = 'queued' AND queue = :queue AND waiting_for = :text
                       AND schedule_id = coalesce(:of, schedule_id)
                       AND error_msg IS NOT :note""",
                {"queue": queue, "text": waited.text, "of": waited.schedule_id, "note": note},
            )


def wake_waiting(database: Connection, queues: Sequence[str], waited: Sequence[Waited]) -> int:
    """Wake the rows of these queues that wait for one of these conditions; how many."""
    count = 0
    with database.transaction():
        for queue in queues:
            for one in waited:
                count += database.change(
                    """UPDATE executions SET waiting_for = NULL, wait_until = NULL
                       WHERE status = 'queued' AND queue = :queue AND waiting_for = :text
                           AND schedule_id = coalesce(:of, schedule_id)""",
                    {"queue": queue, "text": one.text, "of": one.schedule_id},
                )
    return count


def wake_schedule(database: Connection, schedule_id: int, *, now_ms: int) -> None:
    """Wake the waiting rows of a schedule, whose conditions or windows were changed."""
    of_schedule = """schedule_id = :id AND status = 'queued' AND status IN ('queued', 'running')"""
    database.change(
        f"""UPDATE executions INDEXED BY executions_active
           SET waiting_for = NULL, wait_until = NULL
           WHERE {of_schedule} AND waiting_for IS NOT NULL""",
        {"id": schedule_id},
    )
    # Of delayed rows other than retries and manual runs, all wait for a window.
    database.change(
        f"""UPDATE executions INDEXED BY executions_active SET due_at = :now
           WHERE {of_schedule} AND cause NOT IN ('retry', 'manual') AND {IS_DELAYED}""",
        {"id": schedule_id, "now": now_ms},
    )


def give_up_expired(
    database: Connection, queue: str, needs: Needs, *, key: ScopeKey | None = None
) -> list[Decided]:
    """Skip rows that have waited until their deadline; wake those whose conditions are met.

    With `key`, only those of a schedule and scope. If the first unmet condition is unknown here,
    the condition for which the row has waited is the reason.
    """
    of_key = "AND (e.schedule_id, e.scope_kind, e.scope_id) = (:schedule, :kind, :scope)"
    names = {} if key is None else {"schedule": key[0], "kind": key[1], "scope": key[2]}
    rows = database.rows(
        f"""SELECT e.id, e.cause, s.needs, iif(e.fire_key = '', e.trigger_text, NULL),
               e.wait_until - e.due_at, e.waiting_for, e.error_msg, s.id
           FROM executions AS e CROSS JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.queue = :queue AND e.wait_until <= :now {"" if key is None else of_key}
           ORDER BY e.wait_until LIMIT :limit""",
        {"queue": queue, "now": needs.now_ms, "limit": _MOST_EXPIRED, **names},
    )
    decided = []
    for execution_id, cause, stored, source, within_ms, waiting_for, note, schedule_id in rows:
        texts = needs_of_fire(needs_of(stored), source)
        unmet = needs.find_unmet(texts, Cause(cause), schedule_id=schedule_id)
        if unmet is None:
            database.change(
                """UPDATE executions SET waiting_for = NULL, wait_until = NULL
                   WHERE id = :id AND status = 'queued'""",
                {"id": execution_id},
            )
        else:
            if unmet.is_met(needs) is None:
                unmet = read_condition(waiting_for)
            decided.append(
                give_up(
                    database,
                    execution_id,
                    unmet,
                    within_ms=within_ms,
                    now_ms=needs.now_ms,
                    note=note if unmet.text == waiting_for else None,
                )
            )
    return decided


def give_up(
    database: Connection,
    execution_id: int,
    unmet: Condition,
    *,
    within_ms: int,
    now_ms: int,
    note: str | None = None,
) -> Decided:
    """Skip a row whose condition was not met before its deadline; `note` says why, if known."""
    within = format_duration_ms(within_ms)
    message = f"needed {unmet.words()}, which was not true within {within}"
    if note is not None:
        message += f": {note}"
    return _skip(database, execution_id, Reason.CONDITION, message, now_ms)


def _skip(
    database: Connection, execution_id: int, reason: Reason, message: str, now_ms: int
) -> Decided:
    changes = """status = 'skipped', reason = :reason, error_msg = :message,
        waiting_for = NULL, wait_until = NULL, finished_at = :now"""
    decided = _change_queued(
        database, execution_id, changes, reason=reason.value, message=message, now=now_ms
    )
    database.change(
        "UPDATE schedules SET skipped_count = skipped_count + 1 WHERE id = :id",
        {"id": decided.schedule_id},
    )
    return decided._replace(status=Status.SKIPPED, reason=reason, error_msg=message)


def _change_queued(
    database: Connection, execution_id: int, changes: str, **values: object
) -> Decided:
    """Change a queued row; return it as a row that waits."""
    row = database.returning(
        f"""UPDATE executions SET {changes} WHERE id = :id AND status = 'queued'
            RETURNING schedule_id, revision, plan_at, cause, attempt""",
        {"id": execution_id, **values},
    )
    assert row is not None
    return Decided(
        execution_id=execution_id,
        schedule_id=row[0],
        revision=row[1],
        plan_ms=row[2],
        status=Status.QUEUED,
        cause=Cause(row[3]),
        attempt=row[4],
    )
