"""A command line called in this process, on files, pipes and terminals of the test's own."""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any
from unittest.mock import patch

from edgecron.cli import run
from tests.support.cli import Said
from tests.support.terminal import read_until, resize


def call(
    *words: str, stdout: int | None = None, stderr: int | None = None, encoding: str = "utf-8"
) -> Said:
    """Run a command line on these descriptors, None for a file whose content is returned.

    Raises what an interpreter would print at its end: a stream that can't write what it holds.
    """
    with TemporaryFile() as out, TemporaryFile() as err, open(os.devnull) as stdin:
        code = _run_on(
            words,
            stdin=stdin.fileno(),
            stdout=out.fileno() if stdout is None else stdout,
            stderr=err.fileno() if stderr is None else stderr,
            encoding=encoding,
        )
        return Said(code, _content(out), _content(err))


def call_on_terminal(*words: str, typed: str = "") -> str:
    """Run a command line on a terminal of its own; what that showed."""
    shown: list[str] = []
    outer, inner = pty.openpty()
    resize(inner, (80, 24))
    reader = Thread(target=lambda: shown.append(read_until(outer, None)), name="terminal")
    reader.start()
    try:
        os.write(outer, typed.encode())
        _run_on(words, stdin=inner, stdout=inner, stderr=inner)
    finally:
        os.close(inner)
        reader.join()
        os.close(outer)
    return shown[0]


def _run_on(
    words: Sequence[str], *, stdin: int, stdout: int, stderr: int, encoding: str = "utf-8"
) -> int:
    """Run a command line on streams as an interpreter opens them."""
    with ExitStack() as stack:

        def give(name: str, descriptor: int, mode: str, **more: Any) -> None:
            file = open(os.dup(descriptor), mode, encoding=encoding, **more)  # noqa: SIM115
            stack.enter_context(patch.object(sys, name, stack.enter_context(file)))

        give("stdin", stdin, "r")
        give("stdout", stdout, "w")
        give("stderr", stderr, "w", buffering=1, errors="backslashreplace")
        return run(words)


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
