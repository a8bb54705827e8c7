"""Text in columns of the screen: wrapped to a width, cut to a window, divided by marks. Pure.

Only visible lines are wrapped. Of the others the height is enough, which is mostly a division.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from edgecron.base.values import NamedTuple
from edgecron.views.phrases import display_width, letter_width

_TAB = 8
_BLOCK = 256  # lines whose heights are summed up


def shown(text: str) -> str:
    """Expand the tabs of a line."""
    return text.expandtabs(_TAB) if "\t" in text else text


def wrap(text: str, width: int) -> tuple[str, ...]:
    """Wrap a line into rows, one at least. No letter is lost or divided."""
    text = shown(text)
    if display_width(text) <= width:
        return (text,)
    if text.isascii():
        return tuple(text[at : at + width] for at in range(0, len(text), width))
    rows, begin, taken = [], 0, 0
    for at, letter in enumerate(text):
        size = letter_width(letter)
        if taken + size > width and at > begin:
            rows.append(text[begin:at])
            begin, taken = at, 0
        taken += size
    return (*rows, text[begin:])


def has_wide(text: str) -> bool:
    """Return whether a line has letters of two columns, which can leave a column empty."""
    return not text.isascii() and any(letter_width(letter) > 1 for letter in text)


class Heights:
    """The heights of lines, their sum, and the line of a row.

    Appending and changing cost the same for any length; finding costs hardly more.
    """

    def __init__(self, bar_height: Callable[[int], int]) -> None:
        self._height_of = bar_height
        self._blocks: list[int] = []
        self._count = 0
        self.total = 0

    def append(self, height: int) -> None:
        if self._count % _BLOCK == 0:
            self._blocks.append(0)
        self._count += 1
        self._add(self._count - 1, height)

    def change(self, index: int, by: int) -> None:
        """Add to the height of a line; `height_of` returns the new height already."""
        if by:
            self._add(index, by)

    def row_of(self, index: int) -> int:
        """Return the first row of a line."""
        block = index // _BLOCK
        return sum(self._blocks[:block]) + sum(map(self._height_of, range(block * _BLOCK, index)))

    def locate(self, row: int) -> tuple[int, int]:
        """Return the line of a row, and which of its rows that is. Raises IndexError."""
        if not 0 <= row < self.total:
            raise IndexError(f"row {row} of {self.total}")
        block = 0
        while row >= self._blocks[block]:
            row -= self._blocks[block]
            block += 1
        index = block * _BLOCK
        while row >= (height := self._height_of(index)):
            row -= height
            index += 1
        return index, row

    def _add(self, index: int, height: int) -> None:
        self._blocks[index // _BLOCK] += height
        self.total += height


def window(text: str, left: int, width: int) -> tuple[int, int, int]:
    """Return the letters in `width` columns from `left`: begin, end, and blank columns before.

    A column is blank if a wide letter is cut in two.
    """
    if text.isascii():
        return min(left, len(text)), min(left + width, len(text)), 0
    column = first = 0
    while first < len(text) and column < left:
        column += letter_width(text[first])
        first += 1
    while first < len(text) and column == left and left and not letter_width(text[first]):
        first += 1  # Combining marks belong to the letter before.
    blank, end = column - left, first
    column = blank
    while end < len(text) and column + letter_width(text[end]) <= width:
        column += letter_width(text[end])
        end += 1
    return first, end, max(0, blank) if end > first else 0


def letter_at(text: str, column: int) -> int:
    """Return the letter in a column; beyond the last one, their number."""
    if text.isascii():
        return min(max(column, 0), len(text))
    used = 0
    for at, letter in enumerate(text):
        used += letter_width(letter)
        if used > column:
            return at
    return len(text)


class Mark(NamedTuple):
    """Letters of a line that stand out in a style."""

    start: int
    end: int
    style: str


def marked(text: str, start: int, marks: Sequence[Mark], style: str) -> list[tuple[str, str]]:
    """Divide a part of a line, which begins at letter `start`, into pieces of one style.

    If marks overlap, the last one wins.
    """
    end = start + len(text)
    points = {start, end}
    points.update(min(max(point, start), end) for mark in marks for point in mark[:2])
    spans = []
    for at, to in pairwise(sorted(points)):
        styles = [mark.style for mark in marks if mark.start <= at < mark.end]
        spans.append((text[at - start : to - start], styles[-1] if styles else style))
    return spans
