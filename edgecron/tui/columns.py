"""Which letters of a text stand in which columns of the screen. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from edgecron.base.values import NamedTuple
from edgecron.views.letters import letter_width


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
