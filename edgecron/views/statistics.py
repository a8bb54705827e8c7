"""Count the ended runs of schedules in a time span, and compare with the month before. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from edgecron.base.units import DAY_MS
from edgecron.base.values import dataclass, field
from edgecron.model.choices import Cause, Status
from edgecron.model.run import EndedRun
from edgecron.views.phrases import glyph

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
class Trend:
    """The success rate and the median duration, per step of a plot and in the month before.

    None: no run, or some of the runs are unknown, because retention removed them or there are too
    many to read.
    """

    success_rates: tuple[float | None, ...]
    durations_ms: tuple[int | None, ...]
    success_rate_before: float | None
    duration_before_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallied:
    """The sums of schedules since an instant.

    `by_name` has schedules of which something ended, `total` all of them together. If there is too
    much, only rows written from `cut_at` on are counted. `output_bytes` covers the newest runs of
    one schedule; None if all schedules were wanted, or if nothing was printed. `trends` are by
    name, if they were wanted.
    """

    since: datetime
    cut_at: datetime | None
    by_name: dict[str, Tally]
    total: Tally
    output_bytes: Spread | None
    trends: dict[str, Trend] = field(default_factory=dict)


# The month before.

MONTH_MS = 30 * DAY_MS
STEPS = 12  # of a plot
_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = "12345678"
NOTHING = " "  # a step without runs, or whose runs are unknown


def find_trend(
    runs: Iterable[EndedRun], *, since_ms: int, until_ms: int, known_from_ms: int
) -> Trend:
    """Return the trend of a schedule's runs since a month before `since_ms`.

    All runs written from `known_from_ms` on are among them.
    """
    start_ms = since_ms - MONTH_MS
    width_ms = max(1, -(-(until_ms - start_ms) // STEPS))
    steps: list[list[EndedRun]] = [[] for _ in range(STEPS)]
    before = []
    for run in runs:
        place = (run.written_ms - start_ms) // width_ms
        if place < 0 or start_ms + place * width_ms < known_from_ms:
            continue
        steps[min(place, STEPS - 1)].append(run)
        if run.written_ms < since_ms and known_from_ms <= start_ms:
            before.append(run)
    each, month = [tally(step) for step in steps], tally(before)
    return Trend(
        success_rates=tuple(one.success_rate for one in each),
        durations_ms=tuple(
            None if one.duration_ms is None else one.duration_ms.median for one in each
        ),
        success_rate_before=month.success_rate,
        duration_before_ms=None if month.duration_ms is None else month.duration_ms.median,
    )


def find_trends(
    runs: Iterable[EndedRun],
    names: Mapping[int, str],
    *,
    pruned: Mapping[int, int],
    since_ms: int,
    until_ms: int,
    known_from_ms: int,
) -> dict[str, Trend]:
    """Return the trends of schedules by name. `pruned` has the plan times up to which retention
    removed runs, by id; other runs are known from `known_from_ms` on."""
    grouped: dict[int, list[EndedRun]] = {}
    for run in runs:
        grouped.setdefault(run.schedule_id, []).append(run)
    return {
        names[each]: find_trend(
            grouped[each],
            since_ms=since_ms,
            until_ms=until_ms,
            known_from_ms=max(known_from_ms, pruned.get(each, 0)),
        )
        for each in grouped
        if each in names
    }


def plot(values: Sequence[float | None], *, most: float | None = None) -> str:
    """Draw a value as a bar, `most` or the largest value as a full one; digits without UTF-8."""
    bars = glyph(_BARS, _PLAIN_BARS)
    top = most or max((value for value in values if value is not None), default=0) or 1
    return "".join(
        NOTHING if value is None else bars[min(len(bars) - 1, int(value / top * len(bars)))]
        for value in values
    )
