"""The application: themes, keys, the two desks, and what went wrong as a banner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import ClassVar, TypeVar

from textual.app import App
from textual.binding import BindingType
from textual.color import Color
from textual.message import Message

from edgecron.api import Scheduler
from edgecron.clock import Clock
from edgecron.errors import EdgecronError
from edgecron.timetext import from_ms
from edgecron.tui.bindings import bindings, keymap
from edgecron.tui.desk import Desk
from edgecron.tui.home import HomeScreen
from edgecron.tui.keys import DEFAULT_KEYS
from edgecron.tui.looks import DARK, LIGHT

T = TypeVar("T")


class Delivered(Message):
    """Something that a desk has to say, to be done on the screen's thread."""

    def __init__(self, deliver: Callable[[], None]) -> None:
        super().__init__()
        self.deliver = deliver


class Dashboard(App[None]):
    """The dashboard of one database.

    `opened` makes a Scheduler of it, on whichever thread asks; `keys` are those of the actions,
    in Textual's names.
    """

    TITLE = "edgecron"
    CSS_PATH = "dashboard.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = bindings("help", "quit", "palette", "engine")

    class Changed(Message):
        """Others have changed the database, or it has become another one."""

    def __init__(
        self,
        opened: Callable[[], Scheduler],
        *,
        clock: Clock,
        zone: tzinfo,
        theme: str = DARK.name,
        keys: Mapping[str, tuple[str, ...]] = DEFAULT_KEYS,
    ) -> None:
        super().__init__()
        self.clock = clock
        self.zone = zone
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = theme
        self.set_keymap(keymap(keys))
        self._reader = Desk(
            opened, deliver=self.deliver, name="dashboard-reader", changed=self._tell_changed
        )
        self._doer = Desk(opened, deliver=self.deliver, name="dashboard-doer")
        self.trouble: EdgecronError | None = None

    def get_css_variables(self) -> dict[str, str]:
        """Those of the theme, with `muted` and `faint` text where it knows none.

        A colour that is partly seen through does not reach the lines of a list.
        """
        found = super().get_css_variables()
        text, ground = found["foreground"], found["background"]
        if text.startswith("ansi") or ground.startswith("ansi"):
            return {"muted": "ansi_bright_black", "faint": "ansi_bright_black"} | found
        front, back = Color.parse(text), Color.parse(ground)
        blends = {"muted": 0.4, "faint": 0.65}
        return {name: front.blend(back, part).hex for name, part in blends.items()} | found

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        return from_ms(self.clock.now_ms())

    def on_mount(self) -> None:
        self._reader.start()
        self._doer.start()
        self.push_screen(HomeScreen())

    def on_unmount(self) -> None:
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
        """Read something; what goes wrong is told in the banner, which goes when it is right."""

        def answered(found: T) -> None:
            self._note_trouble(None)
            answer(found)

        self._reader.ask(topic, question, answer=answered, refused=self._note_trouble)

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

    def _note_trouble(self, error: EdgecronError | None) -> None:
        if (None if error is None else error.message) != (
            None if self.trouble is None else self.trouble.message
        ):
            self.trouble = error
            self._tell_screens()

    def _tell_changed(self) -> None:
        self._tell_screens()

    def _tell_screens(self) -> None:
        for screen in self.screen_stack:
            screen.post_message(self.Changed())

    async def action_quit(self) -> None:
        self.exit()
