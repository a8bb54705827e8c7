"""The terminal of the dashboard: its size, signals, stops, and what happens when it is gone."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable
from io import TextIOBase
from typing import Any, TextIO

from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_JOIN_S = 2.0
_MOST_READ = 4096  # bytes of keys at once
# After the beginning of a code, before it is taken for keys: over a slow line.
_REST_S = max(0.5, ESCAPE_DELAY)


class TerminalDriver(LinuxDriver):
    """Textual's driver; it exits cleanly on signals and if the terminal is gone."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        assert self._file is not None
        # Textual only writes, flushes and asks for its number.
        self._file = TerminalFile(self._file)  # type: ignore[assignment]
        self._has_terminal = False
        self._end, self._stop = os.pipe()  # to end the reading of keys

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
        self._has_terminal = True

    def stop_application_mode(self) -> None:
        self._has_terminal = False
        super().stop_application_mode()

    def run_input_thread(self) -> None:
        """Pass on keys until the terminal is gone, or the application takes no more keys.

        Textual's own loop wakes ten times a second, and looks only then whether an Escape is a key
        or the beginning of a longer code. It does not notice that the terminal is gone.
        """
        parser, decode = XTermParser(self._debug), getincrementaldecoder("utf-8")("replace").decode
        wait_s: float | None = None
        read, is_pasted = "", False
        while not self.exit_event.is_set():
            ready, _, _ = select.select([self.fileno, self._end], [], [], wait_s)
            messages = () if ready else parser.tick()
            wait_s = None
            if self.fileno in ready:
                content = self._read()
                if not content:
                    self._loop.call_soon_threadsafe(self._app.exit)
                    return
                text = decode(content)
                read = read[1 - len(BRACKETED_PASTE_END) :] + text
                begin, end = map(read.rfind, (BRACKETED_PASTE_START, BRACKETED_PASTE_END))
                is_pasted = is_pasted if begin == end else begin > end
                # To the parser, an empty text is the end of all keys.
                messages = parser.feed(text) if text else ()
                # A paste whose end the parser takes for keys would never end.
                wait_s = None if is_pasted else ESCAPE_DELAY if read[-1:] == "\x1b" else _REST_S
            for message in messages:
                self.process_message(message)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, _MOST_READ)
        except OSError as error:
            _pass_hang_up(error)
            return b""

    def disable_input(self) -> None:
        os.write(self._stop, b"x")
        super().disable_input()
        os.read(self._end, 1)

    def _sigcont_application(self, *_: object) -> None:
        # Called by Textual when it continues after a stop (SIGSTOP comes without notice). A shell
        # has used the terminal since then and changed its settings, or uses it still.
        if not self._is_in_front():
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        if self._has_terminal:
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application()

    def _is_in_front(self) -> bool:
        """Return whether this process group has the terminal, not the shell that started it."""
        try:
            return os.tcgetpgrp(self.fileno) == os.getpgrp()
        except OSError:  # The terminal is gone: who reads keys notices.
            return True

    def write(self, data: str) -> None:
        # The writer thread ends with application mode; waiting for it would never end.
        if self._writer_thread is not None and self._writer_thread.is_alive():
            super().write(data)


class TerminalFile(TextIOBase):
    """The terminal's output; what is written after the terminal is gone is dropped.

    With an error, Textual's writer thread would end, and the dashboard could wait forever for a
    place in its queue. The thread that reads the keys ends the dashboard.
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
    """Notice that a stream has lost its reader, such as a web server.

    Otherwise the dashboard would draw without a viewer.
    """

    def __init__(self, stream: int, *, gone: Callable[[], object]) -> None:
        """Start to watch; `gone` is called on the watch's thread, at most once."""
        self._stream = stream
        self._gone = gone
        self._end, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._wait, name="dashboard-stream")
        self._thread.start()

    def close(self) -> None:
        os.close(self._stop)
        self._thread.join(_JOIN_S)

    def _wait(self) -> None:
        poller = select.poll()
        poller.register(self._stream, 0)  # a hang-up is always reported
        poller.register(self._end, select.POLLIN)
        ready = dict(poller.poll())
        # A stream that can't be polled (POLLNVAL) tells nothing.
        if self._end not in ready and ready.get(self._stream, 0) & (
            select.POLLHUP | select.POLLERR
        ):
            self._gone()
        os.close(self._end)
