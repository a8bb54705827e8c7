"""A guard that outlives the dashboard and puts the terminal right where that was killed.

A shell of its own session, so that no signal of the terminal and no `kill -9 %1` reaches it. It
remembers the terminal's settings when it starts, and acts when the socket that it reads ends
without a goodbye. The shell that started the dashboard may have asked for its next command by
then, so settings that are no longer the dashboard's are left as they are.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
from contextlib import suppress

# What the dashboard may have asked of the terminal, taken back: keyboard protocol, pasting,
# wrapping, sizes and focus told in band, the mouse in all its forms and its pointer, one picture at
# a time, colours, the other screen, the cursor. Before it the end of whatever was cut off.
RESET = (
    "\x18\x1b[?2026l\x1b[<u\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1002l\x1b[?1003l"
    "\x1b[?1015l\x1b[?1016l\x1b[?1006l\x1b[?1004l\x1b]22;default\x07\x1b[0m\x1b[?1049l\x1b[?25h"
)
WORDS = "edgecron: the dashboard was killed; runs go on"
# Its stdin is the socket, its stdout the terminal. Only the dashboard turns the keys for signals
# off; a shell that edits its next command line has them on.
_SCRIPT = """
exec 3<&1
saved=$(stty -g <&3)
case $(stty -a <&3) in *-isig*) saved=sane;; esac
echo ready >&0
read -r word && exit 0
case $(stty -a <&3) in *-isig*) stty "$saved" <&3;; esac
printf '%s\\n' "$1"
"""
_READY_S = 2.0
_END_S = 2.0


class TerminalGuard:
    """The guard of a terminal, for as long as the dashboard is drawn on it.

    Where there is no shell, there is none: nothing else depends on it.
    """

    def __init__(self, terminal: int) -> None:
        """Guard the terminal of this descriptor, as it is set now."""
        self._process: subprocess.Popen[bytes] | None = None
        self._socket, theirs = socket.socketpair()
        with theirs, suppress(OSError):
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "edgecron-guard", RESET + "\r\n" + WORDS],
                stdin=theirs.fileno(),
                stdout=terminal,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={"PATH": os.environ.get("PATH", os.defpath)},
            )
        # It must have seen the settings before they are changed. If it takes too long it finds
        # ours, and knows them.
        if self._process is not None and select.select([self._socket], [], [], _READY_S)[0]:
            self._socket.recv(64)

    def close(self) -> None:
        """The terminal is as it was: there is nothing to put right."""
        with suppress(OSError):  # It was killed: then it does nothing either.
            self._socket.sendall(b"bye\n")
        self._socket.close()
        if self._process is None:
            return
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
