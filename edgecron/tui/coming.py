"""The next hours as a bar on the screen, with what to beware of."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.tui.spans import SpanLine
from edgecron.tui.sparkline import BARS
from edgecron.tui.tables import Span
from edgecron.views.phrases import count_words
from edgecron.views.times import near_time

if TYPE_CHECKING:
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.tui.timeline import Timeline

_PILE, _CHANGE = "▲", "◆"
_MOST_NAMED = 3


class Coming(NamedTuple):
    """The next fires, in the order of their times, and whether there are more."""

    fires: tuple[UpcomingFire, ...] = ()
    has_more: bool = False


class ComingView(SpanLine):
    """The bar, its labels, and a note on the first clock change or pile-up of it."""

    DEFAULT_CSS = "ComingView { height: 3; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._coming: Coming = Coming()
        self._now: datetime | None = None
        self._zone: tzinfo | None = None

    def tell(self, coming: Coming, *, now: datetime, zone: tzinfo) -> None:
        """Show these."""
        self._coming, self._now, self._zone = coming, now, zone
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._now is None or self._zone is None or self.size.width < 4:
            return
        from edgecron.tui.timeline import timeline  # with all that knows zones

        fires = self._coming.fires
        found = timeline(fires, self.size.width - 2, now=self._now, zone="local")
        known_until = fires[-1].due_at if self._coming.has_more else None
        self.show(*bar_lines(found, now=self._now, zone=self._zone, known_until=known_until))


def bar_lines(
    found: Timeline, *, now: datetime, zone: tzinfo, known_until: datetime | None
) -> list[list[Span]]:
    """The bar; the labels below it, with signs where something is to be known; and what that is.

    After `known_until` nothing was looked at; None where all was.
    """
    most = max(found.counts, default=0)
    marks = {pile.cell: _PILE for pile in found.pile_ups}
    marks |= {change.cell: _CHANGE for change in found.changes}
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
        is_marked = cell in marks and letter == " "  # A label is not written over.
        below.append((marks[cell], "warn") if is_marked else (letter, "dim"))
    return [bar, below, _note(found, now=now, zone=zone)]


def _note(found: Timeline, *, now: datetime, zone: tzinfo) -> list[Span]:
    if found.changes:
        change = found.changes[0]
        when = near_time(change.at, zone=zone, now=now)
        return [(f" {_CHANGE} ", "warn"), (f"{when}: {clean(change.text)}", "dim")]
    if found.pile_ups:
        pile = max(found.pile_ups, key=lambda pile: pile.starts)
        names = ", ".join(clean(name) for name in pile.schedules[:_MOST_NAMED])
        more = ", ..." if len(pile.schedules) > _MOST_NAMED else ""
        when = near_time(pile.at, zone=zone, now=now)
        starts = count_words(pile.starts, "run")
        words = f"{when}: {starts} start within a minute ({names}{more})"
        return [(f" {_PILE} ", "warn"), (words, "dim")]
    return []
