"""Write the rows of a schedule's fires and missed ranges, and count those `max_runs` bounds."""

from __future__ import annotations

from collections.abc import Iterable

from edgecron.base.errors import SENSELESS
from edgecron.base.window_texts import split_once_in
from edgecron.model.choices import MAX_CATCH_UP, CatchUp, Cause, MissedBy, Overlap, Reason, WaitsFor
from edgecron.model.conditions import Condition, needs_of_fire
from edgecron.model.engine import EACH
from edgecron.model.machine_conditions import NOTHING_KNOWN
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.admission import Admission, running_limit
from edgecron.planning.next_fire import Fire, Missed, next_after_pause, passed_until
from edgecron.planning.windows import closing_ms, windows_of
from edgecron.store.contract import Broken, Claimant, Decided, Granted
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.engines import find_taken_queues
from edgecron.store.sql.limits import Needs, RunCounts, ScopeKey, is_unlimited
from edgecron.store.sql.overlap_replace import (
    count_late,
    keep_turn,
    note_covered,
    replace_oldest,
    take_over_catch_up,
)
from edgecron.store.sql.revisions import find_scopes, load_schedules, note_broken
from edgecron.store.sql.row_batches import RowBatch, missed_fire, record_missed
from edgecron.store.sql.waiting_rows import deadline_ms, give_up_closed, give_up_expired

_SKIPPING = frozenset({Overlap.SKIP, Overlap.QUEUE})
_WHILE_RUNNING = (MissedBy.STALLED, MissedBy.DATABASE)


