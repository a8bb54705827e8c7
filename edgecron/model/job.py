"""The job of a schedule: what it runs, what that gets, and the limits of its resources. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from edgecron.base.checks import check_range, check_storable, is_plain
from edgecron.base.errors import InvalidInput
from edgecron.base.units import parse_size
from edgecron.base.values import dataclass, field
from edgecron.model.choices import JobKind

# Classes of disk priority, as ioprio_set(2) numbers them.
_BEST_EFFORT, _IDLE = 2, 3
_DEFAULT_LEVEL, _MOST_LEVEL = 4, 7
_LEAST_BYTES = 1 << 20  # with less, hardly a program starts
_MOST_CPUS = 1024
_IONICE = re.compile(r"idle|best-effort(?::([0-7]))?", re.ASCII)
_CPU_MAX = re.compile(r"(\d{1,6})%|(\d{1,4}(?:\.\d{1,2})?)", re.ASCII)


def read_ionice(text: str, *, what: str = "ionice") -> tuple[int, int]:
    """Return class and level of a disk priority, as ioprio_set(2) has them. Raises InvalidInput."""
    found = _IONICE.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"{what} is {text[:60]!r}, expected idle, best-effort or best-effort:N"
            f" with N from 0 to {_MOST_LEVEL}",
            hint="for example: idle",
        )
    if text == "idle":
        return _IDLE, 0
    return _BEST_EFFORT, int(found[1] or _DEFAULT_LEVEL)


def read_memory_max(text: str, *, what: str = "memory_max") -> int:
    """Return the bytes of a limit such as `512MiB`. Raises InvalidInput."""
    size_bytes = parse_size(text, what=what)
    if size_bytes < _LEAST_BYTES:
        raise InvalidInput(
            f"{what} is {text[:60]!r}, expected at least 1MiB", hint="for example: 512MiB"
        )
    return size_bytes


def read_cpu_max(text: str, *, what: str = "cpu_max") -> int:
    """Return per cent of one processor: 50 for `50%`, 150 for `1.5`. Raises InvalidInput."""
    found = _CPU_MAX.fullmatch(text)
    percent = 0
    if found is not None:
        percent = int(found[1]) if found[1] else round(float(found[2]) * 100)
    if not 1 <= percent <= _MOST_CPUS * 100:
        raise InvalidInput(
            f"{what} is {text[:60]!r}, expected a share such as 50%, or a number of processors",
            hint="for example: 50%",
        )
    return percent


READERS = {"ionice": read_ionice, "memory_max": read_memory_max, "cpu_max": read_cpu_max}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job of a schedule.

    `argv` is the command (kind command), the single shell line (shell) or the single registered
    name (callable). `env` is the schedule's own variables; `cwd` None means HOME; `user` None
    means the engine's own user; `stdin` None means an empty one.
    """

    kind: JobKind
    argv: tuple[str, ...]
    payload: str | None = None
    stdin: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    env_file: str | None = None
    cwd: str | None = None
    user: str | None = None
    nice: int | None = None  # None: the engine's own
    ionice: str | None = None
    memory_max: str | None = None
    cpu_max: str | None = None

    def __post_init__(self) -> None:
        if self.nice is not None:
            check_range("nice", self.nice, -20, 19)
        if self.ionice or self.memory_max or self.cpu_max:
            self._check_limits()
        if self.kind is JobKind.CALLABLE and self.nice is not None:
            raise InvalidInput(
                f"nice is {self.nice}, but functions run with the niceness of their program",
                hint="start that program with nice, or make the job a command",
            )
        if not self.argv or not self.argv[0].strip():
            raise InvalidInput("the command is missing", hint="write it after --, or use --shell")
        if self.kind is not JobKind.COMMAND and len(self.argv) != 1:
            raise InvalidInput(f"a {self.kind} job is one text, got {len(self.argv)}")
        env = self.env
        texts = [*self.argv, *env, *env.values()]
        texts += [text for text in (self.payload, self.stdin, self.cwd, self.user) if text]
        if self.env_file:
            texts.append(self.env_file)
        if not is_plain(texts):  # One check of all texts is enough for most jobs.
            self._check_texts()
        for key in self.env:
            if not key or "=" in key:
                raise InvalidInput(f"environment variable name {key!r} is not usable")

    def _check_limits(self) -> None:
        for name, read in READERS.items():
            text = getattr(self, name)
            if text is None:
                continue
            if self.kind is JobKind.CALLABLE:
                raise InvalidInput(
                    f"{name} is {text!r}, but functions run within the limits of their program",
                    hint="limit that program, or make the job a command",
                )
            read(text)

    def _check_texts(self) -> None:
        for what, text in (
            *(("argument", argument) for argument in self.argv),
            ("folder", self.cwd or ""),
            ("user", self.user or ""),
            ("environment file", self.env_file or ""),
            *(("environment variable", value) for value in self.env.values()),
            *(("environment variable name", key) for key in self.env),
            ("payload", self.payload or ""),
            ("stdin", (self.stdin or "").replace("\0", "")),  # a pipe may carry NUL
        ):
            check_storable(what, text)
