"""Schedules as lists show them: a few columns of each, in values that cost little."""

from __future__ import annotations

import json
from typing import Any

from edgecron.errors import SENSELESS
from edgecron.standing import Standing
from edgecron.store.connection import Database
from edgecron.store.sense import texts_of, unreadable
from edgecron.timetext import from_ms

COLUMNS = (
    "name", "triggers", "enabled", "paused_until", "next_run_at", "trigger_error", "last_status",
    "last_run_at", "run_count", "planned_count", "max_runs", "until_at", "vanished_at",
)  # fmt: skip


def count_schedules(database: Database) -> tuple[int, int, int]:
    """How many schedules there are; of how many the triggers can't be read; and how many nobody
    runs, as no engine of their programs offers them."""
    [counts] = database.rows(
        """SELECT count(*), count(trigger_error), count(vanished_at)
           FROM schedules WHERE deleted_at IS NULL"""
    )
    count, broken, vanished = counts
    return count, broken, vanished


def find_standings(database: Database) -> list[Standing]:
    """How every schedule stands, by name."""
    rows = database.rows(
        f"""SELECT {", ".join(COLUMNS)} FROM schedules WHERE deleted_at IS NULL ORDER BY name"""
    )
    return [standing_of(row) for row in rows]


def standing_of(row: tuple[Any, ...]) -> Standing:
    """How a schedule stands, from COLUMNS, or Unreadable."""
    try:
        return Standing(
            name=row[0],
            triggers=texts_of(json.loads(row[1])),
            enabled=bool(row[2]),
            paused_until=None if row[3] is None else from_ms(row[3]),
            next_run_at=None if row[4] is None else from_ms(row[4]),
            trigger_error=row[5],
            last_status=row[6],
            last_run_at=None if row[7] is None else from_ms(row[7]),
            run_count=row[8],
            planned_count=row[9],
            max_runs=row[10],
            until_at=None if row[11] is None else from_ms(row[11]),
            vanished_at=None if row[12] is None else from_ms(row[12]),
        )
    except SENSELESS as error:
        raise unreadable("schedule", error, name=row[0]) from error
