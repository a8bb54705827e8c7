"""Compare the runs of a schedule with those of the month before, and plot them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from edgecron.model.measures import EndedRun
from edgecron.views.glyphs import glyph
from edgecron.views.statistics import Trend, tally

MONTH_MS = 30 * 86_400_000
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
