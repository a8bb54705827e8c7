"""Lines wrapped to a width, and where they lie then, in a list of any length. Pure.

What is looked at is wrapped; of the others only the height is known, and of most of them that is a
division.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from edgecron.base.values import NamedTuple
from edgecron.views.phrases import display_width, letter_width

_TAB = 8
_BLOCK = 256  # lines whose heights are summed up


def shown(text: str) -> str:
    """A line with its tabs as blanks."""
    return text.expandtabs(_TAB) if "\t" in text else text


def wrap(text: str, width: int) -> tuple[str, ...]:
    """The rows of a line, each as long as fits; one at least. No letter is lost or divided."""
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
    """Whether a line has letters of two columns: where it breaks, a column may stay empty."""
    return not text.isascii() and any(letter_width(letter) > 1 for letter in text)


class Heights:
    """The heights of lines by index, their sum, and which line a row is of.

    To append or change costs no more the longer the list is; to find, hardly.
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
        """A line became higher by so much, of which `height_of` knows."""
        if by:
            self._add(index, by)

    def row_of(self, index: int) -> int:
        """The first row of a line."""
        block = index // _BLOCK
        return sum(self._blocks[:block]) + sum(map(self._height_of, range(block * _BLOCK, index)))

    def locate(self, row: int) -> tuple[int, int]:
        """The line that has a row, and which of its rows that is. Raises IndexError."""
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
    """The letters of a text in so many columns from `left` on: their beginning and end, and how
    many columns are blank before them, where a wide letter is cut in two."""
    if text.isascii():
        return min(left, len(text)), min(left + width, len(text)), 0
    column = first = 0
    while first < len(text) and column < left:
        column += letter_width(text[first])
        first += 1
    while first < len(text) and column == left and left and not letter_width(text[first]):
        first += 1  # Marks belong to the letter before.
    blank, end = column - left, first
    column = blank
    while end < len(text) and column + letter_width(text[end]) <= width:
        column += letter_width(text[end])
        end += 1
    return first, end, max(0, blank) if end > first else 0


def letter_at(text: str, column: int) -> int:
    """Which letter stands in a column; behind the last one, how many there are."""
    if text.isascii():
        return min(max(column, 0), len(text))
    used = 0
    for at, letter in enumerate(text):
        used += letter_width(letter)
        if used > column:
            return at
    return len(text)


class Mark(NamedTuple):
    """Letters of a line that stand out, in a look."""

    start: int
    end: int
    look: str


def marked(text: str, start: int, marks: Sequence[Mark], look: str) -> list[tuple[str, str]]:
    """A part of a line, which begins at its letter number `start`, in pieces of one look each.

    Where marks lie over each other, the last one is seen.
    """
    end = start + len(text)
    points = {start, end}
    points.update(min(max(point, start), end) for mark in marks for point in mark[:2])
    spans = []
    for at, to in pairwise(sorted(points)):
        looks = [mark.look for mark in marks if mark.start <= at < mark.end]
        spans.append((text[at - start : to - start], looks[-1] if looks else look))
    return spans
