"""Programs on a terminal of their own, which answers as many of today's do."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.bench.machine import child_environment
from tests.support.terminal import resize

BOUND_S = 60.0
# Whether all of a frame is shown at once: asked, answered; and the end of such a frame.
_ASKED, _ANSWER, _FRAME_END = b"\x1b[?2026$p", b"\x1b[?2026;2$y", b"\x1b[?2026l"
_OWN = ("COLUMNS", "LINES", "NO_COLOR", "COLORTERM", "COLORFGBG", "TERM_PROGRAM")


class Screen:
    """What a program draws, as it comes."""

    def __init__(self, terminal: int, process: subprocess.Popen[bytes], *, began: float) -> None:
        self._terminal = terminal
        self._process = process
        self._began = began
        self._unread = b""
        self._is_asked = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def show(self, text: bytes) -> float:
        """Seconds since it was started until this has come; the first frames have no ends yet."""
        self._await((), end=text)
        return time.perf_counter() - self._began

    def see(self, *texts: bytes) -> None:
        """Wait until frames have come that hold these, and the last of them is whole."""
        self._await(texts, end=_FRAME_END)

    def press(self, key: bytes, *texts: bytes) -> float:
        """Seconds from a key until a frame is whole that holds these."""
        self.rest(0.0)  # What was drawn before it is no effect of it.
        began = time.perf_counter()
        os.write(self._terminal, key)
        self.see(*texts)
        return time.perf_counter() - began

    def rest(self, quiet_s: float = 0.3) -> None:
        """Wait until nothing more is drawn for a while."""
        while select.select([self._terminal], [], [], quiet_s)[0]:
            self._read()
        self._unread = b""

    def watch(self, seconds: float) -> int:
        """How many bytes come in so many seconds."""
        until, count = time.monotonic() + seconds, 0
        while (left_s := until - time.monotonic()) > 0:
            if select.select([self._terminal], [], [], left_s)[0]:
                count += self._read()
        self._unread = b""
        return count

    def _await(self, texts: Sequence[bytes], *, end: bytes) -> None:
        until = time.monotonic() + BOUND_S
        while True:
            whole, found, rest = self._unread.rpartition(end)
            if found and all(text in whole + found for text in texts):
                self._unread = rest
                return
            left_s = max(0.0, until - time.monotonic())
            assert select.select([self._terminal], [], [], left_s)[0], self._unread[-2000:]
            self._read()

    def _read(self) -> int:
        part = os.read(self._terminal, 1 << 20)
        self._unread += part
        if not self._is_asked and _ASKED in self._unread:
            self._is_asked = True
            os.write(self._terminal, _ANSWER)
        return len(part)


@contextmanager
def on_screen(
    command: Sequence[str], *, size: tuple[int, int], quit_key: bytes = b"q"
) -> Iterator[Screen]:
    """A program on a terminal of `size` columns and rows; it is told to end by its key."""
    outer, inner = pty.openpty()
    resize(inner, size)
    environment = {name: text for name, text in child_environment().items() if name not in _OWN}
    environment |= {"TERM": "xterm-256color", "EDGECRON_CONFIG": "none"}
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, stdin=inner, stdout=inner, stderr=inner, start_new_session=True
    )
    os.close(inner)
    try:
        yield Screen(outer, process, began=began)
        os.write(outer, quit_key)
        _wait(outer, process)
    finally:
        process.kill()
        process.wait()
        os.close(outer)
    assert process.returncode == 0, f"{command} ended with {process.returncode}"


def _wait(outer: int, process: subprocess.Popen[bytes]) -> None:
    """Take what is drawn until the program has ended."""
    until = time.monotonic() + BOUND_S
    while process.poll() is None and time.monotonic() < until:
        if select.select([outer], [], [], 0.05)[0]:
            try:
                os.read(outer, 1 << 20)
            except OSError:  # EIO: the other end has gone.
                break
    process.wait(BOUND_S)
