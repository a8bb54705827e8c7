"""What a document changes of schedules, as lines for people and as JSON objects."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgecron.base.errors import InvalidDocument
    from edgecron.cli.session import Session
    from edgecron.formats.document_plan import Action, FieldChange, Step
    from edgecron.model.schedule import Schedule

MOST_TOLD = 20  # of what is wrong with a document, or left alone by it
_STYLES = {"create": "green", "change": "yellow", "remove": "red"}
_SIGNS = {"create": "+", "change": "~", "remove": "-"}


def put_plan(cli: Session, steps: Collection[Step], *, is_pruned: bool) -> None:
    """A plan on stdout: what is made, changed and removed, and how much is left as it is.

    What came from elsewhere is named where it might have been removed.
    """
    from edgecron.cli.screen import paint
    from edgecron.formats.document_plan import PRUNABLE, Action

    is_colored = cli.use_color(sys.stdout)
    for step in steps:
        action = step.action.value
        if action not in _SIGNS:
            continue
        cli.put(paint(f"{_SIGNS[action]} {action} {step.name}", _STYLES[action], is_on=is_colored))
        if step.action is Action.CREATE and step.wanted is not None:
            from edgecron.views.phrases import job_words

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
    """Changed keys, one to a line: `timeout: 1h -> 2h`."""
    for change in changes:
        old, new = change_words(change)
        cli.put(f"    {change.key}: {old} -> {new}")


_MOST_LETTERS = 200  # of a value, where a change is shown


def hide_values(changes: Iterable[FieldChange]) -> list[FieldChange]:
    """Changes for a log: values of environment, payload and stdin as ***."""
    from edgecron.base.values import replace
    from edgecron.formats.document_plan import SECRET, may_be_secret

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
    from edgecron.views.acts import kept_words

    words = kept_words(changes, forget=cli.command(f"prune --forget {name}"))
    if words is not None:
        cli.say(f"edgecron: note: {words}")


def put_changed(cli: Session, schedule: Schedule, changes: Iterable[FieldChange]) -> None:
    """A schedule that was changed, what of it, and its next run; and where that does not last."""
    from edgecron.client.engine_words import reverting_words

    changes = list(changes)
    put_kept(cli, schedule.name, changes)
    reverting = reverting_words(schedule)
    if reverting is not None:
        cli.say(f"edgecron: note: {reverting}")
    if cli.is_json:
        from edgecron.views.json_objects import schedule_object

        cli.put_json([schedule_object(schedule)])
        return
    from edgecron.views.phrases import next_sentence

    client = cli.client()
    is_trusted = client.clock_state().is_trusted
    when = next_sentence(schedule, zone=cli.zone(), now=client.now(), is_clock_trusted=is_trusted)
    cli.put(f"changed {schedule.name}; {when}")
    put_changes(cli, changes)


def change_words(change: FieldChange) -> tuple[str, str]:
    """What a key said and what it will say: its default where it is not named."""
    from edgecron.formats.document_writing import default_of
    from edgecron.formats.toml import write_value

    words = []
    for value in (change.old, change.new):
        shown = default_of(change.key) if value is None else value
        text = "none" if shown in (None, "none") else _bare(write_value(shown))
        text = text.replace("\n", "\\n")
        words.append(text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}...")
    return words[0], words[1]


def count_actions(steps: Iterable[Step]) -> str:
    """`2 to create, 1 to change, 3 unchanged`."""
    from collections import Counter

    return counted_words(Counter(step.action for step in steps))


def counted_words(counts: Mapping[Action, int]) -> str:
    """The same of how many steps do what."""
    from edgecron.formats.document_plan import Action

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
    """A step of a plan as JSON has it."""
    return {
        "name": step.name,
        "action": step.action.value,
        "changes": [
            {"field": change.key, "old": change.old, "new": change.new} for change in step.changes
        ],
        "note": step.note,
    }


def say_problems(cli: Session, error: InvalidDocument, *, file: str | None = None) -> None:
    """What is wrong with a document, one problem to a line, on stderr; in JSON it is told later."""
    if cli.is_json:
        return
    for problem in error.problems[:MOST_TOLD]:
        cli.say(problem_words(problem, file=file))
    more = len(error.problems) - MOST_TOLD
    if more > 0:
        cli.say(f"and {more} more")


def problem_words(problem: Any, *, file: str | None = None) -> str:
    """`line 3: schedule 'backup': timeout: ...`."""
    where = f"line {problem['line']}: " if problem["line"] is not None else ""
    if file is not None and where:
        where = f"{file}, {where}"
    whose = f"schedule {problem['schedule']!r}: " if problem["schedule"] is not None else ""
    if whose and problem["message"].startswith(whose.rstrip(": ")):
        whose = ""
    hint = f" ({problem['hint']})" if problem["hint"] else ""
    return f"{where}{whose}{problem['message']}{hint}"


def _bare(text: str) -> str:
    """Text as TOML without quotes that nobody misses."""
    inner = text[1:-1]
    is_plain = text[:1] == '"' == text[-1:] and "\\" not in inner and inner.strip() == inner
    return inner if is_plain and inner else text
