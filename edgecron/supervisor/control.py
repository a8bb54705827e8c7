"""Asking a supervisor that may not be ours, over its control socket: status, cancel, output, ..."""

from __future__ import annotations

from binascii import a2b_base64  # `base64` is much more
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from edgecron.base.errors import SupervisorUnavailable
from edgecron.base.values import dataclass
from edgecron.model.claim import Output, OutputChunk, Stream
from edgecron.supervisor import protocol, unix_sockets
from edgecron.supervisor.link import SupervisorLink
from edgecron.supervisor.output import Part
from edgecron.supervisor.protocol import Kind, Phase
from edgecron.supervisor.state_files import socket_path

TIMEOUT_S = 5.0
LIVE = frozenset({Phase.WAITING, Phase.RUNNING})  # a run of which more is to come


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """A command that runs."""

    token: str
    pid: int
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorState:
    """What a supervisor is busy with: what runs, tokens that wait, whether its engine is there."""

    running: tuple[LiveState, ...]
    waiting: tuple[str, ...]
    has_engine: bool


class Control:
    """A connection to a supervisor. For one thread; every call waits `timeout_s` at most.

    All raise SupervisorUnavailable where the supervisor has gone or does not answer: then its
    journal tells what became of its runs. All but `adopt` work with a supervisor of any version,
    see `protocol`; `is_of_our_version` tells.
    """

    def __init__(
        self, state_dir: Path, supervisor_id: str, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._state_dir = state_dir
        self._supervisor_id = supervisor_id
        self._reader = protocol.FrameReader()
        self._messages: list[tuple[Kind, Any]] = []
        try:
            self._link = unix_sockets.connect(
                socket_path(state_dir, supervisor_id), timeout_s=timeout_s
            )
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
        """Whether the supervisor can be adopted by an engine of this edgecron."""
        return self.version == protocol.PROTOCOL_VERSION

    def fileno(self) -> int:
        """Readable when there is something to take of what is followed."""
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
        """Have runs ended: TERM, grace, KILL, in due course. What each of them was before."""
        return _phases(self._ask(Kind.CANCEL, list(tokens)))

    def revoke(self, tokens: Sequence[str]) -> dict[str, Phase]:
        """Have tokens never started. What each of them was before.

        What was waiting, unknown or revoked will never start; what was running or has ended is
        as it was.
        """
        return _phases(self._ask(Kind.REVOKE, list(tokens)))

    def output(self, token: str, position: int = 0) -> tuple[Phase, Part]:
        """The phase of a run, and while it runs a part of what is kept from a position on.

        Empty at the end. What has ended is read from its exit record: see `rest_of`.
        """
        body = {"token": token, "position": position, "follow": False}
        return _part(self._ask(Kind.OUTPUT, body))

    def follow(
        self, token: str, position: int = 0, *, timeout_s: float | None = None
    ) -> Iterator[tuple[Phase, Part]]:
        """What a run prints, as it comes, until a part that is empty: it runs no longer then.

        The rest is in its exit record, from the position of that last part on: see `rest_of`.
        `timeout_s` is how long a silence may last, None without end. While it is read nothing
        else can be asked.
        """
        self.begin_follow(token, position)
        before = self._link.gettimeout()
        self._link.settimeout(timeout_s)
        while True:
            phase, part = _part(self._receive(Kind.OUTPUT))
            if phase not in LIVE:
                self._link.settimeout(before)
                yield phase, part
                return
            yield phase, part

    def begin_follow(self, token: str, position: int = 0) -> None:
        """Ask for the same, to be taken by `take_followed` whenever `fileno` is readable."""
        self._send(Kind.OUTPUT, {"token": token, "position": position, "follow": True})

    def take_followed(self) -> list[tuple[Phase, Part]]:
        """What has come of it since, without waiting: some of it, where that is much."""
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
        """Become its engine, where its own has gone. The link then has all that is not settled:
        a start for each run, an end for each that was not acknowledged: `receive` at once.

        This connection is the link's from then on. Raises SupervisorUnavailable with the reason
        where the supervisor refuses, or is of another version.
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
            self._link.sendall(protocol.encode(kind, body), protocol.SEND_FLAGS)
        except OSError as error:
            raise self._gone(str(error)) from error

    def _receive(self, expected: Kind) -> Any:
        while not self._messages:
            self._messages = self._take_messages()
        return self._body_of(self._messages.pop(0), expected)

    def _take_messages(self) -> list[tuple[Kind, Any]]:
        """The messages that one reading completes; BlockingIOError where it may not wait."""
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
    """What a run printed from a position on, of the output of its exit record.

    One stretch: ask again from its end on, until it is empty. It starts later than asked for
    where that was dropped.
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
