"""How long the last runs of a schedule took, as tall bars with a scale. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from statistics import median_low

from edgecron.tui.looks import STATUS_GLYPHS
from edgecron.tui.sparkline import BARS, height_of
from edgecron.tui.tables import Span
from edgecron.views.times import short_duration

MOST = 60  # runs that are shown
_STEPS = len(BARS)  # of one line
_WIDEST = 4  # columns from one bar to the next, where there are few


def trend_lines(
    recent: Sequence[tuple[str, int | None]], *, width: int, height: int
) -> list[tuple[Span, ...]]:
    """`height` lines: bars above each other and, below them, how each run ended.

    `recent` are (status, duration in milliseconds), the newest first; the newest is on the right.
    At the left stand the longest duration, the shortest, and the middle one where it has a line
    of its own. Empty where there is nothing to show.
    """
    known = [ms for _, ms in recent if ms is not None]
    margin = max((len(short_duration(ms)) for ms in known), default=0) + 3
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
    """`min 1.2 s  median 3 s  max 9 s`; empty where nothing is known."""
    known = [ms for _, ms in recent if ms is not None]
    if not known:
        return ""
    parts = (("min", min(known)), ("median", median_low(known)), ("max", max(known)))
    return "  ".join(f"{name} {short_duration(ms)}" for name, ms in parts)


class _Scale:
    """Heights in eighths of a line, the longest being `top` of them."""

    def __init__(self, durations: Sequence[int], top: int) -> None:
        self._least, self._most = max(min(durations), 1), max(*durations, 1)
        self._top = top

    def height(self, duration_ms: int | None) -> int:
        if duration_ms is None:
            return 0
        return 1 + height_of(duration_ms, least_ms=self._least, most_ms=self._most, steps=self._top)

    def labels(self, durations: Sequence[int], rows: int) -> dict[int, str]:
        """By line, from 1 at the bottom, the duration whose bar ends there."""
        found: dict[int, str] = {}
        # The outer two are told whatever else there is to tell.
        for ms in (median_low(durations), min(durations), max(durations)):
            found[max(1, min(rows, -(-self.height(ms) // _STEPS)))] = short_duration(ms)
        return found


def _part(height: int, row: int) -> str:
    """The part of a bar that lies in a line."""
    inside = height - (row - 1) * _STEPS
    return " " if inside <= 0 else BARS[min(inside, _STEPS) - 1]


def _end(status: str, width: int) -> Span:
    glyph, look = ("·", "dim") if status == "success" else STATUS_GLYPHS[status]
    return f"{glyph:^{width}}", look


def _joined(bars: Sequence[Span], pitch: int) -> tuple[Span, ...]:
    """Bars, each `pitch` columns from the next; those of one look together."""
    return tuple(
        ("".join(f"{text:<{pitch}}" for text, _ in same), look)
        for look, same in groupby(bars, key=lambda bar: bar[1])
    )
