"""What must hold of each claim at the moment of its COMMIT: of places, and of pauses."""

from __future__ import annotations

import json
from pathlib import Path

from edgecron.store.contract import ClaimBatch
from edgecron.store.sqlite.connection import Database


def check_claim(path: Path, batch: ClaimBatch, *, most: int, now_ms: int) -> None:
    """Raise AssertionError where a claim started more than it may, or what is held.

    `most` is how many runs the engine that claimed has places for.
    """
    if not batch.granted:
        return
    database = Database(path)
    try:
        granted = database.rows(
            """SELECT e.id, s.name, e.cause, e.engine_id,
                   s.enabled AND (s.paused_until IS NULL OR s.paused_until <= :now),
                   s.deleted_at IS NOT NULL
               FROM json_each(:ids) AS w JOIN executions AS e ON e.id = w.value
               JOIN schedules AS s ON s.id = e.schedule_id""",
            {"ids": json.dumps([grant.execution_id for grant in batch.granted]), "now": now_ms},
        )
        [(running,)] = database.rows(
            "SELECT count(*) FROM executions WHERE status = 'running' AND engine_id = :engine",
            {"engine": granted[0][3]},
        )
    finally:
        database.close()
    held = [row for row in granted if row[2] != "manual" and not row[4]]
    assert not held, f"I7 started, but held by a pause: {held}"
    removed = [row for row in granted if row[5]]
    assert not removed, f"I7 started, but removed: {removed}"
    assert running <= most, f"I7 an engine runs {running}, and has {most} places"
