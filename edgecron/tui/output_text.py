"""The output of a run as lines: kept within a bound, searched, selected. Pure.

A line continues with its own stream, even if the other stream printed meanwhile, and stays where it
began. Lines keep their numbers. If there is too much output, the oldest lines are dropped.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence

from edgecron.base.safetext import StreamCleaner
from edgecron.base.values import NamedTuple
from edgecron.model.claim import OutputChunk, Stream
from edgecron.tui.wrapping import Heights, has_wide, shown, wrap
from edgecron.views.phrases import display_width, size_words

MOST_BYTES = 8 * 1024 * 1024
_LONGEST = 4096  # letters of a line; the rest continues in another line
_LINE_COST = 100  # bytes of a line beside its letters
# The kind of a line: the number of its stream (0 for a note of ours), and flags.
_STREAM, _IS_CONTINUED, _IS_WIDE = 3, 4, 8


def find_matches(text: str, wanted: str) -> list[tuple[int, int]]:
    """Return (start, end) of each match in a text, from the left, without overlap."""
    if not wanted:
        return []
    text, wanted = _folded_case(text, wanted), _folded_case(wanted, wanted)
    found = []
    at = text.find(wanted)
    while at >= 0:
        found.append((at, at + len(wanted)))
        at = text.find(wanted, at + len(wanted))
    return found


class Search:
    """The lines that contain a text, among those searched so far."""

    def __init__(self, wanted: str, line: Callable[[int], str], *, first: int = 0) -> None:
        self.wanted = wanted
        self._line = line
        self._needle = _folded_case(wanted, wanted)
        self._found: list[int] = []
        self._next = first
        self._changed: set[int] = set()

    def narrowed(self, wanted: str) -> Search | None:
        """Return the search for a longer text that contains this one; None if it does not."""
        if not self.wanted or self._needle not in _folded_case(wanted, self.wanted):
            return None
        search = Search(wanted, self._line, first=self._next)
        search._found = [number for number in self._found if search._is_in(number)]
        search._changed = set(self._changed)
        return search

    def changed(self, number: int) -> None:
        """Note that a line has grown."""
        if number < self._next:
            self._changed.add(number)

    def forget(self, before: int) -> None:
        """Forget the lines before this one."""
        del self._found[: bisect_left(self._found, before)]
        self._changed = {number for number in self._changed if number >= before}
        self._next = max(self._next, before)

    def search_on(self, end: int) -> Sequence[int]:
        """Search new lines up to `end`; return all lines that match, in order."""
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
        return self._needle in _folded_case(self._line(number), self.wanted)


def _folded_case(text: str, wanted: str) -> str:
    """Return a text in small letters, or as it is if the wanted text has capitals.

    The length stays the same, so that positions are valid in both.
    """
    if wanted != wanted.lower():
        return text
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)


class OutputLine(NamedTuple):
    """A line, cleaned. `stream` None: a note of ours on skipped bytes.

    If `is_continued`, it continues the line before, which was too long.
    """

    number: int
    stream: Stream | None
    at_ms: int
    text: str
    is_continued: bool


class OutputText:
    """The lines of a run's output. `first` is the number of the oldest line kept."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._cost = 0
        self.first = 0
        self._texts: list[str] = []
        self._kinds = bytearray()
        self._times = array("q")
        self._cells = array("l")
        self._cleaners = {stream: StreamCleaner() for stream in Stream}
        self._open_lines: dict[Stream, int] = {}
        self._skipped_bytes = 0  # by the note in the last line
        self._heights: tuple[int, Heights] | None = None
        self._search: Search | None = None

    @property
    def end(self) -> int:
        """The number of the next line."""
        return self.first + len(self._texts)

    def extend(self, pieces: Iterable[tuple[int, OutputChunk]]) -> None:
        """Add output: (bytes skipped before it, chunk)."""
        for skipped_bytes, chunk in pieces:
            if skipped_bytes:
                self._note_skipped(skipped_bytes, chunk.at_ms)
            self._take(chunk.stream, self._cleaners[chunk.stream].feed(chunk.content), chunk.at_ms)
        self._shrink()

    def finish(self) -> None:
        """End the output: add what was held back, such as half a letter."""
        at_ms = self._times[-1] if self._times else 0
        for stream, cleaner in self._cleaners.items():
            self._take(stream, cleaner.end(), at_ms)
        self._open_lines.clear()

    def line(self, number: int) -> OutputLine:
        """Return a line by its number. Raises IndexError if there is none."""
        at = self._index(number)
        kind = self._kinds[at]
        return OutputLine(
            number=number,
            stream=Stream(kind & _STREAM) if kind & _STREAM else None,
            at_ms=self._times[at],
            text=self._texts[at],
            is_continued=bool(kind & _IS_CONTINUED),
        )

    def lines(self) -> Iterator[OutputLine]:
        """Return all lines kept."""
        return map(self.line, range(self.first, self.end))

    def rows_of(self, number: int, width: int | None) -> tuple[str, ...]:
        """Return the rows of a line, wrapped to a width; one row for None."""
        text = self._texts[self._index(number)]
        return (shown(text),) if width is None else wrap(text, width)

    def height_at(self, width: int | None) -> int:
        """Return the number of rows of all lines."""
        return len(self._texts) if width is None else self._heights_at(width).total

    def locate(self, row: int, width: int | None) -> tuple[int, int]:
        """Return the line of a row, and which of its rows that is.

        Raises IndexError.
        """
        if width is None:
            self._index(self.first + row)
            return self.first + row, 0
        index, part = self._heights_at(width).locate(row)
        return self.first + index, part

    def row_of(self, number: int, width: int | None) -> int:
        """Return the first row of a line."""
        index = self._index(number)
        return index if width is None else self._heights_at(width).row_of(index)

    def search(self, wanted: str) -> Sequence[int]:
        """Return the numbers of lines that contain a text; capitals matter if it has any.

        Lines already searched for the text, or for a part of it, are not searched again.
        """
        if not wanted:
            self._search = None
            return ()
        search = self._search
        if search is None or search.wanted != wanted:
            narrowed = None if search is None else search.narrowed(wanted)
            search = self._search = narrowed or Search(wanted, self._text_of, first=self.first)
        return search.search_on(self.end)

    def _text_of(self, number: int) -> str:
        return self._texts[number - self.first]

    def _index(self, number: int) -> int:
        if not self.first <= number < self.end:
            raise IndexError(f"line {number}, expected {self.first} to {self.end - 1}")
        return number - self.first

    def _take(self, stream: Stream, text: str, at_ms: int) -> None:
        if not text:
            return
        *whole, rest = text.split("\n")
        for part in whole:
            self._extend_line(stream, part, at_ms)
            self._open_lines.pop(stream, None)
        if rest:
            self._extend_line(stream, rest, at_ms)

    def _extend_line(self, stream: Stream, text: str, at_ms: int) -> None:
        """Add text to the open line of a stream, or begin one."""
        number = self._open_lines.get(stream)
        if number is not None and number >= self.first:
            room = _LONGEST - len(self._texts[number - self.first])
            self._grow_line(number, text[:room])
            text = text[room:]
            if not text:
                return
        flags = 0 if number is None else _IS_CONTINUED
        while True:
            self._open_lines[stream] = self.end
            self._begin_line(stream | flags, text[:_LONGEST], at_ms)
            text, flags = text[_LONGEST:], _IS_CONTINUED
            if not text:
                return

    def _begin_line(self, kind: int, text: str, at_ms: int) -> None:
        self._texts.append(text)
        self._kinds.append(kind | (_IS_WIDE if has_wide(text) else 0))
        self._times.append(at_ms)
        self._cells.append(display_width(shown(text)))
        self._cost += _bytes_of(text) + _LINE_COST
        if self._heights is not None:
            width, heights = self._heights
            heights.append(self._height(len(self._texts) - 1, width))
        self._skipped_bytes = 0

    def _grow_line(self, number: int, text: str) -> None:
        if text:
            self._replace_text(number, self._texts[number - self.first] + text)

    def _replace_text(self, number: int, text: str) -> None:
        """Replace the text of a line."""
        at = number - self.first
        before = 0 if self._heights is None else self._height(at, self._heights[0])
        self._cost += _bytes_of(text) - _bytes_of(self._texts[at])
        self._texts[at] = text
        self._kinds[at] |= _IS_WIDE if has_wide(text) else 0
        self._cells[at] = display_width(shown(text))
        if self._heights is not None:
            width, heights = self._heights
            heights.change(at, self._height(at, width) - before)
        if self._search is not None:
            self._search.changed(number)

    def _note_skipped(self, skipped_bytes: int, at_ms: int) -> None:
        """Add a note on skipped bytes; it ends the open lines."""
        for stream, cleaner in self._cleaners.items():
            self._take(stream, cleaner.end(), at_ms)
        self._open_lines.clear()
        total_bytes = self._skipped_bytes + skipped_bytes
        text = f"… {size_words(total_bytes)} {'was' if total_bytes == 1 else 'were'} not kept …"
        if self._skipped_bytes:
            self._replace_text(self.end - 1, text)
        else:
            self._begin_line(0, text, at_ms)
        self._skipped_bytes = total_bytes

    def _shrink(self) -> None:
        """Drop the oldest lines if there is too much: many together, so that it is rare."""
        if self._cost <= self._most:
            return
        count = 0
        while self._cost > self._most * 3 // 4:
            self._cost -= _bytes_of(self._texts[count]) + _LINE_COST
            count += 1
        del self._texts[:count], self._kinds[:count], self._times[:count], self._cells[:count]
        self.first += count
        self._heights = None
        if self._search is not None:
            self._search.forget(self.first)

    def _heights_at(self, width: int) -> Heights:
        if self._heights is None or self._heights[0] != width:
            heights = Heights(lambda index: self._height(index, width))
            for index in range(len(self._texts)):
                heights.append(self._height(index, width))
            self._heights = width, heights
        return self._heights[1]

    def _height(self, index: int, width: int) -> int:
        cells = self._cells[index]
        if cells <= width:
            return 1
        if self._kinds[index] & _IS_WIDE:
            return len(wrap(self._texts[index], width))
        return -(-cells // width)


def _bytes_of(text: str) -> int:
    """Return the bytes of a text in memory: its widest letter decides for all."""
    if text.isascii():
        return len(text)
    last = max(text)
    return len(text) * (1 if last < "\u0100" else 2 if last < "\U00010000" else 4)


class Place(NamedTuple):
    """A position: before a letter of a line as shown."""

    line: int
    letter: int


class Selection(NamedTuple):
    """A selection from `anchor` to `head`, in either direction; of whole lines, both included."""

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
        """The number of lines it touches."""
        return self.last.line - self.first.line + 1

    def span_of(self, line: int, length: int) -> tuple[int, int] | None:
        """Return the selected letters of a line; None if there are none."""
        if not self.first.line <= line <= self.last.line:
            return None
        if self.is_lines:
            return 0, length
        start = self.first.letter if line == self.first.line else 0
        end = self.last.letter if line == self.last.line else length
        return min(start, length), min(end, length)


def selected_text(printed: OutputText, selection: Selection) -> str:
    """Return the selected text that is still kept; whole lines end with a newline."""
    first = max(selection.first.line, printed.first)
    parts: list[tuple[str, bool]] = []
    for number in range(first, min(selection.last.line + 1, printed.end)):
        line = printed.line(number)
        text = shown(line.text)
        start, end = selection.span_of(number, len(text)) or (0, 0)
        parts.append((text[start:end], line.is_continued))
    return _joined(parts) + ("\n" if selection.is_lines else "")


def whole_text(printed: OutputText) -> str:
    """Return all text kept, cleaned, each line ended."""
    return _joined((line.text, line.is_continued) for line in printed.lines()) + "\n"


def _joined(parts: Iterable[tuple[str, bool]]) -> str:
    """Join lines; a long line that was divided becomes one again."""
    found: list[str] = []
    for text, is_continued in parts:
        if found and not is_continued:
            found.append("\n")
        found.append(text)
    return "".join(found)
