"""Read a TOML document of schedules, or report everything that is wrong with it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

from edgecron.base.errors import InvalidDocument
from edgecron.formats.document_tables import read_table
from edgecron.formats.document_values import SCHEDULES, Document, Problem, Wanted, refuse
from edgecron.formats.toml import MOST_LEVELS, find_too_deep, suggest

MOST_BYTES = 16 * 1024 * 1024
_TWICE = re.compile(r"cannot declare .* twice|cannot overwrite a value")


def read_document(
    content: bytes,
    *,
    now: datetime | None = None,
    known: Collection[str] = (),
    is_portable: bool = False,
) -> Document:
    """Read the schedules of a document, in its order.

    With `now` a time can be relative, such as `tomorrow 09:00`, and must lie in the future, unless
    it is one of the trigger texts that are `known`, or the document `is_portable`.
    Raises InvalidDocument with everything that is wrong.
    """
    text = _decode(content)
    problems: list[Problem] = []
    found: list[Wanted] = []
    for name, table in _tables(text).items():
        wanted, wrong = read_table(name, table, now=now, known=known, is_portable=is_portable)
        problems += wrong
        if wanted is not None:
            found.append(wanted)
    problems += _contradictions(found)
    if problems:
        raise refuse(problems, text)
    return Document(wanted=tuple(found), text=text)


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
        words = f"{str(error)[:1].lower()}{str(error)[1:]}"
        twice = _TWICE.search(words)
        if twice is not None:
            raise InvalidDocument(
                f"the file is not TOML: {words[twice.end() :].strip(' ()')}: a name stands there"
                " for the second time",
                hint="a table, and a key within one, is given once",
            ) from None
        raise InvalidDocument(
            f"the file is not TOML: {words}", hint='text stands in quotes: timeout = "1h"'
        ) from None


def _tables(text: str) -> dict[str, dict[str, Any]]:
    """Find the tables of schedules by name. Raises InvalidDocument for anything else."""
    document = _load(text)
    problems = [_stray(key, value) for key, value in document.items() if key != SCHEDULES]
    tables = document.get(SCHEDULES, {})
    if not isinstance(tables, dict):
        message = f"{SCHEDULES!r} is no table, expected [{SCHEDULES}.NAME]"
        problems.append(Problem(key=SCHEDULES, message=message))
        tables = {}
    problems += [
        Problem(
            schedule=name,
            message="it is no table",
            hint=f"write [{SCHEDULES}.NAME], and the keys of the schedule below it",
        )
        for name, table in tables.items()
        if not isinstance(table, dict)
    ]
    if problems:
        raise refuse(problems, text)
    return tables


def _stray(key: str, value: object) -> Problem:
    name = key
    if isinstance(value, dict) and value and suggest(key, [SCHEDULES]):
        name = next(iter(value))  # [schedule.backup] is a slip in the first word.
    return Problem(
        key=key,
        message=f"{key!a} is not known here, expected tables [{SCHEDULES}.NAME]",
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
                hint="its limit counts the runs of all its schedules: give it once",
            )
