"""The output of a command: data and JSON on stdout, words on stderr, questions to a person."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from io import TextIOWrapper
from typing import Any, TextIO

from edgecron.base.errors import EdgecronError, UnknownTimezone
from edgecron.base.safetext import clean, clean_json
from edgecron.cli.screen import clean_painted, paint, table, wrapped
from edgecron.cli.terminal import raise_lost, tell
from edgecron.triggers import load_zone, local_zone_name

_MOST_INDENTED = 200  # objects that a person may read
_LEAST_STEPS = 50  # of work whose progress can be read before it is done


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
        """Print on stdout, cleaned for the terminal; `screen.paint` may have coloured it."""
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
        """Print rows as aligned lines on stdout: see `screen.table`.

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
