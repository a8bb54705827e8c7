"""What is selected of an output: from one place to another, or whole lines. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from edgecron.base.values import NamedTuple
from edgecron.tui.printed import Printed
from edgecron.tui.wrapping import shown


class Place(NamedTuple):
    """Before a letter of a line as it is shown."""

    line: int
    letter: int


class Selection(NamedTuple):
    """From where it was begun to where it has come, in either direction. Of whole lines, both
    ends are within."""

    anchor: Place
    head: Place
    is_lines: bool = False

    @property
    def first(self) -> Place:
        return min(self.anchor, self.head)

    @property
    def last(self) -> Place:
        return max(self.anchor, self.head)

    @property
    def line_count(self) -> int:
        """How many lines it reaches over."""
        return self.last.line - self.first.line + 1

    def span_of(self, line: int, length: int) -> tuple[int, int] | None:
        """Which letters of a line are selected; None where none is."""
        if not self.first.line <= line <= self.last.line:
            return None
        if self.is_lines:
            return 0, length
        start = self.first.letter if line == self.first.line else 0
        end = self.last.letter if line == self.last.line else length
        return min(start, length), min(end, length)


def selected_text(printed: Printed, selection: Selection) -> str:
    """What is selected, of what is still there; whole lines end with a newline."""
    first = max(selection.first.line, printed.first)
    parts: list[tuple[str, bool]] = []
    for number in range(first, min(selection.last.line + 1, printed.end)):
        line = printed.line(number)
        text = shown(line.text)
        start, end = selection.span_of(number, len(text)) or (0, 0)
        parts.append((text[start:end], line.is_continued))
    return _joined(parts) + ("\n" if selection.is_lines else "")


def whole_text(printed: Printed) -> str:
    """All that is there, clean, and each line ended."""
    return _joined((line.text, line.is_continued) for line in printed.lines()) + "\n"


def _joined(parts: Iterable[tuple[str, bool]]) -> str:
    """Lines as a text; what was one line, and too long to be kept as such, is one again."""
    found: list[str] = []
    for text, is_continued in parts:
        if found and not is_continued:
            found.append("\n")
        found.append(text)
    return "".join(found)