class FireWriter:
    """Insert the rows of fires and missed ranges, and collect the claims.

    Rows are written in batches, at the latest before a query reads active runs.
    """

    def __init__(
        self,
        database: Connection,
        claimant: Claimant | None,
        counts: RunCounts,
        *,
        now_ms: int,
        direct: bool,
        fences: dict[int, int] | None = None,
    ) -> None:
        """`fences`: the first fence that claims of each schedule may use, if there are claims."""
        self._database = database
        self._claimant = claimant
        self._counts = counts
        self._now_ms = now_ms
        self._direct = direct
        machine = NOTHING_KNOWN if claimant is None else claimant.machine
        self._needs = Needs(database, now_ms=now_ms, machine=machine)
        self.has_replaced = False
        # Fires that ended before they started; the caller writes their follow-ups.
        self.withdrawn: list[int] = []
        self.broken: list[Broken] = []
        self._rows = RowBatch(database, now_ms=now_ms, fences=fences)
        self._taken: frozenset[str] | None = None  # the queues of living engines, once looked up

    def flush(self) -> None:
        """Write all rows now, before other rows of the same schedules are read or written."""
        self._rows.write()

    @property
    def granted(self) -> list[Granted]:
        """The claims so far. Writes all rows."""
        self._rows.write()
        return self._rows.granted

    @property
    def decided(self) -> list[Decided]:
        """The decisions so far. Writes all rows."""
        self._rows.write()
        return self._rows.decided

    def write(
        self,
        schedule_id: int,
        revision: int,
        spec: ScheduleSpec,
        *,
        fires: Iterable[Fire] = (),
        missed: Iterable[Missed] = (),
    ) -> bool:
        """Write one schedule's decision, once for each of its scopes.

        Returns whether any of the fires will run: overlap can skip all of them.
        """
        fires, spans = tuple(fires), tuple(missed)
        # Whether this range has a row of its own depends on the fire that follows it.
        slow = spans[-1] if fires and spans and is_of_slow_engine(spans[-1], fires[0]) else None
        will_run = False
        for scope in self._scopes_of(schedule_id, spec):
            for span in spans if slow is None else spans[:-1]:
                self._write_missed(schedule_id, revision, spec, scope, span)
            for fire in fires:
                before = slow if fire is fires[0] else None
                if self._write_fire(schedule_id, revision, spec, scope, fire, before):
                    will_run = True
        return will_run

    def _write_missed(
        self,
        schedule_id: int,
        revision: int,
        spec: ScheduleSpec,
        scope: tuple[str, str],
        span: Missed,
    ) -> None:
        self._rows.skip((schedule_id, *scope), revision, spec, missed_fire(span), span)

    def write_held(self, schedule_id: int, revision: int, spec: ScheduleSpec, fire: Fire) -> None:
        """Write for each scope that a pause skipped a fire."""
        at_ms = fire.plan_ms
        held = Missed(from_ms=at_ms, to_ms=at_ms, count=1, reason=Reason.PAUSED, source=fire.source)
        for scope in self._scopes_of(schedule_id, spec):
            key = (schedule_id, *scope)
            self._rows.skip(key, revision, spec, missed_fire(held), held)
            if not self._rows.write():
                # Another end of the same plan time is recorded: this one has a row of its own.
                self._rows.skip(key, revision, spec, fire, held)

    def _write_fire(
        self,
        schedule_id: int,
        revision: int,
        spec: ScheduleSpec,
        scope: tuple[str, str],
        fire: Fire,
        before: Missed | None,
    ) -> bool:
        """Write one fire, and the range `before` it that an engine was too slow for.

        Returns False if overlap skips the fire.
        """
        key, policies = (schedule_id, *scope), spec.policies
        is_each = policies.on == EACH
        if is_each and fire.cause is Cause.SCHEDULE and self._is_left_out(key, spec):
            at_ms = fire.plan_ms
            span = Missed(
                from_ms=at_ms,
                to_ms=at_ms,
                count=1,
                reason=Reason.MISFIRE,
                missed_by=MissedBy.OFF,
                source=fire.source,
            )
            for one in (span,) if before is None else (before, span):
                self._write_missed(schedule_id, revision, spec, scope, one)
            return False
        unmet, closes_ms, is_shut = None, None, False
        is_here = True
        if is_each and self._claimant is not None:
            is_here = spec.queue_in(scope) in self._claimant.queues
        needs = self._needs
        if not is_here:
            # Another machine will run it: the conditions of this one say nothing.
            needs = Needs(self._database, now_ms=self._now_ms, machine=NOTHING_KNOWN)
        if policies.needs or spec.has_windows:
            if policies.overlap is not Overlap.ALLOW:
                self._give_up_late(key, spec, needs)
            unmet, closes_ms, is_shut = self._find_wait(schedule_id, spec, fire, needs)
        direct = self._direct and is_here and unmet is None and not is_shut
        taken = None
        if _may_be_skipped(spec, fire) and self._counts.occupancy(key).active:
            if unmet is None and not is_shut and self._takes_over(key, spec, fire):
                taken = take_over_catch_up(
                    self._database, key, plan_ms=fire.plan_ms, now_ms=self._now_ms
                )
            if taken is not None:
                self._counts.count_anew(key)
            if self._joins_catch_ups(key, spec):
                fire = fire._replace(cause=Cause.CATCH_UP, in_sequence=True)
        admission = self._counts.admit(key, spec, fire, direct=direct)
        if admission is Admission.SKIP:
            span = overlapped(fire, before)
            if before is not None:
                # However late a slow engine is, its ranges share one row.
                fire = fire._replace(cause=Cause.SCHEDULE)
            if not fire.fire_key:
                fire = fire._replace(plan_ms=span.from_ms, source=span.source)
            self._rows.skip(key, revision, spec, fire, span)
            return False
        if before is not None:
            self._write_missed(schedule_id, revision, spec, scope, before)
        if taken is not None:
            self._rows.write()
            self._rows.decided.append(taken.skipped)
            self.broken += give_back_unmet(
                self._database, taken.skipped.execution_id, now_ms=self._now_ms
            )
        waiting: tuple[str | None, int | None] = (None, None)
        if unmet is not None:
            until_ms = deadline_ms(
                self._database,
                schedule_id,
                plan_ms=fire.plan_ms,
                due_ms=fire.due_ms,
                needs_deadline_s=policies.needs_deadline_s,
                closes_ms=closes_ms,
                unmet=unmet,
                needs=needs,
            )
            waiting = (unmet.text, until_ms)
        claimant = waits_for = None
        if admission is Admission.RUN:
            claimant = self._claimant
        elif unmet is not None:
            waits_for = WaitsFor.CONDITION
        else:
            waits_for = self._waits_for(admission, key, spec, fire)
        if admission is Admission.REPLACE:
            self._rows.write()
        self._rows.add(
            key,
            revision,
            spec,
            fire,
            claimant=claimant,
            waits_for=waits_for,
            waiting=waiting,
        )
        if admission is not Admission.REPLACE:
            if taken is not None:
                for execution_id in self._rows.write():
                    note_covered(self._database, execution_id, taken)
            return True
        # No id means that this fire was decided before: its row exists, and no run starts.
        for execution_id in self._rows.write():
            new = self._rows.decided.pop()
            self._replace(key, spec, by=execution_id, is_owed=unmet is not None or is_shut)
            self._rows.decided.append(new)  # after the runs that it replaced
        return True

    def _scopes_of(self, schedule_id: int, spec: ScheduleSpec) -> tuple[tuple[str, str], ...]:
        # Without a claimant, the caller has chosen the scopes, which can be some of them only.
        if spec.policies.on != EACH or self._claimant is None:
            return spec.scopes
        # An engine's cached definition can lack a machine that has joined since.
        return find_scopes(self._database, schedule_id)

    def _is_left_out(self, key: ScopeKey, spec: ScheduleSpec) -> bool:
        """Whether the machine of a scope is away and doesn't catch up with this fire later."""
        queue = spec.queue_in(key[1:])
        if queue == spec.placed_queue or spec.policies.catch_up is CatchUp.ALL:
            return False
        if self._taken is None:
            self._taken = find_taken_queues(self._database)
        if queue in self._taken:
            return False
        # One run waits for the machine, which may be away for months.
        return spec.policies.catch_up is CatchUp.SKIP or self._counts.occupancy(key).active > 0

    def _find_wait(
        self, schedule_id: int, spec: ScheduleSpec, fire: Fire, needs: Needs
    ) -> tuple[Condition | None, int | None, bool]:
        """Find what a fire waits for: an unmet condition, or a window.

        Returns the condition, when the window of its trigger closes, and whether it can't start
        now because of a window.
        """
        closes_ms, texts = None, spec.policies.needs
        if fire.source is not None and split_once_in(fire.source) is not None:
            texts = needs_of_fire(texts, fire.source)
            closes_ms = closing_ms(
                fire.source, fire.plan_ms, fire_key=fire.fire_key, timezone=spec.timezone
            )
        unmet = needs.find_unmet(texts, fire.cause, schedule_id=schedule_id)
        has_closed = closes_ms is not None and closes_ms <= self._now_ms
        return unmet, closes_ms, has_closed or not _may_start(spec, fire, self._now_ms)

    def _give_up_late(self, key: ScopeKey, spec: ScheduleSpec, needs: Needs) -> None:
        """Skip runs whose window or deadline is over, before overlap decides because of them."""
        occupancy = self._counts.occupancy(key)
        if not occupancy.queued and not occupancy.retrying:
            return
        self._rows.write()  # They are counted again.
        skipped = give_up_closed(
            self._database,
            key,
            windows=windows_of(spec.policies, spec.timezone),
            timezone=spec.timezone,
            policies=spec.policies,
            # Other overlaps keep the run: it might start later, when they are met.
            needs=needs if spec.policies.overlap is Overlap.SKIP else None,
            now_ms=self._now_ms,
        )
        queue = spec.queue_in(key[1:])
        skipped += give_up_expired(self._database, queue, needs, key=key)
        for one in skipped:
            self._rows.decided.append(one)
            self.withdrawn.append(one.execution_id)
            self.broken += give_back_unmet(self._database, one.execution_id, now_ms=self._now_ms)
        if skipped:
            self._counts.count_anew(key)

    def _takes_over(self, key: ScopeKey, spec: ScheduleSpec, fire: Fire) -> bool:
        """Whether a live fire might take over the only active run, a waiting catch-up."""
        if fire.fire_key or spec.policies.catch_up is not CatchUp.ONCE:
            return False
        occupancy = self._counts.occupancy(key)
        return occupancy.queued == 1 and occupancy.active == 1 and not occupancy.backfilling

    def _joins_catch_ups(self, key: ScopeKey, spec: ScheduleSpec) -> bool:
        """Whether a live fire runs in sequence after catch-ups of catch_up=all.

        Otherwise overlap would skip it because of times that catch_up=all runs.
        """
        if spec.policies.catch_up is not CatchUp.ALL:
            return False
        occupancy = self._counts.occupancy(key)
        limit = running_limit(spec.policies.overlap, spec.policies.max_running) or 1
        if occupancy.active < limit:
            return False
        late = count_late(self._database, key)
        return late < MAX_CATCH_UP and (late > 0 or occupancy.catching_up > 0)

    def _waits_for(
        self, admission: Admission, key: ScopeKey, spec: ScheduleSpec, fire: Fire
    ) -> WaitsFor:
        if admission is Admission.REPLACE:
            return WaitsFor.REPLACED_RUN
        if is_unlimited(spec) and not fire.in_sequence:
            return WaitsFor.PLACE  # Other runs of the schedule do not hold it back.
        occupancy = self._counts.occupancy(key)
        is_alone = occupancy.active == 1 and not occupancy.backfilling
        return WaitsFor.PLACE if is_alone else WaitsFor.EARLIER_RUN

    def _replace(self, key: ScopeKey, spec: ScheduleSpec, *, by: int, is_owed: bool) -> None:
        """End the oldest active runs, so that the new one gets their place.

        A run that waits for a condition or a window replaces queued runs now, and running ones
        when it no longer waits.
        """
        limit = running_limit(spec.policies.overlap, spec.policies.max_running) or 1
        count = self._counts.occupancy(key).active - limit
        if spec.policies.catch_up is CatchUp.ALL:
            # They run in sequence, and overlap skips none of them.
            count -= count_late(self._database, key)
        withdrawn = replace_oldest(
            self._database,
            key,
            count=count,
            by=by,
            spares_late=spec.policies.catch_up is CatchUp.ALL,
            only_waiting=is_owed,
            now_ms=self._now_ms,
        )
        self._rows.decided.extend(withdrawn)
        keep_turn(self._database, by, withdrawn)
        self.withdrawn.extend(one.execution_id for one in withdrawn)
        self._counts.count_anew(key)
        self.has_replaced = self.has_replaced or not is_owed


