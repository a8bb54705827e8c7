"""Ids of active and of ended runs, for a reader that follows what changes."""

from __future__ import annotations

import json

from edgecron.base.values import NamedTuple
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.history import find_bounds


class ActiveIds(NamedTuple):
    """The active runs at one time, by what they do. `owed` ones are queued and await a condition.

    All runs with ids up to `top` are active or have ended.
    """

    top: int
    queued: frozenset[int]
    running: frozenset[int]
    owed: frozenset[int]


def find_active_ids(database: Database) -> ActiveIds:
    """The active runs. Costs one walk through their index."""
    # First: a run that is added after this is younger.
    top = find_bounds(database).last_id
    # One text per status: 100,000 rows of their own would take twice as long (measured).
    found = dict(
        database.rows(
            """SELECT status, json_group_array(id) FROM executions INDEXED BY executions_active
               WHERE status IN ('queued', 'running') GROUP BY status"""
        )
    )
    owed = database.rows(
        """SELECT json_group_array(id) FROM executions INDEXED BY executions_owed
           WHERE waiting_for IS NOT NULL"""
    )
    return ActiveIds(
        top,
        queued=frozenset(json.loads(found.get("queued", "[]"))),
        running=frozenset(json.loads(found.get("running", "[]"))),
        owed=frozenset(json.loads(owed[0][0])),
    )


def find_ended_ids(database: Database, *, after_id: int, until_id: int, limit: int) -> list[int]:
    """Ids of runs that have ended, oldest first, after one id and up to another."""
    rows = database.rows(
        """SELECT id FROM executions
           WHERE id > :after AND id <= :until AND status NOT IN ('queued', 'running')
           ORDER BY id LIMIT :limit""",
        {"after": after_id, "until": until_id, "limit": limit},
    )
    return [row[0] for row in rows]
