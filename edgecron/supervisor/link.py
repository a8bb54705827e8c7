"""The engine's side of the connection to its supervisor: requests out, events in."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgecron.base.errors import SupervisorUnavailable
from edgecron.base.forks import reset_in_children
from edgecron.base.sockets import SEND_FLAGS
from edgecron.base.values import dataclass
from edgecron.supervisor import protocol
from edgecron.supervisor.protocol import EndCause, ExitRecord, Kind, StartRequest

BATCH = 64  # requests per message: one write to the journal, and the first ones start early
SEND_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A command was started."""

    token: str
    pid: int
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    """A command was not started, and is not in the journal: it can be queued again."""

    token: str
    error_code: str
    error_msg: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """A running command printed nothing for its stall timeout."""

    token: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """A run has ended. Its record stays in the journal until it is acknowledged."""

    record: ExitRecord


Event = Started | NotStarted | Stalled | Exited


class SupervisorLink:
    """Sends requests and receives events. For one thread.

    `fileno()` is readable when `receive` has something. `is_alive` turns False when the supervisor
    has ended; its journal then has the other ends. `end_message` is its error message, if any.
    """

    def __init__(self, link: socket.socket, state_dir: Path, *, supervisor_id: str) -> None:
        self._link = link
        self._reader = protocol.FrameReader()
        self._writer = protocol.FrameWriter()
        self._messages: dict[Kind, Callable[[Any], list[Event]]] = {
            Kind.STARTED: read_started,
            Kind.NOT_STARTED: read_not_started,
            Kind.STALLED: read_stalled,
            Kind.EXITED: read_exited,
            Kind.REFUSED: self.read_refused,
        }
        self._early: list[tuple[Kind, Any]] = []  # messages that came with the hello
        self.state_dir = state_dir
        self.supervisor_id = supervisor_id
        self.pid = 0
        self.is_alive = True
        self.end_message: str | None = None
        link.setblocking(False)
        reset_in_children(self)

    @property
    def has_unsent(self) -> bool:
        """Whether messages wait for room: poll `fileno()` for writing too, then `flush`."""
        return bool(self._writer)

    def fileno(self) -> int:
        return self._link.fileno()

    def wait_hello(self, timeout_s: float) -> None:
        """Wait until the supervisor serves. Raises SupervisorUnavailable with its reason."""
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
        """Wait for the end of the supervisor; False if it stays silent for this time."""
        while self.is_alive and self._poll(select.POLLIN, timeout_s):
            self._receive_messages()
        return not self.is_alive

    def start(self, requests: Sequence[StartRequest]) -> None:
        """Start commands. Each token starts once."""
        for first in range(0, len(requests), BATCH):
            batch = [request.to_json() for request in requests[first : first + BATCH]]
            self._writer.put(protocol.encode(Kind.START, batch))
            self.flush()
        self._push()

    def cancel(self, tokens: Sequence[str]) -> None:
        """End runs by TERM, and by KILL after their grace; their cause is `cancelled`."""
        self._send(Kind.CANCEL, list(tokens))

    def end(self, token: str, cause: EndCause, message: str) -> None:
        """End a run, as `cancel` does, for another cause."""
        self._send(Kind.END, [[token, cause, message]])

    def suspend(self, token: str) -> None:
        """Stop all processes of a run for a while. Its timeout does not count that time."""
        self._send(Kind.SUSPEND, [token])

    def resume(self, token: str) -> None:
        """Let the processes of a run continue."""
        self._send(Kind.CONTINUE, [token])

    def stop_all(self, cause: EndCause = EndCause.STOPPED) -> None:
        """End every run, also those that wait to be started."""
        self._send(Kind.STOP_ALL, cause)

    def acknowledge(self, tokens: Sequence[str]) -> None:
        """Report that these ends are on record: the supervisor can forget them."""
        if tokens:
            self._send(Kind.ACK, list(tokens))

    def receive(self) -> list[Event]:
        """Return the events since the last call, without waiting."""
        events: list[Event] = []
        early, self._early = self._early, []
        for kind, body in [*early, *self._receive_messages()]:
            read = self._messages.get(kind)
            if read is not None:
                events.extend(read(body))
        self.flush()
        return events

    def flush(self) -> None:
        """Send what the socket takes now."""
        while self._writer:
            try:
                sent = self._link.send(self._writer.next_bytes(), SEND_FLAGS)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # It has ended. `is_alive` stays until all its messages are received.
                self._writer.clear()
                return
            self._writer.sent(sent)

    def close(self) -> None:
        """Send the rest and disconnect. The supervisor ends with its last run."""
        if self._link.fileno() >= 0:
            self._push()
            self._link.close()
        self.is_alive = False

    def reset_in_child(self) -> None:
        """Close the descriptor in a forked child; the supervisor does not notice."""
        self._link.close()
        self.is_alive = False

    def _send(self, kind: Kind, body: Any) -> None:
        self._writer.put(protocol.encode(kind, body))
        self._push()

    def _push(self) -> None:
        """Send everything, and wait for room while the supervisor reads.

        A stopped supervisor does not read: a later call then sends the rest.
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

    def read_refused(self, body: str) -> list[Event]:
        self.end_message = body
        return []


def read_started(body: Sequence[tuple[str, int, int]]) -> list[Event]:
    return [Started(token=token, pid=pid, started_ms=at_ms) for token, pid, at_ms in body]


def read_not_started(body: Sequence[tuple[str, str, str]]) -> list[Event]:
    return [
        NotStarted(token=token, error_code=code, error_msg=message) for token, code, message in body
    ]


def read_stalled(body: Sequence[tuple[str, int]]) -> list[Event]:
    return [Stalled(token=token, at_ms=at_ms) for token, at_ms in body]


def read_exited(body: dict[str, Any]) -> list[Event]:
    return [Exited(record=ExitRecord.from_json(body))]
