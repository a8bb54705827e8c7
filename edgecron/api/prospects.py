"""Looking ahead: what will happen next to a schedule, and why."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from edgecron.api.reading import Reading
from edgecron.errors import InvalidInput
from edgecron.timetext import to_ms

if TYPE_CHECKING:
    from edgecron.model import Schedule
    from edgecron.outlook import Outlook
    from edgecron.planning import Missed
    from edgecron.upcoming import UpcomingFire

_MOST_ACTIVE = 50


class LookingAhead(Reading):
    """What the decisions that are still to be made will be, as far as they can be known."""

    def outlook(self, name: str, *, upcoming: int = 5) -> Outlook:
        """What will happen next to a schedule and why, with so many of its fires to come.

        Where its triggers can't be read any more, that is the answer.
        """
        from edgecron.model import Status
        from edgecron.outlook import Outlook, judge_active, judge_fire
        from edgecron.standing import find_idle, standing_of

        now, store = self.now(), self.store
        schedule = store.get_schedule(name)
        fires: list[UpcomingFire] = []
        with suppress(InvalidInput):
            fires += islice(self._fires_of(schedule), upcoming)
        stored = store.find_prospects(schedule, most_active=_MOST_ACTIVE, now_ms=to_ms(now))
        is_full = stored.is_group_full
        has_engine = self.has_engine(schedule.spec.queue)
        skipped = store.find_executions(
            schedule_id=schedule.id, statuses=(Status.SKIPPED,), limit=1
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
        )

    def _held(self, schedule: Schedule, now: datetime) -> Missed | None:
        """The times that a pause with an end leaves out, past ones included."""
        from edgecron.model import Reason
        from edgecron.planning import missed_until

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
        from edgecron.triggers import clock_change_notes

        if not fires:
            return []
        notes: dict[str, None] = {}
        with suppress(InvalidInput):
            for trigger in self.triggers(schedule):
                end_ms = to_ms(fires[-1].plan_at)
                for change in clock_change_notes(trigger, to_ms(now), end_ms):
                    notes[f"{change.date}: {change.text}"] = None
        return list(notes)
