"""The control socket of a supervisor: ask any supervisor, and answer every process of its user."""

from __future__ import annotations

import contextlib
import errno
import os
from binascii import (
    a2b_base64,  # `base64` is much more
    b2a_base64,  # `base64` is much more
)
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from edgecron.base import sockets
from edgecron.base.errors import SupervisorUnavailable
from edgecron.base.values import dataclass
from edgecron.model.run import Output, OutputChunk, Stream
from edgecron.supervisor import protocol
from edgecron.supervisor.link import SupervisorLink
from edgecron.supervisor.output import Part
from edgecron.supervisor.protocol import Kind, Phase
from edgecron.supervisor.reactor import Peer, Reactor
from edgecron.supervisor.state_files import socket_path

TIMEOUT_S = 5.0
LIVE = frozenset({Phase.WAITING, Phase.RUNNING})  # the phases of a run that can still print


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """A running command."""

    token: str
    pid: int
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorState:
    """The runs of a supervisor, the tokens that wait, and whether its engine is connected."""

    running: tuple[LiveState, ...]
    waiting: tuple[str, ...]
    has_engine: bool


class Control:
    """A connection to a supervisor. For one thread; every call waits at most `timeout_s`.

    Every call raises SupervisorUnavailable if the supervisor has ended or does not answer. Every
    call but `adopt` works with a supervisor of any version (see `protocol`).
    """

    def __init__(
        self, state_dir: Path, supervisor_id: str, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._state_dir = state_dir
        self._supervisor_id = supervisor_id
        self._reader = protocol.FrameReader()
        self._messages: list[tuple[Kind, Any]] = []
        try:
            self._link = sockets.connect(socket_path(state_dir, supervisor_id), timeout_s=timeout_s)
        except OSError as error:
            raise self._gone(str(error)) from error
        try:
            hello = self._receive(Kind.HELLO)
        except BaseException:
            self._link.close()
            raise
        self.version: int = hello["version"]
        self.pid: int = hello["pid"]

    def __enter__(self) -> Control:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._link.close()

    @property
    def is_of_our_version(self) -> bool:
        """Whether an engine of this version of edgecron can adopt the supervisor."""
        return self.version == protocol.PROTOCOL_VERSION

    def fileno(self) -> int:
        """Return the descriptor; it is readable when `take_followed` has something."""
        return self._link.fileno()

    def status(self) -> SupervisorState:
        running, waiting, has_engine, *_ = self._ask(Kind.STATUS, None)
        return SupervisorState(
            running=tuple(
                LiveState(token=token, pid=pid, started_ms=started_ms)
                for token, pid, started_ms in running
            ),
            waiting=tuple(waiting),
            has_engine=has_engine,
        )

    def cancel(self, tokens: Sequence[str]) -> dict[str, Phase]:
        """End runs by TERM, and by KILL after their grace. Returns the phase of each before."""
        return _phases(self._ask(Kind.CANCEL, list(tokens)))

    def revoke(self, tokens: Sequence[str]) -> dict[str, Phase]:
        """Keep tokens from starting. Returns the phase of each before.

        A waiting, unknown or revoked token will never start. A run that is running or has ended
        stays as it is.
        """
        return _phases(self._ask(Kind.REVOKE, list(tokens)))

    def output(self, token: str, position: int = 0) -> tuple[Phase, Part]:
        """Return the phase of a run and, while it runs, a part of its output from a position on.

        The part is empty at the end. Read the output of an ended run from its exit record: see
        `rest_of`.
        """
        body = {"token": token, "position": position, "follow": False}
        return _part(self._ask(Kind.OUTPUT, body))

    def begin_follow(self, token: str, position: int = 0) -> None:
        """Have the output sent as it comes: call `take_followed` when `fileno` is readable.

        The last part is empty, with a phase that is not LIVE. `rest_of` gives the rest, from the
        position of that part on. Until then, ask nothing else.
        """
        self._send(Kind.OUTPUT, {"token": token, "position": position, "follow": True})

    def take_followed(self) -> list[tuple[Phase, Part]]:
        """Return what has come of the followed output, without waiting."""
        before = self._link.gettimeout()
        self._link.settimeout(0)
        try:
            messages = self._take_messages()
        except BlockingIOError:
            return []
        finally:
            self._link.settimeout(before)
        return [_part(self._body_of(message, Kind.OUTPUT)) for message in messages]

    def adopt(self) -> SupervisorLink:
        """Become the engine of a supervisor whose own engine has gone.

        The link then receives a start for each live run, and each end that is not acknowledged.
        It takes this connection over. Raises SupervisorUnavailable with the reason if the
        supervisor refuses, or has another version.
        """
        if not self.is_of_our_version:
            known = protocol.PROTOCOL_VERSION
            raise SupervisorUnavailable(
                f"supervisor {self._supervisor_id} can't be adopted:"
                f" it speaks version {self.version}, expected {known}"
            )
        timeout_s = self._link.gettimeout() or TIMEOUT_S
        self._send(Kind.ADOPT, None)
        link = SupervisorLink(self._link.dup(), self._state_dir, supervisor_id=self._supervisor_id)
        self._link.close()
        try:
            link.wait_hello(timeout_s)
        except SupervisorUnavailable:
            link.close()
            raise
        return link

    def _ask(self, kind: Kind, body: Any) -> Any:
        self._send(kind, body)
        return self._receive(kind)

    def _send(self, kind: Kind, body: Any) -> None:
        try:
            self._link.sendall(protocol.encode(kind, body), sockets.SEND_FLAGS)
        except OSError as error:
            raise self._gone(str(error)) from error

    def _receive(self, expected: Kind) -> Any:
        while not self._messages:
            self._messages = self._take_messages()
        return self._body_of(self._messages.pop(0), expected)

    def _take_messages(self) -> list[tuple[Kind, Any]]:
        """Read once and return the complete messages. Raises BlockingIOError instead of waiting."""
        try:
            content = self._link.recv(protocol.READ_BYTES)
            messages = self._reader.feed(content)
        except BlockingIOError:
            raise
        except TimeoutError as error:
            raise self._gone("it did not answer in time") from error
        except (OSError, protocol.BrokenProtocol) as error:
            raise self._gone(str(error)) from error
        if not content:
            raise self._gone("it has gone")
        return messages

    def _body_of(self, message: tuple[Kind, Any], expected: Kind) -> Any:
        kind, body = message
        if kind is Kind.REFUSED:
            raise self._gone(str(body))
        if kind is not expected:
            raise self._gone(f"it answered {kind} {body!r}, expected {expected}")
        return body

    def _gone(self, why: str) -> SupervisorUnavailable:
        return SupervisorUnavailable(f"supervisor {self._supervisor_id} can't be asked: {why}")


def rest_of(output: Output, position: int) -> Part:
    """Return a part of the output of an exit record, from a position on.

    Call again from the end of the part until it is empty. If bytes were dropped, the part starts
    after them.
    """
    kept: list[OutputChunk] = []
    at = first = 0
    for number, chunk in enumerate(output.chunks):
        if number == output.dropped_after and output.dropped_bytes:
            if kept:
                break
            at += output.dropped_bytes
        skipped = max(position - at, 0)
        if skipped < len(chunk.content):
            if not kept:
                first = at + skipped
            content = chunk.content[skipped:]
            kept.append(OutputChunk(stream=chunk.stream, at_ms=chunk.at_ms, content=content))
        at += len(chunk.content)
    if kept:
        return Part(position=first, chunks=tuple(kept))
    return Part(position=max(position, output.stdout_bytes + output.stderr_bytes))


def _phases(body: Mapping[str, str]) -> dict[str, Phase]:
    return {token: Phase(phase) for token, phase in body.items()}


def _part(body: Sequence[Any]) -> tuple[Phase, Part]:
    phase, position, chunks, *_ = body
    return Phase(phase), Part(
        position=position,
        chunks=tuple(
            OutputChunk(stream=Stream(stream), at_ms=at_ms, content=a2b_base64(content))
            for stream, at_ms, content in chunks
        ),
    )


MOST_CONNECTIONS = 64
MOST_REQUEST_BYTES = 4 * 1024 * 1024


class Controlled(Protocol):
    """The interface of a supervisor for its control socket."""

    def status(self) -> list[Any]: ...

    def cancel(self, tokens: list[str]) -> dict[str, Phase]: ...

    def revoke(self, tokens: list[str]) -> dict[str, Phase]: ...

    def read_output(self, token: str, position: int) -> tuple[Phase, Part]: ...

    def adopt(self, end: Peer) -> str | None: ...


class ControlServer:
    """Listens on the control socket, answers requests, and sends followers what a run prints."""

    def __init__(
        self,
        path: Path,
        reactor: Reactor,
        *,
        supervisor: Controlled,
        hello: Mapping[str, Any],
    ) -> None:
        self._path = path
        self._reactor = reactor
        self._supervisor = supervisor
        self._hello = hello
        self._connections: set[Peer] = set()
        self._followers: dict[Peer, tuple[str, int]] = {}  # token and position
        self._spare_fd: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._listener = sockets.listen(path)
        reactor.watch(self._listener.fileno(), self._on_connection)

    def flush(self) -> None:
        """Send new output to followers, and send what each socket takes now."""
        for end, (token, position) in list(self._followers.items()):
            # Only what the socket takes: a follower that does not read costs no memory.
            while not end.has_unsent and self._send_output(end, token, position, is_asked=False):
                if end not in self._followers:
                    break
                position = self._followers[end][1]
                end.flush()
        for end in list(self._connections):
            end.flush()
            if not end.is_connected:
                self._forget(end)

    def close(self) -> None:
        """Send the rest, and remove the socket."""
        self.flush()
        self._path.unlink(missing_ok=True)

    def _on_connection(self) -> None:
        try:
            link, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._refuse_connection()
            return
        if sockets.peer_uid(link) not in (0, os.geteuid()):
            link.close()
            return
        if len(self._connections) >= MOST_CONNECTIONS:
            link.close()
            return
        end = Peer(
            link,
            self._reactor,
            on_message=lambda kind, body: self._on_message(end, kind, body),
            most_bytes=MOST_REQUEST_BYTES,
        )
        self._connections.add(end)
        end.send(Kind.HELLO, self._hello)

    def _refuse_connection(self) -> None:
        # Without a descriptor for it, the listener would stay ready and keep us from sleeping.
        if self._spare_fd is not None:
            os.close(self._spare_fd)
            self._spare_fd = None
        with contextlib.suppress(OSError):
            self._listener.accept()[0].close()
        with contextlib.suppress(OSError):  # another process was faster: the next call tries again
            self._spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _on_message(self, end: Peer, kind: Kind, body: Any) -> None:
        try:
            self._answer(end, kind, body)
        except Exception as error:  # noqa: BLE001 - a bad request must not end the runs
            end.send(Kind.REFUSED, f"{kind} failed: {error!r}")
            end.flush()
            end.disconnect()

    def _answer(self, end: Peer, kind: Kind, body: Any) -> None:
        if kind is Kind.OUTPUT:
            self._on_output(end, body)
        elif kind is Kind.ADOPT:
            refusal = self._supervisor.adopt(end)
            if refusal is None:
                self._forget(end)
            else:
                end.send(Kind.REFUSED, refusal)
        elif kind is Kind.STATUS:
            end.send(kind, self._supervisor.status())
        elif kind is Kind.CANCEL:
            end.send(kind, self._supervisor.cancel(body))
        elif kind is Kind.REVOKE:
            end.send(kind, self._supervisor.revoke(body))
        else:
            raise ValueError(f"a control socket can't answer {kind}")

    def _on_output(self, end: Peer, body: Mapping[str, Any]) -> None:
        token, position = str(body["token"]), int(body["position"])
        if position < 0:
            raise ValueError("position is below 0")
        if body["follow"]:
            self._followers[end] = (token, position)
        else:
            self._send_output(end, token, position, is_asked=True)

    def _send_output(self, end: Peer, token: str, position: int, *, is_asked: bool) -> bool:
        phase, part = self._supervisor.read_output(token, position)
        is_over = phase not in (Phase.WAITING, Phase.RUNNING)
        if not (is_asked or is_over or part.chunks):
            return False
        chunks = [
            (chunk.stream, chunk.at_ms, b2a_base64(chunk.content, newline=False).decode("ascii"))
            for chunk in part.chunks
        ]
        end.send(Kind.OUTPUT, [phase, part.position, chunks])
        if is_over:
            self._followers.pop(end, None)
        elif not is_asked:
            self._followers[end] = (token, part.next_position)
        return True

    def _forget(self, end: Peer) -> None:
        self._connections.discard(end)
        self._followers.pop(end, None)
