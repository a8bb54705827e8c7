"""Upcoming runs: the list of the next fires, and the bar of the next hours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any

from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.tui.durations import BARS
from edgecron.tui.list_view import Column, Line, Targets
from edgecron.tui.queries import DatabaseSource, QueryScreen
from edgecron.tui.text_line import Span, TextLine
from edgecron.views.phrases import count_words, is_overdue, moved_words
from edgecron.views.times import near_time, short_distance

if TYPE_CHECKING:
    from edgecron.model.filters import Filter
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.tui.timeline import Timeline


_PILE_UP_SIGN, _CLOCK_CHANGE_SIGN = "▲", "◆"
_MOST_NAMED = 3
_MOST = 1500
_MOST_LOOKED_AT = 5000
_READ_AGAIN = timedelta(minutes=1)
COLUMNS = (
    Column("IN", 10, 10),
    Column("TIME", 12, 12),
    Column("SCHEDULE", 12, 28),
    Column("BY", 10, 24, share=1, drop=1),
)


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
        # Loaded when needed: it imports time zones, which the first paint does not need.
        from edgecron.tui.timeline import timeline

        fires = self._upcoming.fires
        found = timeline(fires, self.size.width - 2, now=self._now, zone="local")
        known_until = fires[-1].due_at if self._upcoming.has_more else None
        self.show(*bar_lines(found, now=self._now, zone=self._zone, known_until=known_until))


def bar_lines(
    found: Timeline, *, now: datetime, zone: tzinfo, known_until: datetime | None
) -> list[list[Span]]:
    """Return the bar, its labels with signs for changes and pile-ups, and a note on them.

    Fires after `known_until` were not read (None: all were).
    """
    most = max(found.counts, default=0)
    marks = {pile.cell: _PILE_UP_SIGN for pile in found.pile_ups}
    marks |= {change.cell: _CLOCK_CHANGE_SIGN for change in found.changes}
    bar: list[Span] = [(" ", "")]
    for cell, count in enumerate(found.counts):
        is_known = known_until is None or found.edges[cell] <= known_until
        letter = BARS[-(-count * len(BARS) // most) - 1] if count else "·" if is_known else " "
        bar.append((letter, "faint" if not count else "warn" if cell in marks else "accent"))
    labels = [" "] * len(found.counts)
    for tick in found.ticks:
        labels[tick.cell : tick.cell + len(tick.label)] = tick.label
    below: list[Span] = [(" ", "")]
    for cell, letter in enumerate(labels[: len(found.counts)]):
        is_marked = cell in marks and letter == " "  # Never over a label.
        below.append((marks[cell], "warn") if is_marked else (letter, "dim"))
    return [bar, below, _note(found, now=now, zone=zone)]


def _note(found: Timeline, *, now: datetime, zone: tzinfo) -> list[Span]:
    if found.changes:
        change = found.changes[0]
        when = near_time(change.at, zone=zone, now=now)
        return [(f" {_CLOCK_CHANGE_SIGN} ", "warn"), (f"{when}: {clean(change.text)}", "dim")]
    if found.pile_ups:
        pile = max(found.pile_ups, key=lambda pile: pile.starts)
        names = ", ".join(clean(name) for name in pile.schedules[:_MOST_NAMED])
        more = ", ..." if len(pile.schedules) > _MOST_NAMED else ""
        when = near_time(pile.at, zone=zone, now=now)
        starts = count_words(pile.starts, "run")
        words = f"{when}: {starts} start within a minute ({names}{more})"
        return [(f" {_PILE_UP_SIGN} ", "warn"), (words, "dim")]
    return []


class UpcomingSource(DatabaseSource[UpcomingFires]):
    """The source of upcoming runs."""

    topic = "upcoming"

    def __init__(self, screen: QueryScreen[Any], *, changed: Callable[[], None]) -> None:
        super().__init__(screen, changed=changed)
        self.found = UpcomingFires()
        self._read_at = self._now()
        self._first_to_come: datetime | None = None

    @property
    def is_counted(self) -> bool:
        return not self.found.has_more

    def unused_keys(self, wanted: Filter) -> Sequence[str]:
        """Return the keys of a filter that do not apply to fires: all except names."""
        return tuple(dict.fromkeys(term.key for term in wanted.terms if term.key != "job"))

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
                self.keys = [_key(fire) for fire in coming.fires]
                self._first_to_come = next(
                    (fire.due_at for fire in coming.fires if fire.due_at > self._now()), None
                )
                self._read_at = self._now()
                self._changed()

        self._query.ask(lambda client: _find_next(client, wanted), show)

    def line(self, index: int) -> Line | None:
        fire = self.found.fires[index]
        now, zone = self._now(), self._zone
        note = moved_words(fire, zone=zone, now=now) if fire.is_moved else fire.source or ""
        return Line(
            key=_key(fire),
            cells=(
                (far_span(fire.due_at, now, is_clock_trusted=self.is_clock_trusted),),
                ((near_time(fire.due_at, zone=zone, now=now), ""),),
                ((clean(fire.schedule), "bold"),),
                ((clean(note), "dim"),),
            ),
        )

    def schedule_of(self, key: int) -> str | None:
        index = self.index_of(key)
        return None if index is None else self.found.fires[index].schedule

    def targets(self, keys: Sequence[int]) -> Targets | None:
        """Return the schedules of these fires; None if the filter hides all of them."""
        wanted = frozenset(keys)
        names = (fire.schedule for fire in self.found.fires if _key(fire) in wanted)
        return Targets(found) if (found := tuple(dict.fromkeys(names))) else None

    def why_fixed(self, index: int) -> str | None:
        """Say why a fire can't be moved; None if it is the next one of its schedule."""
        fire = self.found.fires[index]
        following = next(one for one in self.found.fires if one.schedule == fire.schedule)
        if following is fire:
            return None
        when = near_time(following.due_at, zone=self._zone, now=self._now())
        return f"you can move only the next run of {fire.schedule}, at {when}"

    def nearest_s(self, first: int, last: int) -> float:
        now = self._now()
        seconds = (
            abs((fire.due_at - now).total_seconds()) for fire in self.found.fires[first:last]
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
