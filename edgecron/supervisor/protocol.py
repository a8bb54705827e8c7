"""What engine and supervisor say to each other: length-prefixed JSON frames on a stream socket.

A frame is four bytes of length, most significant first, then a JSON array `[kind, body]`. The
first frame is the supervisor's hello, which names the protocol version. Text may hold lone
surrogates (bytes that are not UTF-8): JSON escapes carry them.

An upgrade leaves supervisors of before with their runs, and who asks may be older than the
supervisor, too. So `hello`, `status`, `cancel`, `revoke` and `output`, as the control socket has
them, the frames and the phases are frozen: every version answers them as they are written here,
and may only add fields to hello and items at the end of an answer. `refused` may answer any of
them. All else may change with the version, and only who adopts must be of the same.
"""

from __future__ import annotations

import json
import socket
import struct
from collections import deque
from enum import StrEnum
from typing import Any

PROTOCOL_VERSION = 1
MAX_FRAME_BYTES = 256 * 1024 * 1024
READ_BYTES = 256 * 1024
SEND_BYTES = 32 * 1024

# Without it a link that has closed would be a deadly signal where SIGPIPE is not ignored.
SEND_FLAGS = getattr(socket, "MSG_NOSIGNAL", 0)

# Made once: `json.dumps` with separators makes one for each call.
to_json = json.JSONEncoder(separators=(",", ":")).encode

_LENGTH = struct.Struct(">I")


class Kind(StrEnum):
    START = "start"  # to the supervisor: requests, all their tokens journalled in one write
    CANCEL = "cancel"  # to the supervisor: tokens to end
    STOP_ALL = "stop_all"  # to the supervisor: end every run, whose cause is then the one given
    ACK = "ack"  # to the supervisor: tokens whose end is on record elsewhere
    HELLO = "hello"  # to who connects: version, pid; the lock is held from here on
    REFUSED = "refused"  # instead of hello or of an answer: why it can't be
    STARTED = "started"  # to the engine: (token, pid, started_ms) of each command started
    NOT_STARTED = "not_started"  # to the engine: (token, error_code, message), nothing was run
    EXITED = "exited"  # to the engine: one exit record
    # On the control socket, `cancel` and these; the answer to each is of its own kind.
    STATUS = "status"  # null -> runs as (token, pid, started_ms), tokens that wait, has_engine
    OUTPUT = "output"  # token, position, follow -> phase, position, chunks as (stream, ms, base64)
    REVOKE = "revoke"  # tokens -> what each of them was, by token
    ADOPT = "adopt"  # null -> this connection is the engine's link, from a hello on; or refused


class Phase(StrEnum):
    """Where a token is, as the supervisor knows it."""

    UNKNOWN = "unknown"  # never heard of, or its end was acknowledged long ago
    WAITING = "waiting"  # to be started
    RUNNING = "running"
    ENDED = "ended"  # its end is on record, and was not acknowledged yet
    REVOKED = "revoked"  # it will never start


class BrokenProtocol(Exception):
    """The other side sent what is no frame of this protocol."""


def encode(kind: Kind, body: Any) -> bytes:
    """The frame of a message."""
    text = to_json([kind, body]).encode("ascii")
    if len(text) > MAX_FRAME_BYTES:
        raise BrokenProtocol(f"frame is {len(text)} bytes, at most {MAX_FRAME_BYTES} can be sent")
    return _LENGTH.pack(len(text)) + text


class FrameReader:
    """Bytes in, messages out; keeps what is not complete yet."""

    def __init__(self, *, most_bytes: int = MAX_FRAME_BYTES) -> None:
        self.most_bytes = most_bytes
        self._buffer = bytearray()

    def feed(self, content: bytes) -> list[tuple[Kind, Any]]:
        """The messages that are complete now. Raises BrokenProtocol."""
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
    """Frames that wait for room in a socket. Never blocks; memory is what the caller queued."""

    def __init__(self) -> None:
        self._frames: deque[memoryview] = deque()

    def __bool__(self) -> bool:
        return bool(self._frames)

    def put(self, frame: bytes) -> None:
        self._frames.append(memoryview(frame))

    def clear(self) -> None:
        self._frames.clear()

    def next_bytes(self) -> memoryview:
        """What to send next: small frames together, as each send wakes the other side."""
        if len(self._frames) > 1 and len(self._frames[0]) < SEND_BYTES:
            together = []
            size = 0
            while self._frames and size < SEND_BYTES:
                together.append(self._frames.popleft())
                size += len(together[-1])
            self._frames.appendleft(memoryview(b"".join(together)))
        return self._frames[0]

    def sent(self, count: int) -> None:
        """The first `count` bytes of `next_bytes()` are gone."""
        frame = self._frames.popleft()
        if count < len(frame):
            self._frames.appendleft(frame[count:])


def _decode(text: bytes) -> tuple[Kind, Any]:
    try:
        kind, body = json.loads(text)
        return Kind(kind), body
    except (ValueError, TypeError) as error:
        raise BrokenProtocol(f"frame can't be read: {error}") from error
