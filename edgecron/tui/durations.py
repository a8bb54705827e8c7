"""Durations of the last runs: a line of small bars for lists, a chart for the schedule. Pure.

Why not Textual's Sparkline: it is a widget, which a line of a list can't hold. Its scale is linear,
so that one long run makes all others equal. Its colours show heights, not how a run ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import log

from edgecron.tui.text_line import Span
from edgecron.tui.themes import STATUS_GLYPHS
from edgecron.views.times import column_duration

BARS = "▁▂▃▄▅▆▇█"
FAILED_BAR = "✗"
# If the longest is so many times the shortest, equal steps would show all short ones alike.
_WIDE = 50

OK, FAILED, OTHER = "ok", "failed", "other"
_STYLES = {"success": OK, "failed": FAILED, "interrupted": FAILED}
_USUAL, _TALLEST = 3, 6  # eighths: a line between neighbours stays free
MOST_BARS = 60  # runs in the chart
_STEPS = len(BARS)  # of one line
_WIDEST = 4  # columns from one bar to the next, if there are few


def sparkline(recent: Sequence[tuple[str, int | None]], width: int) -> tuple[tuple[str, str], ...]:
    """Return `width` letters, oldest first, each with 'ok', 'failed' or 'other'.

    `recent` are (status, duration in milliseconds) of the last runs, newest first. The median is
    three eighths high, and no bar is higher than six. A failed run is a cross, so that colour is
    not needed. One without a duration is a dot. The left is blank if there are too few.
    """
    shown = recent[: max(width, 0)]
    known = [ms for status, ms in shown if ms is not None and _STYLES.get(status) is not FAILED]
    usual_ms = max(_median(known), 1) if known else 1
    line = [(" ", OTHER)] * (width - len(shown))
    for status, ms in reversed(shown):
        style = _STYLES.get(status, OTHER)
        line.append((FAILED_BAR if style is FAILED else _bar(ms, usual_ms), style))
    return tuple(line)


def _median(durations: Sequence[int]) -> int:
    # `statistics` would take a millisecond of the first paint.
    return sorted(durations)[(len(durations) - 1) // 2]


def _bar(duration_ms: int | None, usual_ms: int) -> str:
    if duration_ms is None:
        return "·"
    return BARS[min(max(round(_USUAL * duration_ms / usual_ms), 1), _TALLEST) - 1]


def bar_height(duration_ms: int, *, least_ms: int, most_ms: int, steps: int = len(BARS)) -> int:
    """Return the height of a duration, from 0 to `steps` - 1."""
    if most_ms <= least_ms * _WIDE:
        return max(-(-duration_ms * steps // most_ms) - 1, 0)
    return round((steps - 1) * log(max(duration_ms, 1) / least_ms) / log(most_ms / least_ms))


def trend_lines(
    recent: Sequence[tuple[str, int | None]], *, width: int, height: int
) -> list[tuple[Span, ...]]:
    """Draw `height` lines of bars, and below them how each run ended; the newest on the right.

    `recent` are (status, duration in milliseconds), newest first. The scale at the left names the
    longest and the shortest duration, and the median if it has a line of its own. Empty if there
    is nothing to show.
    """
    known = [ms for _, ms in recent if ms is not None]
    margin = max((len(column_duration(ms)) for ms in known), default=0) + 3
    room = width - margin
    shown = list(reversed(recent[: max(0, room)]))
    durations = [ms for _, ms in shown if ms is not None]
    if not durations or height < 2:
        return []
    rows, pitch = height - 1, min(_WIDEST, room // len(shown))
    scale = _Scale(durations, rows * _STEPS)
    labels = scale.labels(durations, rows)
    lines = []
    for row in range(rows, 0, -1):
        bars = [
            (_part(scale.height(ms), row) * max(1, pitch - 1), STATUS_GLYPHS[status][1])
            for status, ms in shown
        ]
        label = f" {labels.get(row, ''):>{margin - 3}} "
        lines.append(((label, "dim"), ("│", "faint"), *_joined(bars, pitch)))
    ends = [_end(status, max(1, pitch - 1)) for status, _ in shown]
    lines.append(((" " * (margin - 1), ""), ("└", "faint"), *_joined(ends, pitch)))
    return lines


def scale_words(recent: Sequence[tuple[str, int | None]]) -> str:
    """Return `min 1.2 s  median 3 s  max 9 s`; empty without durations."""
    known = [ms for _, ms in recent if ms is not None]
    if not known:
        return ""
    parts = (("min", min(known)), ("median", _median(known)), ("max", max(known)))
    return "  ".join(f"{name} {column_duration(ms)}" for name, ms in parts)


class _Scale:
    """Heights in eighths of a line; the longest is `top`."""

    def __init__(self, durations: Sequence[int], top: int) -> None:
        self._least, self._most = max(min(durations), 1), max(*durations, 1)
        self._top = top

    def height(self, duration_ms: int | None) -> int:
        if duration_ms is None:
            return 0
        return 1 + bar_height(
            duration_ms, least_ms=self._least, most_ms=self._most, steps=self._top
        )

    def labels(self, durations: Sequence[int], rows: int) -> dict[int, str]:
        """Return durations by the line where their bars end, 1 at the bottom."""
        found: dict[int, str] = {}
        # The shortest and the longest replace a median on the same line.
        for ms in (_median(durations), min(durations), max(durations)):
            found[max(1, min(rows, -(-self.height(ms) // _STEPS)))] = column_duration(ms)
        return found


def _part(height: int, row: int) -> str:
    """Return the part of a bar in one line."""
    inside = height - (row - 1) * _STEPS
    return " " if inside <= 0 else BARS[min(inside, _STEPS) - 1]


def _end(status: str, width: int) -> Span:
    glyph, style = ("·", "dim") if status == "success" else STATUS_GLYPHS[status]
    return f"{glyph:^{width}}", style


def _joined(bars: Sequence[Span], pitch: int) -> tuple[Span, ...]:
    """Join bars, `pitch` columns apart; merge neighbours of one style."""
    return tuple(
        ("".join(f"{text:<{pitch}}" for text, _ in same), style)
        for style, same in groupby(bars, key=lambda bar: bar[1])
    )
