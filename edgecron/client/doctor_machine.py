"""Check the file of the database, and the machine: disks, other processes, demands."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from shlex import quote
from shutil import which
from typing import TYPE_CHECKING

from edgecron.base.errors import DatabaseBusy, DatabaseUnusable
from edgecron.base.machine import WAKE_ALARM
from edgecron.base.paths import ServerUrl
from edgecron.base.units import MIB
from edgecron.base.values import dataclass
from edgecron.client import Client
from edgecron.client.engine_health import EngineState, holds_open
from edgecron.engine.sleep import watch_writes
from edgecron.engine.state_folder import engine_lock_path, find_root_risk, owner_of
from edgecron.store.sqlite.whole_file import (
    find_damage,
    find_damage_within,
    find_orphans,
    is_repairable,
    orphan_words,
)
from edgecron.views.phrases import named_words, size_words

if TYPE_CHECKING:
    from edgecron.model.schedule import ScheduleSpec


class CheckStatus(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"  # nothing is lost, but a person should know
    PROBLEM = "problem"  # something does not work, and will not recover by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of a check. `hint` says what to do, if anything."""

    check: str
    status: CheckStatus
    message: str
    hint: str | None = None


def well(check: str, message: str) -> Finding:
    return Finding(check=check, status=CheckStatus.OK, message=message)


def warning(check: str, message: str, *, hint: str | None = None) -> Finding:
    return Finding(check=check, status=CheckStatus.WARNING, message=message, hint=hint)


def problem(check: str, message: str, *, hint: str | None = None) -> Finding:
    return Finding(check=check, status=CheckStatus.PROBLEM, message=message, hint=hint)


