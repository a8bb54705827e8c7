"""Upcoming runs: the list of the next fires, and the bar of the next hours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any

from edgecron.base.safetext import clean
from edgecron.base.units import to_ms
from edgecron.base.values import NamedTuple
from edgecron.model.listing import SortBy
from edgecron.tui.durations import BARS
from edgecron.tui.list_rows import Column, Line, Targets
from edgecron.tui.queries import DatabaseSource, QueryScreen
from edgecron.tui.text_line import Span, TextLine
from edgecron.views import timeline
from edgecron.views.phrases import is_overdue, moved_words
from edgecron.views.times import near_time, short_distance

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.filters import Filter
    from edgecron.planning.forecast import UpcomingFire


_REPEAT_WITHIN = timedelta(minutes=5)  # fires this near to each other are folded
_MOST_FOLDED = timedelta(hours=1)
_MOST = 1500
_MOST_LOOKED_AT = 5000
_READ_AGAIN = timedelta(minutes=1)
COLUMNS = (
    Column("IN", 10, 10),
    Column("TIME", 12, 12),
    Column("SCHEDULE", 12, 28),
    Column("BY", 10, 24, share=1, drop=1),
)
# The column of each order, for the arrow in the heading; and the order of each column.
SORTS = {SortBy.NEXT: 0, SortBy.NAME: 2, SortBy.WHEN: 3}
SORTED_BY = {column: sort for sort, column in SORTS.items()} | {1: SortBy.NEXT}


class UpcomingFires(NamedTuple):
    """The next fires, sorted by time, and whether there are more."""

    fires: tuple[UpcomingFire, ...] = ()
    has_more: bool = False


class UpcomingBar(TextLine):
    """Show the bar, its labels, and a note on the first clock change or pile-up."""

    DEFAULT_CSS = "UpcomingBar { height: 3; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._upcoming: UpcomingFires = UpcomingFires()
        self._now: datetime | None = None
        self._zone: tzinfo | None = None

    def show_fires(self, coming: UpcomingFires, *, now: datetime, zone: tzinfo) -> None:
        """Show these fires."""
        self._upcoming, self._now, self._zone = coming, now, zone
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._now is None or self._zone is None or self.size.width < 4:
            return
        fires = self._upcoming.fires
        known_until = fires[-1].due_at if self._upcoming.has_more else None
        self.show(
            *bar_lines(
                fires, self.size.width - 2, now=self._now, zone=self._zone, known_until=known_until
            )
        )


def bar_lines(
    fires: Sequence[timeline.TimedFire],
    width: int,
    *,
    now: datetime,
    zone: tzinfo,
    known_until: datetime | None,
) -> list[list[Span]]:
    """Return the next 24 hours as a bar, its labels with signs, and a note on the signs.

    Overdue fires count in the first cell. Fires after `known_until` were not read (None: all
    were); `…` stands for them.
    """
    axis = timeline.make_axis(timeline.DEFAULT_SPAN_S, width, around_ms=to_ms(now), eighths=0)
    counts = Counter(max(axis.cell_of(to_ms(fire.due_at)), 0) for fire in fires)
    most = max((count for cell, count in counts.items() if cell < width), default=0)
    scale = timeline.scale_of(axis, "local")
    signs = [*scale.changes, *timeline.pile_ups(fires, axis)]
    marks = {sign.cell: sign.letter for sign in reversed(signs)}
    bar: list[Span] = [(" ", "")]
    known = [known_until is None or axis.begin(cell) <= known_until for cell in range(width)]
    for cell in range(width):
        count = counts[cell]
        letter = BARS[-(-count * len(BARS) // most) - 1] if count else "·" if known[cell] else " "
        if not known[cell] and known[cell - 1]:
            letter = "…"
        bar.append((letter, "faint" if not count else "warn" if cell in marks else "accent"))
    below: list[Span] = [(" ", "")]
    for cell, letter in enumerate(timeline.label_letters(scale, width)):
        is_marked = cell in marks and letter == " "  # Never over a label.
        below.append((marks[cell], "warn") if is_marked else (letter, "dim"))
    noted: list[Span] = []
    if signs:
        sign = signs[0]
        when = near_time(sign.at, zone=zone, now=now)
        noted = [(f" {sign.letter} ", "warn"), (f"{when}: {clean(sign.text)}", "dim")]
    return [bar, below, noted]


class Repeats(NamedTuple):
    """Fires of one schedule that follow each other within minutes: the first one and how many."""

    fire: UpcomingFire
    runs: int
    last_at: datetime


def fold_repeats(fires: Sequence[UpcomingFire]) -> list[Repeats]:
    """Fold frequent fires of a schedule into one line for each hour, in order of first fires."""
    found: list[Repeats] = []
    places: dict[str, int] = {}  # of the last line of each schedule
    for fire in fires:
        at = places.get(fire.schedule)
        before = None if at is None else found[at]
        if (
            at is not None
            and before is not None
            and fire.due_at - before.last_at < _REPEAT_WITHIN
            and fire.due_at - before.fire.due_at < _MOST_FOLDED
            and not fire.is_moved
        ):
            found[at] = Repeats(before.fire, before.runs + 1, fire.due_at)
        else:
            places[fire.schedule] = len(found)
            found.append(Repeats(fire, 1, fire.due_at))
    return found


class UpcomingSource(DatabaseSource[UpcomingFires]):
    """The source of upcoming runs."""

    topic = "upcoming"
    sorts = tuple(SORTS)
    sorted_by = SORTED_BY

    def __init__(self, screen: QueryScreen[Any], *, changed: Callable[[], None]) -> None:
        super().__init__(screen, changed=changed)
        self.found = UpcomingFires()
        self._lines: list[Repeats] = []
        self._read_at = self._now()
        self._first_to_come: datetime | None = None
        self.sort = SortBy.NEXT

    def sort_by(self, sort: SortBy, *, is_descending: bool) -> None:
        # Only the fires that were read; equal ones are in order of time.
        self.sort, self.is_descending = sort, is_descending
        self._put_in_order()
        self._changed()

    def _put_in_order(self) -> None:
        def order(line: Repeats) -> str:
            text = line.fire.schedule if self.sort is SortBy.NAME else line.fire.source or ""
            return text.casefold()

        self._lines = fold_repeats(self.found.fires)
        if self.sort is not SortBy.NEXT:
            self._lines.sort(key=order, reverse=self.is_descending)
        elif self.is_descending:
            self._lines.reverse()
        self.keys = [_key(line.fire) for line in self._lines]

    @property
    def is_counted(self) -> bool:
        return not self.found.has_more

    @property
    def order_note(self) -> str:
        return f"sorted the next {len(self.found.fires):,} runs" if self.found.has_more else ""

    def unused_keys(self, wanted: Filter) -> Sequence[str]:
        return wanted.unused_on_fires

    @property
    def is_outdated(self) -> bool:
        """Whether a fire is overdue that was still to come when the list was read.

        Without a running engine there is no commit that would tell.
        """
        now, first = self._now(), self._first_to_come
        is_time = now - self._read_at >= _READ_AGAIN
        return is_time and first is not None and is_overdue(first, now)

    def read(self) -> None:
        """Read the next fires again."""
        wanted = self.filter

        def show(coming: UpcomingFires) -> None:
            if wanted is self.filter:  # Otherwise another filter is being read.
                self.found = coming
                self._put_in_order()
                self._first_to_come = next(
                    (fire.due_at for fire in coming.fires if fire.due_at > self._now()), None
                )
                self._read_at = self._now()
                self._changed()

        self._query.ask(lambda client: _find_next(client, wanted), show)

    def line(self, index: int) -> Line | None:
        fire, runs, last_at = self._lines[index]
        now, zone = self._now(), self._zone
        note = moved_words(fire, zone=zone, now=now) if fire.is_moved else fire.source or ""
        repeats: tuple[Span, ...] = ()
        if runs > 1:
            until = f"{last_at.astimezone(zone):%H:%M}"
            repeats = ((f" x{runs}", "accent"), (f" until {until}", "dim"))
        return Line(
            key=_key(fire),
            cells=(
                (far_span(fire.due_at, now, is_clock_trusted=self.is_clock_trusted),),
                ((near_time(fire.due_at, zone=zone, now=now), ""),),
                ((clean(fire.schedule), "bold"),),
                ((clean(note), "dim"), *repeats),
            ),
        )

    def schedule_of(self, key: int) -> str | None:
        index = self.index_of(key)
        return None if index is None else self._lines[index].fire.schedule

    def targets(self, keys: Sequence[int]) -> Targets | None:
        """Return the schedules of these fires; None if the filter hides all of them."""
        wanted = frozenset(keys)
        names = (line.fire.schedule for line in self._lines if _key(line.fire) in wanted)
        return Targets(found) if (found := tuple(dict.fromkeys(names))) else None

    def why_fixed(self, index: int) -> str | None:
        """Say why a fire can't be moved; None if it is the next one of its schedule."""
        fire = self._lines[index].fire
        following = next(one for one in self.found.fires if one.schedule == fire.schedule)
        if following is fire:
            return None
        when = near_time(following.due_at, zone=self._zone, now=self._now())
        return f"you can move only the next run of {fire.schedule}, at {when}"

    def nearest_s(self, first: int, last: int) -> float:
        now = self._now()
        seconds = (
            abs((line.fire.due_at - now).total_seconds()) for line in self._lines[first:last]
        )
        return min(seconds, default=inf)


def far_span(due_at: datetime, now: datetime, *, is_clock_trusted: bool) -> Span:
    """Return how far away a fire is, or that it is overdue."""
    if is_clock_trusted and is_overdue(due_at, now):
        return "overdue", "bad"
    return short_distance(due_at, now, is_clock_trusted=is_clock_trusted), "accent"


def _find_next(client: Client, wanted: Filter | None) -> UpcomingFires:
    """Read the next fires; only the first overdue one of a schedule: they will be one run."""
    now = client.now()
    fires: list[UpcomingFire] = []
    overdue: set[str] = set()
    for fire in islice(client.next_fires(matches=wanted), _MOST_LOOKED_AT):
        if is_overdue(fire.due_at, now):
            if fire.schedule in overdue:
                continue
            overdue.add(fire.schedule)
        fires.append(fire)
        if len(fires) == _MOST:
            return UpcomingFires(tuple(fires), has_more=True)
    return UpcomingFires(tuple(fires))


def _key(fire: UpcomingFire) -> int:
    return hash((fire.schedule, fire.plan_at))
