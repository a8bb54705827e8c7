"""Store the definitions of schedules by revision, the changes between them, and a decided apply.

An engine runs a fire by the definition of its revision. Only a change of the definition stores a
snapshot. A pause, a resume and a reschedule only raise the revision: the newest earlier snapshot
is valid for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgecron.base.errors import Unreadable
from edgecron.base.values import NamedTuple
from edgecron.model.choices import GLOBAL_SCOPE
from edgecron.model.schedule import MOST_CHANGES, Act, Author, ScheduleSpec
from edgecron.store.contract import StoredSchedule
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.rows import DEFAULT_COLUMNS, SPEC_COLUMNS, spec_of

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


def snapshot_of(schedule_id: str, revision: str) -> str:
    """SQL for the revision of the snapshot that is valid at a revision; both arguments are SQL."""
    return f"""(SELECT max(f.revision) FROM schedule_revisions AS f
        WHERE f.schedule_id = {schedule_id} AND f.revision <= {revision})"""


_ID, _REVISION = "CAST(w.value ->> 0 AS BIGINT)", "CAST(w.value ->> 1 AS BIGINT)"
# One search for each: to search for its revision first, and then for that snapshot, takes twice as
# long.
_FIND = f"""SELECT {_ID}, {_REVISION}, (
        SELECT r.snapshot FROM schedule_revisions AS r
        WHERE r.schedule_id = {_ID} AND r.revision <= {_REVISION}
        ORDER BY r.revision DESC LIMIT 1), (
        SELECT json_group_array(json_array(scope_kind, scope_id)) FROM schedule_scopes AS c
        WHERE c.schedule_id = {_ID})
    FROM json_each(:wanted) AS w"""
_ORIGINS = f"""SELECT s.name, r.origin FROM schedules AS s JOIN schedule_revisions AS r
        ON r.schedule_id = s.id AND r.revision = {snapshot_of("s.id", "s.revision")}
    WHERE s.deleted_at IS NULL"""


def load_schedules(database: Connection, wanted: Sequence[tuple[int, int]]) -> list[StoredSchedule]:
    """The schedules of these (id, revision) pairs; it skips revisions without a snapshot."""
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
    database: Connection, wanted: Sequence[tuple[int, int]]
) -> list[tuple[int, int, dict[str, Any], tuple[tuple[str, str], ...]]]:
    """(id, revision, spec columns, scopes) for these (id, revision) pairs, from the snapshots.

    A snapshot that can't be read has no columns, so that `spec_of` raises Unreadable only for it.
    """
    if not wanted:
        return []
    try:
        rows = database.rows(_FIND, {"wanted": json.dumps(list(wanted))})
    except Unreadable:
        if len(wanted) == 1:
            return [(*wanted[0], {}, ())]
        return [found for one in wanted for found in find_compiled(database, [one])]
    return [
        (row[0], row[1], columns_of(row[2]), tuple((k, i) for k, i in json.loads(row[3])))
        for row in rows
        if row[2] is not None
    ]


def find_scopes(database: Connection, schedule_id: int) -> tuple[tuple[str, str], ...]:
    """Return the present scopes of a schedule, which a definition read before can lack."""
    rows = database.rows(
        """SELECT scope_kind, scope_id FROM schedule_scopes WHERE schedule_id = :id
           ORDER BY scope_kind, scope_id""",
        {"id": schedule_id},
    )
    return tuple((kind, scope_id) for kind, scope_id in rows)


def columns_of(snapshot: str) -> dict[str, Any]:
    """The columns of a snapshot; {} if it can't be read.

    A snapshot of an earlier version lacks newer options: they have their defaults.
    """
    try:
        found = json.loads(snapshot)
    except (ValueError, RecursionError):
        return {}
    return {**DEFAULT_COLUMNS, **found} if found and isinstance(found, dict) else {}


def find_origins(database: Connection) -> dict[str, str]:
    """Which front end wrote the definition of each schedule, by name: `cli`, `crontab`, ..."""
    return dict(database.rows(_ORIGINS))


def write_revision(
    database: Connection,
    schedule_id: int,
    revision: int,
    columns: dict[str, Any],
    origin: str,
    now_ms: int,
    *,
    scopes: tuple[tuple[str, str], ...],
) -> None:
    """Store the definition of a schedule at a revision, inside the caller's transaction.

    An engine reads the scopes of a schedule from their table; `undo` needs the former ones.
    """
    database.change(
        """INSERT INTO schedule_revisions (schedule_id, revision, at, origin, snapshot)
           VALUES (:id, :revision, :now, :origin, :snapshot)""",
        {
            "id": schedule_id,
            "revision": revision,
            "now": now_ms,
            "origin": origin,
            "snapshot": json.dumps(
                columns | {"scopes": scopes},
                ensure_ascii=False,
                separators=(",", ":"),
            ),
        },
    )


def mark_broken(
    database: Connection, schedule_id: int, *, revision: int, error: str, now_ms: int
) -> bool:
    """Stop a schedule whose stored trigger can't be read, and store the reason.

    False if it has another revision now.
    """
    with database.transaction():
        return note_broken(database, schedule_id, revision=revision, error=error, now_ms=now_ms)


def note_broken(
    database: Connection, schedule_id: int, *, revision: int, error: str, now_ms: int
) -> bool:
    """As `mark_broken`, inside the caller's transaction."""
    changed = database.change(
        """UPDATE schedules SET trigger_error = :error, next_plan_at = NULL,
               next_run_at = NULL, next_source = NULL, updated_at = :now
           WHERE id = :id AND revision = :revision""",
        {"id": schedule_id, "revision": revision, "error": error, "now": now_ms},
    )
    return changed == 1


