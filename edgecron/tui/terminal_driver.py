"""The terminal of the dashboard: its size, signals, stops, and what happens when it is gone."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import threading
from collections.abc import Callable
from io import TextIOBase
from typing import Any, TextIO

from textual.drivers.linux_driver import LinuxDriver

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_JOIN_S = 2.0


class TerminalDriver(LinuxDriver):
    """Textual's driver; it exits cleanly on signals and if the terminal is gone."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        assert self._file is not None
        # Textual only writes, flushes and asks for its number.
        self._file = TerminalFile(self._file)  # type: ignore[assignment]
        self._watch: HangUpWatch | None = None

    def _get_terminal_size(self) -> tuple[int, int]:
        # Textual prefers COLUMNS and LINES, which do not change with the size of the terminal.
        assert self._file is not None
        found = os.get_terminal_size(self._file.fileno())
        return found.columns or 80, found.lines or 24  # A serial line has no size.

    def start_application_mode(self) -> None:
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
        if self._watch is not None:
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application()

    def _is_in_front(self) -> bool:
        """Return whether this process group has the terminal, not the shell that started it."""
        try:
            return os.tcgetpgrp(self.fileno) == os.getpgrp()
        except OSError:  # The terminal is gone: HangUpWatch notices.
            return True

    def write(self, data: str) -> None:
        # The writer thread ends with application mode; waiting for it would never end.
        if self._writer_thread is not None and self._writer_thread.is_alive():
            super().write(data)


class TerminalFile(TextIOBase):
    """The terminal's output; what is written after the terminal is gone is dropped.

    With an error, Textual's writer thread would end, and the dashboard could wait forever for a
    place in its queue. HangUpWatch ends the dashboard.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def fileno(self) -> int:
        return self._file.fileno()

    def write(self, text: str) -> int:
        try:
            return self._file.write(text)
        except OSError as error:
            _pass_hang_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            _pass_hang_up(error)


def _pass_hang_up(error: OSError) -> None:
    if error.errno != errno.EIO:
        raise error


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
