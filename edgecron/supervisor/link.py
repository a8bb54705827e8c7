"""The engine's end of the link to its supervisor."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgecron.base.errors import SupervisorUnavailable
from edgecron.base.values import dataclass
from edgecron.supervisor import protocol
from edgecron.supervisor.forked_children import close_in_children
from edgecron.supervisor.protocol import Kind
from edgecron.supervisor.records import EndCause, ExitRecord, StartRequest

BATCH = 64  # requests in a message: their tokens are journalled at once, and the first start early
SEND_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A command runs."""

    token: str
    pid: int
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    """Surely not started, and not on record: it may be queued again."""

    token: str
    error_code: str
    error_msg: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """A run has ended; its record stays in the journal until it is acknowledged."""

    record: ExitRecord


Event = Started | NotStarted | Exited


class SupervisorLink:
    """Requests out, events in. For one thread; `fileno()` is readable when `receive` has something.

    `is_alive` turns False when the supervisor has gone: the journal tells what became of the rest.
    `end_message` is then what it said last, where it failed.
    """

    def __init__(self, link: socket.socket, state_dir: Path, *, supervisor_id: str) -> None:
        self._link = link
        self._reader = protocol.FrameReader()
        self._writer = protocol.FrameWriter()
        self._messages: dict[Kind, Callable[[Any], list[Event]]] = {
            Kind.STARTED: _read_started,
            Kind.NOT_STARTED: _read_not_started,
            Kind.EXITED: _read_exited,
            Kind.REFUSED: self._read_refused,
        }
        self._early: list[tuple[Kind, Any]] = []  # what came together with the hello
        self.state_dir = state_dir
        self.supervisor_id = supervisor_id
        self.pid = 0
        self.is_alive = True
        self.end_message: str | None = None
        link.setblocking(False)
        close_in_children(self)

    @property
    def has_unsent(self) -> bool:
        """Whether something waits for room: poll `fileno()` for writing too, then `flush`."""
        return bool(self._writer)

    def fileno(self) -> int:
        return self._link.fileno()

    def wait_hello(self, timeout_s: float) -> None:
        """Wait for the supervisor to serve. Raises SupervisorUnavailable with its own reason."""
        while True:
            messages = self._receive_messages() if self._poll(select.POLLIN, timeout_s) else []
            if not messages:
                raise SupervisorUnavailable("supervisor did not start, or did not answer in time")
            (kind, body), *self._early = messages
            if kind is Kind.REFUSED:
                raise SupervisorUnavailable(str(body))
            if kind is Kind.HELLO and body["version"] == protocol.PROTOCOL_VERSION:
                self.pid = body["pid"]
                return
            raise SupervisorUnavailable(
                f"supervisor speaks {kind} {body!r}, expected version {protocol.PROTOCOL_VERSION}"
            )

    def wait_closed(self, timeout_s: float) -> bool:
        """Wait for the supervisor to go, dropping what it says; False after so long a silence."""
        while self.is_alive and self._poll(select.POLLIN, timeout_s):
            self._receive_messages()
        return not self.is_alive

    def start(self, requests: Sequence[StartRequest]) -> None:
        """Have commands started, each token once."""
        for first in range(0, len(requests), BATCH):
            batch = [request.to_json() for request in requests[first : first + BATCH]]
            self._writer.put(protocol.encode(Kind.START, batch))
            self.flush()
        self._push()

    def cancel(self, tokens: Sequence[str]) -> None:
        """Have runs ended: TERM to the group, KILL after the grace, reported as cancelled."""
        self._say(Kind.CANCEL, list(tokens))

    def stop_all(self, cause: EndCause = EndCause.STOPPED) -> None:
        """Have every run ended, those that wait to be started included."""
        self._say(Kind.STOP_ALL, cause)

    def acknowledge(self, tokens: Sequence[str]) -> None:
        """Say that these ends are on record here: the supervisor may forget them."""
        if tokens:
            self._say(Kind.ACK, list(tokens))

    def receive(self) -> list[Event]:
        """What has happened since, without waiting."""
        events: list[Event] = []
        early, self._early = self._early, []
        for kind, body in [*early, *self._receive_messages()]:
            read = self._messages.get(kind)
            if read is not None:
                events.extend(read(body))
        self.flush()
        return events

    def flush(self) -> None:
        """Give the socket what it takes now."""
        while self._writer:
            try:
                sent = self._link.send(self._writer.next_bytes(), protocol.SEND_FLAGS)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # It has gone. `is_alive` stays until all that it said before was received.
                self._writer.clear()
                return
            self._writer.sent(sent)

    def close(self) -> None:
        """Let go of the supervisor: it ends with its last run. What waits to be sent is sent."""
        if self._link.fileno() >= 0:
            self._push()
            self._link.close()
        self.is_alive = False

    def close_in_child(self) -> None:
        """Close our end in a child of ours: the supervisor is told nothing."""
        self._link.close()
        self.is_alive = False

    def _say(self, kind: Kind, body: Any) -> None:
        self._writer.put(protocol.encode(kind, body))
        self._push()

    def _push(self) -> None:
        """Send all, waiting for room while the supervisor reads on.

        It always does unless it is stopped; what is left then goes out with a later call.
        """
        self.flush()
        while self._writer and self._poll(select.POLLOUT, SEND_TIMEOUT_S):
            self.flush()

    def _poll(self, events: int, timeout_s: float) -> bool:
        poller = select.poll()
        poller.register(self._link, events)
        return bool(poller.poll(timeout_s * 1000))

    def _receive_messages(self) -> list[tuple[Kind, Any]]:
        messages: list[tuple[Kind, Any]] = []
        while self.is_alive:
            try:
                content = self._link.recv(protocol.READ_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                content = b""
            if not content:
                self.is_alive = False
                break
            try:
                messages.extend(self._reader.feed(content))
            except protocol.BrokenProtocol as error:
                self.end_message = f"supervisor sent what can't be read: {error}"
                self.is_alive = False
        return messages

    def _read_refused(self, body: str) -> list[Event]:
        self.end_message = body
        return []


def _read_started(body: Sequence[tuple[str, int, int]]) -> list[Event]:
    return [Started(token=token, pid=pid, started_ms=at_ms) for token, pid, at_ms in body]


def _read_not_started(body: Sequence[tuple[str, str, str]]) -> list[Event]:
    return [
        NotStarted(token=token, error_code=code, error_msg=message) for token, code, message in body
    ]


def _read_exited(body: dict[str, Any]) -> list[Event]:
    return [Exited(record=ExitRecord.from_json(body))]
