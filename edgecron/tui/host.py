"""What screens stand on: the clock, the two desks, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import TypeVar

from textual.app import App
from textual.driver import Driver
from textual.message import Message

from edgecron.api import Scheduler
from edgecron.clock import Clock
from edgecron.errors import EdgecronError
from edgecron.timetext import from_ms
from edgecron.tui.desk import Desk
from edgecron.tui.themes import no_color_where

T = TypeVar("T")


class Delivered(Message):
    """Something that a desk has to say, to be done on the screen's thread."""

    def __init__(self, deliver: Callable[[], None]) -> None:
        super().__init__()
        self.deliver = deliver


class Changed(Message):
    """Others have changed the database, it has become another one, or can't be read."""


class Host(App[None]):
    """An application with a database: one desk reads, the other one writes.

    `opened` makes a Scheduler of it, on whichever thread asks. `trouble` is what keeps it from
    being read; None where nothing does. `driver_class` holds the terminal, None is Textual's own.
    `crash` is what went wrong where it has ended by a defect of ours.
    """

    def __init__(
        self,
        opened: Callable[[], Scheduler],
        *,
        clock: Clock,
        zone: tzinfo,
        is_colored: bool = True,
        driver_class: type[Driver] | None = None,
    ) -> None:
        with no_color_where(not is_colored):
            # Without colours Textual would draw in shades of grey, were it not told to leave the
            # terminal's own as they are.
            super().__init__(driver_class=driver_class, ansi_color=None if is_colored else True)
        self.opened = opened
        self.clock = clock
        self.zone = zone
        self.crash: BaseException | None = None
        self.trouble: EdgecronError | None = None
        self._reader = Desk(
            opened, deliver=self.deliver, name="dashboard-reader", changed=self.tell_changed
        )
        self._doer = Desk(opened, deliver=self.deliver, name="dashboard-doer")

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        return from_ms(self.clock.now_ms())

    def open_desks(self) -> None:
        """Start both desks; `close_desks` ends them."""
        self._reader.start()
        self._doer.start()

    def close_desks(self) -> None:
        self._reader.close()
        self._doer.close()

    def deliver(self, told: Callable[[], None]) -> None:
        """Have something done on the screen's thread; from any thread."""
        self.post_message(Delivered(told))

    def on_delivered(self, message: Delivered) -> None:
        message.deliver()

    def ask(
        self, topic: str, question: Callable[[Scheduler], T], answer: Callable[[T], None]
    ) -> None:
        """Read something; what goes wrong is `trouble`, until something can be read again."""

        def answered(found: T) -> None:
            self._note_trouble(None)
            answer(found)

        self._reader.ask(topic, question, answer=answered, refused=self._note_trouble)

    def break_off(self, topic: str) -> None:
        """End the answering of a question, if it is this one: no answer comes."""
        self._reader.break_off(topic)

    def do(
        self,
        topic: str,
        act: Callable[[Scheduler], T],
        *,
        done: Callable[[T], None],
        refused: Callable[[EdgecronError], None],
    ) -> None:
        """Write something, beside what is being read."""
        self._doer.ask(topic, act, answer=done, refused=refused)

    def tell_changed(self) -> None:
        """Tell every screen that there is something else to show."""
        for screen in self.screen_stack:
            screen.post_message(Changed())

    def _note_trouble(self, error: EdgecronError | None) -> None:
        is_same = (None if error is None else error.message) == (
            None if self.trouble is None else self.trouble.message
        )
        if not is_same:
            self.trouble = error
            self.tell_changed()

    def _handle_exception(self, error: Exception) -> None:
        # Of Textual: what it shows would quote the values of our variables, names and output of
        # others among them, as they are. Whoever runs us tells it, when the terminal is restored.
        self.crash = error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()
