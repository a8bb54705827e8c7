"""Build the families of metrics from a database. Long families come in slices of one name.

Buckets are cumulative and in seconds; times are seconds since 1970.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

import edgecron
from edgecron.model.run import (
    DURATION_STEPS_MS,
    LATE_STEPS_MS,
    Histogram,
    MeasuredSchedule,
    Measures,
    OfSchedule,
)

if TYPE_CHECKING:
    from edgecron.client import Client

_T = TypeVar("_T")
_SLICE = 500  # schedules, so that little text is in memory at once
_STATES = ("active", "paused", "broken", "vanished")
_STATUSES = ("success", "failed", "cancelled", "interrupted")
_DURATION = ("scheduler_run_duration_seconds", "How long runs took.", DURATION_STEPS_MS)
_LATE = (
    "scheduler_claim_latency_seconds",
    "Delay from due to started, of ended runs that were not late on purpose.",
    LATE_STEPS_MS,
)
_TIMES = (  # of the fields of MeasuredSchedule
    ("last_run_ms", "Start of the latest run that has ended, in seconds since 1970."),
    ("last_success_ms", "End of the last successful run, in seconds since 1970."),
    ("next_run_ms", "Earliest start of the next run, in seconds since 1970."),
)


def families(client: Client, *, per_schedule: bool = False) -> Iterator[Metric]:
    """Yield every family, with the slices of each in sequence.

    With `per_schedule`, histograms have a label for the schedule, and there is one more family.
    """
    measures = client.measures(per_schedule=per_schedule)
    yield InfoMetricFamily(
        "scheduler_build", "Version of edgecron.", {"version": edgecron.__version__}
    )
    yield from _engines(client)
    yield _schedules(measures.schedules)
    yield from _active(measures)
    yield from _sizes(client)
    yield CounterMetricFamily(
        "scheduler_lock_failures",
        "Transactions that found the database locked, over all processes.",
        measures.lock_failures,
    )
    if measures.by_schedule is None:
        yield from _histograms({(): measures.duration}, *_DURATION)
        yield from _histograms({(): measures.late}, *_LATE)
    else:
        yield from _by_schedule(measures.by_schedule)
    yield from _runs(measures.schedules)
    yield from _skipped(measures.schedules)
    for field, what in _TIMES:
        yield from _times(measures.schedules, field, what)


def _engines(client: Client) -> Iterator[Metric]:
    states = client.engines()
    yield GaugeMetricFamily(
        "scheduler_engines_alive",
        "Running engines of this database, stalled ones included.",
        sum(state.is_alive for state in states),
    )
    yield GaugeMetricFamily(
        "scheduler_engines_stalled",
        "Engines that are running but make no progress.",
        sum(state.is_stalled for state in states),
    )


def _schedules(schedules: Sequence[MeasuredSchedule]) -> Metric:
    family = GaugeMetricFamily("scheduler_schedules", "Schedules, by state.", labels=("state",))
    counts = Counter(_state_of(schedule) for schedule in schedules)
    for state in _STATES:
        family.add_metric((state,), counts[state])
    return family


def _state_of(schedule: MeasuredSchedule) -> str:
    if schedule.is_vanished:
        return "vanished"
    if schedule.is_broken:
        return "broken"
    return "paused" if schedule.is_paused else "active"


def _active(measures: Measures) -> Iterator[Metric]:
    running, queued, owed = measures.active
    yield GaugeMetricFamily("scheduler_running", "Runs in progress.", running)
    yield GaugeMetricFamily("scheduler_queued", "Runs that wait for a place or a retry.", queued)
    yield GaugeMetricFamily("scheduler_owed", "Runs that are due and wait for a condition.", owed)


def _sizes(client: Client) -> Iterator[Metric]:
    database_bytes, wal_bytes = client.database_sizes()
    yield GaugeMetricFamily(
        "scheduler_database_bytes", "The database file.", database_bytes, unit="bytes"
    )
    yield GaugeMetricFamily(
        "scheduler_wal_bytes", "The database's write-ahead log.", wal_bytes, unit="bytes"
    )


def _by_schedule(found: Mapping[str, OfSchedule]) -> Iterator[Metric]:
    yield from _histograms({(name,): one.duration for name, one in found.items()}, *_DURATION)
    yield from _histograms({(name,): one.late for name, one in found.items()}, *_LATE)
    for part in _slices(list(found.items())):
        family = CounterMetricFamily(
            "scheduler_claim_lock_failures",
            "Claims of a due schedule that found the database locked.",
            labels=("schedule_id",),
        )
        for name, one in part:
            family.add_metric((name,), one.lock_failures)
        yield family


def _histograms(
    found: Mapping[tuple[str, ...], Histogram], name: str, what: str, steps_ms: Sequence[int]
) -> Iterator[Metric]:
    """Yield one histogram of all schedules, or one for each by its name."""
    ends = [*(str(step / 1000) for step in steps_ms), "+Inf"]
    for part in _slices(list(found.items())):
        labels = () if () in found else ("schedule_id",)
        family = HistogramMetricFamily(name, what, labels=labels, unit="seconds")
        for values, one in part:
            family.add_metric(values, list(zip(ends, one.counts, strict=True)), one.sum_ms / 1000)
        yield family


def _runs(schedules: Sequence[MeasuredSchedule]) -> Iterator[Metric]:
    for part in _slices(schedules):
        family = CounterMetricFamily(
            "scheduler_runs", "Runs that have ended.", labels=("schedule_id", "status")
        )
        for schedule in part:
            # Also zeros: Prometheus sees no increase in a counter that starts with 1.
            for status in _STATUSES:
                family.add_metric((schedule.name, status), getattr(schedule, status))
        yield family


def _skipped(schedules: Sequence[MeasuredSchedule]) -> Iterator[Metric]:
    for part in _slices(schedules):
        family = CounterMetricFamily(
            "scheduler_skipped", "Due times that were skipped.", labels=("schedule_id",)
        )
        for schedule in part:
            family.add_metric((schedule.name,), schedule.skipped)
        yield family


def _times(schedules: Sequence[MeasuredSchedule], field: str, what: str) -> Iterator[Metric]:
    name = f"scheduler_{field.removesuffix('_ms')}_timestamp"
    for part in _slices(schedules):
        family = GaugeMetricFamily(name, what, labels=("schedule_id",))
        for schedule in part:
            at_ms = getattr(schedule, field)
            if at_ms is not None:
                family.add_metric((schedule.name,), at_ms / 1000)
        yield family


def _slices(schedules: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield parts of some hundred; one empty part if there are none, for the head of a family."""
    for first in range(0, max(1, len(schedules)), _SLICE):
        yield schedules[first : first + _SLICE]
