"""Searching lines that grow in number: by parts of them, heeding capitals where one is given."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence


def spans_in(text: str, wanted: str) -> list[tuple[int, int]]:
    """(start, end) of each place in a text that matches, from the left; they don't overlap."""
    if not wanted:
        return []
    text, wanted = _compared(text, wanted), _compared(wanted, wanted)
    found = []
    at = text.find(wanted)
    while at >= 0:
        found.append((at, at + len(wanted)))
        at = text.find(wanted, at + len(wanted))
    return found


class Search:
    """The lines in which a text stands, as far as they were looked at."""

    def __init__(self, wanted: str, line: Callable[[int], str], *, first: int = 0) -> None:
        self.wanted = wanted
        self._line = line
        self._needle = _compared(wanted, wanted)
        self._found: list[int] = []
        self._next = first
        self._changed: set[int] = set()

    def narrowed(self, wanted: str) -> Search | None:
        """The search for a text that this one's is a part of; None where it is none."""
        if not self.wanted or self._needle not in _compared(wanted, self.wanted):
            return None
        search = Search(wanted, self._line, first=self._next)
        search._found = [number for number in self._found if search._is_in(number)]
        search._changed = set(self._changed)
        return search

    def changed(self, number: int) -> None:
        """A line that may have been looked at has grown."""
        if number < self._next:
            self._changed.add(number)

    def forget(self, before: int) -> None:
        """Lines before this one are no more."""
        del self._found[: bisect_left(self._found, before)]
        self._changed = {number for number in self._changed if number >= before}
        self._next = max(self._next, before)

    def go_on(self, end: int) -> Sequence[int]:
        """Look at what is new, before line `end`; the lines of all matches, in order."""
        for number in self._changed:
            at = bisect_left(self._found, number)
            is_known = at < len(self._found) and self._found[at] == number
            if not is_known and self._is_in(number):
                insort(self._found, number)
        self._changed.clear()
        self._found += [number for number in range(self._next, end) if self._is_in(number)]
        self._next = max(self._next, end)
        return self._found

    def _is_in(self, number: int) -> bool:
        return self._needle in _compared(self._line(number), self.wanted)


def _compared(text: str, wanted: str) -> str:
    """A text as it is compared with what is wanted: as it is, or in small letters.

    Of the same length, so that places in it are places in the text.
    """
    if wanted != wanted.lower():
        return text
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)
