"""Looks at the rows while the storm goes on: what was final once may not change, or vanish."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import apsw

from tests.chaos.history import Change, Remark, Row, Step

COLUMNS = (
    *("id", "schedule_id", "revision", "scope_kind", "scope_id", "plan_at", "fire_key", "cause"),
    *("due_at", "attempt", "max_attempts", "status", "reason", "flags", "queued_at", "claimed_at"),
    *("engine_id", "supervisor_id", "cancel_requested_at", "started_at", "finished_at"),
    *("duration_ms", "exit_code", "error_msg", "missed_from_at", "missed_to_at", "missed_count"),
)
ACTIVE = ("queued", "running")
_EVERY_S = 2.0
_SHARE = 0.04  # of the time that a look may take, all in all


class Watch:
    def __init__(self, database: Path) -> None:
        self._database = database
        self._identity: tuple[int, int] | None = None
        self._rows: dict[int, tuple[Any, ...]] = {}
        self._next: dict[int, tuple[int, int]] = {}  # revision, next_plan_at by schedule
        self._look_at = 0.0
        self.looks = 0
        self.changes: list[Change] = []
        self.steps_back: list[Step] = []
        self.remarks: list[Remark] = []

    def tick(self) -> None:
        """Look, where it is time to and the database can be read."""
        began = time.monotonic()
        if began < self._look_at:
            return
        try:
            seen = self._database.stat()
            identity = seen.st_dev, seen.st_ino
            if self._identity in (None, identity):
                self.look()
                self._identity = identity
        except (apsw.CorruptError, apsw.NotADBError) as error:
            self.remarks.append(Remark(number="I21", text=f"a reader was told: {error}"))
        except (apsw.Error, OSError):
            pass  # It is locked, closed or away: that is what faults are for.
        took_s = time.monotonic() - began
        self._look_at = began + max(_EVERY_S, took_s / _SHARE)

    def look(self) -> None:
        connection = open_database(self._database)
        try:
            connection.execute("BEGIN")
            rows: list[Any] = connection.execute(
                f"SELECT {', '.join(COLUMNS)} FROM executions"
            ).fetchall()
            coming: list[Any] = connection.execute(
                "SELECT id, name, revision, next_plan_at, triggers FROM schedules"
            ).fetchall()
            connection.execute("COMMIT")
        finally:
            connection.close()
        self.looks += 1
        self._compare({row[0]: row for row in rows})
        for schedule_id, name, revision, next_ms, triggers in coming:
            self._compare_next(schedule_id, name, (revision, next_ms), triggers)

    def _compare(self, now: dict[int, tuple[Any, ...]]) -> None:
        status = COLUMNS.index("status")
        for number, row in self._rows.items():
            after = now.get(number)
            is_final = row[status] not in ACTIVE
            if after != row and (is_final or after is None):
                self.changes.append(
                    Change(before=as_row(row), after=None if after is None else as_row(after))
                )
        self._rows = now

    def _compare_next(
        self, schedule_id: int, name: str, now: tuple[int, int | None], triggers: str
    ) -> None:
        revision, next_ms = now
        before = self._next.get(schedule_id)
        if next_ms is None or "after" in triggers:
            return
        if before is not None and before[0] == revision and next_ms < before[1]:
            self.steps_back.append(
                Step(name=name, revision=revision, before_ms=before[1], after_ms=next_ms)
            )
        self._next[schedule_id] = (revision, next_ms)


def open_database(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(1_000)
    connection.execute("PRAGMA query_only = 1")
    return connection


def as_row(values: tuple[Any, ...]) -> Row:
    return dict(zip(COLUMNS, values, strict=True))
