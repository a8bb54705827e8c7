"""The dashboard application: its terminal, keys, first screen, and the engine it can run."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.driver import Driver
from textual.geometry import Size
from textual.screen import ModalScreen, Screen

from edgecron.base.clock import Clock
from edgecron.base.errors import EdgecronError
from edgecron.base.paths import Location
from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.model.choices import Alert
from edgecron.tui.action_screen import ActionScreen
from edgecron.tui.database_app import DatabaseApp, Overview
from edgecron.tui.home import HomeScreen
from edgecron.tui.keys import (
    DEFAULT_KEYS,
    DEFAULT_LABELS,
    actions_of,
    bindings,
    find_action_node,
    keymap,
)
from edgecron.tui.queries import SortingScreen
from edgecron.tui.text_line import TextLine
from edgecron.tui.themes import DARK, THEMES
from edgecron.views.phrases import folded, status_words

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution
    from edgecron.tui.own_engine import OwnEngine


LEAST_COLUMNS = 40
LEAST_ROWS = 10
# Their keys lead back to the first screen, so they do nothing in a form: its texts would be lost.
_PLACES = (
    *("timeline", "schedules", "upcoming", "runs"),
    *("failures", "scan", "notices", "simulate"),
)
_ALLOWED_IF_TOO_SMALL = ("quit", "suspend_process")
_STOPPING = ("Running jobs continue, and the next engine takes them over.",)
_TERMINAL_COLORS = {
    "muted": "ansi_bright_black",
    "faint": "ansi_bright_black",
    "quiet": "ansi_green",
    **{f"heat{n}": "ansi_blue" for n in range(1, 5)},
}


class Appearance(NamedTuple):
    """The theme, and the keys of each action: Textual's names and the labels people read.

    `alert` is how the terminal announces a new failure.
    """

    theme: str = DARK.name
    keys: Mapping[str, tuple[str, ...]] = DEFAULT_KEYS
    labels: Mapping[str, tuple[str, ...]] = DEFAULT_LABELS
    is_colored: bool = True
    alert: Alert = Alert.OFF


class OwnMachine(NamedTuple):
    """The machine of the dashboard, if it has the database: the dashboard can start an engine.

    `config_path` is the configuration file given to the dashboard. If `starts_engine`, the
    dashboard starts an engine without being asked. `root` is the machine's root folder.
    `first_opened` is as in DatabaseApp.
    """

    database: Location
    config_path: str | None = None
    starts_engine: bool = False
    root: Path = Path("/")
    first_opened: Callable[[], Client] | None = None


def is_too_small(size: Size) -> bool:
    """Return whether a terminal of this size has no room for the dashboard."""
    return size.width < LEAST_COLUMNS or size.height < LEAST_ROWS


def small_words(size: Size) -> str:
    """Say in few letters how large the terminal is and how large it must be."""
    return f"too small: {size.width}x{size.height}, needs {LEAST_COLUMNS}x{LEAST_ROWS}"


class TooSmall(Screen[None]):
    """Cover the other screens until the terminal has room for them again."""

    DEFAULT_CSS = "TooSmall > TextLine { height: 1fr; }"

    def compose(self) -> ComposeResult:
        yield TextLine()

    def on_mount(self) -> None:
        self._show_size()

    def on_resize(self, event: events.Resize) -> None:
        self._show_size()

    def on_screen_resume(self) -> None:
        self._show_size()

    def _show_size(self) -> None:
        size = self.app.size
        if is_too_small(size):
            lines = folded(small_words(size), max(1, size.width))
            self.query_one(TextLine).show(*([(line, "bold")] for line in lines))
        elif self.is_current:
            self.dismiss()


class Dashboard(DatabaseApp):
    """Show one database: schedules, upcoming runs and past runs.

    `opened`, `writing` and `driver_class` are as in DatabaseApp. `machine` is None if the database
    is on another machine. `defaults` returns the option values of a new schedule; a database thread
    calls it.
    """

    TITLE = "edgecron"
    CSS_PATH = "dashboard.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("help", "palette", "quit", "engine", "engines", "theme"),
        *bindings(*_PLACES),
        # The same in every terminal program: no key that the configuration can change.
        Binding("ctrl+z", "suspend_process", show=False),
        # With priority: a list would take it as the key for going back.
        Binding("escape", "stop_act", show=False, priority=True),
    ]

    def __init__(
        self,
        opened: Callable[[], Client],
        *,
        clock: Clock,
        zone: tzinfo,
        appearance: Appearance | None = None,
        driver_class: type[Driver] | None = None,
        writing: Callable[[bool], Client] | None = None,
        machine: OwnMachine | None = None,
        defaults: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        appearance = appearance or Appearance()
        super().__init__(
            opened,
            clock=clock,
            zone=zone,
            is_colored=appearance.is_colored,
            driver_class=driver_class,
            writing=writing,
            first_opened=None if machine is None else machine.first_opened,
        )
        self.labels = appearance.labels
        self._alert = appearance.alert
        self.defaults = defaults
        self.machine_root = None if machine is None else machine.root
        self._machine = machine
        self._engine: OwnEngine | None = None
        self._home = HomeScreen()
        for each in THEMES:
            self.register_theme(each)
        self.theme = appearance.theme
        self.set_keymap(keymap(appearance.keys))

    def get_css_variables(self) -> dict[str, str]:
        """Return the theme's variables; add colours for muted text and heat that it lacks.

        They are blended here: a transparent colour does not work in the lines of a list.
        """
        found = super().get_css_variables()
        text, ground, primary = (found[name] for name in ("foreground", "background", "primary"))
        if any(color.startswith("ansi") for color in (text, ground, primary)):
            self.theme_variables = _TERMINAL_COLORS | found
            return self.theme_variables
        back = Color.parse(ground)
        blends = {"muted": (text, 0.4), "faint": (text, 0.65)}
        blends |= {
            "quiet": (found["success"], 0.35),
            "failed-background": (found["error"], 0.86),
        }
        blends |= {f"heat{n}": (primary, 1 - n / 4) for n in range(1, 5)}
        made = {
            name: Color.parse(color).blend(back, part).hex for name, (color, part) in blends.items()
        }
        self.theme_variables = made | found
        return self.theme_variables

    def refresh_css(self, animate: bool = True) -> None:
        """Apply the theme. If no screen exists yet, only note it: the first screen applies it."""
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def on_load(self) -> None:
        self.start_threads()

    def watch_overview(self, before: Overview | None, found: Overview | None) -> None:
        """Let the terminal announce a failure that is newer than the last one."""
        failure = None if before is None or found is None else found.last_failure
        if failure is None or before is None or self._alert is Alert.OFF or self._driver is None:
            return
        known = before.last_failure
        if known is not None and _ended_at(known) >= _ended_at(failure):
            return
        words = clean(f"edgecron: {failure.schedule} {status_words(failure)}")
        self._driver.write("\a" if self._alert is Alert.BELL else f"\x1b]9;{words}\a")

    def get_default_screen(self) -> Screen[None]:
        """Return the first screen: an empty one below it would be composed and drawn, too."""
        return self._home

    def on_mount(self) -> None:
        self.call_after_refresh(_freeze_garbage)
        if self._machine is not None and self._machine.starts_engine:
            self.call_after_refresh(self.start_engine)

    @on(Driver.SignalResume)
    def _draw_again(self) -> None:
        # The terminal is empty. Textual draws only what changes from here on.
        self.refresh(layout=True)

    def on_resize(self, event: events.Resize) -> None:
        # TooSmall removes itself when there is room again.
        is_covered = any(isinstance(each, TooSmall) for each in self.screen_stack)
        if is_too_small(event.size) and not is_covered:
            self.push_screen(TooSmall())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow only leaving while the terminal is too small; stopping if something can stop."""
        if isinstance(self.screen, TooSmall):
            return action in _ALLOWED_IF_TOO_SMALL
        if action in _PLACES:
            return isinstance(self.screen, SortingScreen | ActionScreen)
        if action == "stop_act":
            return bool(self.stops) and not isinstance(self.screen, ModalScreen)
        return super().check_action(action, parameters)

    def on_unmount(self) -> None:
        self.close_engine()
        self.stop_threads()

    async def action_perform(self, action: str) -> None:
        """Do an action by its name, as its key does."""
        node = find_action_node(self.screen, action)
        if node is not None:
            await self.run_action(action, node)

    async def _perform_chosen(self, action: str) -> None:
        held = self._held_keys
        await self.action_perform(action)
        if held is self._held_keys:  # Otherwise they are for a question of the action.
            self.release_keys()

    def action_help(self) -> None:
        from edgecron.tui.palette import Help

        self.push_screen(Help(self.labels, known=self._known_actions()))

    def action_theme(self) -> None:
        """Let the user choose a theme, unless NO_COLOR forbids colours."""
        from edgecron.tui.palette import ThemeChoice

        if self.no_color:
            self.show_notice("there are no themes without colours: NO_COLOR is set")
            return

        def chosen(_: None) -> None:
            self.show_notice(
                f"the theme is {self.theme}; to keep it, write theme = {self.theme!r}"
                " below [dashboard] in the configuration"
            )

        self.push_screen(ThemeChoice(), chosen)

    def action_palette(self) -> None:
        from edgecron.tui.palette import Item, Palette, find_schedule_names

        def find(text: str, take_names: Callable[[list[str]], None]) -> None:
            self.ask(
                "palette",
                lambda client: find_schedule_names(client, text),
                take_names,
                refused=lambda: take_names([]),
            )

        def chosen(item: Item | None) -> None:
            if item is None:
                return
            if item.schedule is None:
                self.call_next(self._perform_chosen, item.action)
            else:
                self.open_schedule(item.schedule)

        actions = [action for action in self._known_actions() if action != "palette"]
        self.push_screen(Palette(actions, labels=self.labels, find=find), chosen)

    def _known_actions(self) -> list[str]:
        """Return the actions that do something on the current screen."""
        return [one for one in actions_of(self.screen) if self.check_action(one, ())]

    def open_schedule(self, name: str) -> None:
        """Leave the screens above the first one, and open a schedule."""
        self._go_home().go_to(name)

    def _go_home(self) -> HomeScreen:
        while self.screen is not self._home:
            self.pop_screen()
        return self._home

    async def action_timeline(self) -> None:
        await self._go_home().open_list("timeline")

    async def action_schedules(self) -> None:
        await self._go_home().open_list("schedules")

    async def action_upcoming(self) -> None:
        await self._go_home().open_list("upcoming")

    async def action_runs(self) -> None:
        await self._go_home().open_list("runs")

    def action_failures(self) -> None:
        # Loaded when needed: most days have no failures.
        from edgecron.tui.failure_screen import FailureScreen

        self._open_over_home(FailureScreen())

    def action_scan(self) -> None:
        root = self.machine_root
        if root is None:
            self.show_notice(
                "the list of other schedules works only on their own machine:"
                " run edgecron tui or edgecron scan there",
                severity="warning",
            )
            return
        # Loaded when needed: it imports the formats of crontabs and units.
        from edgecron.tui.machine_screen import MachineScreen

        self._open_over_home(MachineScreen(root))

    def action_notices(self) -> None:
        # Loaded when needed: most people have no rules of notices.
        from edgecron.tui.fact_screens import NoticeScreen

        self._open_over_home(NoticeScreen())

    def action_simulate(self) -> None:
        # Loaded when needed: few people simulate.
        from edgecron.tui.simulation_screen import SimulationScreen

        self._open_over_home(SimulationScreen())

    def _open_over_home(self, screen: Screen[None]) -> None:
        if type(self.screen) is not type(screen):
            self._go_home()
            self.push_screen(screen)

    async def action_quit(self) -> None:
        self.leave()

    # The engine that the dashboard runs.

    @property
    def engine_pid(self) -> int | None:
        """The process id of the engine that this application runs; None without one."""
        return None if self._engine is None else self._engine.pid

    @property
    def engine_key(self) -> str:
        """The key that starts an engine; empty if this application can't start one."""
        return "" if self._machine is None else self.label("engine")

    def action_engine(self) -> None:
        """Start an engine, or ask whether to stop the one started from here."""
        if self._engine is None:
            self.start_engine()
        else:
            # Loaded when needed: the first screen shows no dialog.
            from edgecron.tui.dialogs import ConfirmDialog

            question = "Stop this dashboard's engine?"
            dialog = ConfirmDialog(question, _STOPPING, yes="stop it", no="keep it running")
            self.push_screen(dialog, self._stop_engine)

    def action_engines(self) -> None:
        """Show the engines and their machines."""
        # Loaded when needed: most people have one engine.
        from edgecron.tui.fact_screens import EngineScreen

        if not isinstance(self.screen, EngineScreen):
            self.push_screen(EngineScreen())

    def start_engine(self) -> None:
        """Start an engine that ends with the dashboard."""
        # Loaded when needed: it imports the engine room.
        from edgecron.tui.own_engine import start_engine

        machine = self._machine
        if machine is None:
            self.show_notice(
                "this dashboard can't start an engine: the database is on another machine",
                severity="warning",
            )
            return
        try:
            self._engine = start_engine(
                machine.database,
                config_path=machine.config_path,
                ended=lambda last: self.deliver(partial(self._engine_has_ended, last)),
            )
        except EdgecronError as error:
            self.show_error(error)
            return
        self.show_notice("started an engine; it stops when you leave the dashboard")

    def close_engine(self) -> None:
        """Stop the engine, and wait until it has ended."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _stop_engine(self, is_wanted: bool | None) -> None:
        if is_wanted and self._engine is not None:
            self._engine.stop()

    def _engine_has_ended(self, last: str | None) -> None:
        self.close_engine()
        if last is None:
            self.show_notice("the dashboard's engine stopped; running jobs continue")
        else:
            self.show_notice(f"the dashboard's engine stopped: {last}", severity="error")
        self.post_changed()


def _freeze_garbage() -> None:
    """Exclude everything loaded so far from garbage collection, and turn it on."""
    gc.freeze()
    gc.enable()


def _ended_at(run: Execution) -> datetime:
    return run.finished_at or run.plan_at
