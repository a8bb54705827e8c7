"""One schedule's decision carried out: a row for each fire and range, in each of its scopes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from edgecron.admission import Admission, running_limit
from edgecron.model import CatchUp, Cause, Reason, ScheduleSpec, Status, WaitsFor
from edgecron.planning import Fire, Missed
from edgecron.retrying import retry_policy
from edgecron.store.connection import Database
from edgecron.store.contract import Decided, Granted, Seat
from edgecron.store.firerows import (
    fire_columns,
    insert_fire,
    overlapped,
    record_held,
    record_missed,
    skip_fire,
)
from edgecron.store.ledger import Ledger, ScopeKey
from edgecron.store.needs import Needs, waiting_columns
from edgecron.store.replacing import count_late, keep_turn, replace_oldest, replace_waiting


class FireWriter:
    """Inserts the rows of fires and missed ranges, and collects what was granted."""

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
        self.withdrawn: list[
            int
        ] = []  # replaced before they started: what follows is to be written
        self.granted: list[Granted] = []
        self.decided: list[Decided] = []

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
        unmet = self._needs.find_unmet(policies.needs, fire.cause)
        direct = self._direct and unmet is None
        admission = self._ledger.admit(key, spec, fire, direct=direct)
        if admission is Admission.SKIP:
            execution_id = skip_fire(
                self._database, schedule_id, revision, spec, scope, fire, self._now_ms
            )
            self._record_skipped(
                (schedule_id, revision), execution_id, overlapped(fire), fire.cause
            )
            return
        token = os.urandom(8).hex() if admission is Admission.RUN else None
        waiting = waiting_columns(unmet, due_ms=fire.due_ms, deadline_s=policies.needs_deadline_s)
        execution_id = insert_fire(
            self._database,
            fire_columns(schedule_id, revision, spec, scope, fire, self._now_ms)
            | self._claim_columns(token)
            | waiting,
        )
        if execution_id is None:
            return  # This fire was decided already: the row says so, and nothing runs.
        if admission is Admission.REPLACE:
            self._replace(key, spec, by=execution_id, is_owed=unmet is not None)
        self.decided.append(
            Decided(
                execution_id=execution_id,
                schedule_id=schedule_id,
                revision=revision,
                plan_ms=fire.plan_ms,
                status=Status.RUNNING if token else Status.QUEUED,
                cause=fire.cause,
                due_ms=fire.due_ms,
                waits_for=self._waits_for(admission, key) if unmet is None else WaitsFor.CONDITION,
                condition=waiting["waiting_for"],
                wait_until_ms=waiting["wait_until"],
            )
        )
        if token:
            self.granted.append(
                Granted(
                    execution_id=execution_id,
                    lease_token=token,
                    schedule_id=schedule_id,
                    revision=revision,
                    plan_ms=fire.plan_ms,
                    due_ms=fire.due_ms,
                    fire_key=fire.fire_key,
                    cause=fire.cause,
                    attempt=1,
                    max_attempts=retry_policy(spec.policies).max_attempts,
                    scope_kind=scope[0],
                    scope_id=scope[1],
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
        self.decided.extend(withdrawn)
        keep_turn(self._database, by, withdrawn)
        self.withdrawn.extend(one.execution_id for one in withdrawn)
        self._ledger.count_anew(key)
        self.has_replaced = self.has_replaced or not is_owed

    def _claim_columns(self, token: str | None) -> dict[str, Any]:
        seat = self._seat if token else None
        claimed = self._now_ms if token else None
        return {
            "status": "running" if token else "queued",
            "claimed": claimed,
            "engine": seat.engine_id if seat else None,
            "supervisor": seat.supervisor_id if seat else None,
            "token": token,
        }

    def _record_skipped(
        self,
        schedule: tuple[int, int],
        execution_id: int | None,
        span: Missed,
        cause: Cause = Cause.SCHEDULE,
    ) -> None:
        if execution_id is not None:
            self.decided.append(
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
