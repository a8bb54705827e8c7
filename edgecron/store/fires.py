"""One schedule's decision carried out: a row for each fire and range, in each of its scopes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from edgecron.admission import Admission, running_limit
from edgecron.model import CatchUp, Cause, Reason, ScheduleSpec, Status, WaitsFor
from edgecron.planning import Fire, Missed
from edgecron.store.connection import Database
from edgecron.store.contract import Decided, Granted, Seat
from edgecron.store.firerows import (
    FireKey,
    fire_columns,
    insert_fires,
    overlapped,
    record_held,
    record_missed,
    skip_fire,
)
from edgecron.store.ledger import Ledger, ScopeKey
from edgecron.store.needs import Needs, waiting_columns
from edgecron.store.replacing import count_late, keep_turn, replace_oldest, replace_waiting

_QUEUED_COLUMNS: dict[str, Any] = {
    "status": "queued",
    "claimed": None,
    "engine": None,
    "supervisor": None,
    "token": None,
}


class _NewRow(NamedTuple):
    """The row of a fire, and what it waits for where it is not started at once."""

    columns: dict[str, Any]
    key: FireKey
    fire: Fire
    waits_for: WaitsFor | None


class FireWriter:
    """Inserts the rows of fires and missed ranges, and collects what was granted.

    Rows of fires are put together and written at once, before anything that reads what is
    active: a statement each would be half the cost of a busy claim.
    """

    def __init__(
        self, database: Database, seat: Seat | None, ledger: Ledger, *, now_ms: int, direct: bool
    ) -> None:
        self._database = database
        self._seat = seat
        self._ledger = ledger
        self._now_ms = now_ms
        self._direct = direct
        self._needs = Needs(database, now_ms=now_ms)
        self.has_replaced = False
        # Replaced before they started: what follows is to be written.
        self.withdrawn: list[int] = []
        self._rows: list[_NewRow] = []  # put together, and still to be written
        self._granted: list[Granted] = []
        self._decided: list[Decided] = []

    @property
    def granted(self) -> list[Granted]:
        """What was granted so far; all rows are written then."""
        self._flush()
        return self._granted

    @property
    def decided(self) -> list[Decided]:
        """What was decided so far; all rows are written then."""
        self._flush()
        return self._decided

    def write(
        self,
        schedule_id: int,
        revision: int,
        spec: ScheduleSpec,
        *,
        fires: Iterable[Fire] = (),
        missed: Iterable[Missed] = (),
    ) -> None:
        """Write one schedule's decision, once for each of its scopes."""
        for scope in spec.scopes:
            for span in missed:
                self._flush()
                self._record_skipped(
                    (schedule_id, revision),
                    record_missed(
                        self._database, schedule_id, revision, spec, scope, span, self._now_ms
                    ),
                    span,
                )
            for fire in fires:
                self._write_fire(schedule_id, revision, spec, scope, fire)

    def write_held(self, schedule_id: int, revision: int, spec: ScheduleSpec, fire: Fire) -> None:
        """Write that a pause left a fire out, once for each of its schedule's scopes."""
        held = Missed(from_ms=fire.plan_ms, to_ms=fire.plan_ms, count=1, reason=Reason.PAUSED)
        self._flush()
        for scope in spec.scopes:
            execution_id = record_missed(
                self._database, schedule_id, revision, spec, scope, held, self._now_ms
            )
            if execution_id is None:
                # Another end of the same plan time is recorded: this one has a row of its own.
                columns = fire_columns(schedule_id, revision, spec, scope, fire, self._now_ms)
                execution_id = record_held(self._database, columns, held)
            self._record_skipped((schedule_id, revision), execution_id, held, fire.cause)

    def _write_fire(
        self,
        schedule_id: int,
        revision: int,
        spec: ScheduleSpec,
        scope: tuple[str, str],
        fire: Fire,
    ) -> None:
        key, policies = (schedule_id, *scope), spec.policies
        unmet = self._needs.find_unmet(policies.needs, fire.cause) if policies.needs else None
        direct = self._direct and unmet is None
        admission = self._ledger.admit(key, spec, fire, direct=direct)
        if admission is Admission.SKIP:
            self._flush()
            execution_id = skip_fire(
                self._database, schedule_id, revision, spec, scope, fire, self._now_ms
            )
            self._record_skipped(
                (schedule_id, revision), execution_id, overlapped(fire), fire.cause
            )
            return
        columns = fire_columns(schedule_id, revision, spec, scope, fire, self._now_ms)
        columns.update(self._claim_columns(is_started=admission is Admission.RUN))
        columns.update(
            waiting_columns(unmet, due_ms=fire.due_ms, deadline_s=policies.needs_deadline_s)
        )
        row = _NewRow(
            columns=columns,
            key=(*key, fire.plan_ms, fire.fire_key),
            fire=fire,
            waits_for=self._waits_for(admission, key) if unmet is None else WaitsFor.CONDITION,
        )
        if admission is not Admission.REPLACE:
            self._rows.append(row)
            return
        self._flush()
        execution_id = insert_fires(self._database, [row.columns]).get(row.key)
        # Where there is none, this fire was decided already: the row says so, and nothing runs.
        if execution_id is not None:
            self._replace(key, spec, by=execution_id, is_owed=unmet is not None)
            self._note(row, execution_id)

    def _flush(self) -> None:
        """Write the rows that were put together so far, at once."""
        rows, self._rows = self._rows, []
        ids = insert_fires(self._database, [row.columns for row in rows])
        for row in rows:
            # A fire that has no new row was decided already, and nothing runs.
            execution_id = ids.get(row.key)
            if execution_id is not None:
                self._note(row, execution_id)

    def _note(self, row: _NewRow, execution_id: int) -> None:
        """Put down, for the engine and its log, what became of a fire."""
        columns, fire = row.columns, row.fire
        token = columns["token"]
        self._decided.append(
            Decided(
                execution_id=execution_id,
                schedule_id=columns["schedule"],
                revision=columns["revision"],
                plan_ms=fire.plan_ms,
                status=Status.RUNNING if token else Status.QUEUED,
                cause=fire.cause,
                due_ms=fire.due_ms,
                waits_for=row.waits_for,
                condition=columns["waiting_for"],
                wait_until_ms=columns["wait_until"],
            )
        )
        if token:
            self._granted.append(
                Granted(
                    execution_id=execution_id,
                    lease_token=token,
                    schedule_id=columns["schedule"],
                    revision=columns["revision"],
                    plan_ms=fire.plan_ms,
                    due_ms=fire.due_ms,
                    fire_key=fire.fire_key,
                    cause=fire.cause,
                    attempt=1,
                    max_attempts=columns["max_attempts"],
                    scope_kind=columns["scope_kind"],
                    scope_id=columns["scope_id"],
                )
            )

    def _waits_for(self, admission: Admission, key: ScopeKey) -> WaitsFor | None:
        if admission is Admission.RUN:
            return None
        if admission is Admission.REPLACE:
            return WaitsFor.REPLACED_RUN
        occupancy = self._ledger.occupancy(key)
        is_alone = occupancy.active == 1 and not occupancy.backfilling
        return WaitsFor.PLACE if is_alone else WaitsFor.EARLIER_RUN

    def _replace(self, key: ScopeKey, spec: ScheduleSpec, *, by: int, is_owed: bool) -> None:
        """End the oldest that are active, so that the new one gets their place.

        One that waits for a condition replaces what waits, too; what runs when that has come true.
        """
        limit = running_limit(spec.policies.overlap, spec.policies.max_running) or 1
        count = self._ledger.occupancy(key).active - limit
        if spec.policies.catch_up is CatchUp.ALL:
            # Those run in sequence, and overlap discards none of them.
            count -= count_late(self._database, key)
        replace = replace_waiting if is_owed else replace_oldest
        withdrawn = replace(
            self._database,
            key,
            count=count,
            by=by,
            spares_late=spec.policies.catch_up is CatchUp.ALL,
            now_ms=self._now_ms,
        )
        self._decided.extend(withdrawn)
        keep_turn(self._database, by, withdrawn)
        self.withdrawn.extend(one.execution_id for one in withdrawn)
        self._ledger.count_anew(key)
        self.has_replaced = self.has_replaced or not is_owed

    def _claim_columns(self, *, is_started: bool) -> dict[str, Any]:
        if not is_started or self._seat is None:
            return _QUEUED_COLUMNS
        return {
            "status": "running",
            "claimed": self._now_ms,
            "engine": self._seat.engine_id,
            "supervisor": self._seat.supervisor_id,
            "token": os.urandom(8).hex(),
        }

    def _record_skipped(
        self,
        schedule: tuple[int, int],
        execution_id: int | None,
        span: Missed,
        cause: Cause = Cause.SCHEDULE,
    ) -> None:
        if execution_id is not None:
            self._decided.append(
                Decided(
                    execution_id=execution_id,
                    schedule_id=schedule[0],
                    revision=schedule[1],
                    plan_ms=span.from_ms,
                    status=Status.SKIPPED,
                    reason=span.reason,
                    cause=cause,
                    missed_from_ms=span.from_ms,
                    missed_to_ms=span.to_ms,
                    missed_count=span.count,
                )
            )
