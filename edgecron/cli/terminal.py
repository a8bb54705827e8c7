"""The terminal and the standard streams: width, fitness for the dashboard, broken streams."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import NoReturn, TextIO

from edgecron.base.errors import EdgecronError, UsageError, os_words
from edgecron.base.safetext import clean

CANT_MOVE = ("dumb", "unknown", "")  # values of TERM: no cursor control


def drop(stream: TextIO) -> None:
    """Connect a stream to /dev/null: what it still holds must not fail at exit, when it flushes."""
    fd = os.open(os.devnull, os.O_WRONLY)
    os.dup2(fd, stream.fileno())
    os.close(fd)


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
