"""Find the other schedules of this machine: crontabs, anacron, timers of systemd, launchd.

Only reads. Every path lies below a root folder, so that another system's files can be read, too.
Then find when these schedules run, and minutes with many of them. What counts from an event, such
as a boot or the last run, has no time that can be known ahead.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from edgecron.base.errors import InvalidInput
from edgecron.base.paths import is_root, is_user, user_name
from edgecron.base.units import MINUTE_MS, format_instant, from_ms, to_ms
from edgecron.base.values import dataclass, field, replace
from edgecron.client.machine_files import (
    MOVED_SUFFIX,
    OWN_CRONTAB,
    Failure,
    MachineFiles,
    MachineJob,
    Origin,
    Scan,
    ask_program,
    find_failures,
    is_this_system,
    read_launchd_job,
)
from edgecron.client.machine_timers import read_timers
from edgecron.formats.crontab import read_crontab
from edgecron.formats.crontab_identity import put_back
from edgecron.formats.crontab_lines import Crontab, Entry, Notice
from edgecron.formats.crontab_names import suggest_stem, take_name
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.forecast import UpcomingFire
from edgecron.planning.minute_counts import PILE_UP
from edgecron.triggers import parse_trigger
from edgecron.triggers.base import Triggers, combine
from edgecron.views.phrases import count_words
from edgecron.views.times import near_time

_CRON_D_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_FOLDER = re.compile(r"\brun-parts\b[^;|&]*?\s(/etc/[A-Za-z0-9_./-]+)", re.ASCII)
_SPOOLS = ("var/spool/cron/crontabs", "var/spool/cron/tabs", "var/spool/cron")
_CHECKS = b"/run/systemd/system"  # in what does nothing if systemd runs, or only then
_LAUNCHD = ("Library/LaunchDaemons", "Library/LaunchAgents")
_NOT_MOVED = "edgecron can't disable jobs of launchd: add the job, then use launchctl unload"
_LAUNCHD_OF_USERS = "Users/*/Library/LaunchAgents"


def scan_machine(root: Path = Path("/")) -> Scan:
    """Read all schedules of other programs below a root folder."""
    files = MachineFiles(root=root)
    scanner = _Scanner(files=files)
    scanner.read_crontabs()
    scanner.read_anacrontab()
    scanner.read_folders()
    scanner.jobs += read_timers(files)
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


@dataclass(slots=True, kw_only=True)
class _Scanner:
    """Jobs as they are found, in order: a folder's scripts need the lines that run them."""

    files: MachineFiles
    jobs: list[MachineJob] = field(default_factory=list)
    entries: list[tuple[Origin, Entry]] = field(default_factory=list)
    mail_rules: dict[str, tuple[str, ...]] = field(default_factory=dict)

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
        self.mail_rules |= crontab.mail_rules
        found: list[tuple[int, MachineJob]] = []
        for entry in crontab.entries:
            self.entries.append((origin, entry))
            notes = [one.message for one in crontab.warnings if _concerns(one, entry)]
            job = self._cron_job(entry, source, origin=origin, notes=notes)
            found.append((entry.line, replace(job, is_moved=entry.line in moved)))
        found += [
            (one.line, _unreadable_line(one, source, origin, words=5 if owner else 6))
            for one in crontab.problems
            if one.line not in moved
        ]
        self.jobs += [job for _, job in sorted(found, key=lambda pair: pair[0])]

    def _cron_job(
        self, entry: Entry, source: str, *, origin: Origin, notes: list[str]
    ) -> MachineJob:
        spec, reason = entry.spec, None
        if spec.job.user is not None and not is_root():
            reason = f"it runs as {spec.job.user}: adopt it as root"
        if _CHECKS in " ".join(spec.job.argv).encode():
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
            become=None if reason is None else "sudo",
            notes=tuple(notes),
            mail_rules=self._rules_of(spec),
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
        content = self.files.read(
            path if path.exists() else path.with_name(f"{path.name}{MOVED_SUFFIX}")
        )
        notes = ("the script checks whether systemd runs",) if _CHECKS in (content or b"") else ()
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
            become=None if is_ours else "sudo",
            notes=notes,
            mail_rules=self._rules_of(spec),
            is_caught_up=origin is Origin.ANACRON,
        )

    def _rules_of(self, spec: ScheduleSpec) -> dict[str, tuple[str, ...]]:
        names = spec.policies.notify
        return {name: self.mail_rules[name] for name in names if name in self.mail_rules}

    def read_launchd(self) -> None:
        """Read the jobs of launchd: those of administrators and of users, not Apple's."""
        folders = [self.files.root / folder for folder in _LAUNCHD]
        folders += sorted(self.files.root.glob(_LAUNCHD_OF_USERS))
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
                            reason=job.other_start or _NOT_MOVED,
                            is_enabled=not job.is_disabled,
                            is_caught_up=True if job.is_calendar else None,
                        )
                    )

    def _user_exists(self) -> Callable[[str], bool]:
        if is_this_system(self.files.root):
            return is_user
        content = self.files.read(self.files.root / "etc/passwd") or b""
        names = {
            line.partition(b":")[0].decode("utf-8", "replace") for line in content.split(b"\n")
        }
        # A folder of files alone has no users of its own.
        return names.__contains__ if content else lambda name: True


def _is_boot(spec: ScheduleSpec) -> bool:
    return spec.triggers == ("on boot",)


def _concerns(warning: Notice, entry: Entry) -> bool:
    """Return whether a warning is about a line, or about a setting above it."""
    is_setting = re.match(r"\s*[A-Za-z_]+\s*=", warning.raw) is not None
    return warning.line == entry.line or (is_setting and warning.line < entry.line)


