"""Find the other schedules of this machine: crontabs, anacron, timers of systemd, launchd.

Only reads. Every path lies below a root folder, so that another system's files can be read, too.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from edgecron.base.errors import InvalidInput
from edgecron.base.paths import is_root, user_name
from edgecron.base.values import dataclass, field, replace
from edgecron.client.machine_files import MachineFiles, Units, ask_program, is_this_system
from edgecron.formats.crontab import read_crontab
from edgecron.formats.crontab_identity import put_back
from edgecron.formats.crontab_lines import LOCAL, Crontab, Entry, Notice
from edgecron.formats.crontab_names import suggest_stem, take_name
from edgecron.formats.launchd_jobs import read_launchd_job
from edgecron.formats.systemd_units import (
    Unit,
    UnitName,
    read_timer,
    read_unit_name,
    service_of,
)
from edgecron.model.choices import JobKind
from edgecron.model.options import Job
from edgecron.model.schedule import ScheduleSpec

# A script whose name has a dot is not run by run-parts.
MOVED_SUFFIX = ".moved-to-edgecron"
OWN_CRONTAB = "crontab of "  # begins the source of a user's own lines; the name follows

_CRON_D_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_FOLDER = re.compile(r"\brun-parts\b[^;|&]*?\s(/etc/[A-Za-z0-9_./-]+)", re.ASCII)
_SPOOLS = ("var/spool/cron/crontabs", "var/spool/cron/tabs", "var/spool/cron")
SYSTEM_UNITS = (
    "etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system",
    "usr/lib/systemd/system", "lib/systemd/system",
)  # fmt: skip
USER_UNITS = (
    "etc/systemd/user", "run/systemd/user", "usr/local/lib/systemd/user", "usr/lib/systemd/user",
)  # fmt: skip
_LAUNCHD = ("Library/LaunchDaemons", "Library/LaunchAgents")


class Origin(StrEnum):
    """The program that runs a job."""

    CRON = "cron"
    ANACRON = "anacron"
    FOLDER = "run-parts"
    TIMER = "systemd"
    USER_TIMER = "systemd --user"
    LAUNCHD = "launchd"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineJob:
    """A schedule of another program.

    `source` is a file, the crontab of a user, or a unit. `line` and `raw` are those of a crontab.
    `spec` is the schedule that edgecron would have; None with the `reason` why it can't have it.
    `is_caught_up`: whether its program runs it later if the machine slept; None if this does not
    apply. `notes` are facts for people.
    """

    name: str
    origin: Origin
    source: str
    command: str
    triggers: tuple[str, ...] = ()
    timezone: str = LOCAL
    line: int | None = None
    raw: str | None = None
    spec: ScheduleSpec | None = None
    reason: str | None = None
    notes: tuple[str, ...] = ()
    is_enabled: bool = True
    is_caught_up: bool | None = False
    is_moved: bool = False  # edgecron has it now


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """All jobs that were found, those that edgecron has now, and what could not be read."""

    jobs: tuple[MachineJob, ...]
    moved: tuple[MachineJob, ...]
    unread: tuple[str, ...]


def scan_machine(root: Path = Path("/")) -> Scan:
    """Read all schedules of other programs below a root folder."""
    files = MachineFiles(root=root)
    scanner = _Scanner(files=files)
    scanner.read_crontabs()
    scanner.read_anacrontab()
    scanner.read_folders()
    scanner.read_timers()
    scanner.read_launchd()
    # Jobs that were moved keep their names, so that those of the others do not change.
    taken: dict[str, int] = {}
    jobs = []
    for job in scanner.jobs:
        name = take_name(job.name, taken=taken)
        spec = None if job.spec is None else replace(job.spec, name=name)
        jobs.append(replace(job, name=name, spec=spec))
    return Scan(
        jobs=tuple(job for job in jobs if not job.is_moved),
        moved=tuple(job for job in jobs if job.is_moved),
        unread=tuple(files.unread),
    )


def spool_path(root: Path, user: str) -> Path | None:
    """Find the spooled crontab of a user; None if there is none."""
    return next((found for spool in _SPOOLS if (found := root / spool / user).is_file()), None)


def user_units() -> Path:
    """Return the folder of this user's own units."""
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(config) / "systemd/user"


