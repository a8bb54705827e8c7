"""Templates of a document: keys that several schedules share.

A schedule names its templates, and gets their keys before it is read. Nothing is stored of a
template: the database, `export` and answers have the resolved schedule.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from edgecron.base.checks import check_name, suggest
from edgecron.base.errors import InvalidInput
from edgecron.base.values import dataclass, field
from edgecron.formats.document_values import TEMPLATES, Problem
from edgecron.formats.document_writing import JOBS, TRIGGERS
from edgecron.formats.option_texts import rename_former

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
    not the schedule's own; `notes` are about former names of keys."""

    table: Mapping[str, Any]
    templates: tuple[str, ...]
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()


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
            given, _ = _renamed(self.own[name] if name in self.own else built_in()[name])
            _lay_over(merged, given)
            origins.update(dict.fromkeys(given, name))
        own, notes = _renamed(keys)
        _lay_over(merged, own)
        return Resolved(
            table=merged,
            templates=names,
            origins={key: name for key, name in origins.items() if key not in own},
            notes=notes,
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


def _renamed(keys: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Give former names of keys their new ones. If both are given, reading the keys refuses it."""
    try:
        return rename_former(keys)
    except InvalidInput:
        return keys, ()
