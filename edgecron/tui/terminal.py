"""How the dashboard holds its terminal: what ends it, and who puts the terminal right after it."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from collections.abc import Callable
from typing import Any

from textual.drivers.linux_driver import LinuxDriver

from edgecron.tui.guard import TerminalGuard

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
