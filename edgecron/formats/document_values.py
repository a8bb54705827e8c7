"""What a document says, as frozen values, and what is wrong with a document."""

from __future__ import annotations

from collections.abc import Collection

from edgecron.base.errors import InvalidDocument
from edgecron.base.values import dataclass
from edgecron.formats.toml import Lines, find_lines
from edgecron.model.schedule import ScheduleSpec

SCHEDULES = "schedules"  # the one table of a document


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A schedule as a document has it.

    `enabled` None leaves it as it is. `limit` is its group and how many of that run at once, None
    being no limit; where `limit` itself is None, the group's limit stays. `is_declared` is what a
    program says at each of its starts: an `at` may have passed, and nothing comes of it, and what
    is changed goes on from where its schedule began, however often it is. `is_portable` is what a
    file says on any machine: an `at` may have passed, and an upstream may be missing.
    """

    spec: ScheduleSpec
    enabled: bool | None = None
    limit: tuple[str, int | None] | None = None
    is_declared: bool = False
    is_portable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The schedules that a document wants, in its order, and its text."""

    wanted: tuple[Wanted, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong, with the schedule and the key where they are known."""

    message: str
    hint: str | None = None
    schedule: str | None = None
    key: str | None = None


def refuse(problems: Collection[Problem], text: str) -> InvalidDocument:
    """The error that tells problems of a document, each with its line as far as that is found."""
    lines = find_lines(text)
    told = sorted(((_line_of(one, lines), one) for one in problems), key=lambda two: two[0] or 0)
    count = len(problems)
    wrong = "one thing is" if count == 1 else f"{count} things are"
    return InvalidDocument(
        f"{wrong} wrong with the schedules, and none of them is taken over",
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
