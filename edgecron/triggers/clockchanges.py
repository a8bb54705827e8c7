"""What a clock change does to a trigger, told before it happens."""

from __future__ import annotations

from datetime import datetime

from edgecron.base.timetext import from_ms as to_datetime
from edgecron.base.values import NamedTuple
from edgecron.triggers.base import EARLIEST_MS, LATEST_MS, Trigger
from edgecron.triggers.crontrigger import CronTrigger
from edgecron.triggers.tzif import DAY_S, Spans
from edgecron.triggers.zones import trigger_spans


class ClockChange(NamedTuple):
    """One change of a zone's offset at which a trigger behaves specially.

    `at` is its instant in UTC, `date` the local date (YYYY-MM-DD) on which clocks change.
    """

    at: datetime
    date: str
    text: str


def clock_change_notes(trigger: Trigger, from_ms: int, until_ms: int) -> list[ClockChange]:
    """A note for each offset change in (from, until] that this trigger's times meet.

    Empty for a trigger that does not follow the wall clock.
    """
    if not isinstance(trigger, CronTrigger):
        return []
    since, until = max(from_ms, EARLIEST_MS) // 1000, min(until_ms, LATEST_MS) // 1000
    spans = trigger_spans(trigger.timezone, until_s=until + 1)
    notes: list[ClockChange] = []
    for index in range(spans.index_at(since) + 1, spans.index_at(until) + 1):
        text = _note(trigger, spans, index)
        if text is not None:
            start = spans.starts[index]
            date = _wall(start + spans.offsets[index - 1]).strftime("%Y-%m-%d")
            notes.append(ClockChange(_instant(start), date, text))
    return notes


def _note(trigger: CronTrigger, spans: Spans, index: int) -> str | None:
    start, offset = spans.starts[index], spans.offsets[index]
    before, after = start + spans.offsets[index - 1], start + offset
    if after > before:
        # What an earlier fold has shown already is not skipped for a fixed trigger.
        since = before if trigger.fields.is_wildcard else spans.marks[index]
        return _gap_note(trigger, since=since, before=before, after=after)
    return _fold_note(trigger, before=before, after=after, end=spans.end(index) + offset)


def _gap_note(trigger: CronTrigger, *, since: int, before: int, after: int) -> str | None:
    count = trigger.fields.count(since, after)
    if not count:
        return None
    change = f"clocks go forward from {_shown(before, after)} to {_shown(after, before)}"
    which = _which(trigger, since, after, count)
    do, it = ("does", "it runs once") if count == 1 else ("do", "they run as one")
    if trigger.fields.is_wildcard:
        return f"{change}: {which} {do} not exist that day, and nothing runs in place"
    return f"{change}: {which} {do} not exist that day; {it}, at {_shown(after, before)}"


def _fold_note(trigger: CronTrigger, *, before: int, after: int, end: int) -> str | None:
    last = min(before, end)
    count = trigger.fields.count(after, last)
    if not count:
        return None
    change = f"clocks go back from {_shown(before, after)} to {_shown(after, before)}"
    which = _which(trigger, after, last, count)
    come, it = ("comes", "it runs") if count == 1 else ("come", "they run")
    if trigger.fields.is_wildcard:
        return f"{change}: {which} {come} twice, and {it} both times"
    return f"{change}: {which} {come} twice, and {it} the first time only"


def _which(trigger: CronTrigger, since: int, until: int, count: int) -> str:
    first, last = trigger.fields.first(since, until), trigger.fields.last(since, until)
    if first is None or last is None or first == last:
        return _shown(first or since, until)
    return f"{count} times from {_shown(first, last)} to {_shown(last, first)}"


def _shown(wall_s: int, other_s: int) -> str:
    """A wall time, with its date where the other one is on another day."""
    wall = _wall(wall_s)
    clock = wall.strftime("%H:%M:%S" if wall.second else "%H:%M")
    if wall_s // DAY_S == other_s // DAY_S:
        return clock
    return f"{wall.year:04d}-{wall.month:02d}-{wall.day:02d} {clock}"


def _wall(wall_s: int) -> datetime:
    """A datetime that shows the wall time; its offset means nothing."""
    return _instant(wall_s)


def _instant(instant_s: int) -> datetime:
    return to_datetime(instant_s * 1000)
