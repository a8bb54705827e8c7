"""Read schedules of other programs below a root folder: files, jobs of launchd, failures."""

from __future__ import annotations

import json
import os
import plistlib
import subprocess
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from shlex import join
from xml.parsers.expat import ExpatError

from edgecron.base.errors import EdgecronError, InvalidInput, os_words
from edgecron.base.values import dataclass, field
from edgecron.formats.crontab_lines import LOCAL
from edgecron.model.schedule import ScheduleSpec

MOST_BYTES = 1024 * 1024  # of a crontab or unit; a larger file is named and not read
_ASK_S = 10.0


def is_this_system(root: Path) -> bool:
    """Return whether a root folder is that of the running system."""
    return os.path.realpath(root) == "/"


def ask_program(*argv: str, given: bytes | None = None, bound_s: float = _ASK_S) -> bytes | None:
    """Run a program of the system, bounded; None if it is missing or fails."""
    try:
        said = subprocess.run(argv, input=given, capture_output=True, timeout=bound_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout if said.returncode == 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFiles:
    """The files of a system. `unread` collects what could not be read, as sentences."""

    root: Path
    unread: list[str] = field(default_factory=list)

    def shown(self, path: Path) -> str:
        """Return a path as the system below the root knows it."""
        try:
            return f"/{path.relative_to(self.root)}"
        except ValueError:
            return str(path)

    def list_below(self, folder: str) -> list[Path]:
        """List a folder below the root; nothing if it is not there."""
        return self.list_folder(self.root / folder)

    def list_folder(self, folder: Path) -> list[Path]:
        """List a folder; nothing if it is not there or can't be read, which is reported."""
        try:
            return sorted(folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.unread.append(f"{self.shown(folder)}: {os_words(error, is_named=True)}")
            return []

    def read(self, path: Path) -> bytes | None:
        """Read a file; None if it is not there, or can't be read, which is reported."""
        try:
            if not path.is_file():
                return None
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            self.unread.append(f"{self.shown(path)}: {os_words(error, is_named=True)}")
            return None
        if len(content) > MOST_BYTES:
            self.unread.append(f"{self.shown(path)}: it is larger than 1 MiB")
            return None
        return content

    def read_text(self, path: Path) -> str | None:
        """Read a unit file; None if it is not there or can't be read."""
        content = self.read(path)
        return None if content is None else content.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Failures of a unit that the journal has recorded."""

    unit: str
    count: int
    last_at_us: int


JOURNAL_DAYS = 7
_UNIT_FAILED = "d9b373ed55a64feb8242e02dbe79a49c"  # SD_MESSAGE_UNIT_FAILURE_RESULT


def find_failures() -> dict[str, Failure]:
    """Ask the journal which services failed in the last week, bounded; empty if it can't say."""
    said = ask_program(
        *("journalctl", "--quiet", "--no-pager", "--output=json"),
        *(f"--since=-{JOURNAL_DAYS}d", "--output-fields=UNIT,USER_UNIT"),
        f"MESSAGE_ID={_UNIT_FAILED}",
    )
    return read_failures(said or b"")


def read_failures(content: bytes) -> dict[str, Failure]:
    """Count the failures of each unit in records of the journal, one JSON object a line."""
    found: dict[str, Failure] = {}
    for line in content.splitlines():
        try:
            record = json.loads(line)
            unit = record.get("UNIT") or record.get("USER_UNIT")
            at_us = int(record["__REALTIME_TIMESTAMP"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EdgecronError(f"the journal's answer can't be read: {error}") from error
        if isinstance(unit, str):
            count = found[unit].count + 1 if unit in found else 1
            found[unit] = Failure(unit=unit, count=count, last_at_us=at_us)
    return found


# Jobs of launchd: launchd.plist(5).

_CALENDAR_FIELDS = (
    ("Minute", 0, 59),
    ("Hour", 0, 23),
    ("Day", 1, 31),
    ("Month", 1, 12),
    ("Weekday", 0, 7),
)

# What else starts a job: its key, in words.
_OTHER_STARTS = (
    ("KeepAlive", "launchd starts it again when it ends"),
    ("WatchPaths", "launchd starts it when a file changes"),
    ("QueueDirectories", "launchd starts it while a folder has files"),
    ("StartOnMount", "launchd starts it when a disk is mounted"),
    ("Sockets", "launchd starts it for a connection"),
    ("MachServices", "launchd starts it for a message"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchdJob:
    """A job of launchd. Without `triggers`, it does not run by time.

    `is_calendar`: launchd starts it after a sleep if its time passed meanwhile. `other_start` says
    what else starts it, with the key.
    """

    label: str
    command: str
    triggers: tuple[str, ...]
    is_disabled: bool
    is_calendar: bool
    other_start: str | None


def read_launchd_job(content: bytes) -> LaunchdJob:
    """Read a property list, XML or binary. Raises InvalidInput if it is not one of a job."""
    try:
        found = plistlib.loads(content)
    except (plistlib.InvalidFileException, ExpatError, ValueError, OverflowError) as error:
        raise InvalidInput(f"it is not a property list: {error}") from error
    if not isinstance(found, Mapping) or not isinstance(found.get("Label"), str):
        raise InvalidInput("its property list has no Label")
    words = found.get("ProgramArguments") or [found.get("Program", "")]
    if not isinstance(words, list):
        raise InvalidInput("its ProgramArguments are not a list")
    return LaunchdJob(
        label=found["Label"],
        command=join(str(word) for word in words),
        triggers=tuple(_read_times(found)),
        is_disabled=found.get("Disabled") is True,
        is_calendar=bool(found.get("StartCalendarInterval")),
        other_start=next(
            (f"{words} ({key})" for key, words in _OTHER_STARTS if found.get(key)), None
        ),
    )


def _read_times(found: Mapping[str, object]) -> list[str]:
    calendar = found.get("StartCalendarInterval", [])
    times = [calendar] if isinstance(calendar, Mapping) else calendar
    if not isinstance(times, list):
        raise InvalidInput("its StartCalendarInterval is neither a dictionary nor a list")
    triggers = [_read_calendar(one) for one in times]
    interval = found.get("StartInterval")
    if interval is not None:
        if not _is_number(interval, 1, 2**31):
            raise InvalidInput(f"its StartInterval is {interval!r}, expected seconds")
        triggers.append(f"every {interval}s")
    if found.get("RunAtLoad") is True and not found.get("KeepAlive"):
        triggers.append("on boot")
    return triggers


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _read_calendar(one: object) -> str:
    if not isinstance(one, Mapping):
        raise InvalidInput("its StartCalendarInterval holds no dictionary")
    words = []
    for key, least, most in _CALENDAR_FIELDS:
        value = one.get(key)
        if value is not None and not _is_number(value, least, most):
            raise InvalidInput(f"its {key} is {value!r}, expected {least} to {most}")
        words.append("*" if value is None else str(value))
    return " ".join(words)


# A script whose name has a dot is not run by run-parts.
MOVED_SUFFIX = ".moved-to-edgecron"
OWN_CRONTAB = "crontab of "  # begins the source of a user's own lines; the name follows


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
    Of a timer, `raw` has the links that enable it, by JSON, and `service` names what it
    starts.
    `mail_rules` has the addresses of MAILTO by the rule for notices that `spec` names.
    `is_caught_up`: whether its program runs it later if the machine slept; None if this does not
    apply. `notes` are facts for people. `become`: the words before the command of the user who can
    adopt it; None if no other user can.
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
    become: str | None = None
    notes: tuple[str, ...] = ()
    service: str | None = None
    mail_rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_enabled: bool = True
    is_caught_up: bool | None = False
    is_spread: bool = False  # its program adds a random delay
    is_moved: bool = False  # edgecron has it now


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """All jobs that were found, those that edgecron has now, and what could not be read."""

    jobs: tuple[MachineJob, ...]
    moved: tuple[MachineJob, ...]
    unread: tuple[str, ...]
