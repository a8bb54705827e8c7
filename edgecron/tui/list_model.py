"""Parts of lists: spans, lines, columns and their widths, targets of actions. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from edgecron.base.values import NamedTuple
from edgecron.views.phrases import display_width, fit

# (distance of the nearest time, seconds between redraws). A distance is shown in seconds, tenths of
# minutes, minutes, or tenths of hours.
_PACES = ((3600.0, 60.0), (600.0, 20.0), (60.0, 3.0), (0.0, 1.0))
GAP = 2  # columns between two cells

Span = tuple[str, str]  # text, already cleaned, and the name of its text style


def pace_of(nearest_s: float) -> float:
    """Return how many seconds the words for a distance stay the same, at least."""
    return next(pace for least, pace in _PACES if nearest_s >= least)


class Line(NamedTuple):
    """A line of a list: a unique key, and cells of spans from left to right."""

    key: int
    cells: tuple[tuple[Span, ...], ...]


class Column(NamedTuple):
    """A column of a list.

    It is `least` to `most` cells wide; columns with a `share` divide the rest. If there is no room,
    the column with the highest `drop` is hidden first; 0 stays.
    """

    title: str
    least: int
    most: int
    share: int = 0
    drop: int = 0
    is_right: bool = False
    keeps_end: bool = False  # cut at the beginning, such as a row of bars


def share_out(columns: Sequence[Column], width: int) -> list[int]:
    """Return the width of each column, 0 if hidden; with gaps, at most `width` in total."""
    shown = list(range(len(columns)))

    def spare_of(widths: Sequence[int]) -> int:
        return width - sum(widths[at] for at in shown) - GAP * (len(shown) - 1)

    widths = [column.least for column in columns]
    while spare_of(widths) < 0 and any(columns[at].drop for at in shown):
        left_out = max(shown, key=lambda at: columns[at].drop)
        shown.remove(left_out)
        widths[left_out] = 0
    # First widen each column up to its `most`, then those with a share.
    limits = [column.most for column in columns]
    for bounds in (limits, [width if column.share else column.most for column in columns]):
        while (spare := spare_of(widths)) > 0:
            growing = [at for at in shown if widths[at] < bounds[at]]
            if not growing:
                break
            total = sum(columns[at].share or 1 for at in growing)
            for at in growing:
                more = max(1, spare * (columns[at].share or 1) // total)
                widths[at] += min(more, bounds[at] - widths[at], max(0, spare_of(widths)))
    return widths


def first_of(spans: Sequence[Span], room: int) -> list[Span]:
    """Cut the end of spans that are too wide, and show a sign for it."""
    shown = []
    for text, style in spans:
        if room <= 0:
            break
        part = fit(text, room) if display_width(text) > room else text
        shown.append((part, style))
        room -= display_width(part)
    return shown


def last_of(spans: Sequence[Span], room: int) -> list[Span]:
    """Cut the beginning of spans that are too wide; all letters are narrow."""
    shown: list[Span] = []
    for text, style in reversed(spans):
        if room <= 0:
            break
        shown.insert(0, (text[-room:], style))
        room -= len(shown[0][0])
    return shown


class Targets(NamedTuple):
    """The schedules or runs that an action is for.

    A schedule is given by name, or by id if its line was never read. With runs, `names` are their
    schedules as far as known.
    """

    names: tuple[str, ...] = ()
    schedule_ids: tuple[int, ...] = ()
    run_ids: tuple[int, ...] = ()


class Made(NamedTuple):
    """A change of a schedule from this dashboard: the revision that it made."""

    name: str
    revision: int
