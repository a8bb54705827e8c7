"""Read names and runs for shell completion: immediately, read-only, or nothing.

If the database is locked, damaged, missing or of another version, there is nothing to complete. A
person who presses Tab expects no error message.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from edgecron.store.sql.connection import Params
from edgecron.store.sqlite.database_file import APPLICATION_ID, open_to_look
from edgecron.store.sqlite.migrate import SCHEMA_VERSION

_MOST = 1000


def glance_at_names(path: Path) -> list[str]:
    """The names of schedules, in order."""
    rows = _rows(
        path,
        "SELECT name FROM schedules WHERE deleted_at IS NULL ORDER BY name LIMIT :most",
        {"most": _MOST},
    )
    return [row[0] for row in rows]


def glance_at_paused(path: Path) -> list[str]:
    """The names of schedules that `resume` can act on, in order."""
    rows = _rows(
        path,
        """SELECT name FROM schedules
           WHERE deleted_at IS NULL
               AND (NOT enabled OR paused_until IS NOT NULL OR trigger_error IS NOT NULL)
           ORDER BY name LIMIT :most""",
        {"most": _MOST},
    )
    return [row[0] for row in rows]


def glance_at_removed(path: Path) -> list[str]:
    """The names of removed schedules that no schedule has now, the last one first."""
    rows = _rows(
        path,
        """SELECT name FROM schedules AS s
           WHERE deleted_at IS NOT NULL AND NOT EXISTS (
               SELECT 1 FROM schedules AS x WHERE x.name = s.name AND x.deleted_at IS NULL)
           GROUP BY name ORDER BY max(deleted_at) DESC LIMIT :most""",
        {"most": _MOST},
    )
    return [row[0] for row in rows]


def glance_at_runs(path: Path, *, most: int) -> list[tuple[int, str, str]]:
    """(number, schedule, status) of the newest runs, newest first."""
    return _rows(
        path,
        """SELECT e.id, s.name, e.status
           FROM (SELECT id, schedule_id, status FROM executions ORDER BY id DESC LIMIT :most) AS e
           JOIN schedules AS s ON s.id = e.schedule_id ORDER BY e.id DESC""",
        {"most": most},
    )


def glance_at_active_runs(path: Path) -> list[tuple[int, str, str]]:
    """(number, schedule, status) of what is queued or running, newest first."""
    return _rows(
        path,
        """SELECT e.id, s.name, e.status FROM executions AS e
           JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.status IN ('queued', 'running') ORDER BY e.id DESC LIMIT :most""",
        {"most": _MOST},
    )


def _rows(path: Path, sql: str, params: Params) -> list[tuple[Any, ...]]:
    try:
        connection = open_to_look(path)
        try:
            [known] = connection.execute(
                """SELECT application_id, user_version
                   FROM pragma_application_id, pragma_user_version"""
            )
            if known != (APPLICATION_ID, SCHEMA_VERSION):
                return []
            return connection.execute(sql, params).fetchall()
        finally:
            connection.close()
    except (apsw.Error, OSError):
        return []
