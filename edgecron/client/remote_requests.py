"""Ask a server: send a request, judge its answer, and wait for a server that is lost.

What is only read is asked again until a server answers. What changes something is asked again only
if the server surely did not hear it, or if it has a key.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, Self

from edgecron.base.checks import check_name
from edgecron.base.errors import (
    AccessRefused,
    EdgecronError,
    InvalidInput,
    InvalidName,
    NotFound,
    QueryInterrupted,
    ServerLost,
    ServerUnavailable,
    ServerUnheard,
)
from edgecron.base.units import from_ms, parse_instant, to_ms
from edgecron.base.values import NamedTuple
from edgecron.client.resources import question, read_answer, write_request

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.client.remote_server import ServerTime
    from edgecron.client.resources import Request


class Reply(NamedTuple):
    """The body of an answer, and the server's time in RFC 3339; None if it does not say it."""

    body: bytes
    time: str | None = None


# Of what changes something, and was perhaps heard.
NOT_KNOWN = "whether it was done is not known"
LOOK = "look, and then repeat it if it was not"
_REFUSED = (401, 403)
_BEHIND = (502, 503, 504)  # what stands before a server says so where that does not answer


def judge(url: str, *, status: int, body: bytes, has_token: bool, is_write: bool) -> bytes:
    """The body of what answers a question, be it with an error of ours.

    `is_write`: what was asked changes something.

    Raises AccessRefused where a token is wanted, ServerLost where it may be back soon, and
    ServerUnavailable where that is no edgecron, or one that we can't talk to.
    """
    if 200 <= status < 300:
        return body
    error = _error_in(body)
    if error is None and status in _BEHIND:
        words = f"{url} answers with status {status}: what is behind it does not answer"
        if is_write:  # It may only take long.
            raise ServerLost(f"{words}; {NOT_KNOWN}", hint=LOOK)
        raise ServerLost(words, hint="is it served there? edgecron daemon --http")
    if error is None:
        raise ServerUnavailable(
            f"{url} is no edgecron: it answers with status {status}",
            hint="give the address of the daemon itself, as its --http has it",
        )
    if error.get("code") == "overloaded":
        # It has too much to do, or is just stopping, and has not begun with it.
        raise ServerUnheard(f"{url} does not answer: {error.get('message')}")
    if error.get("code") == QueryInterrupted.code:
        # As it stops, it ends what it is asked. Of a change it is not known where that was.
        words = f"{url} has ended what it was asked"
        raise ServerLost(f"{words}; {NOT_KNOWN}" if is_write else words, hint=LOOK)
    if status in _REFUSED and "type" not in error:
        raise _refusal(url, error, has_token=has_token)
    if error.get("code") in ("no_route", "wrong_method"):
        raise ServerUnavailable(
            f"{url} is an edgecron, and there is nothing to ask at this path of it",
            hint="give the address as its --http has it, with nothing after the port; or it is an"
            " older one: use the same version on both machines",
        )
    return body


def _refusal(url: str, error: dict[str, Any], *, has_token: bool) -> AccessRefused:
    if error.get("code") == "other_user":
        return AccessRefused(
            f"{url} refuses us: {error.get('message')}",
            hint="ask as one of those; or have it served with a token, and give that: --token-file"
            " FILE",
        )
    if not has_token:
        return AccessRefused(
            f"{url} wants a token",
            hint="give the one that its daemon was started with: --token-file FILE",
        )
    return AccessRefused(
        f"{url} refuses us: {error.get('message') or 'the token is not its own'}",
        hint="is the token in --token-file the one that its daemon was started with?",
    )


