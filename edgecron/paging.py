"""The program that pages through a text, in the terminal that it is lent meanwhile."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from edgecron.errors import EdgecronError
from edgecron.words.phrases import os_words

_FALLBACKS = ("less", "more")


def pager_command(
    environ: Mapping[str, str], *, which: Callable[[str], str | None] = shutil.which
) -> list[str]:
    """$PAGER, else less, else more. Raises EdgecronError where there is none."""
    wanted = environ.get("PAGER", "").strip()
    if wanted:
        try:
            return shlex.split(wanted)
        except ValueError as error:
            raise EdgecronError(f"PAGER is {wanted!r}: {error}") from error
    for name in _FALLBACKS:
        if which(name) is not None:
            return [name]
    raise EdgecronError("no pager was found", hint="set PAGER, or install less")


def page(command: list[str], text: str, *, environ: Mapping[str, str] | None = None) -> None:
    """Show a text that is clean, until the person leaves. Raises EdgecronError.

    `environ` is what the pager finds, None what we have found.
    """
    try:
        with _signals_are_the_pagers():
            subprocess.run(command, input=text.encode(), env=environ, check=False)
    except OSError as error:
        raise EdgecronError(f"{command[0]} can't be started: {os_words(error)}") from error


@contextmanager
def _signals_are_the_pagers() -> Iterator[None]:
    """Ctrl-C is for the pager, which has the terminal; what is to end us is told when it has left.

    Not ignored, or the pager would inherit that.
    """
    heard: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: heard.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    # Else the event loop would hear of each of them.
    wakeup_fd = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
        for number, handler in before.items():
            signal.signal(number, handler)
        for told in heard:
            if told != signal.SIGINT:
                signal.raise_signal(told)
