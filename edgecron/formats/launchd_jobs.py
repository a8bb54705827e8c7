"""Read property lists of launchd as schedules (launchd.plist(5))."""

from __future__ import annotations

import plistlib
from collections.abc import Mapping
from shlex import join
from xml.parsers.expat import ExpatError

from edgecron.base.errors import InvalidInput
from edgecron.base.values import dataclass

_FIELDS = (("Minute", 0, 59), ("Hour", 0, 23), ("Day", 1, 31), ("Month", 1, 12), ("Weekday", 0, 7))

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
    for key, least, most in _FIELDS:
        value = one.get(key)
        if value is not None and not _is_number(value, least, most):
            raise InvalidInput(f"its {key} is {value!r}, expected {least} to {most}")
        words.append("*" if value is None else str(value))
    return " ".join(words)
