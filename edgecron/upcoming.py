"""Fires to come, as people see them ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from edgecron.model import Schedule
from edgecron.planning import Timing, next_fires
from edgecron.timetext import from_ms, to_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class UpcomingFire:
    """A fire to come: its plan time, when it may start, and the trigger that gave it."""

    schedule: str
    plan_at: datetime
    due_at: datetime
    source: str | None


def fires_of(schedule: Schedule, timing: Callable[[], Timing]) -> Iterator[UpcomingFire]:
    """The fires of a schedule from its next one on; none where it is paused or done.

    `timing` is asked for only after the first, which is on record.
    """
    if schedule.next_plan_at is None or schedule.next_run_at is None:
        return
    if schedule.paused_until is not None and schedule.next_plan_at < schedule.paused_until:
        return  # Held by the pause, at whose end it is recorded; nothing follows.
    yield UpcomingFire(
        schedule=schedule.name,
        plan_at=schedule.next_plan_at,
        due_at=schedule.next_run_at,
        source=schedule.next_source,
    )
    after_ms = to_ms(schedule.next_plan_at)
    for fire in next_fires(timing(), after_ms, planned_count=schedule.planned_count + 1):
        yield UpcomingFire(
            schedule=schedule.name,
            plan_at=from_ms(fire.plan_ms),
            due_at=from_ms(fire.due_ms),
            source=fire.source,
        )
