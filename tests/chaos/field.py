"""Folders of a storm, and who of ours is alive in them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SUPERVISOR, _GUARDIAN = "edgecron-super", "edgecron-guard"


@dataclass(frozen=True, kw_only=True)
class Process:
    pid: int
    parent: int
    name: str
    state: str
    start_time: int


class Field:
    """`disk` is what can be full: a small file system of its own where we could have one."""

    def __init__(self, folder: Path, *, abilities: frozenset[str]) -> None:
        self.folder = folder
        self.abilities = abilities
        self.disk = folder / "disk"
        self.place = self.disk / "place"
        self.database = self.place / "edge.db"
        self.log = folder / "jobs.log"
        self.logs = folder / "logs"
        for made in (self.disk, self.place, self.logs, folder / "home", folder / "tmp"):
            made.mkdir(exist_ok=True, mode=0o700)
        self.log.touch(mode=0o600)

    def environment(self, label: str) -> dict[str, str]:
        """Of a process of ours. Jobs inherit LC_*: by it they say who has started them."""
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "EDGECRON_DB": str(self.database),
            "EDGECRON_CONFIG": "none",
            "LC_CHAOS": label,
        }


def processes() -> list[Process]:
    """All that this process sees; zombies too."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                stat = Path(f"/proc/{name}/stat").read_text(errors="replace")
            except OSError:
                continue  # It ended since it was listed.
            before, _, after = stat.rpartition(")")
            words = after.split()
            found.append(
                Process(
                    pid=int(name),
                    parent=int(words[1]),
                    name=before.partition("(")[2],
                    state=words[0],
                    start_time=int(words[19]),
                )
            )
    return found


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A supervisor of a field and its guardian, which may be gone."""

    supervisor: int
    guardian: int | None
    key: str  # the supervisor's, as rows have it


def pairs(below: Path) -> list[Pair]:
    """Every supervisor with files open below a folder, with its guardian, by their ids."""
    seen = processes()
    by_pid = {one.pid: one for one in seen}
    found = []
    for one in seen:
        if one.name == _SUPERVISOR and one.state != "Z":
            journal = _journal_of(one.pid)
            if journal is not None and journal.is_relative_to(below):
                parent = by_pid.get(one.parent)
                has_guardian = parent is not None and parent.name == _GUARDIAN
                guardian = one.parent if has_guardian else None
                key = journal.name.removeprefix("supervisor-").partition(".")[0]
                found.append(Pair(supervisor=one.pid, guardian=guardian, key=key))
    return found


def _journal_of(pid: int) -> Path | None:
    """What a supervisor writes to, or its lock; None where it holds none (any more)."""
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            path = os.readlink(f"/proc/{pid}/fd/{fd}")
            if "/supervisor-" in path:
                return Path(path.removesuffix(" (deleted)"))
    except OSError:
        pass
    return None


class JobLog:
    """The jobs' own log, read as it grows: every start, with its last sign of life and its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.starts: list[dict[str, Any]] = []
        self._latest: dict[tuple[int, int], dict[str, Any]] = {}  # by run and process
        self._live: dict[int, dict[str, Any]] = {}  # without an end, by process

    def read(self) -> None:
        with self._path.open("rb") as log:
            log.seek(self._offset)
            content = log.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, entry: dict[str, Any]) -> None:
        who = entry["run"], entry["pid"]
        if entry["what"] == "start":
            self.starts.append(entry)
            self._latest[who] = self._live[entry["pid"]] = entry
        elif entry["what"] != "child":
            start = self._latest[who]
            start["seen_mono_ms"] = entry["mono_ms"]
            if entry["what"] == "end":
                start |= {"ended_ms": entry["wall_ms"], "code": entry["code"]}
                self._live.pop(entry["pid"], None)

    def living(self) -> Iterator[dict[str, Any]]:
        """Starts of jobs that have not told their end, and whose process is there."""
        self.read()
        for pid, entry in list(self._live.items()):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as cmdline:
                    is_ours = b"job.py" in cmdline.read()
            except OSError:
                is_ours = False
            if is_ours:
                yield entry
            else:
                del self._live[pid]
