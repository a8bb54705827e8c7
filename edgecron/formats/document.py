"""Read a TOML document of schedules and their templates, or report everything wrong with it.

A schedule names its templates, and gets their keys before it is read. Nothing is stored of a
template: the database, `export` and answers have the resolved schedule.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from edgecron.base.checks import check_name, suggest
from edgecron.base.errors import InvalidDocument, InvalidInput
from edgecron.base.values import dataclass, field, replace
from edgecron.formats.document_schedule import read_table, suggest_key
from edgecron.formats.document_tables import (
    JOBS,
    SCHEDULES,
    TEMPLATES,
    TRIGGERS,
    Document,
    Problem,
    Wanted,
    refuse,
)
from edgecron.formats.toml import MOST_LEVELS, explain_fault, find_lines, find_too_deep
from edgecron.model.options import OPTIONS

# Templates: keys that several schedules share.

NAMES = ("template", "templates")  # the keys by which a schedule names one template, or several
_TIMES = frozenset(TRIGGERS)
_REFUSED = {
    **dict.fromkeys(JOBS, "a template has no job: write it in the schedule"),
    **dict.fromkeys(NAMES, "a template does not build on templates: name both in the schedule"),
}

# What most people need. `edgecron help templates` shows this text.
BUILT_IN = """\
[templates.nightly-backup]
cron = "0 2 * * *"
jitter = "30m"
timeout = "6h"
retries = 2
retry_delay = "10m"
on_interrupt = "retry"
nice = 10

[templates.poll]
every = "5m"
jitter = "10s"
timeout = "1m"
catch_up = "skip"

[templates.certificate-renewal]
cron = "0 0,12 * * *"
jitter = "6h"
timeout = "30m"
retries = 3
retry_delay = "1h"
"""


@cache
def built_in() -> Mapping[str, Mapping[str, Any]]:
    """Return the templates that edgecron has, by name."""
    found: Mapping[str, Mapping[str, Any]] = tomllib.loads(BUILT_IN)[TEMPLATES]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The keys of a schedule and of its templates. `origins` has the template of each key that is
    not the schedule's own."""

    table: Mapping[str, Any]
    templates: tuple[str, ...]
    origins: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class Templates:
    """The templates of a document, those of edgecron, and which of them schedules name."""

    own: Mapping[str, Mapping[str, Any]]
    used: set[str] = field(default_factory=set)

    def resolve(self, schedule: str, table: Mapping[str, Any]) -> tuple[Resolved, list[Problem]]:
        """Add the keys of its templates to a schedule, and list what is wrong with their names."""
        names, problems = self._names_of(schedule, table)
        keys = {key: value for key, value in table.items() if key not in NAMES}
        if not names:
            return Resolved(table=keys, templates=(), origins={}), problems
        merged: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for name in names:
            given = self.own[name] if name in self.own else built_in()[name]
            _lay_over(merged, given)
            origins.update(dict.fromkeys(given, name))
        _lay_over(merged, keys)
        return Resolved(
            table=merged,
            templates=names,
            origins={key: name for key, name in origins.items() if key not in keys},
        ), problems

    def find_notes(self, lines: Mapping[tuple[str, ...], int]) -> Iterator[str]:
        """Yield a sentence for each template that no schedule names, or that hides a built-in."""
        for name in self.own:
            line = lines.get((TEMPLATES, name))
            where = "" if line is None else f"line {line}: "
            if name not in self.used:
                yield f"{where}template {name!r} is not used by any schedule"
            if name in built_in():
                yield f"{where}template {name!r} replaces edgecron's template of this name"

    def _names_of(
        self, schedule: str, table: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], list[Problem]]:
        given = [key for key in NAMES if key in table]
        if len(given) > 1:
            message = "template and templates are given, expected one of them"
            hint = 'several templates are one list: templates = ["a", "b"]'
            return (), [Problem(schedule=schedule, key="templates", message=message, hint=hint)]
        names: list[str] = []
        problems = []
        for key in given:
            value = table[key]
            for name in value if isinstance(value, list) else [value]:
                wrong = self._find_wrong(name)
                if wrong is None:
                    names.append(name)
                else:
                    message, hint = wrong
                    problems.append(Problem(schedule=schedule, key=key, message=message, hint=hint))
        self.used.update(names)
        return tuple(names), problems

    def _find_wrong(self, name: object) -> tuple[str, str] | None:
        if not isinstance(name, str):
            return "a template's name is text in quotes", 'such as: template = "poll"'
        known = {**built_in(), **self.own}
        if name in known:
            return None
        meant = suggest(name, known)
        hint = f"did you mean {meant}?" if meant else f"known are: {', '.join(sorted(known))}"
        return f"template {name!r} is unknown", hint


