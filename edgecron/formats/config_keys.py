"""Keys of the dashboard: the actions, their default keys, and the names of keys."""

from __future__ import annotations

import re

from edgecron.base.errors import InvalidInput
from edgecron.base.values import NamedTuple

NONE = "none"  # in place of keys: the action has none


class Action(NamedTuple):
    keys: tuple[str, ...]
    help: str


# In the order in which help shows them: moving, looking, doing, everywhere.
ACTIONS: dict[str, Action] = {
    "up": Action(("k", "up"), "one line up"),
    "down": Action(("j", "down"), "one line down"),
    "top": Action(("g", "home"), "to the first line"),
    "bottom": Action(("G", "end"), "to the last line"),
    "page_up": Action(("ctrl+b", "pageup"), "one page up"),
    "page_down": Action(("ctrl+f", "pagedown"), "one page down"),
    "left": Action(("h", "left"), "long lines to the left"),
    "right": Action(("l", "right"), "long lines to the right"),
    "open": Action(("enter",), "the details of a schedule or run"),
    "back": Action(("escape",), "back to where you came from"),
    "schedules": Action(("1",), "the schedules"),
    "upcoming": Action(("2",), "the runs to come"),
    "runs": Action(("3",), "the past runs"),
    "sort": Action(("s",), "sort by the next column"),
    "fields": Action(("f",), "all fields of a schedule, or those that say something"),
    "filter": Action(("/",), "show only what matches; in output: search"),
    "search_next": Action(("n",), "the next place that matches"),
    "search_previous": Action(("N",), "the place before that matches"),
    "older_run": Action(("[",), "its schedule's run before this one"),
    "newer_run": Action(("]",), "its schedule's run after this one"),
    "facts": Action(("i",), "all facts of a run, or the main ones"),
    "follow": Action(("f",), "follow the output of a live run"),
    "wrap": Action(("w",), "wrap long lines of output"),
    "timestamps": Action(("t",), "when each line was printed"),
    "copy": Action(("y",), "copy what is selected"),
    "save": Action(("o",), "save the output to a file"),
    "pager": Action(("v",), "open the output in $PAGER"),
    "mark": Action(("space",), "mark a line, or take the mark away; in output: from here on"),
    "mark_all": Action(("*",), "mark all lines, or none"),
    "run": Action(("r",), "run now"),
    "pause": Action(("p",), "pause, also until a time"),
    "resume": Action(("u",), "resume what is paused"),
    "reschedule": Action(("m",), "move the next run to another time"),
    "cancel": Action(("x",), "end a run"),
    "add": Action(("a",), "a new schedule"),
    "edit": Action(("e",), "change a schedule"),
    "delete": Action(("d", "delete"), "remove a schedule, after a question"),
    "undo": Action(("U",), "restore what was removed last from here"),
    "backfill": Action(("b",), "run what was missed in the past"),
    "engine": Action(("S",), "run an engine from here"),
    "palette": Action(("ctrl+p", ":"), "every action by its name"),
    "help": Action(("?", "f1"), "explain all keys"),
    "quit": Action(("q", "ctrl+q"), "leave; engines and runs go on"),
}

_NAMED = (
    *("enter", "escape", "tab", "space", "backspace", "delete", "insert", "home", "end"),
    *("pageup", "pagedown", "up", "down", "left", "right"),
    *(f"f{number}" for number in range(1, 25)),
)
_MODIFIED = re.compile(r"((?:ctrl\+|alt\+|shift\+)*)(.+)", re.DOTALL)


def read_keys(texts: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Read the keys of an action; `none` is no key. Raises InvalidInput."""
    if texts in ((NONE,), ()):
        return ()
    for text in texts:
        if not _is_key(text):
            raise InvalidInput(
                f"{what} is {text[:40]!r}, expected the name of a key",
                hint='such as "q", "ctrl+q", "f5", "shift+tab" or "space"; "none" for no key',
            )
    return tuple(dict.fromkeys(texts))


def _is_key(text: str) -> bool:
    found = _MODIFIED.fullmatch(text)
    if found is None:
        return False
    modifiers, name = found[1].split("+")[:-1], found[2]
    if len(set(modifiers)) != len(modifiers):
        return False
    is_letter = len(name) == 1 and name.isprintable() and not name.isspace()
    # Shift and a letter is its capital; terminals send nothing else.
    return name in _NAMED or (is_letter and "shift" not in modifiers)
