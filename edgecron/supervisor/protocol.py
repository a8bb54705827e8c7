"""The protocol of engine and supervisor: JSON frames on a stream socket, and what they carry.

A frame is four bytes of length, most significant first, then a JSON array `[kind, body]`. The first
frame is the supervisor's hello, which names the protocol version. Text can hold lone surrogates
(bytes that are not UTF-8); JSON escapes carry them.

After an upgrade, supervisors of the former version live on with their runs, and an older program
can ask a newer supervisor. So the frames, the phases, and `hello`, `status`, `cancel`, `revoke` and
`output` on the control socket never change. A version may only add fields to hello, and items at
the end of an answer. `refused` can answer any of them. Everything else can change with the version:
an engine adopts only a supervisor of its own version.

Requests to start a command and exit records are values here. On the link and in the journal they
are JSON objects, with the names of the fields as keys.
"""

from __future__ import annotations

import json
import re
import struct
from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from edgecron.base.values import dataclass, defaults_of, field, names_of
from edgecron.model.choices import GAVE_UP_MARK, SUSPENDED_MARK

PROTOCOL_VERSION = 2
GIVEN_BACK = "given_back"  # instead of an error code: the run had no place yet
MAX_FRAME_BYTES = 256 * 1024 * 1024
READ_BYTES = 64 * 1024  # for more, each read would map memory
SEND_BYTES = 32 * 1024

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


TOKEN = re.compile(r"[A-Za-z0-9_\-]{1,64}", re.ASCII)


class EndCause(StrEnum):
    EXIT = "exit"  # the main process exited
    SIGNAL = "signal"  # a signal of another process ended it
    TIMEOUT = "timeout"  # we ended it because it ran longer than its timeout
    STALLED = "stalled"  # we ended it because it printed nothing for its stall timeout
    CANCELLED = "cancelled"  # we ended it on request
    STOPPED = "stopped"  # we ended it with its engine or supervisor
    SPAWN = "spawn"  # it could not be started
    CONDITION = "condition"  # we ended it because its condition was lost


