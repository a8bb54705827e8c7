"""Learn from services of the system bus: NetworkManager, UPower and logind.

A thread talks to the bus, so that a bus that hangs holds nothing up. It begins with the first
question and ends with `forget`. Without the extra `dbus`, no service reports anything.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from functools import cache
from importlib.util import find_spec

from edgecron.base.bundle import hint_for_extra
from edgecron.base.bus_facts import NO_FACTS, BusFacts
from edgecron.base.clock import SystemClock

_GIVE_UP_MS = 3_000  # without an answer for so long, no service counts as there
_clock = SystemClock()  # A bus answers in true time.


@cache
def has_library() -> bool:
    """Whether the extra `dbus` is installed."""
    return find_spec("jeepney") is not None


def missing_note() -> str | None:
    """That the extra is missing, and how to install it; None if it is there."""
    return None if has_library() else f"the extra dbus is missing: {hint_for_extra('dbus')}"


class SystemBus:
    """The system bus of this machine."""

    def __init__(self) -> None:
        self._listener: _Listener | None = None

    def look(self, *, wait_s: float) -> BusFacts | None:
        if not has_library():
            return NO_FACTS
        if self._listener is None:
            try:
                self._listener = _Listener()
            except (OSError, RuntimeError):  # There is no descriptor or no thread for it.
                return NO_FACTS
            if self._listener.has_answered.wait(wait_s):
                self._listener.clear()
        return self._listener.find()

    def filenos(self) -> list[int]:
        return [] if self._listener is None else [self._listener.fileno()]

    def clear(self) -> None:
        if self._listener is not None:
            self._listener.clear()

    def forget(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None


class _Listener:
    """A thread that follows the services, and a socket on which it reports changes."""

    def __init__(self) -> None:
        self.has_answered = threading.Event()
        self._facts = NO_FACTS
        self._begun_ms = _clock.monotonic_ms()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="edgecron-bus", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._ours.close()
            self._theirs.close()
            raise

    def find(self) -> BusFacts | None:
        is_late = _clock.monotonic_ms() - self._begun_ms > _GIVE_UP_MS
        return self._facts if self.has_answered.is_set() or is_late else None

    def fileno(self) -> int:
        return self._ours.fileno()

    def clear(self) -> None:
        with suppress(OSError):
            while self._ours.recv(4096):
                pass

    def close(self) -> None:
        """Stop the thread; wait for its end, unless it is loading jeepney."""
        self._ours.close()
        self._thread.join(0.1)

    # On the thread.

    def _run(self) -> None:
        # Here, because it loads jeepney, which can take a while and is an extra.
        from edgecron.base.bus_services import report

        with self._theirs:
            report(self._publish, stop_fd=self._theirs.fileno())

    def _publish(self, facts: BusFacts) -> None:
        has_changed = facts != self._facts or not self.has_answered.is_set()
        self._facts = facts
        self.has_answered.set()  # before the news: whoever the news wakes reads the facts at once
        if has_changed:
            # Full: there is unread news already. Closed: the owner has stopped listening.
            with suppress(OSError):
                self._theirs.send(b".")
