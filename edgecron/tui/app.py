"""The application: themes and keys, and its first screen."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import ClassVar, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.driver import Driver
from textual.geometry import Size

from edgecron.base.clock import Clock
from edgecron.client.face import Face
from edgecron.tui.bindings import bindings, keymap
from edgecron.tui.enginekey import EngineCall, EngineRunning
from edgecron.tui.home import FIRST_LINES, HomeScreen
from edgecron.tui.keys import DEFAULT_KEYS, DEFAULT_LABELS
from edgecron.tui.looks import DARK, THEMES
from edgecron.tui.performing import actions_of, find_performer
from edgecron.tui.toosmall import TooSmall, is_too_small

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
        opened: Callable[[], Face],
        *,
        clock: Clock,
        zone: tzinfo,
        theme: str = DARK.name,
        keys: Mapping[str, tuple[str, ...]] = DEFAULT_KEYS,
        labels: Mapping[str, tuple[str, ...]] = DEFAULT_LABELS,
        is_colored: bool = True,
        driver_class: type[Driver] | None = None,
        writing: Callable[[bool], Face] | None = None,
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
        self.open_desks()
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
        self.close_desks()

    async def action_perform(self, action: str) -> None:
        """Do an action by its name, as its key would."""
        node = find_performer(self.screen, action)
        if node is not None:
            await self.run_action(action, node)

    def action_help(self) -> None:
        from edgecron.tui.help import Help

        self.push_screen(Help(self.labels))

    def action_palette(self) -> None:
        from edgecron.tui.palette import Item, Palette, find_names

        def find(text: str, told: Callable[[list[str]], None]) -> None:
            self.ask("palette", lambda client: find_names(client, text), told)

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