@dataclass(slots=True, kw_only=True)
class _Scanner:
    """Jobs as they are found, in order: a folder's scripts need the lines that run them."""

    files: MachineFiles
    jobs: list[MachineJob] = field(default_factory=list)
    entries: list[tuple[Origin, Entry]] = field(default_factory=list)

    def read_crontabs(self) -> None:
        """Read the system's crontabs and those of users."""
        files = [self.files.root / "etc/crontab"]
        files += [
            path
            for path in self.files.list_below("etc/cron.d")
            if _CRON_D_NAME.fullmatch(path.name)
        ]
        for path in files:
            content = self.files.read(path)
            if content is not None:
                self._read_crontab(content, self.files.shown(path), owner=None, origin=Origin.CRON)
        seen = set()
        for spool in _SPOOLS:
            for path in self.files.list_below(spool):
                # cron reads no hidden files, and an interrupted write leaves one.
                is_hidden = path.name.startswith(".")
                if path.is_file() and not is_hidden and path.name not in seen:
                    seen.add(path.name)
                    self._read_spool(path)
        me = user_name()
        if is_this_system(self.files.root) and not is_root() and me not in seen:
            content = ask_program("crontab", "-l")
            if content is not None:
                self._read_crontab(content, OWN_CRONTAB + me, owner=me, origin=Origin.CRON)

    def _read_spool(self, path: Path) -> None:
        content = self.files.read(path)
        if content is not None:
            owner = path.name
            self._read_crontab(content, OWN_CRONTAB + owner, owner=owner, origin=Origin.CRON)

    def read_anacrontab(self) -> None:
        """Read /etc/anacrontab."""
        path = self.files.root / "etc/anacrontab"
        content = self.files.read(path)
        if content is not None:
            self._read_crontab(content, self.files.shown(path), owner="root", origin=Origin.ANACRON)

    def _read_crontab(
        self, content: bytes, source: str, *, owner: str | None, origin: Origin
    ) -> None:
        before, moved = put_back(content)
        # As root: a line of another user is listed, and says who can adopt it.
        crontab: Crontab = read_crontab(
            before,
            system=owner is None,
            importer=user_name(),
            is_root=True,
            user_exists=self._user_exists(),
            owner=owner,
            is_anacron=origin is Origin.ANACRON,
        )
        found: list[tuple[int, MachineJob]] = []
        for entry in crontab.entries:
            self.entries.append((origin, entry))
            job = self._cron_job(entry, source, origin=origin)
            found.append((entry.line, replace(job, is_moved=entry.line in moved)))
        found += [
            (one.line, _unreadable_line(one, source, origin))
            for one in crontab.problems
            if one.line not in moved
        ]
        self.jobs += [job for _, job in sorted(found, key=lambda pair: pair[0])]

    def _cron_job(self, entry: Entry, source: str, *, origin: Origin) -> MachineJob:
        spec, reason = entry.spec, None
        if spec.job.user is not None and not is_root():
            reason = f"it runs as {spec.job.user}: adopt it as root"
        notes = []
        if "/run/systemd/system" in " ".join(spec.job.argv):
            notes.append("the line checks whether systemd runs")
        return MachineJob(
            name=entry.stem,
            origin=origin,
            source=source,
            line=entry.line,
            raw=entry.raw,
            command=spec.job.argv[-1],
            triggers=spec.triggers,
            timezone=spec.timezone or "UTC",
            spec=spec if reason is None else None,
            reason=reason,
            notes=tuple(notes),
            is_caught_up=True if origin is Origin.ANACRON else None if _is_boot(spec) else False,
        )

    def read_folders(self) -> None:
        """Read the folders of scripts, such as /etc/cron.daily, that a line runs with run-parts.

        If both cron and anacron have a line for a folder, anacron runs it if it is installed.
        """
        has_anacron = (self.files.root / "usr/sbin/anacron").exists()
        lines: dict[str, tuple[Origin, Entry]] = {}
        for origin, entry in self.entries:
            match = _FOLDER.search(entry.spec.job.argv[-1])
            if match is not None and (match[1] not in lines or has_anacron):
                lines[match[1].rstrip("/")] = (origin, entry)
        for folder, (origin, entry) in sorted(lines.items()):
            for path in self.files.list_below(folder.lstrip("/")):
                original = path.with_name(path.name.removesuffix(MOVED_SUFFIX))
                if _CRON_D_NAME.fullmatch(original.name) and os.access(path, os.X_OK):
                    job = self._script_job(original, entry, origin)
                    self.jobs.append(replace(job, is_moved=original != path))

    def _script_job(self, path: Path, entry: Entry, origin: Origin) -> MachineJob:
        shown = self.files.shown(path)
        job = Job(
            kind=JobKind.COMMAND,
            argv=(shown + MOVED_SUFFIX,),
            env=entry.spec.job.env,
            cwd="/",
            user=entry.spec.job.user,
        )
        is_ours = job.user is None or is_root()
        spec = replace(entry.spec, job=job, description=f"{shown}, moved from run-parts")
        return MachineJob(
            name=suggest_stem(f"/{path.name}"),
            origin=Origin.FOLDER,
            source=shown,
            command=shown,
            triggers=entry.spec.triggers,
            timezone=entry.spec.timezone or "UTC",
            spec=spec if is_ours else None,
            reason=None if is_ours else f"it runs as {job.user}: adopt it as root",
            is_caught_up=origin is Origin.ANACRON,
        )

    def read_timers(self) -> None:
        """Read the timers of the system, and those of this user."""
        self._read_timers([self.files.root / folder for folder in SYSTEM_UNITS], is_user=False)
        folders = [self.files.root / folder for folder in USER_UNITS]
        if is_this_system(self.files.root):
            folders.insert(0, user_units())
        self._read_timers(folders, is_user=True)

    def _read_timers(self, folders: list[Path], *, is_user: bool) -> None:
        units = Units(files=self.files, folders=folders)
        for name in units.timers():
            timer = units.load(name)
            if timer is None:
                continue
            self.jobs.append(self._timer_job(name, timer, units, is_user=is_user))

    def _timer_job(self, name: UnitName, timer: Unit, units: Units, *, is_user: bool) -> MachineJob:
        service = units.load(read_unit_name(service_of(timer, name)))
        reading = read_timer(name, timer, service, is_user=is_user, importer=user_name())
        reason = reading.reason
        if reason is None and not is_user and not is_root():
            reason = "it is a timer of the system: adopt it as root"
        if reason is None and not timer.keys("Install"):
            reason = "it is a fixed part of its package (no [Install] section)"
        is_monotonic = not timer.all("Timer", "OnCalendar")
        return MachineJob(
            name=suggest_stem(f"/{name.full.removesuffix('.timer').replace('/', '-')}"),
            origin=Origin.USER_TIMER if is_user else Origin.TIMER,
            source=name.full,
            command=reading.command,
            triggers=reading.triggers,
            timezone=reading.timezone,
            spec=reading.spec if reason is None else None,
            reason=reason,
            notes=reading.notes,
            is_enabled=name.full in units.enabled,
            is_caught_up=None if is_monotonic else reading.is_persistent,
        )

    def read_launchd(self) -> None:
        """Read the jobs of launchd: those of administrators and of this user, not Apple's."""
        folders = [self.files.root / folder for folder in _LAUNCHD]
        if is_this_system(self.files.root):
            folders.append(Path(os.path.expanduser("~/Library/LaunchAgents")))
        for folder in folders:
            for path in self.files.list_folder(folder):
                content = self.files.read(path) if path.suffix == ".plist" else None
                if content is None:
                    continue
                try:
                    job = read_launchd_job(content)
                except InvalidInput as error:
                    self.files.unread.append(f"{self.files.shown(path)}: {error.message}")
                    continue
                if job.triggers:
                    self.jobs.append(
                        MachineJob(
                            name=suggest_stem(f"/{job.label}"),
                            origin=Origin.LAUNCHD,
                            source=self.files.shown(path),
                            command=job.command,
                            triggers=job.triggers,
                            reason="edgecron does not move jobs of launchd: add it, then unload it",
                            is_enabled=not job.is_disabled,
                            is_caught_up=True,
                        )
                    )

    def _user_exists(self) -> Callable[[str], bool]:
        if is_this_system(self.files.root):
            return _is_user
        content = self.files.read(self.files.root / "etc/passwd") or b""
        names = {
            line.partition(b":")[0].decode("utf-8", "replace") for line in content.split(b"\n")
        }
        # A folder of files alone has no users of its own.
        return names.__contains__ if content else lambda name: True


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True


def _is_boot(spec: ScheduleSpec) -> bool:
    return spec.triggers == ("on boot",)


def _unreadable_line(problem: Notice, source: str, origin: Origin) -> MachineJob:
    command = " ".join(problem.raw.split()[5:])
    return MachineJob(
        name=suggest_stem(command or problem.raw),
        origin=origin,
        source=source,
        line=problem.line,
        raw=problem.raw,
        command=problem.raw.strip(),
        reason=problem.message,
        is_caught_up=None,
    )
