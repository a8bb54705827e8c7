"""How long the last runs of a schedule took, in one line of small bars. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = ":-=+*%#@"  # the more ink, the longer
_NO_DURATION, _PLAIN_NO_DURATION = "·", "."
# From so many times the shortest on, a scale of equal steps would show the short ones as one.
_WIDE = 50

OK, FAILED, OTHER = "ok", "failed", "other"
_STYLES = {"success": OK, "failed": FAILED, "interrupted": FAILED}


def sparkline(
    recent: Sequence[tuple[str, int | None]], width: int, *, is_plain: bool = False
) -> tuple[tuple[str, str], ...]:
    """`width` letters with the style of each, 'ok', 'failed' or 'other': the oldest on the left.

    `recent` are (status, duration in milliseconds) of the last runs, the newest first, as history
    has them. The longest of those shown is a whole bar; one without a duration is a dot. Where
    they are too few, the left is blank.
    """
    shown = recent[: max(width, 0)]
    known = [duration_ms for _, duration_ms in shown if duration_ms is not None]
    least_ms, most_ms = max(min(known, default=1), 1), max(max(known, default=1), 1)
    bars, dot = (PLAIN_BARS, _PLAIN_NO_DURATION) if is_plain else (BARS, _NO_DURATION)
    line = [
        (
            dot if ms is None else bars[height_of(ms, least_ms=least_ms, most_ms=most_ms)],
            _STYLES.get(status, OTHER),
        )
        for status, ms in reversed(shown)
    ]
    return tuple([(" ", OTHER)] * (width - len(line)) + line)


def height_of(duration_ms: int, *, least_ms: int, most_ms: int, steps: int = len(BARS)) -> int:
    """How high a duration is, from 0 to `steps` - 1, among those from `least_ms` to `most_ms`."""
    if most_ms <= least_ms * _WIDE:
        return max(-(-duration_ms * steps // most_ms) - 1, 0)
    return round((steps - 1) * log(max(duration_ms, 1) / least_ms) / log(most_ms / least_ms))