def _unreadable_line(problem: Notice, source: str, origin: Origin, *, words: int) -> MachineJob:
    """Make the job of a line that edgecron can't read. `words` stand before its command."""
    command = " ".join(problem.raw.split()[words:])
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


AHEAD = timedelta(days=7)
DAY = timedelta(days=1)
MOST_STARTS = 1500  # of the next day


@dataclass(frozen=True, slots=True, kw_only=True)
class PileUp:
    """Jobs that start in the same minute: the first such minute, and how many there are."""

    at: datetime
    names: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedJob:
    """A job, its next time by the calendar, and its failures that the journal has recorded."""

    job: MachineJob
    next_at: datetime | None
    failure: Failure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTimeline:
    """The jobs of a machine in the order of their next times, and what stands out.

    `moved_count`: how many jobs edgecron has now. `unread` says what could not be read.
    """

    jobs: tuple[TimedJob, ...]
    pile_ups: tuple[PileUp, ...]
    moved_count: int
    unread: tuple[str, ...]


def read_timeline(root: Path, now: datetime) -> MachineTimeline:
    """Read the other schedules below a root folder, with their times after now."""
    found = scan_machine(root)
    failures = find_failures() if is_this_system(root) else {}
    jobs = [
        TimedJob(
            job=job,
            next_at=next_time(job, now),
            failure=failures.get(job.service or ""),
        )
        for job in found.jobs
    ]
    jobs.sort(key=lambda one: (not one.job.is_enabled, one.next_at is None, one.next_at or now))
    return MachineTimeline(
        jobs=tuple(jobs),
        pile_ups=tuple(find_pile_ups(found.jobs, now)),
        moved_count=len(found.moved),
        unread=found.unread,
    )


def next_time(job: MachineJob, now: datetime) -> datetime | None:
    """Find the next time of a job that runs by the calendar; None if it has none."""
    found_ms = _calendar(job).next_after_ms(to_ms(now)) if job.is_enabled else None
    return None if found_ms is None else from_ms(found_ms)


def find_pile_ups(jobs: Sequence[MachineJob], now: datetime) -> list[PileUp]:
    """Find minutes of the next week in which three or more jobs start, each set of jobs once.

    Jobs with a random delay spread by themselves and do not count.
    """
    until_ms = to_ms(now + AHEAD)
    minutes: defaultdict[int, list[str]] = defaultdict(list)
    for job in jobs:
        if not job.is_enabled or job.is_spread:
            continue
        triggers, at_ms = _calendar(job), to_ms(now)
        minute = -1
        while (found_ms := triggers.next_after_ms(at_ms)) is not None:
            if found_ms > until_ms:
                break
            at_ms = found_ms
            if found_ms // MINUTE_MS != minute:
                minute = found_ms // MINUTE_MS
                minutes[minute].append(job.name)
    sets: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for minute in sorted(minutes):
        if len(minutes[minute]) >= PILE_UP:
            sets[tuple(minutes[minute])].append(minute)
    found = [
        PileUp(at=from_ms(times[0] * MINUTE_MS), names=names, count=len(times))
        for names, times in sets.items()
    ]
    return sorted(found, key=lambda one: (-len(one.names), one.at))


def find_starts(jobs: Sequence[MachineJob], now: datetime) -> tuple[UpcomingFire, ...]:
    """Find the starts of jobs in the next day, by time, at most MOST_STARTS."""
    until_ms = to_ms(now + DAY)
    starts: list[tuple[int, str]] = []
    for job in jobs:
        triggers, at_ms, count = _calendar(job), to_ms(now), 0
        while job.is_enabled and count < MOST_STARTS:
            found_ms = triggers.next_after_ms(at_ms)
            if found_ms is None or found_ms > until_ms:
                break
            at_ms, count = found_ms, count + 1
            starts.append((found_ms, job.name))
    return tuple(
        UpcomingFire(schedule=name, plan_at=from_ms(at_ms), due_at=from_ms(at_ms), source=None)
        for at_ms, name in sorted(starts)[:MOST_STARTS]
    )


def failure_words(failure: Failure, *, zone: tzinfo, now: datetime) -> str:
    """Say how often a job failed, and when last."""
    last = near_time(from_ms(failure.last_at_us // 1000), zone=zone, now=now)
    return f"{count_words(failure.count, 'time')}, last at {last}"


def pile_up_words(pile_up: PileUp, *, zone: tzinfo) -> str:
    """Say which jobs start in the same minute, and how often in a week."""
    words = f"{pile_up.at.astimezone(zone):%b %d %H:%M}: {', '.join(pile_up.names)}"
    return words + (f" ({pile_up.count} times in 7 days)" if pile_up.count > 1 else "")


def job_object(timed: TimedJob) -> dict[str, Any]:
    """Make the JSON object of a job."""
    job, at, failure = timed.job, timed.next_at, timed.failure
    return {
        "name": job.name,
        "origin": job.origin.value,
        "source": job.source,
        "line": job.line,
        "job": job.command,
        "triggers": list(job.triggers),
        "timezone": job.timezone,
        "next_run_at": None if at is None else format_instant(at),
        "enabled": job.is_enabled,
        "caught_up": job.is_caught_up,
        "can_adopt": job.spec is not None,
        "reason": job.reason,
        "notes": list(job.notes),
        "failures": 0 if failure is None else failure.count,
        "last_failure_at": None
        if failure is None
        else format_instant(from_ms(failure.last_at_us // 1000)),
    }


def _calendar(job: MachineJob) -> Triggers:
    texts = [text for text in job.triggers if not text.startswith(("every ", "on boot"))]
    return combine([parse_trigger(text, job.timezone, job.name) for text in texts])
