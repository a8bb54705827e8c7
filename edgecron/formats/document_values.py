"""The schedules and the problems of a document, as frozen values."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from edgecron.base.errors import InvalidDocument
from edgecron.base.values import dataclass
from edgecron.formats.toml import Lines, find_lines
from edgecron.model.schedule import ScheduleSpec

SCHEDULES = "schedules"  # the table of a document's schedules
TEMPLATES = "templates"  # and of what several of them share


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
    """The schedules that a document wants, in its order, and its text.

    `notes` are sentences for its author, `templates` has those of each schedule that names any.
    Only the program that read the document has them.
    """

    wanted: tuple[Wanted, ...]
    text: str
    notes: tuple[str, ...] | None = None
    templates: Mapping[str, tuple[str, ...]] | None = None


def find_notes(document: Document) -> list[str]:
    """Return the sentences for the author of a document."""
    return [
        *(document.notes or ()),
        *(f"schedule {one.spec.name}: {note}" for one in document.wanted for note in one.notes),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong, with the schedule or template, and the key if they are known."""

    message: str
    hint: str | None = None
    schedule: str | None = None
    key: str | None = None
    template: str | None = None

    @property
    def words(self) -> str:
        """Return the message, with its template."""
        return (
            self.message if self.template is None else f"template {self.template!r}: {self.message}"
        )


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
                "message": one.words,
                "hint": one.hint,
            }
            for line, one in told
        ],
    )


def _line_of(problem: Problem, lines: Lines) -> int | None:
    table: tuple[str, ...] = ()
    if problem.schedule is not None:
        table = (SCHEDULES, problem.schedule)
    elif problem.template is not None:
        table = (TEMPLATES, problem.template)
    own = None if problem.key is None else lines.get((*table, problem.key))
    return own or lines.get(table)
