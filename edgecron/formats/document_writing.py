"""Schedules to a document, which `reading` reads back."""

from __future__ import annotations

from collections.abc import Iterable

from edgecron.formats.document import SCHEDULES
from edgecron.formats.document_keys import schedule_table
from edgecron.formats.toml import write_key, write_table
from edgecron.model.options import OPTIONS
from edgecron.model.schedule import Schedule

_FOR_PROGRAMS = ("callable", "queue")  # nothing that a person would make of a command
_COLUMN = 40  # at which the words about a key begin


def write_document(schedules: Iterable[Schedule], *, comments: Iterable[str] = ()) -> str:
    """A document of schedules, in their order, under lines of comments."""
    head = [f"# {line}".rstrip() for line in comments]
    tables = [
        write_table((SCHEDULES, schedule.name), schedule_table(schedule)) for schedule in schedules
    ]
    return "\n".join(["".join(f"{line}\n" for line in head), *tables] if head else tables)


def write_for_editing(schedule: Schedule) -> str:
    """One schedule, with every key that it has not as a comment, for a person to change."""
    table = schedule_table(schedule)
    others = [
        f"{f'# {key} = {option.example}':<{_COLUMN}}  # {option.words}"
        for key, option in OPTIONS.items()
        if key not in table and key not in _FOR_PROGRAMS
    ]
    name = write_key(SCHEDULES, schedule.name)
    return "\n".join(
        [
            f"# Schedule {schedule.name}: change it, save, and leave the editor.",
            "# What is left as it is, or an empty file, changes nothing.",
            f"# Another name in [{name}] renames it.",
            "",
            write_table((SCHEDULES, schedule.name), table),
            "# What else there is, with its default in brackets:",
            "",
            *others,
            "",
        ]
    )