def read_templates(tables: object) -> tuple[dict[str, Mapping[str, Any]], list[Problem]]:
    """Return the templates of a document by name, and what is wrong with their form."""
    if not isinstance(tables, dict):
        message = f"{TEMPLATES!r} is not a table, expected [{TEMPLATES}.NAME]"
        return {}, [Problem(key=TEMPLATES, message=message)]
    found: dict[str, Mapping[str, Any]] = {}
    problems = []
    for name, table in tables.items():
        try:
            check_name(name, what="template name")
        except InvalidInput as error:
            problems.append(Problem(template=name, message=error.message, hint=error.hint))
        if not isinstance(table, dict):
            hint = f"write [{TEMPLATES}.{name}], and the keys of the template below it"
            problems.append(Problem(template=name, message="it is not a table", hint=hint))
            continue
        found[name] = {key: value for key, value in table.items() if key not in _REFUSED}
        problems += [
            Problem(template=name, key=key, message=f"key {key!a} is refused", hint=_REFUSED[key])
            for key in table
            if key in _REFUSED
        ]
    return found, problems


def example_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template as a whole schedule, by which its values are checked."""
    times = {} if _TIMES & table.keys() else {"every": "1d"}
    return {**table, **times, "command": ["true"]}


def _lay_over(merged: dict[str, Any], keys: Mapping[str, Any]) -> None:
    """Replace keys by those of a later table. Its times replace all times, and variables add up."""
    if _TIMES & keys.keys():
        for key in TRIGGERS:
            merged.pop(key, None)
    env, earlier = keys.get("env"), merged.get("env")
    merged.update(keys)
    if isinstance(env, dict) and isinstance(earlier, dict):
        merged["env"] = {**earlier, **env}


# Documents.

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
            name, resolved.table, now=now, known=known, is_portable=is_portable, also=NAMES
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
            found.append(wanted)
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
            Problem(template=name, key=one.key, message=one.message, hint=_hint_of(one))
            for one in problems
            if one.key in table
        ]
    return tables, own, wrong


def _hint_of(problem: Problem) -> str | None:
    """Return the hint for a problem of a template, which can't have all keys of a schedule."""
    key = problem.key
    meant = None if key is None or key in OPTIONS else suggest_key(key, also=NAMES)
    return problem.hint if meant is None else _REFUSED.get(meant, problem.hint)


def _stray(key: str, value: object) -> Problem:
    # Rarely needed, and programs import this.
    from edgecron.formats.config import SECTION_NAMES
    from edgecron.formats.config_files import NOTIFY

    name = key
    if suggest(key, [TEMPLATES]) == TEMPLATES:
        return Problem(
            key=key, message=f"{key!a} is unknown here", hint=f"write [{TEMPLATES}.NAME]"
        )
    if isinstance(value, dict) and value and suggest(key, [SCHEDULES]):
        name = next(iter(value))  # [schedule.backup] is a slip in the first word.
    is_section = key in SECTION_NAMES or key == NOTIFY
    if is_section and isinstance(value, dict) and not value.keys() & TRIGGERS:
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
