"""The schedules and the problems of a document, as frozen values."""

from __future__ import annotations

from collections.abc import Collection

from edgecron.base.errors import InvalidDocument
from edgecron.base.values import dataclass
from edgecron.formats.toml import Lines, find_lines
from edgecron.model.schedule import ScheduleSpec

SCHEDULES = "schedules"  # the one table of a document


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A schedule that a document wants.

    `enabled` None keeps the current state. `limit` is its group and the most runs of that group at
    the same time, None being no limit. If `limit` itself is None, the group's limit stays.
    `is_declared`: a program declares it at each start, so an `at` in the past never fires, and a
    changed interval keeps its phase. `is_portable`: the file can come from another machine, so an
    `at` can lie in the past and an upstream can be missing. `notes`: sentences for its author,
    such as that a key has a new name.
    """

    spec: ScheduleSpec
    enabled: bool | None = None
    limit: tuple[str, int | None] | None = None
    is_declared: bool = False
    is_portable: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The schedules that a document wants, in its order, and its text."""

    wanted: tuple[Wanted, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong, with the schedule and the key if they are known."""

    message: str
    hint: str | None = None
    schedule: str | None = None
    key: str | None = None


def refuse(problems: Collection[Problem], text: str) -> InvalidDocument:
    """Make the error that reports problems of a document, each with its line if it is found."""
    lines = find_lines(text)
    told = sorted(((_line_of(one, lines), one) for one in problems), key=lambda two: two[0] or 0)
    count = len(problems)
    wrong = "1 error" if count == 1 else f"{count} errors"
    return InvalidDocument(
        f"{wrong} in the schedules, and nothing was applied",
        problems=[
            {
                "schedule": one.schedule,
                "key": one.key,
                "line": line,
                "message": one.message,
                "hint": one.hint,
            }
            for line, one in told
        ],
    )


def _line_of(problem: Problem, lines: Lines) -> int | None:
    table = () if problem.schedule is None else (SCHEDULES, problem.schedule)
    own = None if problem.key is None else lines.get((*table, problem.key))
    return own or lines.get(table)
