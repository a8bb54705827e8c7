"""Format text for the terminal: cleaned of control codes, coloured, aligned, cut to fit."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from edgecron.base.safetext import clean
from edgecron.cli.terminal import terminal_columns
from edgecron.views.phrases import display_width, fit, folded

_STYLES = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34",
    "magenta": "35", "cyan": "36",
}  # fmt: skip
_PAINT = f"(\x1b\\[(?:0|{'|'.join(_STYLES.values())})m)"
_BLANKS = {ord("\t"): " ", ord("\n"): " "}  # a cell is one line
_NARROWEST = 8  # a flexible column keeps this width
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
    """Clean lines, but keep the colours of `paint`."""
    parts = re.split(_PAINT, text)
    return "".join(
        part if number % 2 else clean(part, keep="\n") for number, part in enumerate(parts)
    )


def paint(text: str, style: str | None, *, is_on: bool) -> str:
    """Clean a text, and colour it if `is_on`."""
    return _colored(clean(text), style if is_on else None)


def _colored(cleaned: str, style: str | None) -> str:
    return cleaned if style is None else f"\x1b[{_STYLES[style]}m{cleaned}\x1b[0m"


def wrapped(text: str) -> str:
    """Wrap a line to the width of the terminal, between words."""
    from textwrap import fill

    width = terminal_columns(otherwise=100)
    return fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def heading(key: str) -> str:
    """Return the heading of a column: its JSON key without the unit, such as DURATION."""
    return re.sub("_(ms|s|at|bytes)$", "", key).replace("_", " ").upper()


def table(
    keys: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    is_colored: bool,
    styles: Sequence[Sequence[str | None]] | None = None,
    flexible: Sequence[int | tuple[int, int]] = (),
    title: int = 0,
    width: int | None = None,
) -> list[str]:
    """Format rows as aligned lines below a heading for each column.

    `keys` are the JSON keys of the columns; a column that JSON lacks has a name in the same form.
    If there is no room, headings are folded between words. Then `flexible` columns shrink in this
    order; (column, least) bounds how far, and a column may occur twice. If that is not enough, each
    row becomes a block of lines: its cells up to the column `title`, then one cell per line.
    `styles` has a style or None for each cell. Cells are cleaned for the terminal.
    """
    cleaned = [[_clean_cell(cell) for cell in row] for row in rows]
    headings = [heading(key) for key in keys]
    styles = styles or [[None] * len(headings)] * len(rows)
    room = width or room_on_screen()
    columns = _column_widths(headings, cleaned)
    if _line_width(columns) > room:
        columns = _column_widths([max(text.split(), key=len) for text in headings], cleaned)
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
    lines = [
        paint(_line(parts, columns), "bold", is_on=is_colored)
        for parts in _folded_headings(headings, columns)
    ]
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
    """Return the width of the terminal; no limit without one, so that `grep` sees all."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return terminal_columns(otherwise=100)
    return _NO_LIMIT


def _column_widths(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(display_width(cell) for cell in column) for column in zip(headings, *rows, strict=True)
    ]


def _folded_headings(headings: Sequence[str], columns: Sequence[int]) -> list[tuple[str, ...]]:
    """Return the lines of the headings; each heading ends in the last line."""
    upward = [list(folded(text, columns[at]))[::-1] for at, text in enumerate(headings)]
    return list(zip_longest(*upward, fillvalue=""))[::-1]


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
    """Format a row as lines: its title, then its non-empty cells."""
    first = " ".join(cell for cell in cells[: title + 1] if cell)
    lines = [paint(part, "bold", is_on=is_colored) for part in folded(first, room)]
    widest = max(map(display_width, headings[title + 1 :]))
    labels = max(5, min(widest + 4, room - _NARROWEST))
    for text, cell, style in zip(
        headings[title + 1 :], cells[title + 1 :], styles[title + 1 :], strict=True
    ):
        label = fit(text.lower(), labels - 4)
        for part in folded(cell, max(room - labels, _NARROWEST)) if cell else ():
            start = paint(f"  {label}".ljust(labels), "dim", is_on=is_colored)
            lines.append(f"{start}{paint(part, style, is_on=is_colored)}")
            label = ""
    return lines
