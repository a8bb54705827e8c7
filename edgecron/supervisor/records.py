"""Values that engine and supervisor exchange: requests to start a command, and exit records.

On the link and in the journal they are JSON objects, with the names of the fields as keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from edgecron.base.values import dataclass, field
from edgecron.model.choices import GAVE_UP_MARK, SUSPENDED_MARK

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

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Identity:
        name, uid, gid = body["name"], body["uid"], body["gid"]
        return cls(name=name, uid=uid, gid=gid, groups=tuple(body["groups"]))


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
        body: dict[str, Any] = {
            "token": self.token,
            "argv": self.argv,
            "env": dict(self.env),
            "cwd": self.cwd,
            "kill_grace_ms": self.kill_grace_ms,
            "output_cap_bytes": self.output_cap_bytes,
        }
        for name in (
            "stdin", "timeout_ms", "nice", "ionice", "memory_max_bytes", "cpu_max_percent",
            "refused", "env_file",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None:
                body[name] = value
        if self.stall_timeout_ms is not None:
            body["stall_timeout_ms"] = self.stall_timeout_ms
            body["ends_stalled"] = self.ends_stalled
        if self.keep_awake:
            body["keep_awake"] = True
        if self.identity is not None:
            body["identity"] = self.identity.to_json()
            body["is_home"] = self.is_home
            body["base_env"] = dict(self.base_env)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> StartRequest:
        identity = body.get("identity")
        refused, ionice = body.get("refused"), body.get("ionice")
        return cls(
            token=body["token"],
            argv=tuple(body["argv"]),
            env=body["env"],
            cwd=body["cwd"],
            stdin=body.get("stdin"),
            timeout_ms=body.get("timeout_ms"),
            stall_timeout_ms=body.get("stall_timeout_ms"),
            ends_stalled=body.get("ends_stalled", False),
            kill_grace_ms=body["kill_grace_ms"],
            output_cap_bytes=body["output_cap_bytes"],
            identity=None if identity is None else Identity.from_json(identity),
            nice=body.get("nice"),
            ionice=None if ionice is None else (ionice[0], ionice[1]),
            memory_max_bytes=body.get("memory_max_bytes"),
            cpu_max_percent=body.get("cpu_max_percent"),
            keep_awake=body.get("keep_awake", False),
            refused=None if refused is None else (refused[0], refused[1]),
            is_home=body.get("is_home", False),
            env_file=body.get("env_file"),
            base_env=body.get("base_env", {}),
        )


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
        body: dict[str, Any] = {"token": self.token, "cause": self.cause}
        for name in _RECORD_FIELDS:
            value = getattr(self, name)
            if value is not None:
                body[name] = value
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ExitRecord:
        known = {name: body[name] for name in _RECORD_FIELDS if name in body}
        known["flags"] = tuple(known.get("flags", ()))
        return cls(token=body["token"], cause=EndCause(body["cause"]), **known)


_RECORD_FIELDS = (
    "finished_ms",
    "exit_code",
    "signal",
    "started_ms",
    "duration_ms",
    "pid",
    "error_code",
    "error_msg",
    "flags",
    "result",
    "output",
)
