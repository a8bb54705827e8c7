"""The output of a command: data and JSON on stdout, words on stderr, questions to a person.

Text is cleaned of control codes, coloured, aligned in tables, and cut to fit the terminal. If a
stream breaks, what is left to write to it is dropped.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from io import TextIOWrapper
from itertools import zip_longest
from types import TracebackType
from typing import Any, NoReturn, TextIO

from edgecron.base.errors import (
    EdgecronError,
    InvalidOptions,
    UnknownTimezone,
    UsageError,
    os_words,
)
from edgecron.base.safetext import clean, clean_json
from edgecron.base.zones import load_zone, local_zone_name
from edgecron.views.phrases import display_width, fit, folded

_MOST_INDENTED = 200  # objects that a person may read
_LEAST_STEPS = 50  # of work whose progress can be read before it is done
CANT_MOVE = ("dumb", "unknown", "")  # values of TERM: no cursor control


class Output:
    """The streams of one run of the command line.

    `is_json`, `is_quiet` and `color` are global options. With `is_quiet`, only errors, JSON and the
    output of runs are printed.
    """

    def __init__(self) -> None:
        self.is_json = False
        self.is_quiet = False
        self.color: str | None = None
        self._zone: tzinfo | None = None
        for stream in (sys.stdout, sys.stderr):
            # If a locale can't show a letter, show its code instead of failing.
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")

    def color_setting(self) -> str:
        """Return when to use colours: auto, always or never."""
        return self.color or "auto"

    def use_color(self, stream: TextIO) -> bool:
        """Return whether to colour output to a stream: the setting, else NO_COLOR, the terminal."""
        # As no-color.org says: a setting of this program overrides NO_COLOR.
        color = self.color_setting()
        if color != "auto":
            return color == "always"
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return False
        return stream.isatty()

    def zone(self) -> tzinfo:
        """Return the zone of displayed times: the machine's own."""
        if self._zone is None:
            try:
                # Most servers use UTC: this saves loading `zoneinfo`.
                is_utc = local_zone_name() in ("UTC", "Etc/UTC")
                self._zone = UTC if is_utc else load_zone("local")
            except UnknownTimezone as error:
                self.warn(f"{error.message}; times are shown in UTC")
                self._zone = UTC
        return self._zone

    def put(self, text: str = "") -> None:
        """Print on stdout, cleaned for the terminal; `paint` may have coloured it."""
        if not self.is_quiet:
            self.put_data(text)

    def put_data(self, text: str) -> None:
        """Print on stdout what was asked for, also with --quiet."""
        if not (text.isascii() and text.isprintable()):
            is_colored = self.use_color(sys.stdout)
            text = clean_painted(text) if is_colored else clean(text, keep="\n")
        self._print(text)

    def put_table(
        self,
        keys: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        styles: Sequence[Sequence[str | None]] | None = None,
        flexible: Sequence[int | tuple[int, int]] = (),
        title: int = 0,
        is_data: bool = False,
    ) -> None:
        """Print rows as aligned lines on stdout: see `table`.

        With `is_data`, also with --quiet.
        """
        is_colored = self.use_color(sys.stdout)
        lines = table(
            keys, rows, is_colored=is_colored, styles=styles, flexible=flexible, title=title
        )
        put = self.put_data if is_data else self.put
        put("\n".join(lines))

    def put_pairs(self, pairs: Iterable[tuple[str, str]], *, width: int, indent: str = "") -> None:
        """Print labels of `width` columns with a text beside each; texts can have several lines."""
        is_colored = self.use_color(sys.stdout)
        for label, text in pairs:
            shown = clean(text, keep="\n").replace("\n", "\n" + " " * (len(indent) + width))
            self.put(f"{indent}{paint(f'{label:<{width}}', 'dim', is_on=is_colored)}{shown}")

    def put_json(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Print objects as a JSON array on stdout; a long array has one object per line."""
        listed = list(objects)
        if len(listed) <= _MOST_INDENTED:
            self._print(_json_text(listed, sys.stdout, indent=2))
            return
        # Indenting takes seven times as long, and only programs read that many.
        lines = [_json_text(each, sys.stdout) for each in listed]
        self._print("[\n" + ",\n".join(lines) + "\n]")

    def flush(self) -> None:
        """Flush stdout. Raises BrokenPipeError, or EdgecronError."""
        try:
            sys.stdout.flush()
        except OSError as error:
            raise_lost(error)

    def put_bytes(self, content: bytes) -> None:
        """Write to stdout exactly these bytes. Raises BrokenPipeError, or EdgecronError."""
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        except OSError as error:
            raise_lost(error)

    def _print(self, text: str) -> None:
        try:
            print(text)
        except OSError as error:
            raise_lost(error)

    def say(self, text: str) -> None:
        """Print a note for a person on stderr, cleaned for the terminal."""
        if not self.is_quiet:
            self.report(text)

    def report(self, text: str) -> None:
        """Print on stderr what went wrong, also with --quiet."""
        tell(clean(text, keep="\n"))

    def say_of_us(self, text: str) -> None:
        """Print a note that starts with `edgecron:`, to stand out from the output of runs."""
        self.say(f"edgecron: {text}")

    def warn(self, text: str) -> None:
        """Print a warning on stderr: one line, wrapped on a terminal."""
        line = f"warning: {text}"
        if sys.stderr.isatty():
            line = wrapped(line)
        self.say(line)

    def caution(self, text: str) -> None:
        """Warn about a deliberate choice, only to a person at a terminal."""
        if self.is_advised():
            self.warn(text)

    def show_error(self, error: EdgecronError) -> None:
        """Print an error on stderr: a line of the error, a line of its hint, or one JSON object."""
        if isinstance(error, InvalidOptions) and not self.is_json:
            for one in error.errors:
                self.show_error(one)
            return
        hint = None if error.hint is None else self.complete_commands(error.hint)
        if self.is_json:
            body = {"code": error.code, "message": error.message, "hint": hint}
            body |= error.details
            tell(_json_text({"error": body}, sys.stderr))
            return
        self.report(f"error: {error.message}".replace("\n", " "))
        if hint:
            self.report(f"hint: {hint}".replace("\n", " "))

    def complete_commands(self, hint: str) -> str:
        """Return a hint whose command lines can be copied as they are."""
        return hint

    def is_advised(self) -> bool:
        """Return whether to suggest next steps: only to a person at a terminal."""
        return sys.stderr.isatty() and not self.is_json and not self.is_quiet

    def can_ask(self) -> bool:
        """Return whether a person at a terminal can answer a question."""
        return sys.stderr.isatty() and not self.is_json and sys.stdin.isatty()

    def ask(self, question: str) -> bool:
        """Ask a person at the terminal; return whether the answer is yes."""
        try:
            tell(clean(f"{question} [y/N] "), end="")
            return sys.stdin.readline().strip().lower() in ("y", "yes")
        except KeyboardInterrupt:
            tell("")  # Let the shell start on a new line.
            raise

    def progress(
        self, word: str, *, least_steps: int = _LEAST_STEPS
    ) -> Callable[[int, int], object]:
        """Return a function that shows a person how much of long work is done, in per cent.

        Nothing is shown before it was called `least_steps` times.
        """
        steps = percent = 0

        def show(done: int, count: int) -> None:
            nonlocal steps, percent
            steps += 1
            part = 100 * done // max(1, count)
            if self.is_advised() and part != percent and (steps > least_steps or percent):
                percent = part
                tell(f"\r{word}: {part}%", end="\n" if done == count else "")

        return show


def _json_text(value: object, stream: TextIO, *, indent: int | None = None) -> str:
    """Format JSON with the letters that a stream can show and a terminal can safely get."""
    is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    return clean_json(json.dumps(value, ensure_ascii=not is_utf8, indent=indent))


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


# Broken streams, and defects.


def drop(stream: TextIO) -> None:
    """Connect a stream to /dev/null: what it still holds must not fail at exit, when it flushes."""
    fd = os.open(os.devnull, os.O_WRONLY)
    os.dup2(fd, stream.fileno())
    os.close(fd)


def flush_streams() -> None:
    """Flush both streams, so that the interpreter has nothing left to write when it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            drop(stream)


def raise_lost(error: OSError) -> NoReturn:
    """Raise for a failed write to stdout: BrokenPipeError itself, else EdgecronError."""
    if isinstance(error, BrokenPipeError):
        raise error
    drop(sys.stdout)
    raise EdgecronError(f"stdout can't be written: {os_words(error)}") from error


def tell(text: str, *, end: str = "\n") -> None:
    """Write to stderr. If stderr is broken, ignore it: results and exit code still count."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)


def show_crash(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Write the traceback of a defect of edgecron to stderr, cleaned for the terminal."""
    from traceback import format_exception  # only after a crash: it takes as long as argparse

    tell(clean("".join(format_exception(kind, error, trace)), keep="\n"), end="")


# The terminal.


def find_unfit() -> UsageError | None:
    """Return why the dashboard can't be drawn here and what to do instead; None if it can."""
    # The dashboard reads stdin and draws on stderr. A redirected stdout means: text is wanted.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return UsageError(
            "the dashboard needs a terminal, but stdin, stdout or stderr is not one",
            hint="without a terminal, use: edgecron status; or: edgecron tui --plain",
        )
    term = os.environ.get("TERM", "")
    if term in CANT_MOVE:
        return UsageError(
            f"the dashboard needs a terminal that can move its cursor, but TERM is {term!r}",
            hint="use the dashboard of lines: edgecron tui --plain",
        )
    encoding = (sys.stderr.encoding or "").lower().replace("-", "")
    if encoding != "utf8":
        return UsageError(
            f"the dashboard needs UTF-8, but the locale has {sys.stderr.encoding}",
            hint="try: LC_ALL=C.UTF-8 edgecron tui; or: edgecron tui --plain",
        )
    return None


def terminal_columns(*, otherwise: int) -> int:
    """Return COLUMNS, else the width of the terminal of stdout, else `otherwise`.

    `shutil.get_terminal_size` does the same, but importing `shutil` loads compression libraries.
    """
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdigit() and int(told) > 0:
        return int(told)
    try:
        # `sys.__stdout__` as in `shutil`: `sys.stdout` may be replaced.
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or otherwise  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return otherwise
