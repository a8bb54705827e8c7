"""Show what a document changes of schedules: lines for people, JSON objects."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from edgecron.base.values import replace
from edgecron.cli.screen import paint
from edgecron.formats.document_plan import PRUNABLE, SECRET, Action, may_be_secret
from edgecron.formats.document_writing import default_of
from edgecron.formats.toml import write_value
from edgecron.views.acts import kept_words
from edgecron.views.glyphs import CHANGED, CREATED, REMOVED
from edgecron.views.json_objects import schedule_object
from edgecron.views.phrases import job_words
from edgecron.views.schedule_words import reverting_words

if TYPE_CHECKING:
    from edgecron.base.errors import InvalidDocument
    from edgecron.cli.session import Session
    from edgecron.formats.document_plan import FieldChange, Step
    from edgecron.model.schedule import Schedule

MOST_TOLD = 20  # of what is wrong with a document, or left alone by it
_STYLES = {"create": "green", "change": "yellow", "remove": "red"}
_SIGNS = {"create": CREATED.letter, "change": CHANGED.letter, "remove": REMOVED.letter}


def put_plan(cli: Session, steps: Collection[Step], *, is_pruned: bool) -> None:
    """Print a plan: schedules created, changed, removed, and the number left alone.

    Schedules from other files are named if --prune could be expected to remove them.
    """
    is_colored = cli.use_color(sys.stdout)
    for step in steps:
        action = step.action.value
        if action not in _SIGNS:
            continue
        cli.put(paint(f"{_SIGNS[action]} {action} {step.name}", _STYLES[action], is_on=is_colored))
        if step.action is Action.CREATE and step.wanted is not None:
            spec = step.wanted.spec
            cli.put(f"    {', '.join(spec.triggers)}: {job_words(spec)}")
        put_changes(cli, step.changes)
        if step.note is not None:
            cli.put(f"    note: {step.note}")
    left = [step for step in steps if step.action is Action.LEAVE]
    told = [step for step in left if is_pruned or step.note == PRUNABLE]
    for step in told[:MOST_TOLD]:
        cli.put(paint(f"  left alone: {step.name} ({step.note})", "dim", is_on=is_colored))
    if len(told) > MOST_TOLD:
        words = f"  left alone: {len(told) - MOST_TOLD} more, see --json"
        cli.put(paint(words, "dim", is_on=is_colored))
    cli.say(count_actions(steps))


def put_changes(cli: Session, changes: Iterable[FieldChange]) -> None:
    """Print changed keys, one per line: `timeout: 1h -> 2h`."""
    for change in changes:
        old, new = change_words(change)
        cli.put(f"    {change.key}: {old} -> {new}")


_MOST_LETTERS = 200  # of a value, where a change is shown


def hide_values(changes: Iterable[FieldChange]) -> list[FieldChange]:
    """Replace values of environment, payload and stdin by ***, for a log."""
    return [
        replace(
            one,
            old=None if one.old is None else SECRET,
            new=None if one.new is None else SECRET,
        )
        if may_be_secret(one)
        else one
        for one in changes
    ]


def put_kept(cli: Session, name: str, changes: Iterable[FieldChange]) -> None:
    """Say that the database keeps what a change removed from a schedule and may be secret."""
    words = kept_words(changes, forget=cli.command(f"prune --forget {name}"))
    if words is not None:
        cli.say(f"note: {words}")


def put_changed(cli: Session, schedule: Schedule, changes: Iterable[FieldChange]) -> None:
    """Print a changed schedule, its changes and its next run, and notes on old values."""
    changes = list(changes)
    put_kept(cli, schedule.name, changes)
    reverting = reverting_words(schedule)
    if reverting is not None:
        cli.say(f"note: {reverting}")
    if cli.is_json:
        cli.put_json([schedule_object(schedule)])
        return
    word = f"changed {schedule.name}" if changes else f"{schedule.name} is unchanged"
    cli.put(f"{word}; {cli.next_sentence(schedule)}")
    put_changes(cli, changes)


def change_words(change: FieldChange) -> tuple[str, str]:
    """Return the old and the new value of a key as text; the default if it is not set."""
    words = []
    for value in (change.old, change.new):
        shown = default_of(change.key) if value is None else value
        text = "none" if shown in (None, "none") else _bare(write_value(shown))
        text = text.replace("\n", "\\n")
        words.append(text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}...")
    return words[0], words[1]


def count_actions(steps: Iterable[Step]) -> str:
    """Count steps in words: `2 to create, 1 to change, 3 unchanged`."""
    return counted_words(Counter(step.action for step in steps))


def counted_words(counts: Mapping[Action, int]) -> str:
    """Put the counts of actions into words, as `count_actions` does."""
    words = {
        Action.CREATE: "to create",
        Action.CHANGE: "to change",
        Action.REMOVE: "to remove",
        Action.KEEP: "unchanged",
        Action.LEAVE: "not in the file",
    }
    counted = [f"{count} {text}" for one, text in words.items() if (count := counts.get(one))]
    return ", ".join(counted) if counted else "nothing to do: the file and the database are empty"


def step_object(step: Step) -> dict[str, Any]:
    """Return a step of a plan as a JSON object."""
    return {
        "name": step.name,
        "action": step.action.value,
        "changes": [
            {"field": change.key, "old": change.old, "new": change.new} for change in step.changes
        ],
        "note": step.note,
    }


def say_problems(cli: Session, error: InvalidDocument, *, file: str | None = None) -> None:
    """Print the problems of a document on stderr; with --json the error has them."""
    if cli.is_json:
        return
    for problem in error.problems[:MOST_TOLD]:
        cli.report(problem_words(problem, file=file))
    more = len(error.problems) - MOST_TOLD
    if more > 0:
        cli.report(f"and {more} more")


def problem_words(problem: Any, *, file: str | None = None) -> str:
    """Put a problem into words: `line 3: schedule 'backup': timeout: ...`."""
    where = f"line {problem['line']}: " if problem["line"] is not None else ""
    if file is not None and where:
        where = f"{file}, {where}"
    whose = f"schedule {problem['schedule']!r}: " if problem["schedule"] is not None else ""
    if whose and problem["message"].startswith(whose.rstrip(": ")):
        whose = ""
    hint = f" ({problem['hint']})" if problem["hint"] else ""
    return f"{where}{whose}{problem['message']}{hint}"


def _bare(text: str) -> str:
    """Remove the quotes of a TOML text if it is plain."""
    inner = text[1:-1]
    is_plain = text[:1] == '"' == text[-1:] and "\\" not in inner and inner.strip() == inner
    return inner if is_plain and inner else text
