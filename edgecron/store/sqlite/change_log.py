"""Record each change of a schedule, and read the records with the definitions that they concern."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from edgecron.base.values import NamedTuple
from edgecron.model.changes import MOST_CHANGES, Act, Author
from edgecron.model.schedule import ScheduleSpec
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.revisions import columns_of
from edgecron.store.sqlite.rows import spec_of

State = Mapping[str, tuple[object, object]]  # before and after, by column


class ChangeRow(NamedTuple):
    """A recorded change, without its definition."""

    schedule_id: int
    revision: int
    at_ms: int
    act: Act
    origin: str
    user: str | None
    state: dict[str, list[Any]]


class StoredDefinition(NamedTuple):
    """The definition from a revision on, with its expanded triggers as JSON.

    `known_until_ms`: retention has removed the definition after this one, which began then.
    """

    revision: int
    origin: str
    spec: ScheduleSpec
    compiled: str
    known_until_ms: int | None


def write_change(
    database: Database,
    schedule_id: int,
    revision: int,
    *,
    act: Act,
    author: Author,
    now_ms: int,
    state: State | None = None,
) -> None:
    """Record a change of a schedule, inside the caller's transaction."""
    differing = {key: two for key, two in (state or {}).items() if two[0] != two[1]}
    database.change(
        """INSERT INTO schedule_changes (schedule_id, revision, at, act, origin, user, state)
           VALUES (:id, :revision, :now, :act, :origin, :user, :state)""",
        {
            "id": schedule_id,
            "revision": revision,
            "now": now_ms,
            "act": act.value,
            "origin": author.origin,
            "user": author.user,
            "state": json.dumps(differing, separators=(",", ":")) if differing else None,
        },
    )
    database.change(
        "DELETE FROM schedule_changes WHERE schedule_id = :id AND revision <= :last",
        {"id": schedule_id, "last": revision - MOST_CHANGES},
    )


def find_changes(
    database: Database, schedule_id: int, *, before: int | None, limit: int
) -> list[ChangeRow]:
    """The changes of a schedule before a revision, newest first."""
    rows = database.rows(
        """SELECT schedule_id, revision, at, act, origin, user, state FROM schedule_changes
           WHERE schedule_id = :id AND (:before IS NULL OR revision < :before)
           ORDER BY revision DESC LIMIT :limit""",
        {"id": schedule_id, "before": before, "limit": limit},
    )
    return [
        ChangeRow(
            schedule_id=row[0],
            revision=row[1],
            at_ms=row[2],
            act=Act(row[3]),
            origin=row[4],
            user=row[5],
            state={} if row[6] is None else json.loads(row[6]),
        )
        for row in rows
    ]


def find_definition(database: Database, schedule_id: int, revision: int) -> StoredDefinition | None:
    """The newest stored definition of a schedule that is not newer than a revision.

    A definition that an older edgecron or SQL wrote has the present scopes of the schedule. Raises
    Unreadable.
    """
    row = database.row(
        """SELECT r.revision, r.origin, r.known_until, r.snapshot, (
               SELECT json_group_array(json_array(c.scope_kind, c.scope_id))
               FROM schedule_scopes AS c WHERE c.schedule_id = r.schedule_id)
           FROM schedule_revisions AS r
           WHERE r.schedule_id = :id AND r.revision <= :revision
           ORDER BY r.revision DESC LIMIT 1""",
        {"id": schedule_id, "revision": revision},
    )
    if row is None:
        return None
    columns = columns_of(row[3])
    scopes = tuple((kind, id_) for kind, id_ in columns.get("scopes") or json.loads(row[4]))
    spec = spec_of(columns, scopes)
    return StoredDefinition(row[0], row[1], spec, str(columns["compiled"]), row[2])


def find_defined(database: Database, schedule_id: int) -> list[int]:
    """The revisions whose definitions are kept, newest first."""
    rows = database.rows(
        """SELECT revision FROM schedule_revisions WHERE schedule_id = :id
           ORDER BY revision DESC""",
        {"id": schedule_id},
    )
    return [row[0] for row in rows]


def find_last_changed(database: Database) -> list[int]:
    """The ids of the schedules of the last change: several if one transaction changed them."""
    rows = database.rows(
        """SELECT DISTINCT schedule_id FROM schedule_changes
           WHERE at = (SELECT max(at) FROM schedule_changes) ORDER BY schedule_id"""
    )
    return [row[0] for row in rows]
