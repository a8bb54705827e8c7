"""Text for people: cleaned of what a terminal would obey, coloured, aligned, and cut to fit."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from edgecron.base.safetext import clean
from edgecron.cli.width import terminal_columns
from edgecron.views.phrases import display_width, fit, folded

_STYLES = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34",
    "magenta": "35", "cyan": "36",
}  # fmt: skip
_PAINT = f"(\x1b\\[(?:0|{'|'.join(_STYLES.values())})m)"
_BLANKS = {ord("\t"): " ", ord("\n"): " "}  # a cell is one line
_NARROWEST = 8  # of a column that gives way
_NO_LIMIT = 100_000
STATUS_STYLES = {
    "success": "green",
    "failed": "red",
    "skipped": "yellow",
    "cancelled": "magenta",
    "interrupted": "red",
    "running": "cyan",
    "queued": "blue",
}


def clean_painted(text: str) -> str:
    """Lines that are clean but for the colours of `paint`."""
    import re

    parts = re.split(_PAINT, text)
    return "".join(
        part if number % 2 else clean(part, keep="\n") for number, part in enumerate(parts)
    )


def paint(text: str, style: str | None, *, is_on: bool) -> str:
    """Text cleaned, and coloured where that is wanted."""
    return _colored(clean(text), style if is_on else None)


def _colored(cleaned: str, style: str | None) -> str:
    return cleaned if style is None else f"\x1b[{_STYLES[style]}m{cleaned}\x1b[0m"


def wrapped(text: str) -> str:
    """A line in as many as the terminal needs, broken between words."""
    from textwrap import fill

    width = terminal_columns(otherwise=100)
    return fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    is_colored: bool,
    styles: Sequence[Sequence[str | None]] | None = None,
    flexible: Sequence[int | tuple[int, int]] = (),
    title: int = 0,
    width: int | None = None,
) -> list[str]:
    """Aligned lines. `flexible` columns give way, the first one first, where there is no room.

    (column, least) says how far it does; a column may come again. Where that is not enough, each
    row becomes a block of lines: its cells up to the column `title`, then one to a line.
    `styles` has a style or None for each cell. Cells are cleaned here.
    """
    cleaned = [[_clean_cell(cell) for cell in row] for row in rows]
    styles = styles or [[None] * len(headings)] * len(rows)
    room = width or room_on_screen()
    columns = [
        max(display_width(cell) for cell in column)
        for column in zip(headings, *cleaned, strict=True)
    ]
    for each in flexible:
        column, least = (each, _NARROWEST) if isinstance(each, int) else each
        over = _line_width(columns) - room
        if over > 0:
            columns[column] = min(columns[column], max(least, columns[column] - over))
    if _line_width(columns) > room:
        blocks = (
            _block(headings, cells, styles[number], title=title, room=room, is_colored=is_colored)
            for number, cells in enumerate(cleaned)
        )
        return [line for block in blocks for line in block]
    lines = [paint(_line(headings, columns), "bold", is_on=is_colored)]
    for number, cells in enumerate(cleaned):
        fitted: Iterable[str] = map(fit, cells, columns)
        if is_colored:
            fitted = map(_colored, fitted, styles[number])
        lines.append("  ".join(fitted).rstrip())
    return lines


def _clean_cell(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return clean(text.translate(_BLANKS))


def room_on_screen() -> int:
    """The width of the terminal; where there is none, nothing need be cut that is then searched."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return terminal_columns(otherwise=100)
    return _NO_LIMIT


def _line_width(columns: Sequence[int]) -> int:
    return sum(columns) + 2 * (len(columns) - 1)


def _line(cells: Sequence[str], columns: Sequence[int]) -> str:
    return "  ".join(fit(cell, columns[at]) for at, cell in enumerate(cells)).rstrip()


def _block(
    headings: Sequence[str],
    cells: Sequence[str],
    styles: Sequence[str | None],
    *,
    title: int,
    room: int,
    is_colored: bool,
) -> list[str]:
    """A row as lines: what it is called, then what has something to tell."""
    first = " ".join(cell for cell in cells[: title + 1] if cell)
    lines = [paint(part, "bold", is_on=is_colored) for part in folded(first, room)]
    labels = max(display_width(heading) for heading in headings[title + 1 :]) + 4
    for heading, cell, style in zip(
        headings[title + 1 :], cells[title + 1 :], styles[title + 1 :], strict=True
    ):
        label = heading.lower()
        for part in folded(cell, max(room - labels, _NARROWEST)) if cell else ():
            start = paint(f"  {label}".ljust(labels), "dim", is_on=is_colored)
            lines.append(f"{start}{paint(part, style, is_on=is_colored)}")
            label = ""
    return lines
