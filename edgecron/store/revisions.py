"""What schedules said at each of their revisions: engines run what was decided with.

Only a change of a schedule's words stores a snapshot. A pause, a resume and a reschedule bump the
revision alone: at such a revision the newest snapshot before it holds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from edgecron.base.errors import Unreadable
from edgecron.store.connection import Database
from edgecron.store.contract import StoredSchedule
from edgecron.store.rows import spec_of


def snapshot_of(schedule_id: str, revision: str) -> str:
    """The revision of the snapshot that holds at a revision, in SQL; both names are SQL, too."""
    return f"""(SELECT max(f.revision) FROM schedule_revisions AS f
        WHERE f.schedule_id = {schedule_id} AND f.revision <= {revision})"""


_FIND = f"""SELECT w.value ->> 0, w.value ->> 1, r.snapshot, (
        SELECT json_group_array(json_array(scope_kind, scope_id)) FROM schedule_scopes AS c
        WHERE c.schedule_id = r.schedule_id)
    FROM json_each(:wanted) AS w JOIN schedule_revisions AS r
        ON r.schedule_id = w.value ->> 0
            AND r.revision = {snapshot_of("w.value ->> 0", "w.value ->> 1")}"""
_ORIGINS = f"""SELECT s.name, r.origin FROM schedules AS s JOIN schedule_revisions AS r
        ON r.schedule_id = s.id AND r.revision = {snapshot_of("s.id", "s.revision")}
    WHERE s.deleted_at IS NULL"""


def load_schedules(database: Database, wanted: Sequence[tuple[int, int]]) -> list[StoredSchedule]:
    """The schedules of these (id, revision) pairs, as an engine needs them."""
    return [
        StoredSchedule(
            id=schedule_id,
            revision=revision,
            spec=spec_of(columns, scopes),
            compiled=str(columns.get("compiled")),
        )
        for schedule_id, revision, columns, scopes in find_compiled(database, wanted)
    ]


def find_compiled(
    database: Database, wanted: Sequence[tuple[int, int]]
) -> list[tuple[int, int, dict[str, Any], tuple[tuple[str, str], ...]]]:
    """(id, revision, spec columns, scopes) for these (id, revision) pairs, from the snapshots.

    No columns of what can't be read: `spec_of` then says that of it, and of no other.
    """
    if not wanted:
        return []
    try:
        rows = _find_snapshots(database, wanted)
    except Unreadable:
        if len(wanted) == 1:
            return [(*wanted[0], {}, ())]
        return [found for one in wanted for found in find_compiled(database, [one])]
    return [
        (row[0], row[1], columns_of(row[2]), tuple((k, i) for k, i in json.loads(row[3])))
        for row in rows
    ]


def _find_snapshots(database: Database, wanted: Sequence[tuple[int, int]]) -> list[tuple[Any, ...]]:
    return database.rows(
        _FIND,
        {"wanted": json.dumps(list(wanted))},
    )


def columns_of(snapshot: str) -> dict[str, Any]:
    """The columns that a snapshot keeps; none of one that is no such thing."""
    try:
        found = json.loads(snapshot)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def find_origins(database: Database) -> dict[str, str]:
    """What made each schedule say what it says now, by name: `cli`, `crontab` and the like."""
    return dict(database.rows(_ORIGINS))


def write_revision(
    database: Database,
    schedule_id: int,
    revision: int,
    columns: dict[str, Any],
    origin: str,
    now_ms: int,
) -> None:
    """Keep what a schedule said at a revision, inside the caller's transaction."""
    database.change(
        """INSERT INTO schedule_revisions (schedule_id, revision, at, origin, snapshot)
           VALUES (:id, :revision, :now, :origin, :snapshot)""",
        {
            "id": schedule_id,
            "revision": revision,
            "now": now_ms,
            "origin": origin,
            "snapshot": json.dumps(columns, ensure_ascii=False, separators=(",", ":")),
        },
    )
