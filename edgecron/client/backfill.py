"""Backfill: queue runs for past plan times without a success."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.checks import check_aware, check_range
from edgecron.base.errors import Conflict, InvalidInput
from edgecron.base.units import format_ms, from_ms, to_ms
from edgecron.client.opening import TRIES
from edgecron.client.runs import Runs
from edgecron.planning.times import timing_words

if TYPE_CHECKING:
    from edgecron.model.schedule import Schedule
    from edgecron.planning.backfill import Backfill, PastTimes
    from edgecron.planning.next_fire import Timing


_ROWS = 250  # of one transaction
_MOST_PRIORITY = 1_000_000


class Backfills(Runs):
    """Plan and queue runs for past plan times."""

    def plan_backfill(self, name: str, from_at: datetime, to_at: datetime) -> Backfill:
        """Return what a backfill of [from, to] would queue, without a change.

        Raises InvalidInput for an empty range, a schedule without times of its own, and more than
        10,000 runs.
        """
        schedule = self.store.get_schedule(name)
        check_aware("from", from_at)
        check_aware("to", to_at)
        if to_at < from_at:
            raise InvalidInput(
                f"the end of the backfill, {format_ms(to_ms(to_at))}, is before its beginning,"
                f" {format_ms(to_ms(from_at))}",
                hint="give the earlier time first",
            )
        self._need_times(schedule)
        from edgecron.planning.backfill import find_past_times

        timing = self.timing(schedule)
        past = find_past_times(
            timing,
            from_ms=to_ms(from_at),
            to_ms=to_ms(to_at),
            decided_until_ms=to_ms(schedule.decided_until),
            pruned_until_ms=None if schedule.pruned_until is None else to_ms(schedule.pruned_until),
        )
        _need_few(schedule, timing, past)
        return self._plan_of(schedule, timing, past)

    def backfill(
        self,
        name: str,
        from_at: datetime,
        to_at: datetime,
        *,
        priority: int | None = None,
        on_progress: Callable[[int, int], object] = lambda done, count: None,
    ) -> list[int]:
        """Queue a run for each decided plan time in [from, to] without a success; return their ids.

        They run one after the other (default priority: below all runs that are on time). It skips
        plan times that get another run meanwhile. `on_progress` gets how many are done, and of how
        many. Raises what `plan_backfill` raises, and Conflict if the schedule's times are changed
        meanwhile; a second backfill takes the rest.
        """
        from edgecron.planning.backfill import default_priority

        check_range("priority", priority, -_MOST_PRIORITY, _MOST_PRIORITY)
        plan = self.plan_backfill(name, from_at, to_at)
        schedule = plan.schedule
        ids: list[int] = []
        for start in range(0, len(plan.wanted), _ROWS):
            rows = plan.wanted[start : start + _ROWS]
            wanted = [(to_ms(fire.plan_at), fire.source, fire.scope) for fire in rows]
            for _ in range(TRIES):
                chosen = schedule.spec.policies.priority
                queued = self.store.queue_backfill(
                    schedule,
                    wanted,
                    priority=default_priority(chosen) if priority is None else priority,
                    now_ms=self._clock.now_ms(),
                )
                if queued is not None:
                    break
                schedule = self._same_times(schedule, len(ids))
            else:
                raise Conflict(f"another program is changing schedule {name!r}", hint="try again")
            ids += queued
            self.ring()
            self.store.let_others_write()
            on_progress(start + len(rows), len(plan.wanted))
        return ids

    def _same_times(self, before: Schedule, count: int) -> Schedule:
        """Return the schedule as it is now. Raises Conflict if its times were changed."""
        now = self.store.get_schedule(before.name)
        same = now.id == before.id and now.spec.scopes == before.spec.scopes
        if not same or timing_words(now.spec) != timing_words(before.spec):
            raise Conflict(
                f"the times of schedule {before.name!r} changed after {count} runs were queued",
                hint="check the schedule, then backfill again: the queued runs are skipped",
            )
        return now

    def _need_times(self, schedule: Schedule) -> None:
        """Raise InvalidInput if no trigger of a schedule has times of its own."""
        from edgecron.triggers import TriggerKind

        kinds = {trigger.kind for trigger in self.triggers(schedule)}
        if not kinds & {TriggerKind.CRON, TriggerKind.EVERY, TriggerKind.AT, TriggerKind.ONCE_IN}:
            raise InvalidInput(
                f"schedule {schedule.name!r} has no times of its own: it fires"
                f" {' and '.join(schedule.spec.triggers)}",
                hint=f"run it now: edgecron run {schedule.name}",
            )

    def _plan_of(self, schedule: Schedule, timing: Timing, past: PastTimes) -> Backfill:
        from edgecron.planning.backfill import Backfill, PastFire, times_of

        covered = {
            scope: self.store.find_covered(
                schedule, scope, from_ms=past.from_ms, to_ms=past.last_ms
            )
            for scope in schedule.spec.scopes
        }
        wanted: list[PastFire] = []
        succeeded: list[PastFire] = []
        active: list[PastFire] = []
        for plan_ms, source in times_of(timing, past):
            for scope in schedule.spec.scopes:
                has_succeeded = covered[scope].get(plan_ms)
                group = wanted if has_succeeded is None else succeeded if has_succeeded else active
                group.append(PastFire(plan_at=from_ms(plan_ms), scope=scope, source=source))
        return Backfill(
            schedule=schedule,
            wanted=tuple(wanted),
            succeeded=tuple(succeeded),
            active=tuple(active),
            forgotten_count=past.forgotten_count,
            undecided_count=past.undecided_count,
            out_of_bounds_count=past.out_of_bounds_count,
        )


def _need_few(schedule: Schedule, timing: Timing, past: PastTimes) -> None:
    """Raise InvalidInput if there are more plan times than one backfill takes."""
    from edgecron.planning.backfill import MOST_BACKFILLED, last_of_first

    scopes = len(schedule.spec.scopes)
    count = past.count * scopes
    if count > MOST_BACKFILLED:
        most = MOST_BACKFILLED // scopes
        end = format_ms(last_of_first(timing, past, most))
        raise InvalidInput(
            f"that is {count:,} runs of schedule {schedule.name!r},"
            f" expected at most {MOST_BACKFILLED:,}",
            hint=f"backfill it in parts; first up to {end}" if most else None,
        )