def write_change(
    database: Connection,
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
    database: Connection, schedule_id: int, *, before: int | None, limit: int
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


def find_definition(
    database: Connection, schedule_id: int, revision: int
) -> StoredDefinition | None:
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


def find_defined(database: Connection, schedule_id: int) -> list[int]:
    """The revisions whose definitions are kept, newest first."""
    rows = database.rows(
        """SELECT revision FROM schedule_revisions WHERE schedule_id = :id
           ORDER BY revision DESC""",
        {"id": schedule_id},
    )
    return [row[0] for row in rows]


def find_last_changed(database: Connection) -> list[int]:
    """The ids of the schedules of the last change: several if one transaction changed them."""
    rows = database.rows(
        """SELECT DISTINCT schedule_id FROM schedule_changes
           WHERE at = (SELECT max(at) FROM schedule_changes) ORDER BY schedule_id"""
    )
    return [row[0] for row in rows]


def find_imported(database: Connection) -> list[tuple[int, str, str]]:
    """(schedule, source, imprint) of every import, including those of removed schedules."""
    return database.rows(
        "SELECT schedule_id, source, imprint FROM imported_entries ORDER BY schedule_id"
    )


def find_imported_before(database: Connection) -> list[tuple[int, ScheduleSpec]]:
    """The schedules that an older version imported, as their crontab lines defined them."""
    rows = database.rows(
        """SELECT r.schedule_id, r.snapshot FROM schedule_revisions AS r
           WHERE r.revision = 1 AND r.origin = 'crontab'
               AND r.schedule_id NOT IN (SELECT schedule_id FROM imported_entries)
           ORDER BY r.schedule_id"""
    )
    found = []
    for schedule_id, snapshot in rows:
        try:
            found.append((schedule_id, spec_of(columns_of(snapshot), (GLOBAL_SCOPE,))))
        except Unreadable:
            continue  # The next import takes its line for a new one.
    return found


def note_imported(database: Connection, rows: Sequence[tuple[int, str, str]]) -> None:
    """Store the source and imprint of imported schedules, in the place of earlier ones."""
    with database.transaction():
        database.change_many(
            """INSERT INTO imported_entries (schedule_id, source, imprint)
               VALUES (:id, :source, :imprint)
               ON CONFLICT (schedule_id) DO UPDATE
                   SET source = excluded.source, imprint = excluded.imprint""",
            [
                {"id": schedule_id, "source": source, "imprint": imprint}
                for schedule_id, source, imprint in rows
            ],
        )


_DEFINED = ", ".join(("id", "enabled", "revision", *SPEC_COLUMNS))


class PendingApply(NamedTuple):
    """A decided apply. `steps` is JSON: see `client/stored_plans.py`."""

    origin: str
    decided_ms: int
    steps: str


def find_pending_apply(database: Connection) -> PendingApply | None:
    row = database.row("SELECT origin, decided_at, steps FROM pending_apply")
    return None if row is None else PendingApply(*row)


def decide_apply(database: Connection, pending: PendingApply) -> bool:
    """Store a decided apply; False, and nothing is stored, if another one is pending."""
    with database.transaction():
        changed = database.change(
            """INSERT INTO pending_apply (id, origin, decided_at, steps)
               VALUES (1, :origin, :decided, :steps) ON CONFLICT (id) DO NOTHING""",
            {"origin": pending.origin, "decided": pending.decided_ms, "steps": pending.steps},
        )
    return changed == 1


def finish_apply(database: Connection) -> None:
    """Record that the decided apply has been written."""
    with database.transaction():
        database.change("DELETE FROM pending_apply")


def definition_texts(database: Connection) -> Iterator[str]:
    """Yield everything a document can define of schedules, as JSON texts in a fixed order."""
    for select in (
        f"""SELECT json_array({_DEFINED}) FROM schedules NOT INDEXED
            WHERE deleted_at IS NULL ORDER BY id""",
        """SELECT json_array(schedule_id, scope_kind, scope_id) FROM schedule_scopes
           ORDER BY schedule_id, scope_kind, scope_id""",
        "SELECT json_array(name, max_running) FROM groups ORDER BY name",
    ):
        for (text,) in database.each(select):
            yield text