def is_of_slow_engine(span: Missed, fire: Fire) -> bool:
    """Whether an engine was running while a range passed, and did not get to it in time.

    Then overlap skips the range with the fire that follows. Such a fire is not late itself, or it
    is more than a minute late and the range says that the engine was there.
    """
    was_running = fire.cause is Cause.SCHEDULE or span.missed_by in _WHILE_RUNNING
    is_next = not fire.in_sequence and span.to_ms < fire.plan_ms
    return was_running and is_next and span.reason is Reason.MISFIRE


def overlapped(fire: Fire, before: Missed | None) -> Missed:
    """A fire that overlap skips, with the range before it, as one range."""
    first_ms, source, count = fire.plan_ms, fire.source, 1
    if before is not None:
        first_ms, source, count = before.from_ms, before.source, 1 + before.count
    return Missed(
        from_ms=first_ms, to_ms=fire.plan_ms, count=count, reason=Reason.OVERLAP, source=source
    )


def _may_start(spec: ScheduleSpec, fire: Fire, now_ms: int) -> bool:
    """Whether the windows of a schedule let a fire start now."""
    windows = windows_of(spec.policies, spec.timezone)
    if windows is None or fire.cause is Cause.MANUAL:
        return True
    return windows.may_start(fire.due_ms, now_ms=now_ms)


