"""Read a TOML document of schedules, or report everything that is wrong with it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, datetime, time
from functools import partial
from typing import Any, TypeVar

from edgecron.base.checks import check_name, suggest
from edgecron.base.errors import InvalidDocument, InvalidInput
from edgecron.base.values import dataclass, field, replace
from edgecron.formats import option_texts as values
from edgecron.formats.document_templates import Templates, example_of, read_templates
from edgecron.formats.document_values import (
    SCHEDULES,
    TEMPLATES,
    Document,
    Problem,
    Wanted,
    refuse,
)
from edgecron.formats.document_writing import JOBS, LOCAL, TRIGGERS
from edgecron.formats.toml import MOST_LEVELS, find_lines, find_too_deep
from edgecron.formats.toml_faults import explain_fault
from edgecron.model.choices import COMMAND_QUEUE, GLOBAL_SCOPE, JobKind
from edgecron.model.options import (
    FORMER_NAMES,
    JOB_OPTIONS,
    NONE,
    OPTIONS,
    POLICIES,
    Job,
    Option,
    OptionType,
    Policies,
)
from edgecron.model.schedule import ScheduleSpec
from edgecron.triggers import check_zone

MOST_BYTES = 16 * 1024 * 1024
NO_TIME = "it has no time to run at"
NO_COMMAND = "the command is missing, expected one of command and shell"
_T = TypeVar("_T")
_A_COMMAND = 'such as: command = ["/usr/bin/rsync", "-a", "/home", "/srv"]'
# Names of other programs that people write instead.
_OTHER_WORDS = {
    "tz": "timezone", "argv": "command", "cmd": "command", "run": "command", "exec": "command",
    "folder": "cwd", "dir": "cwd", "environment": "env", "schedule": "cron", "scopes": "scope",
    "paused": "enabled", "disabled": "enabled", "start": "from", "end": "until",
}  # fmt: skip


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


def read_table(
    name: str,
    table: Mapping[str, Any],
    *,
    now: datetime | None = None,
    known: Collection[str] = (),
    is_portable: bool = False,
) -> tuple[Wanted | None, list[Problem]]:
    """Read a table; return None and the problems if something is wrong.

    With `is_portable` times can lie in the past. So can those of `known`, the trigger texts that
    the schedule already has.
    """
    reading = _Reading(name=name, table=table, now=now, known=known, is_portable=is_portable)
    return reading.read(), reading.problems


@dataclass(slots=True, kw_only=True)
class _Reading:
    """Reads the keys of one schedule, and notes each problem before it reads the next key."""

    name: str
    table: Mapping[str, Any]
    now: datetime | None
    known: Collection[str]
    is_portable: bool
    is_fast_ok: bool = False
    notes: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)

    def read(self) -> Wanted | None:
        """Read the schedule; None if there are problems."""
        self._try(None, partial(check_name, self.name, what="schedule name"))
        renamed = self._try(None, partial(values.rename_former, self.table))
        if renamed is not None:
            self.table, self.notes = renamed
        for key in self.table:
            if key not in OPTIONS and (renamed or key not in FORMER_NAMES):
                self._note(key, f"key {key!a} is unknown", _suggestion(key))
        timezone = self._take("timezone", _timezone, LOCAL)
        self.is_fast_ok = self._take("allow_fast", _boolean, False)
        group, limit = self._take("group", _group, (None, None))
        parts: dict[str, Any] = {
            "triggers": tuple(self._triggers(timezone)),
            "policies": self._policies(),
            "job": self._job(),
            "timezone": timezone,
            "group": group,
            "description": self._take("description", _text, None),
            "queue": self._take("queue", _text, COMMAND_QUEUE),
            "scopes": self._take("scope", _scopes, (GLOBAL_SCOPE,)),
            "max_runs": self._take("max_runs", _max_runs, None),
        }
        for key in ("from", "until"):
            parts[f"{key}_at"] = self._take(key, partial(self._time, key, timezone), None)
        enabled = self._take("enabled", _boolean, None)
        if self.problems:
            return None
        spec = self._try(None, lambda: ScheduleSpec(name=self.name, **parts))
        if spec is None:
            return None
        return Wanted(
            spec=spec,
            enabled=enabled,
            limit=limit,
            is_portable=self.is_portable,
            notes=self.notes,
        )

    def _take(self, key: str, read: Callable[[Any], object], default: object) -> Any:
        """Read a key's value; the default if it is missing or can't be read."""
        if key not in self.table:
            return default
        found = self._try(key, lambda: (read(self.table[key]),))
        return default if found is None else found[0]

    def _try(self, key: str | None, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except InvalidInput as error:
            is_named = key is None or key in error.message
            self._note(key, error.message if is_named else f"{key}: {error.message}", error.hint)
            return None

    def _note(self, key: str | None, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(schedule=self.name, key=key, message=message, hint=hint))

    def _triggers(self, timezone: str | None) -> Iterator[str]:
        given = [key for key in TRIGGERS if key in self.table and self.table[key] != []]
        if given == ["on_boot"] and self.table["on_boot"] is False:
            given = []
        if not given:
            self._note(None, NO_TIME, "give cron, every, at, on_boot or after")
        for key in given:
            if key == "on_boot":
                if self._take(key, _boolean, False):
                    yield "on boot"
                continue
            for value in self._take(key, _list, []):
                text = self._try(key, partial(self._trigger, key, value, timezone))
                if text is not None:
                    yield text

    def _trigger(self, key: str, value: object, timezone: str | None) -> str:
        text = _time_text(value) if key == "at" else _text(value)
        is_known = f"{key} {text}" in self.known
        trigger = values.read_trigger(
            key,
            text,
            what=key,
            name=self.name,
            timezone=timezone,
            now=None if is_known else self.now,
            is_past_ok=self.is_portable,
            is_fast_ok=is_known or self.is_fast_ok,
        )
        return trigger.text

    def _time(self, key: str, timezone: str | None, value: object) -> datetime | None:
        text = _time_text(value)
        if text == NONE:
            return None
        return values.read_time(text, what=key, timezone=timezone, now=self.now, is_past_ok=True)

    def _policies(self) -> Policies:
        changes: dict[str, Any] = {}
        for option in POLICIES:
            changes[option.field or ""] = self._take(
                option.name, partial(_policy, option), option.default_value
            )
        policies = self._try(None, lambda: Policies(**changes)) or Policies()
        self._try("retry_delay", partial(values.check_retry_delays, policies, str))
        return policies

    def _job(self) -> Job | None:
        given = [key for key in JOBS if key in self.table]
        if not given:
            self._note(None, NO_COMMAND, _A_COMMAND)
            return None
        if len(given) > 1:
            what = f"{' and '.join(given)} are given, expected one of command and shell"
            self._note(given[-1], what, _A_COMMAND)
            return None
        [key] = given
        argv = self._take(key, _argv if key == JobKind.COMMAND else _line, None)
        job = None
        if argv is not None and not "".join(argv[:1]).strip():
            self._note(key, f"{key}: the command is missing", _A_COMMAND)
        elif argv is not None:
            job = self._try(key, lambda: Job(kind=JOBS[key], argv=argv))
        for option in JOB_OPTIONS:
            value = self._take(option.name, partial(_job_value, option), None)
            if value is not None and job is not None:
                changed = self._try(option.name, partial(_with, job, option.name, value))
                job = changed or job
        return job


def _with(job: Job, name: str, value: object) -> Job:
    changes: dict[str, Any] = {name: value}
    return values.check_user(replace(job, **changes))


def suggest_key(key: str) -> str | None:
    """Return the known key that is most similar; None if no key is similar."""
    return _OTHER_WORDS.get(key) or suggest(key, OPTIONS)


def _suggestion(key: str) -> str:
    meant = suggest_key(key)
    return f"did you mean {meant}?" if meant else "see: edgecron apply --help"


def _policy(option: Option, value: object) -> object:
    if option.type is OptionType.CONDITIONS:
        return values.read_needs([_text(one) for one in _list(value)])
    if option.choices and not isinstance(value, str):
        known = ", ".join(option.choices)
        raise InvalidInput(f"{option.name} is {_kind(value)}, expected one of {known}")
    if value == [] and option.type is OptionType.RULES:
        return ()
    if isinstance(value, list) and option.type in (OptionType.CODES, OptionType.RULES):
        text = ",".join(_text(one) for one in value)
    else:
        text = _text(value)
    if text == NONE:
        return option.default_value
    return values.read_option(option, text, what=option.name)


def _text(value: object) -> str:
    """Return a text, or a number as text. Raises InvalidInput for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, int) and value.bit_length() > 64:
            raise InvalidInput("the number is too large")
        return str(value)
    raise InvalidInput(f"the value is {_kind(value)}, expected text in quotes or a number")


