"""Explain a schedule: what happens next, what became of a time, how busy the week is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from edgecron.base.checks import check_aware, check_range
from edgecron.base.errors import InvalidInput, NotFound, Unreadable
from edgecron.base.machine import KernelMachine
from edgecron.base.units import MINUTE_MS, from_ms, to_ms
from edgecron.client.runs import Runs
from edgecron.client.schedule_changes import ScheduleChanges
from edgecron.model.choices import HealthCause, HealthState, Reason, Status
from edgecron.model.conditions import find_note, look_at
from edgecron.model.listing import Lane, RunCell, find_idle, standing_of
from edgecron.planning.admission import LATE_CAUSES
from edgecron.planning.forecast import UpcomingFire, excluded_before
from edgecron.planning.next_fire import Missed, missed_until, next_fires
from edgecron.planning.times import jitter_warning, load_timing, load_triggers, window_warning
from edgecron.store.sql.explanations import find_deciding, find_outrun, find_revision
from edgecron.store.sql.history import find_usual_ms
from edgecron.store.sql.rows import spec_of
from edgecron.store.sql.statistics import count_by_cell, find_recurring_of
from edgecron.triggers import Trigger, clock_change_notes, describe

if TYPE_CHECKING:
    from edgecron.model.schedule import Schedule, ScheduleSpec
    from edgecron.views.busy import WeekHeat
    from edgecron.views.outlook import Behind, Explanation, Foreseen, Outlook, Words
    from edgecron.views.schedule_health import Ranked, ScheduleHealth, Unhealthy


_MOST_ACTIVE = 50
_RECENT_MS = 600_000  # skipped times within it show whether engines keep up
_LEAST_SKIPPED = 10
_FAILED = (Status.FAILED, Status.INTERRUPTED)
_MOST_CELLS = 1_000  # of a timeline
_MOST_RUNS, _LEAST_RUNS = 60_000, 300  # read for a timeline: in all, and of each schedule
_PAGE = 25  # schedules: a slice of different ones takes about ten milliseconds


class Outlooks(ScheduleChanges, Runs):
    """Explain when and why a schedule fires, fired or did not, without a change."""

    def outlook(self, name: str, *, upcoming: int = 5) -> Outlook:
        """Return what will happen next to a schedule and why, with `upcoming` fires to come.

        Unreadable triggers are part of the answer. Raises NotFound.
        """
        from edgecron.views.outlook import Outlook, judge_active, judge_fire

        now, store = self.now(), self.store
        schedule = store.get_schedule(name)
        fires: list[UpcomingFire] = []
        with suppress(InvalidInput):
            fires += islice(self.fires_of(schedule), upcoming)
        machine = KernelMachine(self._clock)
        stored = store.find_prospects(
            schedule,
            most_active=_MOST_ACTIVE,
            now_ms=to_ms(now),
            machine=look_at(machine, schedule.spec.all_needs),
        )
        unmet_note = None if stored.unmet is None else find_note(machine, stored.unmet)
        machine.forget_bus()
        is_full = stored.is_group_full
        takers = self.find_takers(schedule.spec.placed_queue, offer=schedule.offer)
        skipped = store.find_executions(
            schedule_id=schedule.id, statuses=(Status.SKIPPED,), limit=1
        ).runs
        has_late = any(
            run.status is Status.QUEUED and run.cause in LATE_CAUSES for run in stored.active
        )
        return Outlook(
            schedule=schedule,
            idle=find_idle(standing_of(schedule), now=now),
            upcoming=tuple(fires),
            changes=tuple(self._changes(schedule, fires, now)),
            held=self._held(schedule, now),
            active=tuple(
                judge_active(
                    stored.active,
                    schedule,
                    now=now,
                    has_engine=bool(takers),
                    is_group_full=is_full,
                    is_looked_for=any(one.polls_s and one.has_place for one in takers),
                )
            ),
            active_count=stored.active_count,
            fire_now=tuple(
                judge_fire(
                    schedule,
                    stored.occupancies,
                    stored.active,
                    now=now,
                    is_group_full=is_full,
                )
            ),
            unmet=stored.unmet,
            unmet_note=unmet_note,
            is_clock_trusted=self.is_clock_trusted(),
            has_engine=bool(takers),
            last_unrun=skipped[0] if skipped else None,
            late=self.late_places() if has_late else None,
            behind=next(iter(self.behind(name)), None) if skipped else None,
            excluded=tuple(self._excluded(schedule, fires)),
        )

    def behind(self, name: str | None = None, *, limit: int = 5) -> list[Behind]:
        """Return schedules, or this one, that working engines can't keep up with, worst first."""
        from edgecron.views.outlook import Behind

        now_ms, states = self._clock.now_ms(), self.engines()
        found: list[Behind] = []
        for _, each, queue, skipped, first_ms in find_outrun(
            self.store,
            since_ms=now_ms - _RECENT_MS,
            least=_LEAST_SKIPPED,
            schedule_id=None if name is None else self.store.get_schedule(name).id,
        ):
            takers = [one.info for one in states if one.is_working and queue in one.info.queues]
            if not takers or len(found) == limit:
                continue
            known = [one.max_running for one in takers if one.max_running is not None]
            with suppress(InvalidInput):
                times = self.timing(self.store.get_schedule(each)).times
                found.append(
                    Behind(
                        schedule=each,
                        skipped=skipped,
                        since=from_ms(first_ms),
                        due_per_minute=times.count_ms(now_ms - MINUTE_MS, now_ms),
                        places=sum(known) if len(known) == len(takers) else None,
                    )
                )
        return found

    def schedule_health(self, *, limit: int = 5) -> ScheduleHealth:
        """Return how many schedules are not healthy, and why the first `limit` of each state are
        not. With 0, this is cheap."""
        from edgecron.views.schedule_health import (
            LATE_MS,
            ScheduleHealth,
            choose,
            count_states,
            rank,
        )

        now_ms = self._clock.now_ms()
        ranked = rank(self.store.find_suspects(now_ms=now_ms, late_ms=now_ms - LATE_MS))
        counts = count_states(ranked)
        general: dict[str, HealthCause] = {}
        if limit and HealthState.OVERDUE in counts:
            queues = {one.suspect.queue for one in ranked if one.state is HealthState.OVERDUE}
            general = self._general_causes(queues)
        chosen = choose(ranked, general, limit=limit)
        return ScheduleHealth(counts=counts, worst=tuple(map(self._judge_health, chosen)))

    def _general_causes(self, queues: Iterable[str]) -> dict[str, HealthCause]:
        """Return by queue why its schedules are overdue, if the cause is not theirs."""
        states = self.engines()
        found = {}
        for queue in queues:
            living = [one for one in states if one.is_alive and queue in one.info.queues]
            if not living:
                found[queue] = HealthCause.NO_ENGINE
            elif all(one.is_stalled for one in living):
                found[queue] = HealthCause.STALLED
            elif not self.is_clock_trusted():
                found[queue] = HealthCause.CLOCK
            elif self.disk_problem() is not None:
                found[queue] = HealthCause.DISK
        return found

    def _judge_health(self, one: Ranked) -> Unhealthy:
        from edgecron.views.schedule_health import (
            judge_failing,
            judge_never_succeeded,
            judge_overdue,
        )

        suspect = one.suspect
        if one.state is HealthState.NEVER_SUCCEEDED:
            return judge_never_succeeded(suspect)
        if one.state is HealthState.FAILING:
            streak = self.store.find_streak(suspect.id)
            runs = self.store.find_executions(
                schedule_id=suspect.id, statuses=_FAILED, limit=1
            ).runs
            run = runs[0] if runs else None
            spec = None if run is None else self.spec_of(run)
            return judge_failing(suspect, streak, run, spec)
        waits, spec = None, None
        if one.general is None and suspect.waiting_id is not None:
            with suppress(NotFound, Unreadable):  # It was removed meanwhile, or only SQL reads it.
                outlook = self.outlook(suspect.name, upcoming=0)
                spec = outlook.schedule.spec
                active = outlook.active
                waits = next((r for r in active if r.execution.id == suspect.waiting_id), None)
        return judge_overdue(one, waits, spec)

    def foresee(
        self, spec: ScheduleSpec, *, schedule: Schedule | None = None, upcoming: int = 10
    ) -> Foreseen:
        """Return what would come of a specification, without a change.

        `schedule` is the schedule that it would change. Raises what `add` and `edit` raise.
        """
        from edgecron.views.outlook import Foreseen

        now = self.now()
        compiled = self.compile(spec) if schedule is None else self.compile_change(schedule, spec)
        planned = 0 if schedule is None else schedule.planned_count
        coming = next_fires(compiled.timing, to_ms(now), planned_count=planned)
        fires = tuple((from_ms(fire.due_ms), fire.source) for fire in islice(coming, upcoming))
        triggers = load_triggers(compiled.compiled)
        last_at = fires[-1][0] if fires else None
        usual_ms = None if schedule is None else find_usual_ms(self.store, schedule.id)
        short = None
        if usual_ms is not None:
            short = window_warning(compiled.timing, usual_ms=usual_ms, after_ms=to_ms(now))
        return Foreseen(
            words={trigger.text: describe(trigger) for trigger in triggers},
            fires=fires,
            changes=tuple(_changes_of(triggers, now=now, until=last_at)),
            jitter_warning=jitter_warning(compiled.timing, after_ms=to_ms(now)),
            window_warning=short,
        )

    def _held(self, schedule: Schedule, now: datetime) -> Missed | None:
        """Return the times that a pause with an end skips, past ones included."""
        until = schedule.paused_until
        if until is None or until <= now:
            return None
        with suppress(InvalidInput):
            return missed_until(
                self.timing(schedule),
                decided_until_ms=to_ms(schedule.decided_until),
                until_ms=to_ms(until) - 1,
                reason=Reason.PAUSED,
                planned_count=schedule.planned_count,
            )
        return None

    def _excluded(self, schedule: Schedule, fires: list[UpcomingFire]) -> list[Missed]:
        """Return the times that windows exclude, up to the last of these fires."""
        with suppress(InvalidInput):
            timing = self.timing(schedule)
            plans_ms = [to_ms(fire.plan_at) for fire in fires]
            if schedule.is_excluded and schedule.next_plan_at is not None:
                plans_ms = [to_ms(schedule.next_plan_at) + 1]
            decided_ms = to_ms(schedule.decided_until)
            if timing.windows is not None and schedule.paused_until is None:
                return excluded_before(timing, decided_ms, plans_ms)
        return []

    def _changes(self, schedule: Schedule, fires: list[UpcomingFire], now: datetime) -> list[str]:
        """Return what clock changes do to these fires."""
        with suppress(InvalidInput):
            until = fires[-1].plan_at if fires else None
            return _changes_of(self.triggers(schedule), now=now, until=until)
        return []

    def explain(self, name: str, at: datetime) -> Explanation:
        """Return what became, or becomes, of a time of a schedule.

        A time without seconds means the whole minute. The answer comes from recorded runs, else
        from what the schedule said at that time. Raises NotFound.
        """
        from edgecron.views.outlook import explain, find_opening_ms, last_of

        check_aware("the time", at)
        schedule = self.store.get_schedule(name)
        at = at.replace(microsecond=0)
        at_ms = to_ms(at)
        words = self._words_at(schedule, at_ms)
        opened_ms = None if words.timing is None else find_opening_ms(words.timing, at_ms)
        from_ms = at_ms if opened_ms is None else opened_ms
        runs = [
            run
            for scope in schedule.spec.scopes
            for run in find_deciding(
                self.store, schedule.id, scope, from_ms=from_ms, to_ms=last_of(at_ms)
            )
        ]
        return explain(
            schedule,
            words,
            runs,
            at=at,
            now=self.now(),
            pruned_until=schedule.pruned_until,
        )

    def triggers_at(self, name: str, at: datetime) -> list[Trigger]:
        """Return the triggers that a schedule had at a time; none if they can't be read."""
        schedule = self.store.get_schedule(name)
        found = find_revision(self.store, schedule.id, at_ms=to_ms(at))
        try:
            return load_triggers(str(found.columns.get("compiled"))) if found is not None else []
        except InvalidInput:
            return []

    def _words_at(self, schedule: Schedule, at_ms: int) -> Words:
        from edgecron.views.outlook import Words

        found = find_revision(self.store, schedule.id, at_ms=at_ms)
        if found is None or found.is_newest:
            revision, written_at = schedule.revision, schedule.updated_at
            spec, compiled = schedule.spec, self.store.compiled_of(schedule)
        elif found.is_removed:
            return Words(
                revision=found.revision,
                written_at=from_ms(found.at_ms),
                timing=None,
                is_removed=True,
            )
        else:
            revision, written_at = found.revision, from_ms(found.at_ms)
            spec, compiled = schedule.spec, str(found.columns.get("compiled"))
            try:
                spec = spec_of(found.columns, schedule.spec.scopes)
            except InvalidInput:
                return Words(revision=revision, written_at=written_at, timing=None)
        try:
            timing = load_timing(spec, compiled, seed=self.store.seed)
        except InvalidInput:
            timing = None
        return Words(revision=revision, written_at=written_at, timing=timing)

    def week_heat(
        self, zone: str | None = "local", *, most_per_hour: int | None = None
    ) -> Iterator[WeekHeat | None]:
        """Count the runs due in each hour of today and the next six days, in a zone.

        Schedules that run more often in an hour than `most_per_hour` are left out.
        Computed in slices: yields None after each, then the result. Changes meanwhile can be
        missed. Raises UnknownTimezone.
        """
        from edgecron.views.busy import WeekTally, week_from

        tally = WeekTally(week_from(to_ms(self.now()), zone=zone), most_per_hour=most_per_hour)
        after_id: int | None = 0
        while after_id is not None:
            page, after_id = self.store.find_recurring(after_id=after_id, limit=_PAGE)
            for recurrence in page:
                tally.add(recurrence)
            if after_id is not None:
                yield None
        yield tally.result()

    def timeline(
        self, ids: Sequence[int], *, from_at: datetime, until_at: datetime, cells: int
    ) -> list[Lane]:
        """Return what these schedules did and will do in each cell of a span, in this order.

        Only the newest runs of schedules with very many are read. Raises InvalidInput.
        """
        from edgecron.views.busy import count_coming, excluded_days

        check_range("cells", cells, 1, _MOST_CELLS)
        since_ms, until_ms = to_ms(from_at), to_ms(until_at)
        cell_ms = (until_ms - since_ms) // cells
        if cell_ms <= 0:
            raise InvalidInput(f"the span has {until_ms - since_ms} ms, expected more")
        now_ms, store = self._clock.now_ms(), self.store
        counted = count_by_cell(
            store,
            ids,
            since_ms=since_ms,
            until_ms=until_ms,
            cell_ms=cell_ms,
            now_ms=now_ms,
            limit=max(_LEAST_RUNS, _MOST_RUNS // max(1, len(ids))),
        )
        runs: dict[int, list[RunCell]] = {}
        for schedule_id, *counts, first_ms, last_ms, running_ms, run_id in counted.rows:
            since = from_ms(running_ms) if running_ms else None
            found = (*counts, from_ms(first_ms), from_ms(last_ms), since, run_id)
            runs.setdefault(schedule_id, []).append(RunCell._make(found))
        recurring = find_recurring_of(store, ids)
        fires = count_coming(
            recurring, since_ms=since_ms, cell_ms=cell_ms, cells=cells, now_ms=now_ms
        )
        return [
            Lane(
                schedule_id=each,
                runs=tuple(runs.get(each, ())),
                fires=fires.get(each, ()),
                read_from=max(0, (counted.unread_ms.get(each, 0) - since_ms) // cell_ms),
                usual_ms=find_usual_ms(store, each)
                if any(one.running_since for one in runs.get(each, ()))
                else None,
                excluded=excluded_days(recurring.get(each), since_ms, until_ms),
            )
            for each in ids
        ]


def _changes_of(triggers: Sequence[Trigger], *, now: datetime, until: datetime | None) -> list[str]:
    """Return what clock changes do to the times of triggers until a time; None: no times."""
    notes: dict[str, None] = {}
    if until is not None:
        for trigger in triggers:
            for change in clock_change_notes(trigger, to_ms(now), to_ms(until)):
                notes[f"{change.date}: {change.text}"] = None
    return list(notes)
