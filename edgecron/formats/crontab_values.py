"""What reading a crontab gives: entries, problems and warnings, as frozen values.

`raw` is the line as it stands in the file, undecodable bytes shown as `\\xNN`. It may hold control
characters: whoever prints it makes it harmless first. Messages never hold any.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgecron.base.values import dataclass
from edgecron.model.schedule import ScheduleSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line that cron would run, as a schedule. `stem` is its name before any -2, -3."""

    line: int
    raw: str
    stem: str
    spec: ScheduleSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A line that can't be carried over as cron has it: nothing of the file is imported."""

    line: int
    raw: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that will differ from cron, or that cron itself would stumble over."""

    line: int
    raw: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crontab:
    """A whole crontab, in file order. With any problem its entries must not be imported."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A line and the schedule that it became, with what has changed since on either side.

    `env_at_import` has the hashes of the line's variables at its import. `is_same_now`: line and
    schedule say the same, whatever has changed.
    """

    entry: Entry
    schedule_id: int
    is_removed: bool
    changed_in_crontab: tuple[str, ...]
    changed_in_edgecron: tuple[str, ...]
    env_at_import: Mapping[str, str]
    is_same_now: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Entries against the schedules that exist: `new` to be added, `known` there already.

    Both bear the names that they have, or will have, in the database.
    """

    new: tuple[Entry, ...] = ()
    known: tuple[Entry, ...] = ()
