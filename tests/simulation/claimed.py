"""What must hold of each claim at its COMMIT: of places, groups, pauses and machines."""

from __future__ import annotations

import json

from edgecron.store.contract import ClaimBatch
from tests.simulation.world import World


def check_claim(world: World, batch: ClaimBatch, *, most: int, places: set[str]) -> None:
    """Raise AssertionError where a claim started more than it may, or what is held.

    `most` is how many runs the engine that claimed has places for, `places` are the machine and
    labels of which it may run schedules.
    """
    if not batch.granted:
        return
    ids = json.dumps([grant.execution_id for grant in batch.granted])
    granted = world.look(
        """SELECT e.id, s.name, e.cause, e.engine_id,
               s.enabled = 1 AND (s.paused_until IS NULL OR s.paused_until <= :now),
               s.deleted_at IS NOT NULL, iif(s.placed_on = 'each', e.scope_id, s.placed_on),
               n.drained_at IS NOT NULL
           FROM json_each(:ids) AS w JOIN executions AS e ON e.id = CAST(w.value AS BIGINT)
           JOIN schedules AS s ON s.id = e.schedule_id
           LEFT JOIN engines AS n ON n.id = e.engine_id""",
        {"ids": ids, "now": world.clock.now_ms()},
    )
    [(running,)] = world.look(
        "SELECT count(*) FROM executions WHERE status = 'running' AND engine_id = :engine",
        {"engine": granted[0][3]},
    )
    held = [row for row in granted if row[2] != "manual" and not row[4]]
    assert not held, f"I7 started, but held by a pause: {held}"
    removed = [row for row in granted if row[5]]
    assert not removed, f"I7 started, but removed: {removed}"
    astray = [row for row in granted if row[6] not in places or row[7]]
    assert not astray, f"I26 started by an engine of {sorted(places)}: {astray}"
    assert running <= most, f"I7 an engine runs {running}, and has {most} places"
    over = world.look(
        """SELECT g.name, g.max_running, count(*) FROM groups AS g
           JOIN schedules AS s ON s.group_name = g.name
           JOIN executions AS e ON e.schedule_id = s.id AND e.status = 'running'
           GROUP BY g.name, g.max_running HAVING count(*) > g.max_running"""
    )
    assert not over, f"I7 groups run more than their limits: {over}"