def _time_text(value: object) -> str:
    """Return a time as text; TOML has times without quotes, too."""
    return value.isoformat() if isinstance(value, date | time) else _text(value)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(
            f"the value is {_kind(value)}, expected true or false",
            hint="write true or false without quotes",
        )
    return value


def _list(value: object) -> list[object]:
    """Return an array, or one value as an array."""
    return value if isinstance(value, list) else [value]


def _argv(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidInput(
            f"the value is {_kind(value)}, expected an array of texts",
            hint='such as ["/bin/tar", "czf"]; a line for a shell is given as shell',
        )
    return tuple(_text(one) for one in value)


def _line(value: object) -> tuple[str, ...]:
    return (_text(value),)


def _env(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise InvalidInput(
            f"the value is {_kind(value)}, expected a table",
            hint='such as env = { LANG = "C" }, or env.LANG = "C"',
        )
    env = {}
    for key, one in value.items():
        # Other odd names are accepted: an import of a crontab can have made them.
        values.check_not_own(key, what="env")
        env[key] = _text(one)
    return env


def _job_value(option: Option, value: object) -> object:
    """Read an option of the job; None clears it."""
    if option.type is OptionType.VARIABLES:
        return _env(value)
    text = _text(value)
    is_literal = option.type in (OptionType.JSON, OptionType.LINES)
    if text == NONE and not is_literal:
        return None
    return values.read_option(option, text, what=option.name)


def _timezone(value: object) -> str | None:
    return check_zone(_text(value))


def _group(value: object) -> tuple[str | None, tuple[str, int | None] | None]:
    text = _text(value)
    name, _ = values.read_group(text, what="group")
    return name, values.read_limit(text, what="group")


def _scopes(value: object) -> tuple[tuple[str, str], ...]:
    return tuple(values.read_scope(_text(one), what="scope") for one in _list(value))


def _max_runs(value: object) -> int | None:
    return values.read_max_runs(_text(value), what="max_runs")


def _kind(value: object) -> str:
    """Name the type of a value in the words of TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case dict():
            return "a table"
        case date() | time():
            return "a time"
    return "text"
