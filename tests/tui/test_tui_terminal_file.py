"""What the dashboard draws when its terminal takes nothing, and is gone after that."""

from __future__ import annotations

import os
import pty
import threading

import pytest

from edgecron.tui.terminal_driver import TerminalFile

BOUND_S = 60.0


def test_who_draws_on_a_terminal_that_is_gone_goes_on() -> None:
    outer, inner = pty.openpty()
    has_begun, has_drawn = threading.Event(), threading.Event()
    with os.fdopen(inner, "w") as file:
        terminal = TerminalFile(file)

        def draw() -> None:
            has_begun.set()
            for _ in range(10):
                terminal.write("x" * 65_536)  # more than a terminal takes that nobody reads
                terminal.flush()
            has_drawn.set()

        threading.Thread(target=draw, daemon=True).start()
        assert has_begun.wait(BOUND_S)
        os.close(outer)

        assert has_drawn.wait(BOUND_S)


def test_other_faults_of_a_terminal_are_raised() -> None:
    with open("/dev/full", "w") as file:
        terminal = TerminalFile(file)
        terminal.write("x")
        with pytest.raises(OSError, match="No space left"):
            terminal.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
