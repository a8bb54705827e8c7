"""The line that tells more of what is under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from edgecron.base.values import NamedTuple
from edgecron.tui.about import schedule_spans
from edgecron.tui.spans import SpanLine
from edgecron.tui.tables import Span

if TYPE_CHECKING:
    from textual.timer import Timer

    from edgecron.tui.questions import AskingScreen

_PAUSE_S = 0.08


class About(NamedTuple):
    """What to tell: these spans, or else about this schedule, of which is to be asked."""

    spans: Sequence[Span] = ()
    schedule: str | None = None


class CloserLine(SpanLine):
    """It is told once the cursor stays, and nothing of where the cursor was before."""

    def __init__(self, screen: AskingScreen[Any], *, id: str) -> None:
        super().__init__(id=id)
        self._asking = screen
        self._about = About()
        self._timer: Timer | None = None

    def turn_to(self, find: Callable[[], About]) -> None:
        """Tell of what is found there in a moment."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_PAUSE_S, lambda: self._tell(find()))

    def _tell(self, about: About) -> None:
        self._about = about
        name = about.schedule
        if name is None:
            self._show(about.spans)
            return

        def told(spans: Sequence[Span]) -> None:
            if about is self._about:
                self._show(spans)

        self._asking.ask("about", lambda client: schedule_spans(client, name), told)

    def _show(self, spans: Sequence[Span]) -> None:
        self.show([(" ", ""), *spans])
