"""Store the decided apply, and read all definitions that an apply depends on."""

from __future__ import annotations

from collections.abc import Iterator

from edgecron.base.values import NamedTuple
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.rows import SPEC_COLUMNS

_DEFINED = ", ".join(("id", "enabled", "revision", *SPEC_COLUMNS))


class PendingApply(NamedTuple):
    """What was decided: `steps` is JSON, of `api.slicing`."""

    origin: str
    decided_ms: int
    steps: str


def find_pending_apply(database: Database) -> PendingApply | None:
    row = database.row("SELECT origin, decided_at, steps FROM pending_apply")
    return None if row is None else PendingApply(*row)


def decide_apply(database: Database, pending: PendingApply) -> bool:
    """Decide an apply; False, and nothing is written, if another one is pending."""
    with database.transaction():
        changed = database.change(
            """INSERT INTO pending_apply (id, origin, decided_at, steps)
               VALUES (1, :origin, :decided, :steps) ON CONFLICT (id) DO NOTHING""",
            {"origin": pending.origin, "decided": pending.decided_ms, "steps": pending.steps},
        )
    return changed == 1


def finish_apply(database: Database) -> None:
    """Put down that the decided apply is carried out."""
    with database.transaction():
        database.change("DELETE FROM pending_apply")


def definitions(database: Database) -> Iterator[str]:
    """All that a document can decide of schedules, as JSON texts in a fixed order."""
    for select in (
        f"""SELECT json_array({_DEFINED}) FROM schedules NOT INDEXED
            WHERE deleted_at IS NULL ORDER BY id""",
        """SELECT json_array(schedule_id, scope_kind, scope_id) FROM schedule_scopes
           ORDER BY schedule_id, scope_kind, scope_id""",
        "SELECT json_array(name, max_running) FROM groups ORDER BY name",
    ):
        for (text,) in database.each(select):
            yield text
