"""Statistics of runs as JSON shows them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import NotFound, Unreadable
from edgecron.model.choices import Status
from edgecron.views.json_objects import instant

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.schedule import Schedule
    from edgecron.views.statistics import Tallied, Tally

_MOST_SINGLE = 50  # schedules that are read one by one


def stats_objects(
    client: Client, found: Tallied, name: str | None, *, has_total: bool
) -> list[dict[str, Any]]:
    """Return the statistics of one schedule, or of all that are counted.

    With `has_total`, the last object is about all of them, and its schedule is null.
    """
    schedules = find_counted(client, found, name)
    objects = [
        _object(found, each, tally, schedules.get(each)) for each, tally in found.by_name.items()
    ]
    if name is None and has_total:
        objects.append(_object(found, None, found.total, None))
    elif name is not None and not objects:
        objects = [_object(found, name, found.total, schedules.get(name))]
    return objects


def find_counted(client: Client, found: Tallied, name: str | None) -> dict[str, Schedule]:
    """Return the counted schedules that still exist, by name: one, or all."""
    names = list(found.by_name) if name is None else [name]
    if len(names) > _MOST_SINGLE:
        return {schedule.name: schedule for schedule in client.schedule_page().schedules}
    schedules = {}
    for each in names:
        # A schedule that was removed or can't be read: its runs are counted.
        with suppress(NotFound, Unreadable):
            schedules[each] = client.schedule(each)
    return schedules


def _object(
    found: Tallied, name: str | None, tally: Tally, schedule: Schedule | None
) -> dict[str, Any]:
    took, late = tally.duration_ms, tally.late_ms
    ended = (Status.SUCCESS, Status.FAILED, Status.CANCELLED, Status.INTERRUPTED)
    printed = found.output_bytes
    trend = None if name is None else found.trends.get(name)
    return {
        "schedule": name,
        "since_at": instant(found.since),
        "counted_from_at": instant(found.cut_at or found.since),
        "runs": tally.runs,
        **{status.value: tally.counts.get(status, 0) for status in ended},
        "retries": tally.retries,
        "success_rate": tally.success_rate,
        "skipped": sum(tally.skipped.values()),
        "skipped_by_reason": tally.skipped,
        "duration_median_ms": None if took is None else took.median,
        "duration_p95_ms": None if took is None else took.p95,
        "duration_max_ms": None if took is None else took.most,
        "late_median_ms": None if late is None else late.median,
        "late_p95_ms": None if late is None else late.p95,
        "late_max_ms": None if late is None else late.most,
        "output_median_bytes": None if printed is None else printed.median,
        "output_max_bytes": None if printed is None else printed.most,
        "ever": None
        if schedule is None
        else {
            "runs": schedule.run_count,
            **{status.value: count for status, count in schedule.counts.items()},
        },
        "trend": None
        if trend is None
        else {
            "success_rates": list(trend.success_rates),
            "durations_ms": list(trend.durations_ms),
            "success_rate_before": trend.success_rate_before,
            "duration_before_ms": trend.duration_before_ms,
        },
    }
