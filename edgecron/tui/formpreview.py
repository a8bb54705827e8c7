"""What the form shows of the times that stand in it: in words, and the next ones. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo

from edgecron.base.safetext import clean
from edgecron.tui.facts import Title, laid_out
from edgecron.tui.formcheck import FormChecked, TimeLine
from edgecron.tui.tables import Span
from edgecron.views.letters import display_width, folded
from edgecron.views.times import distance, weekday_time

_AWAY = 9  # columns of a distance
_GAP = 3  # between two columns of times
_MOST_LINES = 4  # of one time in words

Spans = tuple[Span, ...]


def preview_lines(
    found: FormChecked | None, *, width: int, height: int, zone: tzinfo, now: datetime
) -> list[Spans]:
    """At most `height` lines; what is most worth knowing comes first."""
    [title] = laid_out([Title("Next times")], width)
    if found is None:
        return [title]
    words = [line for time in found.times for line in _worded(time, width)]
    notes = [line for note in found.notes for line in _marked("! ", "warn", note, "warn", width)]
    if "timezone" in found.problems:
        words = list(_marked("✗ ", "bad", found.problems["timezone"], "bad", width))
    elif not words:
        words = [((" no time yet: write one above", "dim"),)]
    if not found.fires and found.times and not any(time.is_wrong for time in found.times):
        words.append(((" it has no times that can be told ahead", "dim"),))
    # As many as leave room for some times, and the notes on them.
    words = words[: max(1, height - 1 - min(3, len(found.fires)) - min(1, len(notes)))]
    room = height - 1 - len(words)
    times = _in_columns(
        found, width=width, height=max(1, room - min(len(notes), 1)), zone=zone, now=now
    )
    parts = [part for part in (words, times, notes) if part]
    # Where there is much room, the parts stand apart.
    gap: list[Spans] = [()] if 1 + sum(map(len, parts)) + len(parts) <= height else []
    lines = [title, *parts[0]]
    for part in parts[1:]:
        lines += [*gap, *part]
    return lines[:height]


def _worded(time: TimeLine, width: int) -> Iterator[Spans]:
    mark, look = ("✗ ", "bad") if time.is_wrong else ("✓ ", "good")
    text = time.words or time.text
    yield from list(_marked(mark, look, text, "bad" if time.is_wrong else "", width))[:_MOST_LINES]


def _marked(mark: str, mark_look: str, text: str, look: str, width: int) -> Iterator[Spans]:
    for number, part in enumerate(folded(clean(text), max(10, width - 4))):
        head: Span = ("   ", "") if number else (f" {mark}", mark_look)
        yield head, (part, look)


def _in_columns(
    found: FormChecked, *, width: int, height: int, zone: tzinfo, now: datetime
) -> list[Spans]:
    """The times from above to below, in as many columns as are needed and fit."""
    cells: list[Spans] = []
    for fire in found.fires:
        time = weekday_time(fire.due_at, found.timezone, zone=zone)
        away = distance(fire.due_at, now, is_clock_trusted=found.is_clock_trusted)
        cells.append(((f" {away:<{_AWAY}} ", "accent"), (time, "")))
    if len(found.times) > 1 and height >= len(cells):
        cells = [
            (*cell, (f"  {clean(fire.source or '')}", "dim"))
            for cell, fire in zip(cells, found.fires, strict=True)
        ]
    if not cells:
        return []
    widest = max(sum(display_width(text) for text, _ in cell) for cell in cells)
    columns = max(1, min((width + _GAP) // (widest + _GAP), -(-len(cells) // height)))
    rows = min(height, -(-len(cells) // columns))
    lines = []
    for row in range(rows):
        spans: list[Span] = []
        for cell in cells[row : rows * columns : rows]:
            used = sum(display_width(text) for text, _ in cell)
            spans += [*cell, (" " * (widest - used + _GAP), "")]
        lines.append(tuple(spans))
    return lines
