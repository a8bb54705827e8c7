"""The palette, every action and schedule by name; and the help screen, every action by its keys.

Why not Textual's own (textual.command): it reads the help of a command as markup, so the key `[/]`
or the name of a schedule can end the application. It has two lines for each command and no column
for keys, and it ranks by its own score, not as the command line does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.timer import Timer

from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.formats.config_keys import ACTIONS
from edgecron.model.filters import rank_of
from edgecron.tui.dialogs import Overlay
from edgecron.tui.early_keys import TypedAheadApp
from edgecron.tui.keys import IN_OUTPUT, bindings
from edgecron.tui.list_rows import Column, Line, Source
from edgecron.tui.list_view import LineView
from edgecron.tui.text_line import LineInput, ScrolledLines, Span, TextLine
from edgecron.views.phrases import display_width, fit

_MOST_NAMES = 24
_PAUSE_S = 0.06  # after the last letter, before names are read

_OUTPUT_HELP = "; in output: "
_GO_TO = "go to schedule "
_COLUMNS = (
    Column("ACTION", 14, 14),
    Column("", 12, 60, share=1, drop=1),
    Column("KEYS", 6, 10, is_right=True),
)
# People open the palette for an action, not to move.
_FIRST = (
    *("run", "pause", "resume", "reschedule", "cancel"),
    *("add", "add_form", "edit", "delete", "undo", "redo", "changes", "graph", "backfill"),
)
_LAST = (
    *("up", "down", "left", "right", "top", "bottom", "page_up", "page_down"),
    *("open", "back"),
)


class Item(NamedTuple):
    """An action, or a schedule to go to if `schedule` is given."""

    action: str
    schedule: str | None = None


class _PaletteSource(Source):
    """The source of the palette's list."""

    def __init__(self, labels: Mapping[str, tuple[str, ...]], *, in_output: bool) -> None:
        self._labels = labels
        self._in_output = in_output
        self.items: Sequence[Item] = ()

    def show(self, items: Sequence[Item]) -> None:
        """Show these items."""
        self.items, self.keys = items, range(len(items))

    def line(self, index: int) -> Line | None:
        item = self.items[index]
        if item.schedule is not None:
            return Line(
                key=index,
                cells=((("go to schedule", "dim"),), ((clean(item.schedule), "bold"),), ()),
            )
        name, keys = item.action.replace("_", " "), " ".join(self._labels[item.action])
        words = help_words(item.action, in_output=self._in_output)
        return Line(key=index, cells=(((name, "bold"),), ((words, ""),), ((keys, "accent"),)))


def help_words(action: str, *, in_output: bool) -> str:
    """Return the help of an action for the current screen."""
    here, _, there = ACTIONS[action].help.partition(_OUTPUT_HELP)
    return there if there and in_output else here


def find_items(actions: Sequence[str], names: Sequence[str], text: str) -> list[Item]:
    """Return items similar to a text, the nearest first; actions before schedules."""
    ranked = [
        (rank, place, Item(action))
        for place, action in enumerate(actions)
        if (rank := _rank_of_action(action, text)) is not None
    ]
    ranked += [
        (rank, len(actions) + place, Item("open", name))
        for place, name in enumerate(names)
        if (rank := schedule_rank(name, text)) is not None
    ]
    return [item for _, _, item in sorted(ranked, key=lambda one: one[:2])]


def _rank_of_action(action: str, text: str) -> int | None:
    rank = rank_of(action.replace("_", " "), text)
    if rank is None and text.lower() in ACTIONS[action].help:
        return rank_of(ACTIONS[action].help, text)
    return rank


def schedule_rank(name: str, text: str) -> int | None:
    """Rank a schedule by its similarity to a text, which can begin with `go to schedule`."""
    letters = _letters_of_name(text)
    return rank_of(name, letters) if letters or not text else rank_of(_GO_TO, text)


def _letters_of_name(text: str) -> str:
    """Return the part of a text that names a schedule; empty for `go to schedule` itself."""
    lower = text.lower()
    if _GO_TO.startswith(lower):
        return ""
    return text[len(_GO_TO) :] if lower.startswith(_GO_TO) else text


def default_order(actions: Sequence[str]) -> list[str]:
    """Sort actions as they are listed before anything is typed."""
    return sorted(actions, key=lambda action: (action in _LAST, action not in _FIRST))


