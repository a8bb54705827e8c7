"""How the dashboard holds its terminal: what ends it, and who puts the terminal right after it."""

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


_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_JOIN_S = 2.0


class TerminalDriver(LinuxDriver):
    """Textual's driver, with a guard; it ends the dashboard in good order when it is told to by a
    signal, and when its terminal has gone."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._guard: TerminalGuard | None = None
        self._watch: HangUpWatch | None = None

    def _get_terminal_size(self) -> tuple[int, int]:
        # Textual asks COLUMNS and LINES first, which stay what they were when it is resized.
        assert self._file is not None
        found = os.get_terminal_size(self._file.fileno())
        return found.columns or 80, found.lines or 24  # A serial line knows none.

    def start_application_mode(self) -> None:
        assert self._file is not None  # stderr, which is a terminal here
        self._guard = TerminalGuard(self._file.fileno())
        super().start_application_mode()  # type: ignore[no-untyped-call]
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            # Also one that was ignored, as by nohup: with no terminal there is nothing to show.
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
        # Of Textual: it goes on after it was stopped, which SIGSTOP does without a word. A shell
        # has had the terminal since then, and set it in its own way; or has it still.
        if not self._is_in_front():
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        if self._guard is not None:
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application()

    def _is_in_front(self) -> bool:
        """Whether the terminal is ours, and not that of the shell from which we were started."""
        try:
            return os.tcgetpgrp(self.fileno) == os.getpgrp()
        except OSError:  # It is nobody's, or has gone: that is found out elsewhere.
            return True

    def close(self) -> None:
        """After the last has been written: when it is stopped for a while, and at the end."""
        super().close()
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    def write(self, data: str) -> None:
        # The thread that writes ends where its terminal has gone, and what waits for it would wait
        # for ever.
        if self._writer_thread is not None and self._writer_thread.is_alive():
            super().write(data)


class HangUpWatch:
    """Tells that a terminal has gone, also one whose signals do not reach us. Else whoever reads
    keys from it would find its end again and again."""

    def __init__(self, terminal: int, *, gone: Callable[[], object]) -> None:
        """`gone` is called on the watch's own thread, once at most."""
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
        poller.register(self._terminal, 0)  # a hang-up is told in any case
        poller.register(self._end, select.POLLIN)
        ready = dict(poller.poll())
        # Where polling a terminal is not known (POLLNVAL) its signals have to do.
        if self._end not in ready and ready.get(self._terminal, 0) & (
            select.POLLHUP | select.POLLERR
        ):
            self._gone()
        os.close(self._end)
