"""Asking: a question over a line, and its answer as a value."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from edgecron.base.errors import (
    EdgecronError,
    InvalidInput,
    QueryInterrupted,
    ServerLost,
    ServerUnavailable,
    ServerUnheard,
)
from edgecron.base.units import from_ms, parse_instant, to_ms
from edgecron.client.remote_answers import LOOK, NOT_KNOWN, Reply
from edgecron.client.resources import question, read_answer, write_request

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.client.remote_lines import Line, Lines
    from edgecron.client.remote_time import ServerTime


# Where the answer to what has a key is lost, it is asked again for so long, or as long as a lost
# server is waited for.
_KEYED_MS = 15_000
_FIRST_PAUSE_S = 0.1
_LAST_PAUSE_S = 2.0


class Asking:
    """What every part of RemoteClient stands on. Nothing is connected before the first question."""

    def __init__(self, lines: Lines, *, time: ServerTime) -> None:
        self._lines = lines
        self._time = time
        self._line = lines.open()
        self._broken_off = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the connection go; harmless when it is gone already."""
        self._line.close()

    @property
    def clock(self) -> Clock:
        """The clock of the other machine, as far as it is known."""
        return self._time

    @property
    def place(self) -> str:
        """Where the database is, for people to read."""
        return self._lines.place

    def now(self) -> datetime:
        """Wall time of the other machine, aware, in UTC."""
        if not self._time.is_known:
            self._ask("status", only=("now",))
        return from_ms(self._time.now_ms())

    def interrupt(self) -> None:
        """From any thread: have the question that is being answered raise QueryInterrupted."""
        self._broken_off.set()
        self._line.interrupt()

    def _ask(self, name: str, /, **arguments: Any) -> Any:
        return self._read(name, self._line.ask(write_request(name, arguments)))

    def _status(self, part: str) -> Any:
        return self._ask("status", only=(part,))

    def _read(self, name: str, reply: Reply) -> Any:
        note_time(self._time, reply)
        return read_answer(question(name), reply.body)

    def _ask_keyed(self, name: str, /, **arguments: Any) -> Any:
        """What is done once, however often it is asked: again where its answer was lost.

        Raises ServerLost where it may have been done, and nobody says so.
        """
        self._broken_off.clear()
        lost: ServerLost | None = None
        pause_s, until_ms = _FIRST_PAUSE_S, 0
        while True:
            try:
                return self._ask(name, **arguments)
            except QueryInterrupted:
                raise
            except ServerLost as error:
                if lost is None:
                    if isinstance(error, ServerUnheard):
                        raise
                    lost, until_ms = error, self._time.boottime_ms() + _KEYED_MS
            except EdgecronError as error:
                if lost is None:
                    raise
                raise ServerLost(f"{error.message}; {NOT_KNOWN}", hint=LOOK) from error
            if not self._line.is_waited_for() and self._time.boottime_ms() >= until_ms:
                raise lost
            if self._broken_off.wait(pause_s):
                raise QueryInterrupted(f"what {self.place} was asked was broken off")
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)


def note_time(time: ServerTime, reply: Reply) -> None:
    """Take the server's time from an answer. Raises ServerUnavailable if it is no time."""
    if reply.time is None:
        return
    try:
        time.note(to_ms(parse_instant(reply.time)))
    except InvalidInput as error:
        raise ServerUnavailable(f"the time of the answer can't be read: {error}") from error


class Waiting:
    """A question whose answer is waited for, on a line of its own. For one thread."""

    def __init__(self, line: Line, time: ServerTime, name: str) -> None:
        self._line = line
        self._time = time
        self._name = name
        self.is_begun = False

    def begin(self, *, wait_s: float, **arguments: Any) -> None:
        """Ask: what is new is answered at once, and else None after `wait_s`."""
        self._line.begin(write_request(self._name, arguments, wait_ms=round(wait_s * 1000)))
        self.is_begun = True

    def fileno(self) -> int | None:
        """What can be read from when the answer comes; None: it is there."""
        return self._line.fileno()

    def finish(self, *, is_late: bool = False) -> Any:
        """The answer; where it is late, what is not there is not waited for."""
        self.is_begun = False
        reply = self._line.finish(is_late=is_late)
        note_time(self._time, reply)
        return read_answer(question(self._name), reply.body)

    def close(self) -> None:
        self.is_begun = False
        self._line.close()
