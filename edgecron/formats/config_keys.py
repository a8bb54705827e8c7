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
    "up": Action(("k", "up"), "move up one line"),
    "down": Action(("j", "down"), "move down one line"),
    "top": Action(("g", "home"), "go to the first line"),
    "bottom": Action(("G", "end"), "go to the last line"),
    "page_up": Action(("ctrl+b", "pageup"), "move up one page"),
    "page_down": Action(("ctrl+f", "pagedown"), "move down one page"),
    "left": Action(("h", "left"), "go to the run before in a lane; scroll left"),
    "right": Action(("l", "right"), "go to the run after in a lane; scroll right"),
    "earlier": Action(("[", "shift+left"), "show an earlier time of the timeline"),
    "later": Action(("]", "shift+right"), "show a later time of the timeline"),
    "zoom_in": Action(("+", "="), "show a shorter span of the timeline"),
    "zoom_out": Action(("-",), "show a longer span of the timeline"),
    "present": Action(("t",), "return to the current time of the timeline"),
    "open": Action(("enter",), "open the details of a schedule or run"),
    "back": Action(("escape",), "go back"),
    "timeline": Action(("0",), "show the timeline: past and coming runs of each schedule"),
    "schedules": Action(("1",), "show the schedules"),
    "upcoming": Action(("2",), "show upcoming runs"),
    "runs": Action(("3",), "show past runs"),
    "scan": Action(("4",), "list what cron, systemd and launchd run on this machine"),
    "notices": Action(("5",), "list notices and whether they were sent"),
    "tail": Action(("o",), "show or hide the output of the selected line's last run"),
    "failures": Action(("7",), "list failures by schedule and error"),
    "simulate": Action(("6",), "simulate what the schedules would do, hour by hour"),
    "span": Action(("t",), "simulate a week, a month or a year"),
    "sort": Action(("s",), "sort by the next column"),
    "reverse": Action(("I",), "sort in the opposite direction"),
    "fields": Action(("f",), "switch between all fields and the main ones"),
    "filter": Action(("/",), "filter the list; search in output"),
    "search_next": Action(("n",), "go to the next match"),
    "search_previous": Action(("N",), "go to the previous match"),
    "older_run": Action(("[",), "open the schedule's previous run"),
    "newer_run": Action(("]",), "open the schedule's next run"),
    "facts": Action(("i",), "switch between all facts and the main ones"),
    "follow": Action(("f",), "follow the output of a live run"),
    "wrap": Action(("w",), "wrap long lines of output"),
    "timestamps": Action(("t",), "show when each line was printed"),
    "copy": Action(("y",), "copy the selection, or the whole output"),
    "save": Action(("o",), "save the output to a file"),
    "pager": Action(("v",), "open the output in $PAGER"),
    "mark": Action(("space",), "mark or unmark a line; start a selection in output"),
    "mark_range": Action(("v",), "mark lines from here on as the cursor moves, until `v`"),
    "mark_all": Action(("*",), "mark all lines, or unmark them"),
    "run": Action(("r",), "run now"),
    "pause": Action(("p",), "pause a schedule, with or without an end"),
    "resume": Action(("u",), "resume a paused schedule"),
    "reschedule": Action(("m",), "move the next run to another time"),
    "cancel": Action(("x",), "cancel a run"),
    "add": Action(("a",), "add a schedule by one line, such as `daily at 9 run ls`"),
    "add_form": Action(("A",), "add a schedule by a form with all its options"),
    "edit": Action(("e",), "edit a schedule"),
    "delete": Action(("d", "delete"), "remove a schedule (asks first)"),
    "undo": Action(("z",), "undo your last change of a schedule, then earlier ones"),
    "redo": Action(("Z",), "redo what you undid last"),
    "changes": Action(("c",), "list the changes of a schedule: who, when, what"),
    "graph": Action(("w",), "show what a schedule waits for, and what waits for it"),
    "acknowledge": Action(("a",), "acknowledge failures: the list of failures drops them"),
    "backfill": Action(("b",), "backfill: run past times that had no success"),
    "theme": Action(("T",), "choose a theme"),
    "engine": Action(("S",), "start or stop an engine"),
    "engines": Action(("8",), "list the engines and their machines"),
    "palette": Action(("ctrl+p", ":"), "find an action by name"),
    "help": Action(("?", "f1"), "explain all keys"),
    "quit": Action(("q", "ctrl+q"), "leave; other engines and running jobs continue"),
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
