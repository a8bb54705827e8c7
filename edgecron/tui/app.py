"""The application: themes and keys, and its first screen."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.driver import Driver
from textual.geometry import Size
from textual.screen import Screen

from edgecron.base.clock import Clock
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.tui.bindings import actions_of, bindings, find_action_node, keymap
from edgecron.tui.database_app import Telling
from edgecron.tui.home import FIRST_LINES, HomeScreen
from edgecron.tui.keys import DEFAULT_KEYS, DEFAULT_LABELS
from edgecron.tui.text_line import TextLine
from edgecron.tui.themes import DARK, THEMES
from edgecron.views.phrases import folded

if TYPE_CHECKING:
    from edgecron.tui.own_engine import OwnEngine


_STOPPING = ("What runs goes on, and the next engine takes it over.",)


class EngineCall(NamedTuple):
    """What an engine is started for: the database, and the configuration that was given."""

    database: Path
    config_path: str | None


class EngineRunning(Telling):
    """A host from which an engine may be run; `engine_call` None: from here none can be."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("engine")

    engine_call: EngineCall | None = None
    _engine: OwnEngine | None = None

    @property
    def engine_pid(self) -> int | None:
        """The process id of the engine that runs from here; None where none does."""
        return None if self._engine is None else self._engine.pid

    @property
    def engine_key(self) -> str:
        """The key that runs an engine from here; empty where none can be run."""
        return "" if self.engine_call is None else self.label("engine")

    def action_engine(self) -> None:
        """Run an engine, or stop the one that was run from here."""
        if self._engine is None:
            self.start_engine()
        else:
            from edgecron.tui.dialogs import ConfirmDialog

            question = "Stop the engine that runs from here?"
            self.push_screen(ConfirmDialog(question, _STOPPING, yes="stop it"), self._stop_engine)

    def start_engine(self) -> None:
        """Run an engine until the dashboard ends."""
        from edgecron.tui import own_engine

        call = self.engine_call
        if call is None:
            self.tell("no engine can be run from here", severity="warning")
            return
        refusal = own_engine.find_refusal(call.database)
        if refusal is not None:
            self.show_error(refusal)
            return
        self._engine = own_engine.OwnEngine(
            own_engine.engine_command(call.database, config_path=call.config_path),
            environment=own_engine.engine_environment(),
            ended=lambda last: self.deliver(partial(self._engine_has_ended, last)),
        )
        self.tell("an engine runs from here, and ends with the dashboard")

    def close_engine(self) -> None:
        """End it, and wait for that."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _stop_engine(self, is_wanted: bool | None) -> None:
        if is_wanted and self._engine is not None:
            self._engine.stop()

    def _engine_has_ended(self, last: str | None) -> None:
        self.close_engine()
        if last is None:
            self.tell("the engine from here has ended; what runs goes on")
        else:
            said = last.removeprefix("edgecron: ")
            self.tell(f"the engine from here has ended: {said}", severity="error")
        self.post_changed()


LEAST_COLUMNS = 40
LEAST_ROWS = 10


def is_too_small(size: Size) -> bool:
    return size.width < LEAST_COLUMNS or size.height < LEAST_ROWS


def small_words(size: Size) -> str:
    """What is the matter, in few letters."""
    return f"too small: {size.width}x{size.height}, needs {LEAST_COLUMNS}x{LEAST_ROWS}"


class TooSmall(Screen[None]):
    """Lies over the other screens until there is room for them again."""

    DEFAULT_CSS = "TooSmall > TextLine { height: 1fr; }"

    def compose(self) -> ComposeResult:
        yield TextLine()

    def on_mount(self) -> None:
        self._look()

    def on_resize(self, event: events.Resize) -> None:
        self._look()

    def on_screen_resume(self) -> None:
        self._look()

    def _look(self) -> None:
        size = self.app.size
        if is_too_small(size):
            lines = folded(small_words(size), max(1, size.width))
            self.query_one(TextLine).show(*([(line, "bold")] for line in lines))
        elif self.is_current:
            self.dismiss()


T = TypeVar("T")
_WHERE_TOO_SMALL = ("quit", "suspend_process")


_TERMINAL_COLORS = {
    "muted": "ansi_bright_black",
    "faint": "ansi_bright_black",
    **{f"heat{n}": "ansi_blue" for n in range(1, 5)},
}


class Dashboard(EngineRunning):
    """The dashboard of one database.

    `opened` makes a Client of it, on whichever thread asks; `keys` are those of the actions,
    in Textual's names. `engine_call` is what an engine is run for from here; `starts_engine`: it
    is run at once. `defaults` are what a new schedule has unless it says otherwise, asked for on a
    desk's thread.
    """

    TITLE = "edgecron"
    CSS_PATH = "dashboard.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("help", "palette", "quit"),
        # As everywhere else on a terminal, and therefore none of the keys that may be changed.
        Binding("ctrl+z", "suspend_process", show=False),
    ]

    def __init__(
        self,
        opened: Callable[[], Client],
        *,
        clock: Clock,
        zone: tzinfo,
        theme: str = DARK.name,
        keys: Mapping[str, tuple[str, ...]] = DEFAULT_KEYS,
        labels: Mapping[str, tuple[str, ...]] = DEFAULT_LABELS,
        is_colored: bool = True,
        driver_class: type[Driver] | None = None,
        writing: Callable[[bool], Client] | None = None,
        engine_call: EngineCall | None = None,
        starts_engine: bool = False,
        defaults: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        super().__init__(
            opened,
            clock=clock,
            zone=zone,
            is_colored=is_colored,
            driver_class=driver_class,
            writing=writing,
        )
        self.labels = labels
        self.defaults = defaults
        self.engine_call = engine_call
        self._starts_engine = starts_engine
        self._home = HomeScreen()
        for each in THEMES:
            self.register_theme(each)
        self.theme = theme
        self.set_keymap(keymap(keys))

    def get_css_variables(self) -> dict[str, str]:
        """Those of the theme, with colours for muted text and for heat where it knows none.

        A colour that is partly seen through does not reach the lines of a list.
        """
        found = super().get_css_variables()
        text, ground, primary = (found[name] for name in ("foreground", "background", "primary"))
        if any(color.startswith("ansi") for color in (text, ground, primary)):
            self.theme_variables = _TERMINAL_COLORS | found
            return self.theme_variables
        back = Color.parse(ground)
        blends = {"muted": (text, 0.4), "faint": (text, 0.65)}
        blends |= {f"heat{n}": (primary, 1 - n / 4) for n in range(1, 5)}
        made = {
            name: Color.parse(color).blend(back, part).hex for name, (color, part) in blends.items()
        }
        self.theme_variables = made | found
        return self.theme_variables

    def on_load(self) -> None:
        # Read while the first screen is laid out.
        self.start_threads()
        self.ask(
            "first schedules",
            lambda client: client.first_schedule_lines(FIRST_LINES),
            self._home.take_first,
        )

    def on_mount(self) -> None:
        self.push_screen(self._home)
        self._look_at_size(self.size)
        self.call_after_refresh(_collect_from_here_on)
        if self._starts_engine:
            self.call_after_refresh(self.start_engine)

    def on_resize(self, event: events.Resize) -> None:
        if len(self.screen_stack) > 1:  # else the first one comes, and then it is looked at
            self._look_at_size(event.size)

    def _look_at_size(self, size: Size) -> None:
        # It takes itself away when there is room again.
        if is_too_small(size) and not any(isinstance(each, TooSmall) for each in self.screen_stack):
            self.push_screen(TooSmall())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where nothing can be shown, nothing is done but leaving."""
        if isinstance(self.screen, TooSmall):
            return action in _WHERE_TOO_SMALL
        return super().check_action(action, parameters)

    def on_unmount(self) -> None:
        self.close_engine()
        self.stop_threads()

    async def action_perform(self, action: str) -> None:
        """Do an action by its name, as its key would."""
        node = find_action_node(self.screen, action)
        if node is not None:
            await self.run_action(action, node)

    def action_help(self) -> None:
        from edgecron.tui.help import Help

        self.push_screen(Help(self.labels))

    def action_palette(self) -> None:
        from edgecron.tui.palette import Item, Palette, find_schedule_names

        def find(text: str, told: Callable[[list[str]], None]) -> None:
            self.ask("palette", lambda client: find_schedule_names(client, text), told)

        def chosen(item: Item | None) -> None:
            if item is None:
                return
            if item.schedule is None:
                self.call_next(self.action_perform, item.action)
            else:
                self.open_schedule(item.schedule)

        actions = [action for action in actions_of(self.screen) if action != "palette"]
        self.push_screen(Palette(actions, labels=self.labels, find=find), chosen)

    def open_schedule(self, name: str) -> None:
        """Go to a schedule, from wherever one is."""
        while not isinstance(self.screen, HomeScreen):
            self.pop_screen()
        self.screen.go_to(name)

    async def action_quit(self) -> None:
        self.leave()


def _collect_from_here_on() -> None:
    """Look for garbage among what is made from now on: what was loaded before stays as it is."""
    gc.freeze()
    gc.enable()