LEAST_FREE_BYTES = 16 * MIB
_LEAST_FREE_SHARE = 0.01
_LEAST_FREE_FILES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Free and total bytes and files of a file system; a total of 0 means no limit."""

    free_bytes: int
    total_bytes: int
    free_files: int
    total_files: int


def check_files(database: Path, state_dir: Path) -> list[Finding]:
    """Check that private files have the right kind and mode."""
    wide = []
    wanted = {
        database: 0o600,
        database.with_name(f"{database.name}-wal"): 0o600,
        database.with_name(f"{database.name}-shm"): 0o600,
        state_dir: 0o700,
    }
    if os.path.lexists(state_dir) and (state_dir.is_symlink() or not state_dir.is_dir()):
        del wanted[state_dir]
        what = "a symbolic link" if state_dir.is_symlink() else "no folder"
        wide.append(
            problem(
                "files",
                f"{state_dir} is {what}, and no engine can start",
                hint=f"move it away: mv {quote(str(state_dir))} {quote(f'{state_dir}.old')}",
            )
        )
    for path, mode in wanted.items():
        try:
            mode_now = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            wide.append(problem("files", f"{path} can't be checked: {error.strerror}"))
            continue
        if path != state_dir and not stat.S_ISREG(mode_now):
            continue  # The check `database` reports a device or a link.
        found = stat.S_IMODE(mode_now)
        if found & 0o077:
            wide.append(
                problem(
                    "files",
                    f"{path} has mode {found:04o}, expected {mode:04o}: other users might use it",
                    hint=f"chmod {mode:o} {quote(str(path))}",
                )
            )
        elif mode & ~found:
            wide.append(
                problem(
                    "files",
                    f"{path} has mode {found:04o}, expected {mode:04o}: its owner can't use it",
                    hint=f"chmod {mode:o} {quote(str(path))}",
                )
            )
    # The engine of another user's database runs as that user.
    is_ours = owner_of(database) in (None, os.geteuid())
    opening = find_root_risk(database) if is_ours else None
    if opening is not None:
        wide.append(
            problem(
                "files",
                f"{opening.words}: other users decide what root runs, so no engine of root starts",
                hint=opening.mend,
            )
        )
    return wide or [well("files", "private: no other user can read them")]


def check_space(database: Path, state_dir: Path) -> list[Finding]:
    """Check the free space for the database and its journals."""
    found: dict[int, Finding] = {}
    for folder in (database.parent, state_dir):
        try:
            device, seen = folder.stat().st_dev, os.statvfs(folder)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return [problem("space", f"{folder} can't be checked: {error.strerror}")]
        room = Room(
            free_bytes=seen.f_bavail * seen.f_frsize,
            total_bytes=seen.f_blocks * seen.f_frsize,
            free_files=seen.f_favail,
            total_files=seen.f_files,
        )
        found[device] = judge_space(folder, room)
    return list(found.values())


def judge_space(folder: Path, room: Room) -> Finding:
    """Judge the free space of a file system; one without a size is not a disk."""
    share = room.free_bytes / room.total_bytes if room.total_bytes else 1.0
    words = f"{room.free_bytes / MIB:,.0f} MiB free"
    if room.free_bytes >= 10 * 1024 * MIB:
        words = f"{room.free_bytes / (1024 * MIB):,.0f} GiB free"
    if room.total_bytes and (room.free_bytes < LEAST_FREE_BYTES or share < _LEAST_FREE_SHARE):
        return problem(
            "space",
            f"{words} ({share:.1%}) on the file system of {folder}",
            hint="free some space: edgecron starts no run that it can't record",
        )
    if room.total_files and room.free_files < _LEAST_FREE_FILES:
        return problem(
            "space",
            f"room for {room.free_files} more files on the file system of {folder}",
            hint="remove some files: an engine and its runs create files",
        )
    return well("space", words)


def check_crashes(state_dir: Path) -> list[Finding]:
    """Report the tracebacks of supervisors that failed by a defect."""
    return [
        warning(
            "supervisors",
            f"a supervisor failed because of a defect in edgecron: {path}",
            hint=f"report the content of this file, then: rm {quote(str(path))}",
        )
        for path in sorted(state_dir.glob("supervisor-*.crash"))
    ]


_LOCKS = Path("/proc/locks")
_LOCK = re.compile(r"\d+: POSIX +\S+ +\S+ +(\d+) +[0-9a-f]+:[0-9a-f]+:(\d+) ", re.ASCII)
_STANDARD = re.compile(rb"/_sqlite3\.[^/\n]*so", re.ASCII)
_APSW = re.compile(rb"/apsw/[^\n]*so", re.ASCII)


def check_others(client: Client, states: Sequence[EngineState]) -> list[Finding]:
    """Check for copies of the database that run too, and that engines hold their locks."""
    found = [
        problem(
            "others",
            f"pid {copy.pid} runs a copy of this database, {copy.path or 'at an unknown path'}:"
            " each schedule fires in both",
            hint="stop one of them; to make a second database: edgecron backup FILE, then"
            " edgecron --db NEW restore FILE",
        )
        for copy in client.other_databases()
    ]
    folder = client.state_dir
    for state in states:
        pid = state.info.pid
        if state.is_alive and holds_open(pid, engine_lock_path(folder, state.info.key)):
            found += check_host(client.path, pid)
    return found or [
        well("others", "no other process runs a copy of the database or opens it unsafely")
    ]


def check_host(database: Path, pid: int) -> list[Finding]:
    """Check that the program of an engine keeps the engine's locks (Linux).

    The caller has the database open: if the kernel does not show its own locks, it shows none.
    """
    holders = _holders(database)
    advice = "open the database only through edgecron, or in another process; restart the program"
    if os.getpid() in holders and pid not in holders:
        return [
            problem(
                "others",
                f"the engine of pid {pid} has lost its locks on the database: its program"
                " opened and closed the file by other means, such as Python's sqlite3",
                hint=advice,
            )
        ]
    if _has_both(pid):
        return [
            warning(
                "others",
                f"the program of pid {pid} has an engine and has loaded Python's sqlite3: if"
                " it opens this database by sqlite3, the engine loses its locks",
                hint=advice,
            )
        ]
    return []


def _holders(database: Path) -> set[int]:
    """Return the processes that hold a lock on the database, as SQLite does while it is open."""
    try:
        inode = database.stat().st_ino
        lines = _LOCKS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return set()
    found = (_LOCK.match(line) for line in lines)
    return {int(lock[1]) for lock in found if lock is not None and int(lock[2]) == inode}


def _has_both(pid: int) -> bool:
    """Whether a process has loaded both Python's sqlite3 and apsw."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False  # It is another user's, or gone.
    return _STANDARD.search(maps) is not None and _APSW.search(maps) is not None