def _may_be_skipped(spec: ScheduleSpec, fire: Fire) -> bool:
    """Whether overlap can skip a fire, which is a live one."""
    is_live = fire.cause is Cause.SCHEDULE and not fire.in_sequence
    return is_live and spec.policies.overlap in _SKIPPING


def count_planned(database: Connection, schedule_id: int) -> None:
    """Count a boot fire or follow-up for max_runs, inside the caller's transaction.

    After the last one, the schedule has no next time.
    """
    database.change(
        """UPDATE schedules SET planned_count = planned_count + 1,
               next_plan_at = iif(planned_count + 1 >= max_runs, NULL, next_plan_at),
               next_run_at = iif(planned_count + 1 >= max_runs, NULL, next_run_at),
               next_source = iif(planned_count + 1 >= max_runs, NULL, next_source),
               done_revision = iif(planned_count + 1 >= max_runs, revision, done_revision)
           WHERE id = :id""",
        {"id": schedule_id},
    )


def give_back_unmet(database: Connection, execution_id: int, *, now_ms: int) -> tuple[Broken, ...]:
    """Give back a fire whose condition was never met, inside the caller's transaction.

    Only a fire that max_runs counts, and of which no other scope runs. Returns its schedule if that
    is found broken.
    """
    row = database.row(
        """SELECT e.schedule_id FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.id = :id AND s.max_runs IS NOT NULL AND e.cause NOT IN ('manual', 'backfill')
               AND NOT EXISTS (SELECT 1 FROM schedule_scopes AS c
                   CROSS JOIN executions AS o ON o.schedule_id = e.schedule_id
                       AND o.scope_kind = c.scope_kind AND o.scope_id = c.scope_id
                       AND o.plan_at = e.plan_at AND o.fire_key = e.fire_key
                   WHERE c.schedule_id = e.schedule_id
                       AND (o.status != 'skipped' OR o.reason = 'declined'))""",
        {"id": execution_id},
    )
    if row is None:
        return ()
    return give_back_runs(database, row[0], count=1, now_ms=now_ms)


