"""Copying: to the terminal by an escape sequence of ours, and with a program where one is there.

The sequence (OSC 52) reaches the person's own clipboard through ssh and tmux, where the terminal
allows it; the program also where it does not.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping

# Terminals take about so much of the sequence, and ignore one that is longer.
MOST_SEQUENCE_BYTES = 74_994
_TIMEOUT_S = 2.0


def clipboard_command(
    environ: Mapping[str, str],
    *,
    platform: str = sys.platform,
    which: Callable[[str], str | None] = shutil.which,
) -> tuple[str, ...] | None:
    """The program that takes a text to the clipboard of where we are; None where none can."""
    wanted = (
        (platform == "darwin", ("pbcopy",)),
        (bool(environ.get("WAYLAND_DISPLAY")), ("wl-copy",)),
        (bool(environ.get("DISPLAY")), ("xclip", "-selection", "clipboard")),
    )
    for is_here, command in wanted:
        if is_here and which(command[0]) is not None:
            return command
    return None


def fits_sequence(text: str) -> bool:
    """Whether terminals take so much by an escape sequence."""
    return len(b64encode(text.encode())) <= MOST_SEQUENCE_BYTES


def copy_with(command: tuple[str, ...], text: str) -> bool:
    """Hand a text to a program, bounded; whether it took it."""
    try:
        # It stays alive to serve the clipboard: nothing of ours may be held open by it.
        done = subprocess.run(
            command,
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
