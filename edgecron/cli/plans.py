"""Show what a document changes of schedules: lines for people, JSON objects."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from shlex import join
from typing import TYPE_CHECKING, Any

from edgecron.cli.output import paint
from edgecron.formats.document_tables import PRUNABLE, Action, FieldChange, Step
from edgecron.views.changes import DifferenceLine, difference_lines, difference_objects, kept_words
from edgecron.views.json_objects import schedule_object
from edgecron.views.phrases import CHANGED, CREATED, REMOVED
from edgecron.views.schedule_words import reverting_words

if TYPE_CHECKING:
    from edgecron.base.errors import InvalidDocument
    from edgecron.cli.session import Session
    from edgecron.model.schedule import Difference, Schedule

_MOST_IN_COMMAND = 5  # schedules
MOST_TOLD = 20  # of what is wrong with a document, or left alone by it
_STYLES = {"create": "green", "change": "yellow", "remove": "red"}
_GLYPH_STYLES = {CREATED: "green", CHANGED: "yellow", REMOVED: "red"}
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
        put_changes(cli, step.changes, is_whole=step.action is not Action.CHANGE)
        if step.note is not None:
            cli.put(f"    note: {step.note}")
    left = [step for step in steps if step.action is Action.LEAVE]
    told = [step for step in left if is_pruned or step.note == PRUNABLE]
    for step in told[:MOST_TOLD]:
        cli.put(paint(f"  left alone: {step.name} ({step.note})", "dim", is_on=is_colored))
    if len(told) > MOST_TOLD:
        words = f"  left alone: {len(told) - MOST_TOLD} more, see --json"
        cli.put(paint(words, "dim", is_on=is_colored))
    cli.say(counted_words(Counter(step.action for step in steps)))


def changed_names(steps: Iterable[Step]) -> list[str]:
    """Return the names of the schedules that steps have made, changed or removed."""
    return [
        step.name if step.wanted is None else step.wanted.spec.name
        for step in steps
        if step.action.value in _SIGNS and not _is_group_only(step)
    ]


def say_undo(cli: Session, names: Collection[str]) -> None:
    """Say how to undo the last change of these schedules, if the command is short."""
    if 0 < len(names) <= _MOST_IN_COMMAND:
        cli.say(f"to undo this: {cli.command(join(['undo', *names]))}")


def _is_group_only(step: Step) -> bool:
    """Whether a step changes only the limit of a group: this does not change the schedule."""
    schedule, wanted = step.schedule, step.wanted
    if schedule is None or wanted is None:
        return False
    return schedule.spec == wanted.spec and wanted.enabled in (None, schedule.enabled)


def put_changes(
    cli: Session, changes: Iterable[FieldChange | Difference], *, is_whole: bool = False
) -> None:
    """Print changed keys, one per line: `~ timeout: 1h -> 2h`; see `difference_lines`."""
    put_lines(cli, difference_lines(changes, is_whole=is_whole))


def put_lines(cli: Session, lines: Iterable[DifferenceLine], *, indent: str = "    ") -> None:
    """Print differences, coloured by what they are on a terminal."""
    is_colored = cli.use_color(sys.stdout)
    for glyph, text in lines:
        style = _GLYPH_STYLES[glyph]
        cli.put(paint(f"{indent}{glyph.letter} {text}", style, is_on=is_colored))


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


def counted_words(counts: Mapping[Action, int]) -> str:
    """Put the counts of actions into words: `2 to create, 1 to change, 3 unchanged`."""
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
        "changes": difference_objects(step.changes),
        "note": step.note,
    }


def say_problems(cli: Session, error: InvalidDocument) -> None:
    """Print the problems of a document on stderr; with --json the error has them."""
    if cli.is_json:
        return
    for problem in error.problems[:MOST_TOLD]:
        cli.report(problem_words(problem))
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
