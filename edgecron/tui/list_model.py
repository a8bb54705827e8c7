"""What lists are made of: spans, lines, columns and how they share a width, sources. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from edgecron.base.values import NamedTuple
from edgecron.views.phrases import display_width, fit

# Where the nearest time is at least so far away, lines are looked at so often: a distance is told
# in seconds, in tenths of minutes, minutes, tenths of hours.
_PACES = ((3600.0, 60.0), (600.0, 20.0), (60.0, 3.0), (0.0, 1.0))
GAP = 2  # columns between two cells

Span = tuple[str, str]  # text that is clean already, and the name of its look


def pace_of(nearest_s: float) -> float:
    """How many seconds the distance of a time so far away is told in the same words, at least."""
    return next(pace for least, pace in _PACES if nearest_s >= least)


class Line(NamedTuple):
    """A line of a list. `key` tells it from all others; a cell is spans from left to right."""

    key: int
    cells: tuple[tuple[Span, ...], ...]


class Column(NamedTuple):
    """A column of a list.

    It has `least` to `most` cells of the screen; of what is left over each gets its `share`.
    Where there is no room, the column with the highest `drop` is left out first; 0 stays.
    """

    title: str
    least: int
    most: int
    share: int = 0
    drop: int = 0
    is_right: bool = False
    keeps_end: bool = False  # of what does not fit the end is shown, as of a row of bars


class Source(Protocol):
    """Where the lines come from. `line` is asked while the screen is drawn: it never waits."""

    @property
    def count(self) -> int:
        """How many lines there are, by what is known now."""

    def line(self, index: int) -> Line | None:
        """A line; None where it has not been read yet."""

    def index_of(self, key: int) -> int | None:
        """Where a line is now; None where it is not known, or gone."""

    def want(self, first: int, last: int) -> None:
        """These lines are looked at: what is missing of them is to be read."""

    def ask_keys(self, take: Callable[[Sequence[int]], None]) -> None:
        """Have the keys of all lines told, now or later, to mark them."""

    def nearest_s(self, first: int, last: int) -> float:
        """How many seconds away the nearest time is that these lines tell the distance of."""


def share_out(columns: Sequence[Column], width: int) -> list[int]:
    """The width of each column, 0 where it is left out; at most `width` with the gaps."""
    shown = list(range(len(columns)))

    def spare_of(widths: Sequence[int]) -> int:
        return width - sum(widths[at] for at in shown) - GAP * (len(shown) - 1)

    widths = [column.least for column in columns]
    while spare_of(widths) < 0 and any(columns[at].drop for at in shown):
        left_out = max(shown, key=lambda at: columns[at].drop)
        shown.remove(left_out)
        widths[left_out] = 0
    # First each up to what it can use, then what shares in the rest.
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
    """The beginning of spans that are wider than the room, with a sign that they go on."""
    shown = []
    for text, look in spans:
        if room <= 0:
            break
        part = fit(text, room) if display_width(text) > room else text
        shown.append((part, look))
        room -= display_width(part)
    return shown


def last_of(spans: Sequence[Span], room: int) -> list[Span]:
    """The end of spans of narrow letters that are wider than the room."""
    shown: list[Span] = []
    for text, look in reversed(spans):
        if room <= 0:
            break
        shown.insert(0, (text[-room:], look))
        room -= len(shown[0][0])
    return shown


class Targets(NamedTuple):
    """What an action is for. A schedule is known by its name, or by its id where its line has not
    been looked at; with runs, `names` are those of their schedules as far as they are known."""

    names: tuple[str, ...] = ()
    schedule_ids: tuple[int, ...] = ()
    run_ids: tuple[int, ...] = ()
