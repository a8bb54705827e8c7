"""What the kernel says of processes that a trial watches."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def watchers(engine: int) -> list[int]:
    """The supervisor and the guardian in the cgroup of an engine: they are no children of it."""
    found = []
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            is_ours = comm.read_text().strip() in ("edgecron-super", "edgecron-guard")
            if is_ours and _cgroup_of(comm.parent) == _cgroup_of(Path(f"/proc/{engine}")):
                found.append(int(comm.parent.name))
    return found


def _cgroup_of(process: Path) -> str:
    return (process / "cgroup").read_text(encoding="utf-8")


def pss_bytes(pid: int) -> int:
    """Memory of a process, its part of what it shares included; 0 where it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def cpu_s(pids: list[int]) -> float:
    """Processor time that processes have taken, children left out."""
    total = 0.0
    for pid in pids:
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                total += int((task / "schedstat").read_text().split()[0]) / 1e9
    return total


def is_alive(pid: int) -> bool:
    """Whether it runs, and is no zombie."""
    return Path(f"/proc/{pid}/exe").is_symlink()
