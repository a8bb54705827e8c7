"""Reading what is counted of runs: the newest, at a cost that does not grow with the history."""

from __future__ import annotations

from collections.abc import Mapping

from edgecron.store.connection import Database
from edgecron.tallies import EndedRun

# An id is given in order of time, but where a clock was set: the time is looked for among them.
_WRITTEN_AT = "coalesce(queued_at, claimed_at, finished_at)"
_COLUMNS = """schedule_id, status, reason, cause, attempt, missed_count, duration_ms,
    started_at - due_at"""
_ENDED = "status NOT IN ('queued', 'running')"


def find_ended(
    database: Database, schedule_id: int | None, *, since_ms: int, limit: int
) -> tuple[list[EndedRun], int | None]:
    """Executions that have ended and were written since an instant, the newest first; then rows
    of what was left out that have grown since.

    Of one schedule, or of all. At most `limit` are looked at; where there are more, the instant
    of the oldest of them comes with them.
    """
    where = "" if schedule_id is None else "AND schedule_id = :schedule"
    params = {
        "schedule": schedule_id,
        "first": _first_id(database, since_ms=since_ms),
        "limit": limit + 1,
    }
    rows = database.rows(
        f"""SELECT {_COLUMNS}, {_WRITTEN_AT}, {_ENDED} FROM executions
            WHERE id >= :first {where} ORDER BY id DESC LIMIT :limit""",
        params,
    )
    cut_ms = None
    if len(rows) > limit:
        rows.pop()
        cut_ms = rows[-1][8]
    # What was written by a clock that was set since may lie among them.
    found = [EndedRun(*row[:8]) for row in rows if row[9] and row[8] >= since_ms]
    return found + _find_grown(database, schedule_id, since_ms=since_ms, params=params), cut_ms


def _find_grown(
    database: Database, schedule_id: int | None, *, since_ms: int, params: Mapping[str, object]
) -> list[EndedRun]:
    """What was left out in rows that were written before an instant, and have grown since.

    A schedule whose run is stuck may have one such row and nothing else for weeks.
    """
    where = "" if schedule_id is None else "AND schedule_id = :schedule"
    rows = database.rows(
        f"""SELECT {_COLUMNS}, missed_to_at FROM executions
            WHERE status = 'skipped' AND id < :first {where} ORDER BY id DESC LIMIT :limit""",
        params,
    )
    return [EndedRun(*row[:8]) for row in rows if row[8] is not None and row[8] >= since_ms]


def find_output_sizes(
    database: Database, schedule_id: int, *, since_ms: int, limit: int
) -> list[int]:
    """How many bytes the newest runs of a schedule have printed, of those that printed any."""
    rows = database.rows(
        """SELECT o.stdout_bytes + o.stderr_bytes
           FROM executions AS e CROSS JOIN outputs AS o ON o.execution_id = e.id
           WHERE e.schedule_id = :schedule AND e.id >= :first ORDER BY e.id DESC LIMIT :limit""",
        {
            "schedule": schedule_id,
            "first": _first_id(database, since_ms=since_ms),
            "limit": limit,
        },
    )
    return [row[0] for row in rows]


def find_names_of(database: Database) -> dict[int, str]:
    """The name of each schedule, removed ones included, by its id."""
    return dict(database.rows("SELECT id, name FROM schedules"))


def _first_id(database: Database, *, since_ms: int) -> int:
    """The id of the first execution written since an instant, by halves; one past the last."""
    [(least,)] = database.rows("SELECT min(id) FROM executions")
    [(most,)] = database.rows("SELECT max(id) FROM executions")
    if least is None:
        return 1
    low, high = int(least), int(most) + 1
    while low < high:
        middle = (low + high) // 2
        row = database.row(
            f"SELECT {_WRITTEN_AT} FROM executions WHERE id >= :id ORDER BY id LIMIT 1",
            {"id": middle},
        )
        if row is None or row[0] >= since_ms:
            high = middle
        else:
            low = middle + 1
    return low
