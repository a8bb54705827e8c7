"""Daemons and commands as processes of their own, and what the kernel says of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from edgecron.base.paths import state_dir
from tests.bench.machine import child_environment

BOUND_S = 300.0


@contextlib.contextmanager
def daemon(database: Path, *options: str) -> Iterator[int]:
    """An engine in a process of its own that has begun to sleep; its process id."""
    log_path = database.with_suffix(".log")
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "edgecron", "--db", str(database), "daemon", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=child_environment(),
        )
    try:
        wait_until(lambda: b"engine_started" in log_path.read_bytes(), "the engine has started")
        yield process.pid
    finally:
        process.terminate()
        code = process.wait(BOUND_S)
    assert code == 0, f"the engine ended with {code}: {log_path.read_bytes()[-400:]!r}"


def wait_until(is_so: Callable[[], bool], what: str, *, bound_s: float = BOUND_S) -> None:
    until = time.monotonic() + bound_s
    while not is_so():
        assert time.monotonic() < until, f"not within {bound_s} s: {what}"
        time.sleep(0.05)


def watchers_of(database: Path) -> list[int]:
    """The supervisor beside a database, and its guardian, by process id."""
    folder = str(state_dir(database).resolve())
    holders = {
        pid
        for pid in _pids()
        if any(name.startswith(folder) and name.endswith(".journal") for name in _open_files(pid))
    }
    # A command that is being started still holds the journal of its supervisor for a moment.
    supervisors = [pid for pid in holders if _parent_or_none(pid) not in holders]
    assert len(supervisors) == 1, f"{len(supervisors)} supervisors beside {database}"
    return [supervisors[0], parent_of(supervisors[0])]


def family_of(pid: int, folder: Path) -> list[int]:
    """A process, those that it has started, and all others that have a file below a folder open,
    with those that started them and wait: a supervisor and its guardian, where there are any."""
    place = str(folder.resolve())
    found = {one for one in _pids() if any(name.startswith(place) for name in _open_files(one))}
    found.add(pid)
    found |= {parent_of(one) for one in found if one != pid} - {1, os.getpid()}
    pending = list(found)
    while pending:
        parent = pending.pop()
        children = {one for one in _pids() if _parent_or_none(one) == parent} - found
        found |= children
        pending += children
    return sorted(found)


def _parent_or_none(pid: int) -> int | None:
    try:
        return parent_of(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None


def written_by(pids: Iterable[int]) -> int:
    """Bytes that processes, and the children they have reaped, have handed to write()."""
    return sum(io_of(pid)["wchar"] for pid in pids)


def io_of(pid: int) -> dict[str, int]:
    """`/proc/PID/io`."""
    text = Path(f"/proc/{pid}/io").read_text(encoding="ascii")
    return {name: int(value) for name, value in (line.split(": ") for line in text.splitlines())}


def cpu_s_of(pid: int) -> float:
    """Processor time of a process's own threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def stolen_s() -> float:
    """How long this machine's processors had to wait since its start, because its host ran others.

    `steal` in proc(5): 0 on a machine that is not virtual.
    """
    first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    return int(first.split()[8]) / os.sysconf("SC_CLK_TCK")


def wakes_of(pid: int) -> int:
    """How often it went to sleep by itself."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    return int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def memory_kb_of(pid: int) -> dict[str, int]:
    """Rss, Pss and what else the kernel sums up of a process's memory, in kB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    words = (line.split() for line in text.splitlines()[1:])
    return {name[:-1]: int(size) for name, size, *_ in words}


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(stat.rpartition(")")[2].split()[1])


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _open_files(pid: int) -> list[str]:
    found = []
    with contextlib.suppress(FileNotFoundError, PermissionError, ProcessLookupError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found
