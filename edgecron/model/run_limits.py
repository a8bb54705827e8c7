"""Limits of a run's resources, as text: disk priority, memory, processor time. Pure."""

from __future__ import annotations

import re

from edgecron.base.errors import InvalidInput
from edgecron.base.units import parse_size

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
