"""The help screen: all configured keys, by place, and the syntax of filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content

from edgecron.formats.config_keys import ACTIONS
from edgecron.tui.bindings import bindings
from edgecron.tui.dialogs import Overlay
from edgecron.tui.keys import IN_OUTPUT
from edgecron.tui.list_model import Span
from edgecron.tui.text_line import ScrolledLines, TextLine
from edgecron.views.phrases import display_width, fit

# The actions of each place, in the order of the help screen.
_PLACES: dict[str, tuple[str, ...]] = {
    "Move": ("up", "down", "top", "bottom", "page_up", "page_down", "open", "back"),
    "Views": (
        "schedules",
        "upcoming",
        "runs",
        "scan",
        "notices",
        "simulate",
        "span",
        "filter",
        "sort",
        "mark",
        "mark_all",
    ),
    "Act on the selected line, or on all marked lines": (
        *("run", "pause", "resume", "reschedule", "cancel"),
        *("add", "edit", "delete", "undo", "backfill"),
    ),
    "Of a schedule": ("changes", "fields"),
    "In a run's output": tuple(action for action in ACTIONS if action in IN_OUTPUT),
    "Everywhere": ("palette", "help", "engine", "quit"),
}
_FILTERS = (
    ("backup", "names that contain these letters in order"),
    ("status:failed", "by status (schedules: of the last run); a,b: either"),
    ("job: group: state:", "name, group; active, paused, broken, vanished, done"),
    ("cause: reason:", "why a run exists, and why it did not succeed"),
    ("!status:success", "everything else; with several terms, all must match"),
)
_LEAST_KEYS = 10
_GAP = "  "


def help_lines(labels: Mapping[str, tuple[str, ...]]) -> list[list[Span]]:
    """Return headings, keys and their actions."""
    lines: list[list[Span]] = []
    width = max(_LEAST_KEYS, *(display_width("  ".join(labels[action])) for action in ACTIONS))
    example_width = max(display_width(example) for example, _ in _FILTERS)
    for place, actions in _PLACES.items():
        lines += [[], [(place, "bold")]]
        for action in actions:
            keys = "  ".join(labels[action])
            lines.append([_key(keys or "no key", width), (_GAP, ""), (ACTIONS[action].help, "")])
    lines += [[], [("Filters", "bold")]]
    lines += [[_key(text, example_width), (_GAP, ""), (words, "")] for text, words in _FILTERS]
    return lines[1:]


def _key(text: str, width: int) -> Span:
    return (f" {fit(text, width)}", "accent" if text != "no key" else "dim")


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

    def __init__(self, labels: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__()
        self._lines = help_lines(labels)

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = Content("Keys")
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