def give_back_runs(
    database: Connection, schedule_id: int, *, count: int, now_ms: int
) -> tuple[Broken, ...]:
    """Uncount fires that did not run for max_runs, inside the caller's transaction.

    If the schedule was done with them, it continues after `now_ms`, and the times between are
    recorded as skipped. Returns the schedule if it is found broken.
    """
    row = database.returning(
        """UPDATE schedules SET planned_count = planned_count - :count
           WHERE id = :id AND max_runs IS NOT NULL
           RETURNING next_plan_at IS NULL AND planned_count + :count >= max_runs AND enabled
               AND deleted_at IS NULL AND trigger_error IS NULL,
               revision, decided_until, paused_until, planned_count, name""",
        {"id": schedule_id, "count": count},
    )
    if row is None or not row[0]:
        return ()
    # Few schedules get here, and to load the triggers takes 2 ms at each start.
    from edgecron.planning.times import load_timing

    _, revision, decided_until_ms, paused_until_ms, planned_count, name = row
    try:
        [stored] = load_schedules(database, [(schedule_id, revision)])
        timing = load_timing(stored.spec, stored.compiled, seed=database.seed)
        passed = passed_until(
            timing,
            decided_until_ms=decided_until_ms,
            until_ms=now_ms,
            reason=Reason.OVERLAP,
            planned_count=planned_count,
        )
        following = next_after_pause(
            timing,
            now_ms + 1 if paused_until_ms is None else paused_until_ms,
            decided_until_ms=max(now_ms, decided_until_ms),
            planned_count=planned_count,
        )
    except SENSELESS as error:  # The ends of other schedules must not fail with it.
        message = f"its next time can't be computed: {error}"
        note_broken(database, schedule_id, revision=revision, error=message, now_ms=now_ms)
        return (Broken(name, message),)
    for one in passed:
        scopes = stored.spec.scopes
        record_missed(
            database, schedule_id, revision, stored.spec, one, scopes=scopes, now_ms=now_ms
        )
    if following is not None:
        database.change(
            """UPDATE schedules SET next_plan_at = :plan, next_run_at = :run,
                   next_source = :source, done_revision = NULL,
                   decided_until = max(decided_until, :now)
               WHERE id = :id""",
            {
                "id": schedule_id,
                "plan": following.plan_ms,
                "run": following.due_ms,
                "source": following.source,
                "now": now_ms,
            },
        )
    return ()
