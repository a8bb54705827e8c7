"""What a restored copy must not believe of the time before: whose it was, and what went on."""

from __future__ import annotations

import os

from edgecron.model.choices import Reason, Status
from edgecron.model.claim import Outcome
from edgecron.store.cancelling import withdraw
from edgecron.store.connection import Database
from edgecron.store.ending import find_running, finish
from edgecron.store.identity import new_uuid

_BECAME_UNKNOWN = "it was restored from a backup, and what became of it since is not known"


def renew_identity(database: Database, *, boot_id: str, now_ms: int) -> None:
    """Make a copy a database of its own: another uuid and seed, no engine, no boot to be run for.

    What runs on boot has run, or not, before the copy was put here.
    """
    with database.transaction():
        database.change(
            "UPDATE meta SET uuid = :uuid, seed = :seed",
            {"uuid": new_uuid(), "seed": os.urandom(16)},
        )
        database.change(
            "UPDATE engines SET stopped_at = :now WHERE stopped_at IS NULL", {"now": now_ms}
        )
        database.change(
            "UPDATE schedules SET boot_decided = :boot WHERE on_boot", {"boot": boot_id}
        )


def cancel_all_queued(database: Database, *, now_ms: int) -> int:
    """Cancel what is queued, and what that brings about; how many."""
    count = 0
    while True:
        with database.transaction():
            rows = database.rows(
                "SELECT id FROM executions WHERE status = 'queued' ORDER BY id LIMIT 250"
            )
            for (execution_id,) in rows:
                ended = withdraw(database, execution_id, reason=Reason.RESTORED, now_ms=now_ms)
                count += ended is not None
        if not rows:
            return count


def interrupt_all_running(database: Database, *, now_ms: int) -> int:
    """End what runs, by the record, as after a crash that left nothing else; how many.

    What its schedule says of interruptions is written with it.
    """
    [(seed,)] = database.rows("SELECT seed FROM meta")
    outcomes = [
        Outcome(
            execution_id=row.execution_id,
            lease_token=row.lease_token,
            status=Status.INTERRUPTED,
            reason=Reason.RESTORED,
            started_ms=row.started_ms,
            finished_ms=now_ms,
            error_msg=_BECAME_UNKNOWN,
        )
        for row in find_running(database)
    ]
    return sum(ended is not None for ended in finish(database, outcomes, seed=seed, now_ms=now_ms))


def find_due_names(database: Database, *, now_ms: int) -> list[str]:
    """The schedules whose next fire is due, the longest first."""
    rows = database.rows(
        """SELECT name FROM schedules
           WHERE next_run_at IS NOT NULL AND enabled AND next_run_at <= :now AND deleted_at IS NULL
           ORDER BY next_run_at, name""",
        {"now": now_ms},
    )
    return [str(row[0]) for row in rows]
