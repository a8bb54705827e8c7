"""Read a TOML document of schedules, or report everything that is wrong with it."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from edgecron.base.checks import suggest
from edgecron.base.errors import InvalidDocument
from edgecron.base.values import replace
from edgecron.formats.document_schedule import read_table
from edgecron.formats.document_templates import Templates, example_of, read_templates
from edgecron.formats.document_values import (
    SCHEDULES,
    TEMPLATES,
    Document,
    Problem,
    Wanted,
    refuse,
)
from edgecron.formats.document_writing import TRIGGERS
from edgecron.formats.toml import MOST_LEVELS, find_lines, find_too_deep
from edgecron.formats.toml_faults import explain_fault

MOST_BYTES = 16 * 1024 * 1024


def read_document(
    content: bytes,
    *,
    now: datetime | None = None,
    known: Collection[str] = (),
    is_portable: bool = False,
) -> Document:
    """Read the schedules of a document, in its order.

    With `now` a time can be relative, such as `tomorrow 09:00`, and must lie in the future. Trigger
    texts that are `known` and documents that are `is_portable` can have past times.
    Raises InvalidDocument with all faults.
    """
    text = _decode(content)
    tables, own, problems = _tables(text)
    reported = {(one.template, one.key, one.message) for one in problems}
    templates = Templates(own=own)
    found: list[Wanted] = []
    named: dict[str, tuple[str, ...]] = {}
    for name, given in tables.items():
        resolved, unknown = templates.resolve(name, given)
        wanted, wrong = read_table(
            name, resolved.table, now=now, known=known, is_portable=is_portable
        )
        problems += unknown
        for one in wrong:
            if unknown and one.key is None:
                continue  # An unknown template could give what is missing.
            template = resolved.origins.get(one.key or "")
            if (template, one.key, one.message) not in reported:
                told = "" if template is None else f" (from template {template!r})"
                problems.append(replace(one, message=one.message + told))
        if wanted is not None:
            found.append(replace(wanted, notes=wanted.notes + resolved.notes))
            named[name] = resolved.templates
    problems += _contradictions(found)
    if problems:
        raise refuse(problems, text)
    notes = tuple(templates.find_notes(find_lines(text))) if own else ()
    return Document(
        wanted=tuple(found),
        text=text,
        notes=notes,
        templates={name: one for name, one in named.items() if one},
    )


def _decode(content: bytes) -> str:
    if len(content) > MOST_BYTES:
        raise InvalidDocument("the file is larger than 16 MiB, expected schedules as TOML")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidDocument(f"line {line} is not UTF-8", hint="save the file as UTF-8") from None


def _load(text: str) -> dict[str, Any]:
    line = find_too_deep(text)
    if line is not None:
        raise InvalidDocument(
            f"line {line} is nested more than {MOST_LEVELS} levels deep",
            hint=f"expected tables [{SCHEDULES}.NAME], and keys such as env.LANG below them",
        )
    try:
        return tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, and numbers out of all bounds.
        fault = explain_fault(error, text)
        place = "" if fault.line is None else f", line {fault.line}"
        place += "" if fault.column is None else f", column {fault.column}"
        raise InvalidDocument(
            f"the file is not TOML{place}: {fault.words}",
            hint=fault.hint or "for an example: edgecron export",
        ) from None


_Tables = dict[str, Mapping[str, Any]]


def _tables(text: str) -> tuple[_Tables, _Tables, list[Problem]]:
    """Find the tables of schedules and of templates by name, and what is wrong with the templates.

    Raises InvalidDocument for anything else.
    """
    document = _load(text)
    problems = [
        _stray(key, value) for key, value in document.items() if key not in (SCHEDULES, TEMPLATES)
    ]
    tables = document.get(SCHEDULES, {})
    if not isinstance(tables, dict):
        message = f"{SCHEDULES!r} is not a table, expected [{SCHEDULES}.NAME]"
        problems.append(Problem(key=SCHEDULES, message=message))
        tables = {}
    problems += [
        Problem(
            schedule=name,
            message="it is not a table",
            hint=f"write [{SCHEDULES}.NAME], and the keys of the schedule below it",
        )
        for name, table in tables.items()
        if not isinstance(table, dict)
    ]
    if problems:
        raise refuse(problems, text)
    own, wrong = read_templates(document.get(TEMPLATES, {}))
    for name, table in own.items():
        _, problems = read_table("template", example_of(table), is_portable=True)
        wrong += [
            Problem(template=name, key=one.key, message=one.message, hint=one.hint)
            for one in problems
            if one.key in table
        ]
    return tables, own, wrong


def _stray(key: str, value: object) -> Problem:
    from edgecron.formats.config import SECTION_NAMES  # Rarely needed, and programs import this.

    name = key
    if suggest(key, [TEMPLATES]) == TEMPLATES:
        return Problem(
            key=key, message=f"{key!a} is unknown here", hint=f"write [{TEMPLATES}.NAME]"
        )
    if isinstance(value, dict) and value and suggest(key, [SCHEDULES]):
        name = next(iter(value))  # [schedule.backup] is a slip in the first word.
    if key in SECTION_NAMES and isinstance(value, dict) and not value.keys() & TRIGGERS:
        return Problem(
            key=key,
            message=f"{key!a} is a section of the configuration, expected [{SCHEDULES}.NAME]",
            hint="see where the configuration is: edgecron config path",
        )
    return Problem(
        key=key,
        message=f"{key!a} is unknown here, expected tables [{SCHEDULES}.NAME]",
        hint=f"did you mean [{SCHEDULES}.{name}]?" if isinstance(value, dict) else None,
    )


def _contradictions(found: Collection[Wanted]) -> Iterator[Problem]:
    """Find limits of one group that differ."""
    limits: dict[str, tuple[str, int | None]] = {}
    for wanted in found:
        if wanted.limit is None:
            continue
        group, most = wanted.limit
        first, other = limits.setdefault(group, (wanted.spec.name, most))
        if other != most:
            yield Problem(
                schedule=wanted.spec.name,
                key="group",
                message=f"group {group!r} has another limit here than in schedule {first!r}",
                hint="a group has one limit for all its schedules: give it once",
            )
