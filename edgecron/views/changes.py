"""Differences between definitions of a schedule, and changes of schedules, in words and JSON.

Pure. `apply --dry-run`, `show --changes`, `undo` and the dashboard show differences as these lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from edgecron.base.units import format_ms, parse_instant
from edgecron.base.values import NamedTuple, replace
from edgecron.base.window_texts import days_of, is_calendar, source_of
from edgecron.formats.document_tables import (
    APPLY,
    SECRET,
    FieldChange,
    default_of,
    find_changes,
    may_be_secret,
    spec_table,
)
from edgecron.formats.toml import write_value
from edgecron.model.schedule import Act, Change, Difference, ScheduleSpec, Undo
from edgecron.views.json_objects import instant
from edgecron.views.phrases import CHANGED, CREATED, REMOVED, Glyph
from edgecron.views.times import near_time

_MOST_LETTERS = 200  # of a value, where a change is shown
_MOST_IN_LINE = 72  # letters of a field with both values; longer ones take a line each
_MOST_DAYS = 6  # of a calendar that was read again
REMOVED_FIELD = "removed"
_INSTANTS = ("paused_until", "next_run_at")
_ACTS = {
    Act.ADD: "added",
    Act.EDIT: "changed",
    Act.PAUSE: "paused",
    Act.RESUME: "resumed",
    Act.RESCHEDULE: "next run moved",
    Act.REMOVE: "removed",
    Act.UNDO: "undone",
}
_NOUNS = {
    Act.ADD: "the addition",
    Act.EDIT: "the edit",
    Act.PAUSE: "the pause",
    Act.RESUME: "the resume",
    Act.RESCHEDULE: "the move",
    Act.UNDO: "the undo",
}
_ORIGINS = {
    "cli": "command line",
    "http": "HTTP",
    "dashboard": "dashboard",
    "crontab": "import",
    "python": "Python",
    "sql": "SQL",
    "mcp": "AI assistant",
    "demo": "demo",
    "calendar": "calendar read again",
}


def find_differences(
    old: ScheduleSpec | None,
    new: ScheduleSpec | None,
    *,
    state: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[Difference, ...]:
    """List the fields in which two definitions differ, and those of a state.

    None is no definition. `state` has the values before and after of `enabled` and `removed`, and
    of `paused_until` and `next_run_at` in milliseconds.
    """
    found = [Difference(key, *two) for key, two in _state_values(state or {})]
    if old is not None and new is not None and old.name != new.name:
        found.append(Difference("name", old.name, new.name))
    changes = find_changes(
        {} if old is None else spec_table(old),
        {} if new is None else spec_table(new),
        is_revealed=True,
    )
    found += [Difference(one.key, one.old, one.new) for one in changes]
    if old is not None and new is not None:
        found += _calendar_differences(old.policies.except_days, new.policies.except_days)
    return tuple(found)


def _calendar_differences(old: Sequence[str], new: Sequence[str]) -> Iterator[Difference]:
    """The days that calendars have lost and got, if both definitions name these calendars."""
    before = {source_of(text): days_of(text) for text in old if is_calendar(text)}
    for text in new:
        source, days = source_of(text), days_of(text)
        former = before.get(source, days)
        lost, got = (
            f"{source}: {_some(each)}" if each else None
            for each in (
                [one for one in former if one not in days],
                [one for one in days if one not in former],
            )
        )
        if lost or got:
            yield Difference("except", lost, got)


def _some(days: Sequence[str]) -> str:
    more = len(days) - _MOST_DAYS
    return ", ".join(days[:_MOST_DAYS]) + (f" and {more} more" if more > 0 else "")


def _state_values(state: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, list[object]]]:
    for key, two in state.items():
        if key in _INSTANTS:
            yield key, [None if value is None else format_ms(value) for value in two]
        else:
            yield key, [bool(value) for value in two]


def mask(changes: Iterable[FieldChange | Difference]) -> tuple[Difference, ...]:
    """Replace values of environment, payload and stdin by ***."""
    return tuple(
        Difference(
            one.key,
            SECRET if one.old is not None and may_be_secret(one) else one.old,
            SECRET if one.new is not None and may_be_secret(one) else one.new,
        )
        for one in changes
    )


def mask_change(change: Change) -> Change:
    """Hide the values of a change that can be secret."""
    return replace(change, changes=mask(change.changes))


# Lines.


class DifferenceLine(NamedTuple):
    """A line about a field. `glyph` says whether its value is new, another one, or gone."""

    glyph: Glyph
    text: str


def change_line(change: FieldChange | Difference) -> str:
    """Show a field before and after in one line, `timeout: 1h -> 2h`."""
    if change.old == change.new == SECRET:  # Else they would look alike.
        return f"{change.key}: changed (hidden)"
    old, new = change_words(change)
    return f"{change.key}: {old} -> {new}"


def difference_lines(
    changes: Iterable[FieldChange | Difference],
    *,
    is_whole: bool = False,
    zone: tzinfo | None = None,
    now: datetime | None = None,
) -> list[DifferenceLine]:
    """Show each field by a line, `timeout: 1h -> 2h`, or by two if it is long.

    If `is_whole`, a schedule is made or removed: only its values are shown. With a zone,
    instants are shown in it.
    """
    lines = []
    for change in changes:
        if change.key == REMOVED_FIELD:
            continue  # The act of the change says it.
        old, new = change_words(change, zone=zone, now=now)
        has_old, has_new = change.old is not None, change.new is not None
        if change.old == change.new == SECRET:
            lines.append(DifferenceLine(CHANGED, change_line(change)))
        elif is_whole and has_old != has_new:
            glyph, text = (CREATED, new) if has_new else (REMOVED, old)
            lines.append(DifferenceLine(glyph, f"{change.key}: {text}"))
        elif len(change.key) + len(old) + len(new) > _MOST_IN_LINE:
            if "none" in (old, new):
                glyph, text = (CREATED, new) if old == "none" else (REMOVED, old)
                lines.append(DifferenceLine(glyph, f"{change.key}: {text}"))
                continue
            lines.append(DifferenceLine(REMOVED, f"{change.key}: {old}"))
            lines.append(DifferenceLine(CREATED, f"{change.key}: {new}"))
        else:
            glyph = CREATED if old == "none" else REMOVED if new == "none" else CHANGED
            lines.append(DifferenceLine(glyph, f"{change.key}: {old} -> {new}"))
    return lines


def change_words(
    change: FieldChange | Difference, *, zone: tzinfo | None = None, now: datetime | None = None
) -> tuple[str, str]:
    """Return the old and the new value of a key as text; the default if it is not set."""
    words = []
    for value in (change.old, change.new):
        shown = default_of(change.key) if value is None else value
        if zone is not None and now is not None and change.key in _INSTANTS and value is not None:
            text = near_time(parse_instant(str(value)), zone=zone, now=now)
        else:
            text = "none" if shown in (None, "none") else _bare(write_value(shown))
        text = text.replace("\n", "\\n")
        words.append(text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}...")
    return words[0], words[1]


def _bare(text: str) -> str:
    """Remove the quotes of a TOML text if it is plain."""
    inner = text[1:-1]
    is_plain = text[:1] == '"' == text[-1:] and "\\" not in inner and inner.strip() == inner
    return inner if is_plain and inner else text


def act_words(change: Change) -> str:
    """Put into a word what a change did."""
    if change.act is Act.UNDO:
        for one in change.changes:
            if one.field == REMOVED_FIELD:
                return "removed, by an undo" if one.new else "restored"
    return _ACTS.get(change.act, str(change.act))


def undone_words(undo: Undo) -> str:
    """Say what an undo did, without the next time: `undid the pause of backup`."""
    name = undo.schedule
    if not undo.is_removed and any(one.field == REMOVED_FIELD for one in undo.changes):
        return f"restored {name}"
    if undo.undone is None:
        return f"returned {name} to revision {undo.revision}"
    words = f"undid {_NOUNS.get(undo.undone.act, 'the last change')} of {name}"
    return f"{words}: the schedule is removed, its history stays" if undo.is_removed else words


def origin_words(origin: str) -> str:
    """Put into words from where a change came: `command line`, `apply FILE`."""
    if origin.startswith(APPLY):
        return origin
    return _ORIGINS.get(origin, origin)


def author_words(change: Change) -> str:
    """Name the user of a change and from where it came: `anna, command line`."""
    words = origin_words(change.origin)
    return words if change.user is None else f"{change.user}, {words}"


def change_lines(
    change: Change, *, zone: tzinfo | None = None, now: datetime | None = None
) -> list[DifferenceLine]:
    """Show what a change changed, a line per field."""
    # The words of a pause say this already.
    is_plain = change.act in (Act.PAUSE, Act.RESUME)
    shown = [one for one in change.changes if not (is_plain and one.field == "enabled")]
    return difference_lines(shown, is_whole=change.act is Act.ADD, zone=zone, now=now)


# JSON.


def difference_objects(changes: Iterable[FieldChange | Difference]) -> list[dict[str, Any]]:
    """Return differences as JSON objects."""
    return [{"field": change.key, "old": change.old, "new": change.new} for change in changes]


def change_object(change: Change) -> dict[str, Any]:
    """Return a change as `show --changes` shows it."""
    return {
        "schedule": change.schedule,
        "revision": change.revision,
        "at": instant(change.at),
        "act": change.act.value,
        "origin": change.origin,
        "user": change.user,
        "changes": difference_objects(change.changes),
        "is_complete": change.is_complete,
    }


def undo_object(undo: Undo) -> dict[str, Any]:
    """Return an undo as a JSON object."""
    return {
        "name": undo.schedule,
        "seen": undo.seen,
        "made": undo.made,
        "revision": undo.revision,
        "undone": None if undo.undone is None else change_object(mask_change(undo.undone)),
        "changes": difference_objects(mask(undo.changes)),
        "next_before": [instant(at) for at in undo.next_before],
        "next_after": [instant(at) for at in undo.next_after],
        "is_removed": undo.is_removed,
    }