class Flag(StrEnum):
    """A remark on a run, in addition to its end."""

    PIPE_HELD = "pipe_held"  # another process kept stdout or stderr open when the main one ended
    LEFT_BEHIND = "left_behind"  # its session had processes when the main one ended
    # Checked at a bounded cost: among many short runs, some escaped processes go unnoticed.
    ESCAPED = "escaped"  # it left processes in sessions of their own when it ended
    OUTPUT_LOST = "output_lost"  # part of the output within the cap could not be kept (no space)
    SPAWN_RETRIED = "spawn_retried"  # at first, the system had no process or descriptor left
    NOT_STARTED = "not_started"  # it could not be started, and can be queued again
    GIVEN_BACK = "given_back"  # it had no place yet when it was returned, and is queued again
    STALLED = "stalled"  # at least once, it printed nothing for its stall timeout
    KILLED = "killed"  # it did not end on TERM within its grace
    RESULT_TOO_BIG = "result_too_big"  # it left a result of more than 64 KiB
    RESULT_INVALID = "result_invalid"  # its result is not a file of JSON
    GAVE_UP = GAVE_UP_MARK  # attempts were left, but its exception is not one to retry
    SUSPENDED = SUSPENDED_MARK  # its processes were stopped for a while
    CORE_DUMPED = "core_dumped"  # the system wrote a core file
    OUT_OF_MEMORY = "out_of_memory"  # the kernel ended it at the limit of its control group
    OUTPUT_NOT_STORED = "output_not_stored"  # `--durability volatile`: it printed, and succeeded
    COULD_SLEEP = "could_sleep"  # the machine was not, or not always, kept from sleeping
    # No control group is delegated to us:
    MEMORY_PER_PROCESS = "memory_per_process"  # the limit holds for each process by itself
    CPU_UNLIMITED = "cpu_unlimited"  # the limit of processor time was not possible


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The user that a command runs as, if it is another one than the supervisor's."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """All that the supervisor needs to run a command once.

    If `refused` is set, (error_code, message), nothing is run and the end is recorded like any
    other. `timeout_ms` and `stall_timeout_ms` None mean no limit, `nice` None the supervisor's own
    niceness. `ionice` is class and level, `cpu_max_percent` a share of one processor.

    For another user (`identity`), the fork that has become this user enters `cwd`, or `/` if
    `is_home` and it is missing, and reads `env_file`. Its variables override `base_env`, and `env`
    overrides them.
    """

    token: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    stdin: str | None = None
    timeout_ms: int | None = None
    stall_timeout_ms: int | None = None
    ends_stalled: bool = False  # a stalled run is ended; else it is only reported
    kill_grace_ms: int = 10_000
    output_cap_bytes: int
    identity: Identity | None = None
    nice: int | None = None
    ionice: tuple[int, int] | None = None
    memory_max_bytes: int | None = None
    cpu_max_percent: int | None = None
    keep_awake: bool = False
    leaves_nothing: bool = False  # whatever the command leaves is killed at its end
    refused: tuple[str, str] | None = None
    is_home: bool = False
    env_file: str | None = None
    base_env: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if TOKEN.fullmatch(self.token) is None:
            raise ValueError(f"token {self.token!r} is not 1 to 64 of A-Z a-z 0-9 _ -")

    @property
    def needs_fork(self) -> bool:
        """Whether code must run in the new process before its command."""
        return self.identity is not None or self.nice is not None or self.has_limits

    @property
    def has_limits(self) -> bool:
        """Whether `limits` must be loaded for it."""
        return (self.memory_max_bytes or self.cpu_max_percent or self.ionice) is not None

    def to_json(self) -> dict[str, Any]:
        body = _given_fields(self)
        if self.identity is not None:
            body["identity"] = _given_fields(self.identity)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> StartRequest:
        known = _known_fields(cls, body)
        for name in known.keys() & {"argv", "ionice", "refused"}:
            known[name] = tuple(known[name])
        if "identity" in known:
            who = _known_fields(Identity, known["identity"])
            known["identity"] = Identity(**{**who, "groups": tuple(who["groups"])})
        return cls(**known)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord:
    """How a run ended.

    `exit_code` is 128+N if signal N (`signal`) ended it. If it never started, `exit_code`,
    `started_ms` and `duration_ms` are None. Instants are wall time, `duration_ms` is monotonic.
    `result` is the JSON text that the run left. `output.load_output` reads `output`.
    """

    token: str
    cause: EndCause
    finished_ms: int
    exit_code: int | None = None
    signal: int | None = None
    started_ms: int | None = None
    duration_ms: int | None = None
    pid: int | None = None
    error_code: str | None = None
    error_msg: str | None = None
    flags: tuple[str, ...] = ()
    result: str | None = None
    output: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return _given_fields(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ExitRecord:
        known = _known_fields(cls, body)
        known["cause"] = EndCause(known["cause"])
        known["flags"] = tuple(known.get("flags", ()))
        return cls(**known)


_REQUIRED = object()
_DEFAULTS: dict[type, dict[str, object]] = {  # of each field, in order
    kind: {name: defaults_of(kind).get(name, _REQUIRED) for name in names_of(kind)}
    for kind in (Identity, StartRequest, ExitRecord)
}


def _given_fields(value: Identity | StartRequest | ExitRecord) -> dict[str, Any]:
    """Return the fields of a value that differ from their defaults, by name."""
    fields = {name: getattr(value, name) for name in _DEFAULTS[type(value)]}
    return {name: one for name, one in fields.items() if one != _DEFAULTS[type(value)][name]}


def _known_fields(kind: type, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the items of `body` that are fields of a value; other versions can have more."""
    return {name: body[name] for name in _DEFAULTS[kind] if name in body}
