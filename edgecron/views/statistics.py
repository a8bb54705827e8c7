"""How schedules go: what their runs of a span of time amount to. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from edgecron.base.values import dataclass, field
from edgecron.model.choices import Cause, Status
from edgecron.model.measures import EndedRun

# What was late on purpose says nothing of how punctual an engine is.
_LATE_ON_PURPOSE = frozenset({Cause.CATCH_UP.value, Cause.BACKFILL.value})
_JUDGED = (Status.SUCCESS, Status.FAILED, Status.INTERRUPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of how many values the median, the value that 95 of 100 do not exceed, and the largest."""

    count: int
    median: int
    p95: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What the runs of a schedule, or of all, amount to.

    `skipped` are fires that were left out, by reason, each time of a range counted; `counts` are
    executions by status, `retries` those that were not the first attempt. `success_rate` is of
    those that succeeded, failed or were interrupted, None where none was.
    """

    counts: dict[Status, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    retries: int = 0
    success_rate: float | None = None
    duration_ms: Spread | None = None
    late_ms: Spread | None = None

    @property
    def runs(self) -> int:
        """Executions that ended otherwise than by being left out."""
        return sum(self.counts.values())


def tally(runs: Iterable[EndedRun]) -> Tally:
    """Count them."""
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
    """How values are spread, each of them one that was there; None of none."""
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
    """How schedules go since an instant.

    `by_name` are those of which something has ended, `total` all of them together. `cut_at`: only
    what was written from then on is counted, as there is too much. `output_bytes` is of what the
    newest runs of one schedule have printed, None where all were asked for, or none printed.
    """

    since: datetime
    cut_at: datetime | None
    by_name: dict[str, Tally]
    total: Tally
    output_bytes: Spread | None
