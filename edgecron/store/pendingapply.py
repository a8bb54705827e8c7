"""An apply that is decided and not carried out to its end: its one row."""

from __future__ import annotations

from edgecron.store.connection import Database
from edgecron.values import NamedTuple


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
