"""Count the ended runs of schedules in a span of time: sums, durations, delays. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from edgecron.base.values import dataclass, field
from edgecron.model.choices import Cause, Status
from edgecron.model.measures import EndedRun

# Runs that are late on purpose say nothing about the punctuality of an engine.
_LATE_ON_PURPOSE = frozenset({Cause.CATCH_UP.value, Cause.BACKFILL.value})
_JUDGED = (Status.SUCCESS, Status.FAILED, Status.INTERRUPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The distribution of `count` values: median, 95th percentile and largest value."""

    count: int
    median: int
    p95: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The sum of the runs of a schedule, or of all.

    `skipped` counts skipped fires by reason, each time of a range; `counts` has runs by status,
    `retries` those that were not the first attempt. `success_rate` is the share of successes among
    runs that succeeded, failed or were interrupted; None if there were none.
    """

    counts: dict[Status, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    retries: int = 0
    success_rate: float | None = None
    duration_ms: Spread | None = None
    late_ms: Spread | None = None

    @property
    def runs(self) -> int:
        """Return how many runs ended, without skipped ones."""
        return sum(self.counts.values())


def tally(runs: Iterable[EndedRun]) -> Tally:
    """Count runs."""
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    durations: list[int] = []
    late: list[int] = []
    retries = 0
    for run in runs:
        if run.status == Status.SKIPPED:
            skipped[run.reason or ""] += run.missed_count or 1
            continue
        counts[run.status] += 1
        retries += run.attempt > 1
        if run.duration_ms is not None:
            durations.append(run.duration_ms)
        if run.late_ms is not None and run.cause not in _LATE_ON_PURPOSE:
            late.append(max(0, run.late_ms))
    judged = sum(counts[status] for status in _JUDGED)
    return Tally(
        counts={status: counts[status] for status in Status if counts[status]},
        skipped=dict(skipped.most_common()),
        retries=retries,
        success_rate=counts[Status.SUCCESS] / judged if judged else None,
        duration_ms=spread(durations),
        late_ms=spread(late),
    )


def spread(values: list[int]) -> Spread | None:
    """Return the distribution of values; None if there are none."""
    if not values:
        return None
    values = sorted(values)
    last = len(values) - 1
    return Spread(
        count=len(values),
        median=values[last // 2],
        p95=values[min(last, -(-95 * len(values) // 100) - 1)],
        most=values[last],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallied:
    """The sums of schedules since an instant.

    `by_name` has schedules of which something ended, `total` all of them together. If there is too
    much, only rows written from `cut_at` on are counted. `output_bytes` covers the newest runs of
    one schedule; None if all schedules were wanted, or if nothing was printed.
    """

    since: datetime
    cut_at: datetime | None
    by_name: dict[str, Tally]
    total: Tally
    output_bytes: Spread | None