def _error_in(body: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = told.get("error") if isinstance(told, dict) else None
    return error if isinstance(error, dict) else None


def _check_schedule(name: str) -> None:
    """Raise NotFound for a name that no schedule can have, as on the machine of the database.

    The server would refuse the path as wrong input.
    """
    try:
        check_name(name, what="schedule name")
    except InvalidName:
        raise NotFound(f"there is no schedule {name!r}", hint="see: edgecron list") from None


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
            self.request("status", only=("now",))
        return from_ms(self._time.now_ms())

    def interrupt(self) -> None:
        """From any thread: have the question that is being answered raise QueryInterrupted."""
        self._broken_off.set()
        self._line.interrupt()

    def request(self, name: str, /, **arguments: Any) -> Any:
        """Ask for a resource by its name, and return the value of its answer."""
        if "name" in question(name).resource.path_words:
            _check_schedule(arguments["name"])
        reply = self._line.ask(write_request(name, arguments))
        note_time(self._time, reply)
        return read_answer(question(name), reply.body)

    def request_keyed(self, name: str, /, **arguments: Any) -> Any:
        """What is done once, however often it is asked: again where its answer was lost.

        Raises ServerLost where it may have been done, and nobody says so.
        """
        self._broken_off.clear()
        lost: ServerLost | None = None
        pause_s, until_ms = _FIRST_PAUSE_S, 0
        while True:
            try:
                return self.request(name, **arguments)
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
        self.time = time
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
        note_time(self.time, reply)
        return read_answer(question(self._name), reply.body)

    def close(self) -> None:
        self.is_begun = False
        self._line.close()


class Line(Protocol):
    """One question at a time. For one thread, but for `interrupt`."""

    def ask(self, request: Request) -> Reply:
        """Return the answer. Raises ServerUnavailable, and QueryInterrupted; ServerLost where
        it may be back soon."""

    def begin(self, request: Request) -> None:
        """Send a request whose answer waits for news."""

    def fileno(self) -> int | None:
        """What can be read from once the answer to what was begun comes; None: it is there."""

    def finish(self, *, is_late: bool = False) -> Reply:
        """The answer to what was begun; where it is late, what is not there is not waited for."""

    def interrupt(self) -> None:
        """From any thread: end what is being asked, where something is."""

    def is_waited_for(self) -> bool:
        """Whether a server that was lost is waited for; who waits is told so once."""

    def close(self) -> None:
        """End what was begun, too. The next question opens it again."""


class Lines(Protocol):
    """Who gives lines. `place` is where they lead, for people to read."""

    place: str

    def open(self) -> Line:
        """A line of its own; nothing is connected before it is asked something."""


_FIRST_WAIT_S = 0.25
_LAST_WAIT_S = 5.0


class PatientLines:
    """Lines to a server that may end and come back, once it has answered for the first time.

    `tell` is told once when it is lost, and once when it answers again. `is_patient` says whether
    it is waited for still. For one thread.
    """

    def __init__(
        self,
        lines: Lines,
        *,
        tell: Callable[[str], object],
        is_patient: Callable[[], bool] = lambda: True,
    ) -> None:
        self.place = lines.place
        self._lines = lines
        self._tell = tell
        self._is_patient = is_patient
        self._has_answered = False
        self._is_lost = False  # and that was told

    def open(self) -> PatientLine:
        return PatientLine(self._lines.open(), self)

    def answered(self, request: Request, ask: Callable[[], Reply]) -> Reply:
        """What is answered at last.

        Raises ServerLost where nobody has ever answered, nobody waits any more, or where it was
        asked to change something, which may have been heard.
        """
        pause_s = _FIRST_WAIT_S
        while True:
            try:
                answer = ask()
            except ServerLost as error:
                may_be_done = request.is_write and not isinstance(error, ServerUnheard)
                if may_be_done or not self.is_waited_for(error.message):
                    raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_WAIT_S)
                continue
            self._has_answered = True
            if self._is_lost:
                self._tell(f"{self.place} answers again")
                self._is_lost = False
            return answer

    def is_waited_for(self, loss: str) -> bool:
        """Whether a server is waited for that was lost so; it is told once."""
        if not (self._has_answered and self._is_patient()):
            return False
        if not self._is_lost:
            self._tell(f"{loss}; waiting until it is back")
        self._is_lost = True
        return True


class PatientLine:
    """A Line over which an answer comes, be it late."""

    def __init__(self, line: Line, lines: PatientLines) -> None:
        self._line = line
        self._lines = lines
        self._begun: Request | None = None

    def ask(self, request: Request) -> Reply:
        return self._lines.answered(request, lambda: self._line.ask(request))

    def begin(self, request: Request) -> None:
        self._begun = request
        try:
            self._line.begin(request)
        except ServerLost:
            return  # There is nothing to wait for: `finish` is next, and asks.

    def fileno(self) -> int | None:
        return self._line.fileno()

    def finish(self, *, is_late: bool = False) -> Reply:
        try:
            return self._line.finish(is_late=is_late)
        except ServerLost:
            if self._begun is None:
                raise
            return self.ask(self._begun.without_wait())

    def interrupt(self) -> None:
        self._line.interrupt()

    def is_waited_for(self) -> bool:
        return self._lines.is_waited_for(f"{self._lines.place} does not answer")

    def close(self) -> None:
        self._line.close()