class Palette(Overlay[Item]):
    """A line of input and the items similar to it; it returns the chosen item, or None.

    `find` reads the schedules with similar names and passes them on. The application holds the
    keys behind the choice.
    """

    app: TypedAheadApp

    DEFAULT_CSS = """
    Palette { align: center top; }
    Palette #box {
        width: 96; max-width: 96%; height: 22; max-height: 90%; margin-top: 1; padding: 0 1;
        border: round $border; background: $surface;
    }
    Palette #asked { height: 1; margin-bottom: 1; }
    Palette .sign { width: 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,ctrl+n", "move(1)", show=False),
        Binding("up,ctrl+p", "move(-1)", show=False),
        Binding("pagedown", "move(10)", show=False),
        Binding("pageup", "move(-10)", show=False),
    ]

    def __init__(
        self,
        actions: Sequence[str],
        *,
        labels: Mapping[str, tuple[str, ...]],
        find: Callable[[str, Callable[[list[str]], None]], None],
    ) -> None:
        super().__init__()
        self._actions = actions
        self._source = _PaletteSource(labels, in_output=not IN_OUTPUT.isdisjoint(actions))
        self._find = find
        self._timer: Timer | None = None
        self._shown: str | None = None  # the text that the items are similar to
        self._is_named = True  # the items are all: names of schedules were read, too
        self._is_wanted = False  # Enter came before the names

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            with Horizontal(id="asked"):
                yield TextLine([("> ", "accent")], classes="sign")
                yield LineInput(
                    placeholder="an action, or a schedule", compact=True, select_on_focus=False
                )
            view = LineView(self._source, _COLUMNS, id="items", empty="no match")
            view.can_focus = False
            yield view

    def on_mount(self) -> None:
        line = self.query_one(LineInput)
        line.focus()
        line.take_enter(self._choose, pass_on=self.app.pass_on)
        self._show([])

    def on_input_changed(self) -> None:
        self._show_typed()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_PAUSE_S, self._search)

    def _show_typed(self) -> None:
        if self._text() != self._shown:
            self._show([])
            self._is_named = not self._text()

    def _search(self) -> None:
        text = self._text()
        if not self._is_named:

            def take_names(names: list[str]) -> None:
                if self.is_attached and self._text() == text:
                    self._show(names)
                    self._is_named = True
                    if self._is_wanted:
                        self._choose_or_type()

            self._find(text, take_names)

    def _text(self) -> str:
        return self.query_one(LineInput).value.strip()

    def _show(self, names: Sequence[str]) -> None:
        text = self._shown = self._text()
        if text:
            self._source.show(find_items(self._actions, names, text))
        else:
            self._source.show([Item(action) for action in default_order(self._actions)])
        view = self.query_one(LineView)
        view.cursor = 0
        view.source_changed()

    def action_move(self, lines: int) -> None:
        self.query_one(LineView).cursor += lines

    def on_line_view_opened(self) -> None:
        self._choose()

    def _choose(self) -> None:
        """Choose the item under the cursor. The keys behind Enter are for what it opens."""
        self._show_typed()  # The last letters can have come in one burst with Enter.
        if self._source.count:
            self.app.hold_keys()
            self.set_focus(None)
            self.dismiss(self._source.items[self.query_one(LineView).cursor])
        elif not (self._is_named or self._is_wanted):
            self.app.hold_keys()
            self.set_focus(None)
            self._is_wanted = True
            self._search()

    def _choose_or_type(self) -> None:
        """Choose the first name that was read; without one, the keys behind Enter are letters."""
        self._is_wanted = False
        self._choose()
        if not self._source.count:
            self.query_one(LineInput).focus()
            self.app.release_keys()


class _ThemeSource(Source):
    """The themes by name."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.keys = range(len(names))

    def line(self, index: int) -> Line | None:
        return Line(key=index, cells=(((self.names[index], ""),),))


class ThemeChoice(Overlay[None]):
    """A list of themes. The one under the cursor is shown; Enter keeps it, Escape does not."""

    DEFAULT_CSS = """
    ThemeChoice { align: right middle; background: transparent; }
    ThemeChoice #box {
        width: 30; height: 80%; margin-right: 2; padding: 0 1;
        border: round $border; border-title-color: $primary; background: $surface;
        border-subtitle-color: $muted;
    }
    """

    def compose(self) -> ComposeResult:
        self._before = self.app.theme
        self._names = sorted(self.app.available_themes)
        with Vertical(id="box") as box:
            box.border_title = Content("Theme")
            box.border_subtitle = Content("⏎ keep   esc back")
            yield LineView(_ThemeSource(self._names), (Column("NAME", 12, 24),), id="themes")

    def on_mount(self) -> None:
        view = self.query_one(LineView)
        view.focus()
        view.source_changed()
        view.cursor = self._names.index(self._before)

    def on_line_view_moved(self) -> None:
        self.app.theme = self._names[self.query_one(LineView).cursor]

    def on_line_view_opened(self) -> None:
        self.dismiss(None)

    def action_leave(self) -> None:
        self.app.theme = self._before
        self.dismiss(None)


