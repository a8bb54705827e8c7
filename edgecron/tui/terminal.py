"""The dashboard's terminal: signals and hang-ups that end it, and a guard that restores it.

The guard is a shell in its own session, so that no signal of the terminal and no `kill -9 %1`
reaches it. It remembers the terminal's settings when it starts. If the socket that it reads ends
without a goodbye, the dashboard was killed, and the guard restores the terminal. By then the shell
that started the dashboard may have asked for its next command: settings that are no longer the
dashboard's are left as they are.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from textual.drivers.linux_driver import LinuxDriver

# Undo everything the dashboard may have set: an unfinished sequence, synchronized output, keyboard
# protocol, paste mode, wrapping, reports of size and focus, all mouse modes and the pointer,
# colours, the alternate screen, the cursor.
RESET = (
    "\x18\x1b[?2026l\x1b[<u\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1002l\x1b[?1003l"
    "\x1b[?1015l\x1b[?1016l\x1b[?1006l\x1b[?1004l\x1b]22;default\x07\x1b[0m\x1b[?1049l\x1b[?25h"
)
WORDS = "edgecron: the dashboard was killed; runs go on"
# stdin is the socket, stdout the terminal. Only the dashboard turns signal keys off (-isig). A
# shell that reads its next command line has them on.
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
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_JOIN_S = 2.0


class TerminalGuard:
    """Guard a terminal while the dashboard is drawn on it; do nothing if there is no shell."""

    def __init__(self, terminal: int) -> None:
        """Guard the terminal of this descriptor, with its current settings."""
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
        # It must read the settings before they change. If it is late, it recognizes ours.
        if self._process is not None and select.select([self._socket], [], [], _READY_S)[0]:
            self._socket.recv(64)

    def close(self) -> None:
        """Dismiss the guard: the terminal is restored."""
        with suppress(OSError):  # It was killed.
            self._socket.sendall(b"bye\n")
        self._socket.close()
        if self._process is None:
            return
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class TerminalDriver(LinuxDriver):
    """Textual's driver with a guard; it exits cleanly on signals and if the terminal is gone."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._guard: TerminalGuard | None = None
        self._watch: HangUpWatch | None = None

    def _get_terminal_size(self) -> tuple[int, int]:
        # Textual prefers COLUMNS and LINES, which do not change with the size of the terminal.
        assert self._file is not None
        found = os.get_terminal_size(self._file.fileno())
        return found.columns or 80, found.lines or 24  # A serial line has no size.

    def start_application_mode(self) -> None:
        assert self._file is not None  # stderr, which is a terminal here
        self._guard = TerminalGuard(self._file.fileno())
        super().start_application_mode()  # type: ignore[no-untyped-call]
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            # Even if nohup ignored the signal: without a terminal there is nothing to show.
            loop.add_signal_handler(number, self._app.exit)
        self._watch = HangUpWatch(
            self.fileno, gone=lambda: loop.call_soon_threadsafe(self._app.exit)
        )

    def stop_application_mode(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        super().stop_application_mode()

    def _sigcont_application(self, *_: object) -> None:
        # Called by Textual when it continues after a stop (SIGSTOP comes without notice). A shell
        # has used the terminal since then and changed its settings, or uses it still.
        if not self._is_in_front():
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        if self._guard is not None:
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application()

    def _is_in_front(self) -> bool:
        """Return whether this process group has the terminal, not the shell that started it."""
        try:
            return os.tcgetpgrp(self.fileno) == os.getpgrp()
        except OSError:  # Nobody has it, or it is gone: HangUpWatch notices.
            return True

    def close(self) -> None:
        """Dismiss the guard after the last write: at a stop and at the end."""
        super().close()
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    def write(self, data: str) -> None:
        # The writer thread ends if the terminal is gone; waiting for it would never end.
        if self._writer_thread is not None and self._writer_thread.is_alive():
            super().write(data)


class HangUpWatch:
    """Notice that a terminal is gone, even if its signals do not reach this process.

    Otherwise Textual would read its end of file again and again.
    """

    def __init__(self, terminal: int, *, gone: Callable[[], object]) -> None:
        """Start to watch; `gone` is called on the watch's thread, at most once."""
        self._terminal = terminal
        self._gone = gone
        self._end, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._wait, name="dashboard-terminal")
        self._thread.start()

    def close(self) -> None:
        os.close(self._stop)
        self._thread.join(_JOIN_S)

    def _wait(self) -> None:
        poller = select.poll()
        poller.register(self._terminal, 0)  # a hang-up is always reported
        poller.register(self._end, select.POLLIN)
        ready = dict(poller.poll())
        # If terminals can't be polled (POLLNVAL), only their signals tell.
        if self._end not in ready and ready.get(self._terminal, 0) & (
            select.POLLHUP | select.POLLERR
        ):
            self._gone()
        os.close(self._end)
