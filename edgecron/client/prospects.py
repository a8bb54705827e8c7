"""Looking ahead: what will happen next to a schedule, and why."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidInput
from edgecron.base.units import from_ms, to_ms
from edgecron.client.writing import Writing

if TYPE_CHECKING:
    from edgecron.model.schedule import Schedule, ScheduleSpec
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.planning.next_fire import Missed
    from edgecron.triggers import Trigger
    from edgecron.views.outlook import Behind, Foreseen, Outlook

_MOST_ACTIVE = 50
_RECENT_MS = 600_000  # skipped times of this long show whether engines keep up
_LEAST_SKIPPED = 10
_MINUTE_MS = 60_000


class LookingAhead(Writing):
    """What the decisions that are still to be made will be, as far as they can be known."""

    def outlook(self, name: str, *, upcoming: int = 5) -> Outlook:
        """What will happen next to a schedule and why, with so many of its fires to come.

        Where its triggers can't be read any more, that is the answer.
        """
        from edgecron.model.choices import Status
        from edgecron.model.listing import find_idle, standing_of
        from edgecron.planning.overlap import LATE_CAUSES
        from edgecron.views.outlook import Outlook, judge_active, judge_fire

        now, store = self.now(), self.store
        schedule = store.get_schedule(name)
        fires: list[UpcomingFire] = []
        with suppress(InvalidInput):
            fires += islice(self._fires_of(schedule), upcoming)
        stored = store.find_prospects(schedule, most_active=_MOST_ACTIVE, now_ms=to_ms(now))
        is_full = stored.is_group_full
        has_engine = self.has_engine(schedule.spec.queue, offer=schedule.offer)
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
                    stored.active, schedule, now=now, has_engine=has_engine, is_group_full=is_full
                )
            ),
            active_count=stored.active_count,
            fire_now=tuple(
                judge_fire(schedule, stored.occupancies, stored.active, is_group_full=is_full)
            ),
            unmet=stored.unmet,
            is_clock_trusted=self.clock_state().is_trusted,
            has_engine=has_engine,
            last_unrun=skipped[0] if skipped else None,
            late=self.late_places() if has_late else None,
            behind=next(iter(self.behind(name)), None) if skipped else None,
        )

    def behind(self, name: str | None = None, *, limit: int = 5) -> list[Behind]:
        """The schedules, or this one, that engines at work can't keep up with, the worst first."""
        from edgecron.store.explanations import find_outrun
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
                        due_per_minute=times.count_ms(now_ms - _MINUTE_MS, now_ms),
                        places=sum(known) if len(known) == len(takers) else None,
                    )
                )
        return found

    def foresee(
        self, spec: ScheduleSpec, *, schedule: Schedule | None = None, upcoming: int = 10
    ) -> Foreseen:
        """What would come of a specification, of a new schedule or as a change of one that there
        is; writes nothing. Raises what `add` and `edit` raise."""
        from edgecron.planning.next_fire import next_fires
        from edgecron.planning.times import jitter_warning, load_triggers
        from edgecron.triggers import describe
        from edgecron.views.outlook import Foreseen

        now = self.now()
        compiled = self.compile(spec) if schedule is None else self.compile_change(schedule, spec)
        planned = 0 if schedule is None else schedule.planned_count
        coming = next_fires(compiled.timing, to_ms(now), planned_count=planned)
        fires = tuple((from_ms(fire.due_ms), fire.source) for fire in islice(coming, upcoming))
        triggers = load_triggers(compiled.compiled)
        last_at = fires[-1][0] if fires else None
        return Foreseen(
            words={trigger.text: describe(trigger) for trigger in triggers},
            fires=fires,
            changes=tuple(_changes_of(triggers, now=now, until=last_at)),
            jitter_warning=jitter_warning(compiled.timing, after_ms=to_ms(now)),
        )

    def _held(self, schedule: Schedule, now: datetime) -> Missed | None:
        """The times that a pause with an end leaves out, past ones included."""
        from edgecron.model.choices import Reason
        from edgecron.planning.next_fire import missed_until

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

    def _changes(self, schedule: Schedule, fires: list[UpcomingFire], now: datetime) -> list[str]:
        """What clock changes do to the fires that are shown."""
        with suppress(InvalidInput):
            until = fires[-1].plan_at if fires else None
            return _changes_of(self.triggers(schedule), now=now, until=until)
        return []


def _changes_of(triggers: Sequence[Trigger], *, now: datetime, until: datetime | None) -> list[str]:
    """What clock changes do to the times of triggers from now on; `until` None: there are none."""
    from edgecron.triggers import clock_change_notes

    notes: dict[str, None] = {}
    if until is not None:
        for trigger in triggers:
            for change in clock_change_notes(trigger, to_ms(now), to_ms(until)):
                notes[f"{change.date}: {change.text}"] = None
    return list(notes)