def limit_words(states: Sequence[EngineState], *, has_memory: bool, has_cpu: bool) -> str | None:
    """Say how the engine limits memory and processor time; None if nothing is to be limited.

    If no engine is running, the control groups of this process stand for those of an engine.
    """
    if not has_memory and not has_cpu:
        return None
    # Few schedules have limits, and what sets them loads ctypes.
    from edgecron.supervisor.limits import find_subtree

    pid = next((one.info.pid for one in states if one.is_alive and one.info.queues), None)
    subtree = find_subtree(pid)
    controllers = frozenset() if subtree is None else subtree.controllers
    words = []
    if has_memory:
        is_grouped = "memory" in controllers
        words.append(f"memory by {'control group' if is_grouped else 'process (RLIMIT_AS)'}")
    if has_cpu:
        words.append(
            "processor time by control group"
            if "cpu" in controllers
            else "processor time is not limited here"
        )
    return ", ".join(words)


def limit_words_of(spec: ScheduleSpec, states: Sequence[EngineState]) -> str | None:
    """Say how this machine limits the runs of a schedule; None if they have no limit."""
    return limit_words(
        states,
        has_memory=spec.job.memory_max is not None,
        has_cpu=spec.job.cpu_max is not None,
    )


def check_demands(
    client: Client, states: Sequence[EngineState], *, command: Callable[[str], str]
) -> list[Finding]:
    """Check that this machine can do what schedules need."""
    names: dict[str, list[str]] = {}
    for name, *asked in client.store.find_demands():
        for what, is_asked in zip(("memory", "cpu", "keep_awake", "wake"), asked, strict=True):
            if is_asked:
                names.setdefault(what, []).append(name)
    found = []
    words = limit_words(states, has_memory="memory" in names, has_cpu="cpu" in names)
    if words is not None:
        hint = "let systemd (254 or later) delegate a control group"
        is_weak = "RLIMIT_AS" in words or "not limited" in words
        found.append(
            warning("limits", words, hint=f"{hint}; see: edgecron help jobs")
            if is_weak
            else well("limits", words)
        )
    if "keep_awake" in names and which("systemd-inhibit") is None:
        found.append(
            warning(
                "limits",
                f"{named_words(names['keep_awake'])}: this machine can't be kept awake",
                hint="install systemd-inhibit (a part of systemd), or:"
                f" {command('edit NAME --no-keep-awake')}",
            )
        )
    if "wake" in names and not os.path.exists(WAKE_ALARM):
        found.append(
            warning(
                "limits",
                f"{named_words(names['wake'])}: this machine has no real-time clock"
                f" ({WAKE_ALARM}) that wakes it",
                hint=command("edit NAME --no-wake"),
            )
        )
    elif "wake" in names and not os.access(WAKE_ALARM, os.W_OK):
        found.append(
            warning(
                "limits",
                f"{named_words(names['wake'])}: the alarm {WAKE_ALARM} can't be set, so the machine"
                " does not wake",
                hint=f"run the engine as root, or: {command('edit NAME --no-wake')}",
            )
        )
    return found


def written_per_day(states: Sequence[EngineState]) -> int | None:
    """Return how many bytes the living engines write to disks in a day; None if unknown."""
    known = [one.info.written_per_day for one in states if one.is_alive]
    rates = [rate for rate in known if rate is not None]
    return sum(rates) if rates else None


def check_writes(states: Sequence[EngineState], *, budget_bytes: int | None) -> list[Finding]:
    """Compare what the engines write with the budget."""
    per_day = written_per_day(states)
    if per_day is None:
        return []
    words = f"{size_words(per_day)} a day"
    if budget_bytes is not None and per_day > budget_bytes:
        return [
            warning(
                "writes",
                f"engines write {words} to disks, over the budget of {size_words(budget_bytes)}",
                hint="write less: edgecron help flash",
            )
        ]
    return [well("writes", f"engines write {words} to disks")]


