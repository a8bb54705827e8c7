"""The output of a run as lines: kept within a bound, coloured, wrapped, searched, selected. Pure.

A line continues with its own stream, even if the other stream printed meanwhile, and keeps its
place. After a carriage return the text of a line begins again, so that only the last step of a
progress bar stays. Lines keep their numbers. If there is too much output, the oldest lines are
dropped.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import accumulate
from sys import getsizeof

from edgecron.base.safetext import StreamCleaner
from edgecron.base.values import NamedTuple
from edgecron.model.run import OutputChunk, Stream
from edgecron.tui.output_colors import PLAIN, Run, cut_runs, join_runs, split_colors
from edgecron.views.phrases import display_width, letter_width, size_words

MOST_BYTES = 36 * 1024 * 1024  # of memory: over 100,000 lines of usual length
_LONGEST = 4096  # letters of a line; the rest continues in another line
_LINE_BYTES = 180  # of memory for a line without its text
_RUN_BYTES = 100  # of memory for a change of colour
_TAB = 8


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


def letter_at(text: str, column: int) -> int:
    """Return the letter in a column; beyond the last one, their number."""
    used = 0
    for at, letter in enumerate(text):
        used += letter_width(letter)
        if used > column:
            return at
    return len(text)


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
    """A line, cleaned, and its columns. `stream` None: a note of ours on skipped bytes.

    If `is_continued`, it continues the line before, which was too long.
    """

    number: int
    stream: Stream | None
    at_ms: int
    text: str
    is_continued: bool = False
    columns: int = 0
    colors: tuple[Run, ...] = ()  # by letters of the text

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return getsizeof(self.text) + _LINE_BYTES + _RUN_BYTES * len(self.colors)

    def height(self, width: int) -> int:
        """Return the number of rows of the line, wrapped to a width."""
        if self.columns <= width:
            return 1
        return -(-self.columns // width) if self.text.isascii() else len(wrap(self.text, width))


class OutputText:
    """The lines of a run's output. `first` is the number of the oldest line kept.

    `printed_lines` are those that the job printed, as far as they came here; `dropped_bytes` did
    not come.
    """

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self.first = 0
        self.printed_lines = 0
        self.dropped_bytes = 0
        self._lines: list[OutputLine] = []
        self._cleaners = {
            stream: StreamCleaner(keeps_returns=True, keeps_colors=True) for stream in Stream
        }
        self._colors = dict.fromkeys(Stream, PLAIN)  # at the end of each stream
        self._open_lines: dict[Stream, int] = {}
        self._skipped_bytes = 0  # by the note in the last line
        # Of each line, the rows down to its end, at one width.
        self._row_ends: list[int] = []
        self._width: int | None = None
        self._wanted = ""
        self._hits: list[int] = []
        self._searched = 0  # up to this line

    @property
    def end(self) -> int:
        """The number of the next line."""
        return self.first + len(self._lines)

    def extend(self, pieces: Iterable[tuple[int, OutputChunk]]) -> None:
        """Add output: (bytes skipped before it, chunk)."""
        for skipped_bytes, chunk in pieces:
            if skipped_bytes:
                self._note_skipped(skipped_bytes, chunk.at_ms)
            self._take(chunk.stream, self._cleaners[chunk.stream].feed(chunk.content), chunk.at_ms)
        self._shrink()

    def finish(self) -> None:
        """End the output: add what was held back, such as half a letter."""
        at_ms = self._lines[-1].at_ms if self._lines else 0
        for stream, cleaner in self._cleaners.items():
            self._take(stream, cleaner.end(), at_ms)
        self._open_lines.clear()

    def line(self, number: int) -> OutputLine:
        """Return a line by its number. Raises IndexError if there is none."""
        if not self.first <= number < self.end:
            raise IndexError(f"line {number}, expected {self.first} to {self.end - 1}")
        return self._lines[number - self.first]

    def lines(self) -> Sequence[OutputLine]:
        """Return all lines kept."""
        return self._lines

    def rows_of(self, number: int, width: int | None) -> tuple[str, ...]:
        """Return the rows of a line, wrapped to a width; one row for None."""
        text = self.line(number).text
        return (shown(text),) if width is None else wrap(text, width)

    def height_at(self, width: int | None) -> int:
        """Return the number of rows of all lines."""
        if width is None or not self._lines:
            return len(self._lines)
        return self._ends_at(width)[-1]

    def locate(self, row: int, width: int | None) -> tuple[int, int]:
        """Return the line of a row, and which of its rows that is. Raises IndexError."""
        if not 0 <= row < self.height_at(width):
            raise IndexError(f"row {row} of {self.height_at(width)}")
        if width is None:
            return self.first + row, 0
        number = self.first + bisect_right(self._ends_at(width), row)
        return number, row - self.row_of(number, width)

    def row_of(self, number: int, width: int | None) -> int:
        """Return the first row of a line."""
        at = number - self.first
        if width is None or at == 0:
            return at
        return self._ends_at(width)[at - 1]

    def colors_of(self, number: int) -> tuple[Run, ...]:
        """Return the colours of a line, by letters of its rows."""
        line = self.line(number)
        if "\t" not in line.text:
            return line.colors
        found, begin, length = [], 0, 0
        for at, color in line.colors:
            before = " " * (length % _TAB)
            length += len(shown(before + line.text[begin:at])) - len(before)
            begin = at
            found.append((length, color))
        return tuple(found)

    def search(self, wanted: str) -> Sequence[int]:
        """Return the numbers of lines that contain a text; capitals matter if it has any.

        Lines already searched for this text are not searched again.
        """
        if wanted != self._wanted:
            self._wanted, self._hits, self._searched = wanted, [], self.first
        fresh = self._lines[self._searched - self.first :]
        self._hits += [line.number for line in fresh if self._is_hit(line.text)]
        self._searched = self.end
        return self._hits

    def _is_hit(self, text: str) -> bool:
        wanted = self._wanted
        return bool(wanted) and _folded_case(wanted, wanted) in _folded_case(text, wanted)

    def _take(self, stream: Stream, text: str, at_ms: int) -> None:
        *whole, rest = text.split("\n")
        for part in whole:
            self._extend_line(stream, part, at_ms)
            self._open_lines.pop(stream, None)
        if rest:
            self._extend_line(stream, rest, at_ms)

    def _extend_line(self, stream: Stream, text: str, at_ms: int) -> None:
        """Add text to the open line of a stream, or begin one."""
        number = self._open_lines.get(stream)
        text, runs, self._colors[stream] = split_colors(text, self._colors[stream])
        dropped, is_again, text = text.rpartition("\r") if "\r" in text else ("", "", text)
        start = len(dropped) + len(is_again)
        colors = cut_runs(runs, start, start + len(text)) if runs else ()
        if is_again and number is not None and number >= self.first:
            self._replace(self.line(number), "")
        if number is not None and number >= self.first:
            line = self.line(number)
            room = _LONGEST - len(line.text)
            self._replace(
                line,
                line.text + text[:room],
                join_runs(line.colors, len(line.text), cut_runs(colors, 0, room)),
            )
            colors = cut_runs(colors, room, len(text))
            text = text[room:]
            if not text:
                return
        for at in range(0, max(1, len(text)), _LONGEST):
            self._open_lines[stream] = self.end
            is_continued = number is not None or at > 0
            part = text[at : at + _LONGEST]
            self._append(
                OutputLine(self.end, stream, at_ms, part, is_continued),
                colors=cut_runs(colors, at, at + len(part)),
            )

    def _append(self, line: OutputLine, *, colors: tuple[Run, ...] = ()) -> None:
        line = line._replace(columns=display_width(shown(line.text)), colors=colors)
        if line.stream is not None and not line.is_continued:
            self.printed_lines += 1
        if self._width is not None:
            self._row_ends.append(self.height_at(self._width) + line.height(self._width))
        self._lines.append(line)
        self._bytes += line.bytes
        self._skipped_bytes = 0

    def _replace(self, line: OutputLine, text: str, colors: tuple[Run, ...] = ()) -> None:
        """Replace the text of a line."""
        at = line.number - self.first
        columns = display_width(shown(text))
        new = self._lines[at] = line._replace(text=text, columns=columns, colors=colors)
        self._bytes += new.bytes - line.bytes
        if self._width is not None:
            grown = new.height(self._width) - line.height(self._width)
            for index in range(at, len(self._row_ends) if grown else 0):
                self._row_ends[index] += grown
        was_hit, is_hit = self._is_hit(line.text), self._is_hit(text)
        if line.number < self._searched and is_hit and not was_hit:
            insort(self._hits, line.number)
        elif line.number < self._searched and was_hit and not is_hit:
            self._hits.remove(line.number)

    def _note_skipped(self, skipped_bytes: int, at_ms: int) -> None:
        """Add a note on skipped bytes; it ends the open lines."""
        for stream, cleaner in self._cleaners.items():
            self._take(stream, cleaner.end(), at_ms)
        self._open_lines.clear()
        total_bytes = self._skipped_bytes + skipped_bytes
        self.dropped_bytes += skipped_bytes
        text = f"… {size_words(total_bytes)} dropped …"
        if self._skipped_bytes:
            self._replace(self._lines[-1], text)
        else:
            self._append(OutputLine(self.end, None, at_ms, text))
        self._skipped_bytes = total_bytes

    def _shrink(self) -> None:
        """Drop the oldest lines if there is too much: many together, so that it is rare."""
        if self._bytes <= self._most_bytes:
            return
        count = 0
        while self._bytes > self._most_bytes * 3 // 4:
            self._bytes -= self._lines[count].bytes
            count += 1
        del self._lines[:count]
        self.first += count
        self._width = None
        del self._hits[: bisect_left(self._hits, self.first)]
        self._searched = max(self._searched, self.first)

    def _ends_at(self, width: int) -> Sequence[int]:
        if self._width != width:
            self._width = width
            self._row_ends = list(accumulate(line.height(width) for line in self._lines))
        return self._row_ends


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
    parts: list[tuple[str, bool]] = []
    for line in printed.lines():
        text = shown(line.text)
        span = selection.span_of(line.number, len(text))
        if span is not None:
            parts.append((text[slice(*span)], line.is_continued))
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
