"""The program on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.program import PACKAGE, PROGRAM

BOUND_S = 30.0


@contextmanager
def on_terminal(environment: dict[str, str], *words: str) -> Iterator[int]:
    """The program on a terminal of its own; its other end."""
    with process_on_terminal(environment, *words) as (outer, _):
        yield outer


@contextmanager
def process_on_terminal(
    environment: dict[str, str],
    *words: str,
    size: tuple[int, int] = (80, 24),
    program: Path | None = None,
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The same, with the process beside it.

    `size` is columns and rows; `program` the folder that the package is taken from, None for the
    one that is tested.
    """
    command = [*(PROGRAM if program is None else PACKAGE), *words]
    # The folder is the first place that `-m` looks at.
    with process_of_terminal(environment, command, size=size, cwd=program) as both:
        yield both


@contextmanager
def process_of_terminal(
    environment: dict[str, str],
    command: list[str],
    *,
    size: tuple[int, int] = (80, 24),
    cwd: Path | None = None,
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Any command on a terminal of its own; the other end of that, and the process."""
    outer, inner = pty.openpty()
    resize(inner, size)
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    try:
        yield outer, process
        process.wait(timeout=BOUND_S)
    finally:
        # Whatever it has started on this terminal, such as a pager, ends with it.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(outer)


def resize(outer: int, size: tuple[int, int]) -> None:
    """Give a terminal so many columns and rows. Whoever reads it is told by SIGWINCH alone."""
    columns, rows = size
    fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def read_until(outer: int, text: str | None, *, after: str = "") -> str:
    """What comes until a text, after another one; or with None until the program has ended."""
    # Skip empty words: an empty one before `.*` takes quadratic time on large screens.
    words = [re.escape(part.encode()) for part in (after, text or "") if part]
    read = b""
    while text is None or not re.search(b".*".join(words), read, re.DOTALL):
        assert select.select([outer], [], [], BOUND_S)[0], f"nothing more after {read!r}"
        try:
            part = os.read(outer, 65_536)
        except OSError:  # EIO: the other end has gone.
            part = b""
        if not part:
            assert text is None, f"ended without {text!r}: {read!r}"
            break
        read += part
    return read.decode(errors="replace")  # What was read last may end within a letter.
