"""What a list shows: its lines, columns and targets, and the source that reads them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from math import inf
from typing import TYPE_CHECKING, Any

from edgecron.base.values import NamedTuple
from edgecron.tui.text_line import Span

if TYPE_CHECKING:
    from edgecron.model.filters import Filter

GAP = 2  # columns between two cells


class Line(NamedTuple):
    """A line of a list: a unique key, and cells of spans from left to right.

    `style` is the text style of the whole line.
    """

    key: int
    cells: tuple[tuple[Span, ...], ...]
    style: str = ""


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


class Targets(NamedTuple):
    """The schedules or runs that an action is for.

    A schedule is given by name, or by id if its line was never read. With runs, `names` are their
    schedules as far as known.
    """

    names: tuple[str, ...] = ()
    schedule_ids: tuple[int, ...] = ()
    run_ids: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """How many lines these are."""
        return len(self.run_ids) or len(self.names) + len(self.schedule_ids)


class Source(ABC):
    """The lines of a list. The list calls `line` while it draws, so it never waits.

    `keys` are those of all lines, in order. `is_counted` says whether `count` is the whole number,
    not only what was found so far. `is_whole` is False while only the first lines are read, and
    `is_awaited` True from a new filter until its lines are read.
    """

    keys: Sequence[int] = ()
    is_whole: bool = True
    is_awaited: bool = False
    filter: Filter | None = None
    filter_example: str = ""

    @property
    def count(self) -> int:
        """How many lines there are, as far as known."""
        return len(self.keys)

    @property
    def is_counted(self) -> bool:
        return True

    @property
    def trouble(self) -> str:
        """Return why rows are not shown; empty if all are."""
        return ""

    @abstractmethod
    def line(self, index: int) -> Line | None:
        """Return a line; None if it is not read yet."""

    def index_of(self, key: int) -> int | None:
        """Return the index of a line; None if it is unknown or gone."""
        try:
            return self.keys.index(key)
        except ValueError:
            return None

    def want(self, first: int, last: int) -> None:  # noqa: B027 - most lists have all lines
        """Read what is missing of these visible lines."""

    def ask_keys(self, take: Callable[[Sequence[int]], None]) -> None:
        """Pass the keys of all lines to `take`, now or later."""
        take(self.keys)

    def gone_of(self, keys: Set[int]) -> Set[int]:
        """Return the keys whose lines no longer exist, as far as known."""
        return keys - set(self.keys) if keys and self.filter is None else frozenset()

    def nearest_s(self, first: int, last: int) -> float:
        """Return the distance in seconds of the nearest time in these lines."""
        return inf

    def filter_by(self, wanted: Filter | None) -> None:
        """Show only lines that match a filter; None shows all."""
        self.filter = wanted

    def unused_keys(self, wanted: Filter) -> Sequence[str]:
        """Return the keys of a filter that do not apply to these lines."""
        return ()


class SortedSource(Source):
    """Lines in an order that the user can change.

    `sorts` are the orders as one key goes through them, `sorted_by` is the order of each column,
    and orders in `descending` begin with the most. `order_note` says what an order leaves out.
    """

    sorts: Sequence[Any]
    sorted_by: Mapping[int, Any]
    descending: Set[Any] = frozenset()
    sort: Any
    is_descending: bool = False

    @property
    def order_note(self) -> str:
        return ""

    @abstractmethod
    def sort_by(self, sort: Any, *, is_descending: bool) -> None:
        """Show the lines in another order."""

    def sort_next(self) -> None:
        """Show the lines in the next order."""
        following = self.sorts[(self.sorts.index(self.sort) + 1) % len(self.sorts)]
        self.sort_by(following, is_descending=following in self.descending)

    def reverse(self) -> None:
        """Show the lines in the opposite direction."""
        self.sort_by(self.sort, is_descending=not self.is_descending)

    def sort_by_column(self, column: int) -> None:
        """Sort by a column; again by the same one sorts in the opposite direction."""
        if column in self.sorted_by:
            sort = self.sorted_by[column]
            is_again = sort == self.sort
            is_descending = not self.is_descending if is_again else sort in self.descending
            self.sort_by(sort, is_descending=is_descending)