def find_schedule_names(client: Client, text: str) -> list[str]:
    """Read the schedule names similar to a text, the nearest first."""
    return client.nearest_names(_letters_of_name(text), limit=_MOST_NAMES)


# The actions of each place, in the order of the help screen.
_PLACES: dict[str, tuple[str, ...]] = {
    "Move": (
        *("up", "down", "top", "bottom", "page_up", "page_down", "left", "right"),
        *("open", "back"),
    ),
    "Views": (
        *("timeline", "schedules", "upcoming", "runs", "scan", "notices", "simulate", "span"),
        *("failures", "engines", "tail", "filter", "sort", "reverse"),
        *("mark", "mark_all", "mark_range"),
    ),
    "Act on the selected line, or on all marked lines": (
        *("run", "pause", "resume", "reschedule", "cancel"),
        *("add", "add_form", "edit", "delete", "undo", "redo", "backfill"),
    ),
    "In the timeline": ("zoom_in", "zoom_out", "earlier", "later", "present"),
    "Of a schedule": ("changes", "graph", "fields", "acknowledge"),
    "In a run's output": tuple(action for action in ACTIONS if action in IN_OUTPUT),
    "Everywhere": ("palette", "help", "theme", "engine", "quit"),
}
_FILTERS = (
    ("backup", "names that contain these letters in order"),
    ("status:failed", "by status (schedules: of the last run); a,b: either"),
    ("job: group: state:", "name, group; active, paused, broken, vanished, done"),
    ("command:restic", "by a part of the command"),
    ("due:03", "by hour, within 7 days; due:22-05, due:9-17"),
    ("took:>5m", "runs by duration; took:<1s"),
    ("since: until:", "runs by time: since:2h, since:yesterday until:09:00"),
    ("cause: reason:", "why a run exists, and why it did not succeed"),
    ("!status:success", "everything else; with several terms, all must match"),
)
_LEAST_KEYS = 10
_GAP = "  "


def help_lines(
    labels: Mapping[str, tuple[str, ...]], *, known: Collection[str]
) -> list[list[Span]]:
    """Return headings, keys and their actions; those not `known` on the screen are dim."""
    lines: list[list[Span]] = []
    width = max(_LEAST_KEYS, *(display_width("  ".join(labels[action])) for action in ACTIONS))
    example_width = max(display_width(example) for example, _ in _FILTERS)
    for place, actions in _PLACES.items():
        lines += [[], [(place, "bold")]]
        for action in actions:
            keys, is_known = "  ".join(labels[action]), action in known
            style = "accent" if keys and is_known else "dim"
            key = f" {fit(keys or 'no key', width)}"
            said = ACTIONS[action].help, "" if is_known else "dim"
            lines.append([(key, style), (_GAP, ""), said])
    lines += [[], [("Filters", "bold")]]
    for text, words in _FILTERS:
        lines.append([(f" {fit(text, example_width)}", "accent"), (_GAP, ""), (words, "")])
    return lines[1:]


class Help(Overlay[None]):
    """Show all keys, to scroll. Escape and q leave it, whatever is configured."""

    DEFAULT_CSS = """
    Help { align: center middle; }
    Help #box {
        width: 84; max-width: 98%; height: auto; padding: 0 1;
        border: round $border; border-title-color: $primary; background: $surface;
        border-subtitle-color: $muted;
    }
    Help ScrolledLines { height: auto; scrollbar-size-vertical: 1; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("help")

    def __init__(self, labels: Mapping[str, tuple[str, ...]], *, known: Collection[str]) -> None:
        super().__init__()
        self._lines = help_lines(labels, known=known)

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = Content("Keys: the dim ones are for other screens")
            box.border_subtitle = Content("esc back")
            with ScrolledLines():
                lines = TextLine(*self._lines, id="help")
                lines.styles.height = len(self._lines)
                yield lines

    def on_resize(self) -> None:
        self.query_one(ScrolledLines).styles.max_height = max(3, self.size.height - 4)

    def on_mount(self) -> None:
        self.query_one(ScrolledLines).focus()

    def key_q(self, event: events.Key) -> None:
        event.stop()
        self.action_leave()

    def action_help(self) -> None:
        self.action_leave()
