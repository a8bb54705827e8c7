"""Stop the engine of a program: on a signal, and when the interpreter ends."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from _weakrefset import WeakSet  # of `weakref`, all of which is 80 KB
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import FrameType


_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MOST_NAMES = 5  # of what is waited for


@contextmanager
def stopping_on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Let TERM, INT and HUP call `stop` while the block lasts, and a second one end the process.

    What was ignored stays so, as by nohup; the handlers that were there come back afterwards.
    """
    seen = 0

    def stop_once(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if number == signal.SIGHUP and seen:
            return  # A terminal that closes may say so twice, kernel and shell.
        seen += 1
        if seen == 1:
            stop()
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    before = {number: signal.getsignal(number) for number in _STOPS}
    taken = [number for number, was in before.items() if was is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, stop_once)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number] or signal.SIG_DFL)


def stopping_words(details: Mapping[str, object], *, wait_s: float) -> str:
    """What an engine that was told to stop waits for, by the details of its ENGINE_STOPPING.

    `wait_s` is how long it waits for functions before these are asked to stop.
    """
    from edgecron.model.choices import OnShutdown

    runs, functions = details["runs"], details.get("functions", 0)
    assert isinstance(runs, int)
    assert isinstance(functions, int)
    if details["on_shutdown"] == OnShutdown.WAIT:
        words = f"waiting for {_counted(runs, 'run')} to end"
    elif details["on_shutdown"] == OnShutdown.STOP:
        words = f"ending {_counted(runs, 'run')}"
    else:
        called = details["called"]
        assert isinstance(called, list)
        words = f"waiting up to {wait_s:g} s for {_counted(functions, 'function')} to end"
        words += f" ({', '.join(called[:_MOST_NAMES])}{', ...' * (len(called) > _MOST_NAMES)})"
        if runs > functions:
            words += f", leaving {_counted(runs - functions, 'command')} to go on"
    return f"edgecron is stopping: {words}; a second signal ends this program at once"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class Stopped(Protocol):
    def stop(self, wait: float | None = None) -> bool:
        """Stop an engine, and wait for its end."""


_RUNNING: WeakSet[Stopped] = WeakSet()


def stop_at_exit(one: Stopped) -> None:
    """Have it stopped where the program, or a child of multiprocessing, ends without doing so."""
    _RUNNING.add(one)
    # Such a child ends by os._exit, with no other word than this to what is within it.
    if "multiprocessing.util" in sys.modules:
        # Imported, and not taken from there: another thread may be half through it.
        from multiprocessing.util import Finalize

        Finalize(None, _stop_all, exitpriority=100)


def _stop_all() -> None:
    for one in list(_RUNNING):
        one.stop()


atexit.register(_stop_all)