_LOCK_WAIT_S = 2.0  # engines hold the lock for less
SMALL_BYTES = 4 * MIB  # a smaller database is read as a whole
MOMENT_MS = 25  # for the tables of a large database
LONG_LOG_BYTES = 64 * MIB  # an engine moves its log into the database long before


def check_integrity(
    client: Client, *, is_deep: bool, command: Callable[[str], str]
) -> list[Finding]:
    """Check the file for damage; of a large one only a part, the most important tables first.

    `is_deep`: the whole file, and each index against its table. Raises NotFound or
    DatabaseUnusable if it can't be opened.
    """
    if isinstance(client.location, ServerUrl):
        _ = client.store  # Raises if it can't be opened.
        return [well("integrity", "the server checks its own files; to check them all: pg_amcheck")]
    store, clock = client.file_store("doctor", instead=""), client.clock
    unread: tuple[str, ...] = ()
    try:
        if is_deep or sum(client.database_sizes()) <= SMALL_BYTES:
            damage = find_damage(store, is_deep=is_deep)
        else:
            until_ms = clock.monotonic_ms() + MOMENT_MS
            damage, unread = find_damage_within(store, lambda: clock.monotonic_ms() > until_ms)
        orphans = {orphan_words(one): one for one in find_orphans(store.rows)} if damage else {}
    except DatabaseUnusable as error:
        # A page can't be read; the others may be fine.
        return [problem("integrity", error.message, hint=error.hint)]
    restore = "stop every engine, move the database away with its -wal, and restore a backup"
    repair = f"remove or complete only these rows: {command('doctor --repair')}"
    found = [
        problem(
            "integrity",
            words,
            hint=repair if words in orphans and is_repairable(orphans[words]) else restore,
        )
        for words in damage
    ]
    if unread and not found:
        words = "no damage found in the part that was read; to check these tables, use"
        return [well("integrity", f"{words} {command('doctor --deep')}: {', '.join(unread)}")]
    return found or [well("integrity", "no damage found")]


def check_access(client: Client) -> list[Finding]:
    """Check that the database can be locked for writing, and that its log does not grow."""
    if isinstance(client.location, ServerUrl):
        return _check_server(client)
    path = client.location
    found = []
    if _is_write_locked(client):
        found.append(
            warning(
                "database",
                f"{path} has been locked for writing for at least {_LOCK_WAIT_S:.0f} s:"
                " no run can start",
                hint=f"a stalled engine or another program holds it; to see which: fuser {path}",
            )
        )
    unmoved_bytes = client.file_store("doctor", instead="").unmoved_bytes
    if unmoved_bytes > LONG_LOG_BYTES:
        found.append(
            warning(
                "database",
                f"{unmoved_bytes / MIB:,.0f} MiB of its log can't be moved into {path}, and the"
                " log grows: a program has an open read transaction",
                hint=f"end that program; to see which: fuser {path}",
            )
        )
    return found or [well("database", str(path))]


def _is_write_locked(client: Client) -> bool:
    """Whether another process keeps the writers' lock for longer than we wait. Writes nothing."""
    try:
        with client.waiting_at_most(_LOCK_WAIT_S), client.store.transaction():
            return False
    except DatabaseBusy:
        return True


def _check_server(client: Client) -> list[Finding]:
    """Check that the writers' lock of a server's database can be had, and that notices come."""
    if _is_write_locked(client):
        return [
            warning(
                "database",
                f"{client.place} has been locked for writing for at least {_LOCK_WAIT_S:.0f} s:"
                " no run can start",
                hint="to see which session holds it: psql -c 'select * from pg_locks'",
            )
        ]
    with closing(watch_writes(client.location, client.store)) as writes:
        writes.arm()
        every_ms = writes.poll_ms
    if every_ms is None:
        return [well("database", client.place)]
    return [
        warning(
            "database",
            f"{client.place} passes no notices on: engines look for changes every"
            f" {every_ms // 1000} s",
            hint="name the primary server itself in the URL, not a pooler or a standby",
        )
    ]
