"""The protocol of engine and supervisor: JSON frames on a stream socket.

A frame is four bytes of length, most significant first, then a JSON array `[kind, body]`. The first
frame is the supervisor's hello, which names the protocol version. Text can hold lone surrogates
(bytes that are not UTF-8); JSON escapes carry them.

After an upgrade, supervisors of the former version live on with their runs, and an older program
can ask a newer supervisor. So the frames, the phases, and `hello`, `status`, `cancel`, `revoke` and
`output` on the control socket never change. A version may only add fields to hello, and items at
the end of an answer. `refused` can answer any of them. Everything else can change with the version:
an engine adopts only a supervisor of its own version.
"""

from __future__ import annotations

import json
import socket
import struct
from collections import deque
from enum import StrEnum
from typing import Any

PROTOCOL_VERSION = 2
GIVEN_BACK = "given_back"  # instead of an error code: the run had no place yet
MAX_FRAME_BYTES = 256 * 1024 * 1024
READ_BYTES = 256 * 1024
SEND_BYTES = 32 * 1024

# Without it, a closed connection kills a process that does not ignore SIGPIPE.
SEND_FLAGS = getattr(socket, "MSG_NOSIGNAL", 0)

# Made once: `json.dumps` with separators makes one for each call.
to_json = json.JSONEncoder(separators=(",", ":")).encode

_LENGTH = struct.Struct(">I")


class Kind(StrEnum):
    START = "start"  # to the supervisor: requests, which start as places become free
    CANCEL = "cancel"  # to the supervisor: tokens to end
    END = "end"  # to the supervisor: (token, cause, message) of runs to end
    SUSPEND = "suspend"  # to the supervisor: tokens whose processes are to stop for a while
    CONTINUE = "continue"  # to the supervisor: tokens whose processes are to continue
    STOP_ALL = "stop_all"  # to the supervisor: end every run, for this cause
    ACK = "ack"  # to the supervisor: tokens whose end is on record elsewhere
    HELLO = "hello"  # to each connection: version, pid; the supervisor holds its lock by then
    REFUSED = "refused"  # instead of hello or an answer: the reason
    STARTED = "started"  # to the engine: (token, pid, started_ms) of each command started
    NOT_STARTED = "not_started"  # to the engine: (token, error_code or GIVEN_BACK, message) of each
    STALLED = "stalled"  # to the engine: (token, at_ms) of runs that print nothing, if it asked
    EXITED = "exited"  # to the engine: one exit record
    # On the control socket: `cancel` and these. An answer has the kind of its request.
    STATUS = "status"  # null -> runs as (token, pid, started_ms), tokens that wait, has_engine
    OUTPUT = "output"  # token, position, follow -> phase, position, chunks as (stream, ms, base64)
    REVOKE = "revoke"  # tokens -> the phase of each before, by token
    ADOPT = "adopt"  # null -> hello, and this connection is the engine's from then on


class Phase(StrEnum):
    """The state of a token in the supervisor."""

    UNKNOWN = "unknown"  # never seen, or its end was acknowledged
    WAITING = "waiting"  # to be started
    RUNNING = "running"
    ENDED = "ended"  # its end is on record and not acknowledged
    REVOKED = "revoked"  # it will never start


class BrokenProtocol(Exception):
    """The other side sent something that is not a frame of this protocol."""


def encode(kind: Kind, body: Any) -> bytes:
    """Encode a message as a frame."""
    text = to_json([kind, body]).encode("ascii")
    if len(text) > MAX_FRAME_BYTES:
        raise BrokenProtocol(f"frame is {len(text)} bytes, at most {MAX_FRAME_BYTES} can be sent")
    return _LENGTH.pack(len(text)) + text


class FrameReader:
    """Bytes in, messages out. Keeps an incomplete frame."""

    def __init__(self, *, most_bytes: int = MAX_FRAME_BYTES) -> None:
        self.most_bytes = most_bytes
        self._buffer = bytearray()

    def feed(self, content: bytes) -> list[tuple[Kind, Any]]:
        """Return the messages that are complete now. Raises BrokenProtocol."""
        self._buffer += content
        messages = []
        position = 0
        while len(self._buffer) - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, position)
            if length > self.most_bytes:
                most = self.most_bytes
                raise BrokenProtocol(f"frame of {length} bytes, expected {most} at most")
            end = position + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            messages.append(_decode(bytes(self._buffer[position + _LENGTH.size : end])))
            position = end
        del self._buffer[:position]
        return messages


class FrameWriter:
    """Frames that wait for room in a socket."""

    def __init__(self) -> None:
        self._frames: deque[memoryview] = deque()

    def __bool__(self) -> bool:
        return bool(self._frames)

    def put(self, frame: bytes) -> None:
        self._frames.append(memoryview(frame))

    def clear(self) -> None:
        self._frames.clear()

    def next_bytes(self) -> memoryview:
        """Return what to send next; small frames together, as each send wakes the other side."""
        if len(self._frames) > 1 and len(self._frames[0]) < SEND_BYTES:
            together = []
            size = 0
            while self._frames and size < SEND_BYTES:
                together.append(self._frames.popleft())
                size += len(together[-1])
            self._frames.appendleft(memoryview(b"".join(together)))
        return self._frames[0]

    def sent(self, count: int) -> None:
        """Remove the first `count` bytes of `next_bytes()`, which were sent."""
        frame = self._frames.popleft()
        if count < len(frame):
            self._frames.appendleft(frame[count:])


def _decode(text: bytes) -> tuple[Kind, Any]:
    try:
        kind, body = json.loads(text)
        return Kind(kind), body
    except (ValueError, TypeError) as error:
        raise BrokenProtocol(f"frame can't be read: {error}") from error
