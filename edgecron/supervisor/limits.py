"""Limit the resources of a run: by a control group (cgroup v2), else by limits of its processes.

Only the first run with limits loads this module. A subtree of control groups is ours if the service
manager has delegated the group above our own (systemd: `Delegate=` and `DelegateSubgroup=`), or if
we are in the root group and may change it. Each limited run then gets a group of its own, which is
removed after its end. Otherwise RLIMIT_AS limits the memory of each process by itself, and nothing
can limit the share of processor time: the run has a flag for each of these.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import sys
from contextlib import suppress
from pathlib import Path

from edgecron.base.values import dataclass
from edgecron.supervisor.protocol import Flag, StartRequest

GROUP_PREFIX = "edgecron-run-"
_CONTROLLERS = frozenset({"cpu", "memory"})
_PERIOD_US = 100_000
_CLASS_SHIFT = 13
_WHO_PROCESS = 1
_DELEGATED = ("user.delegate", "trusted.delegate")  # marks of systemd
# ioprio_set(2) has no function in C libraries.
_IOPRIO_SET = {
    "x86_64": 251, "aarch64": 30, "riscv64": 30, "loongarch64": 30, "armv6l": 314, "armv7l": 314,
    "i386": 289, "i686": 289, "ppc64le": 273, "s390x": 282,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtree:
    """A folder of control groups that is ours, and the controllers that work in it."""

    folder: Path
    controllers: frozenset[str]


class RunLimits:
    """The limits of one run. `group` is its control group, `memory_bytes` that of each process."""

    def __init__(
        self,
        *,
        group: Path | None = None,
        memory_bytes: int | None = None,
        ionice: tuple[int, int] | None = None,
        flags: tuple[Flag, ...] = (),
    ) -> None:
        self._group = group
        self._memory_bytes = memory_bytes
        self._ionice = ionice
        self.flags = flags

    def join(self) -> None:
        """Put this process under the limits that change nothing for itself. Raises OSError."""
        if self._group is not None:
            (self._group / "cgroup.procs").write_text(str(os.getpid()), "ascii")
        if self._ionice is not None:
            kind, level = self._ionice
            number = _IOPRIO_SET.get(platform.machine()) if sys.platform == "linux" else None
            if number is None:
                raise OSError(errno.ENOSYS, "this system has no disk priority that edgecron knows")
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.syscall(number, _WHO_PROCESS, 0, kind << _CLASS_SHIFT | level) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def limit_process(self) -> None:
        """Limit the memory of this process, which is about to become the command."""
        if self._memory_bytes is not None:
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            most = self._memory_bytes
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))

    def end(self) -> bool:
        """Remove the group of an ended run; whether the kernel ended it for lack of memory."""
        if self._group is None:
            return False
        killed = 0
        with suppress(OSError, ValueError):
            events = (self._group / "memory.events").read_text("ascii").split()
            killed = int(dict(zip(events[::2], events[1::2], strict=True)).get("oom_kill", 0))
        with suppress(OSError):  # Processes that the run left are in it: a later run removes it.
            self._group.rmdir()
        return killed > 0


def find_subtree(pid: int | None = None, *, root: Path = Path("/")) -> Subtree | None:
    """Find the control groups that the process `pid` (default: this one) may use for runs.

    `root` is the folder that has /proc and /sys.
    """
    process = "self" if pid is None else str(pid)
    try:
        lines = (root / "proc" / process / "cgroup").read_text("utf-8").splitlines()
    except OSError:
        return None
    own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    mount = root / "sys/fs/cgroup"
    if own is None or not (mount / "cgroup.controllers").exists():
        return None  # The system has version 1 only, or controllers in both versions.
    folder = mount if not own else (mount / own).parent
    is_ours = not own or _is_delegated(folder)
    if not is_ours or not all(
        os.access(one, os.W_OK) for one in (folder, folder / "cgroup.subtree_control")
    ):
        return None
    try:
        names = (folder / "cgroup.controllers").read_text("ascii").split()
    except OSError:
        return None
    controllers = _CONTROLLERS.intersection(names)
    return Subtree(folder=folder, controllers=controllers) if controllers else None


def _is_delegated(folder: Path) -> bool:
    if folder.name.startswith("user@"):
        return False  # The user's service manager has it, and manages what is in it.
    for mark in _DELEGATED:
        with suppress(OSError):
            if os.getxattr(folder, mark) == b"1":
                return True
    return False


class Limiter:
    """Prepares the limits of runs. `subtree` None: there are no control groups of ours."""

    def __init__(self, subtree: Subtree | None) -> None:
        self._subtree = None if subtree is None else _enabled(subtree)
        if self._subtree is not None:
            for left in self._subtree.folder.glob(f"{GROUP_PREFIX}*"):
                with suppress(OSError):  # A run of another supervisor is in it.
                    left.rmdir()

    def prepare(self, request: StartRequest) -> RunLimits:
        """Return the limits of a run; a control group for it is made."""
        memory, cpu = request.memory_max_bytes, request.cpu_max_percent
        group = None
        controllers = frozenset() if self._subtree is None else self._subtree.controllers
        wanted = {
            **({} if memory is None else {"memory": ("memory.max", str(memory))}),
            **(
                {}
                if cpu is None
                else {"cpu": ("cpu.max", f"{cpu * _PERIOD_US // 100} {_PERIOD_US}")}
            ),
        }
        flags = []
        if self._subtree is not None and controllers & wanted.keys():
            group = _make_group(
                self._subtree.folder / f"{GROUP_PREFIX}{request.token}",
                dict(wanted[name] for name in sorted(controllers & wanted.keys())),
            )
        by_group = frozenset() if group is None else controllers
        if memory is not None and "memory" not in by_group:
            flags.append(Flag.MEMORY_PER_PROCESS)
        else:
            memory = None
        if cpu is not None and "cpu" not in by_group:
            flags.append(Flag.CPU_UNLIMITED)
        return RunLimits(
            group=group, memory_bytes=memory, ionice=request.ionice, flags=tuple(flags)
        )


def _enabled(subtree: Subtree) -> Subtree | None:
    """Turn the controllers on for groups below; None if the kernel refuses all of them."""
    control = subtree.folder / "cgroup.subtree_control"
    try:
        for name in sorted(subtree.controllers.difference(control.read_text("ascii").split())):
            with suppress(OSError):  # What is on now says what works.
                control.write_text(f"+{name}", "ascii")
        on = subtree.controllers.intersection(control.read_text("ascii").split())
    except OSError:
        return None
    return Subtree(folder=subtree.folder, controllers=on) if on else None


def _make_group(folder: Path, limits: dict[str, str]) -> Path | None:
    """Make a control group with these limits; None if that fails."""
    try:
        folder.mkdir(exist_ok=True)  # A start that is tried again has it.
        for name, value in limits.items():
            (folder / name).write_text(value, "ascii")
        if "memory.max" in limits:
            (folder / "memory.oom.group").write_text("1", "ascii")
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        return None
    return folder
