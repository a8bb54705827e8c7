"""Streams that can't be written to: closed pipes, full disks, terminals that have gone."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import NoReturn, TextIO


def drop(stream: TextIO) -> None:
    """Let a stream swallow what it still holds, and what comes: at exit it is flushed once more."""
    fd = os.open(os.devnull, os.O_WRONLY)
    os.dup2(fd, stream.fileno())
    os.close(fd)


def raise_lost(error: OSError) -> NoReturn:
    """Raise what it means that stdout took no more: BrokenPipeError, or words of ours."""
    if isinstance(error, BrokenPipeError):
        raise error
    from edgecron.base.errors import EdgecronError, os_words

    drop(sys.stdout)
    raise EdgecronError(f"what was to be shown can't be written: {os_words(error)}") from error


def tell(text: str, *, end: str = "\n") -> None:
    """Words on stderr. Where nobody can read them, results and the exit code stand all the same."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)


def show_crash(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """A defect of ours, on stderr, for the report of it; what it quotes is cleaned."""
    from traceback import format_exception

    from edgecron.base.safetext import clean

    tell(clean("".join(format_exception(kind, error, trace)), keep="\n"), end="")
