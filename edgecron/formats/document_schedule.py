"""Read one schedule of a document, a table of TOML or of JSON, and the values of its keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, datetime, time
from functools import partial
from typing import Any, TypeVar

from edgecron.base.checks import check_name, suggest
from edgecron.base.errors import InvalidInput
from edgecron.base.value_texts import read_time
from edgecron.base.values import dataclass, field, replace
from edgecron.base.zones import check_zone
from edgecron.formats import option_texts as values
from edgecron.formats.document_tables import JOBS, LOCAL, SWITCHED, TRIGGERS, Problem, Wanted
from edgecron.model.choices import COMMAND_QUEUE, GLOBAL_SCOPE, JobKind
from edgecron.model.engine import find_program
from edgecron.model.job import Job
from edgecron.model.options import (
    JOB_OPTIONS,
    LISTS,
    NONE,
    OPTIONS,
    POLICIES,
    Option,
    OptionType,
    Policies,
)
from edgecron.model.schedule import ScheduleSpec

# Names of other programs that people write instead.
_OTHER_WORDS = {
    "tz": "timezone", "argv": "command", "cmd": "command", "run": "command", "exec": "command",
    "folder": "cwd", "dir": "cwd", "environment": "env", "schedule": "cron", "scopes": "scope",
    "paused": "enabled", "disabled": "enabled", "start": "from", "end": "until",
    "grace": "max_late",
}  # fmt: skip


def suggest_key(key: str, *, also: Collection[str] = ()) -> str | None:
    """Return the known key that is most similar; None if no key is similar.

    `also` has more known keys.
    """
    return _OTHER_WORDS.get(key) or suggest(key, [*OPTIONS, *also])


def hint_for_unknown(key: str, *, also: Collection[str] = ()) -> str:
    """Return the hint for a key that is unknown."""
    meant = suggest_key(key, also=also)
    return f"did you mean {meant}?" if meant else "see: edgecron apply --help"


def read_policy(option: Option, value: object) -> object:
    """Read a policy. Raises InvalidInput."""
    if option.type in LISTS:
        return values.read_list(option, [read_time_text(one) for one in read_list(value)])
    if option.type is OptionType.SWITCH:
        return option.default_value if value == NONE else read_boolean(value)
    if option.choices and not isinstance(value, str):
        known = ", ".join(option.choices)
        raise InvalidInput(f"{option.name} is {_kind(value)}, expected one of {known}")
    if value == [] and option.type is OptionType.RULES:
        return ()
    if isinstance(value, list) and option.type in (OptionType.CODES, OptionType.RULES):
        text = ",".join(read_text(one) for one in value)
    else:
        text = read_text(value)
    if text == NONE:
        return option.default_value
    return values.read_option(option, text, what=option.name)


def read_text(value: object) -> str:
    """Return a text, or a number as text. Raises InvalidInput for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, int) and value.bit_length() > 64:
            raise InvalidInput("the number is too large")
        return str(value)
    raise InvalidInput(f"the value is {_kind(value)}, expected text in quotes or a number")


def read_time_text(value: object) -> str:
    """Return a time as text; TOML has times without quotes, too."""
    return value.isoformat() if isinstance(value, date | time) else read_text(value)


def read_boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(
            f"the value is {_kind(value)}, expected true or false",
            hint="write true or false without quotes",
        )
    return value


def read_list(value: object) -> list[object]:
    """Return an array, or one value as an array."""
    return value if isinstance(value, list) else [value]


def read_argv(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidInput(
            f"the value is {_kind(value)}, expected an array of texts",
            hint='such as ["/bin/tar", "czf"]; a line for a shell is given as shell',
        )
    return tuple(read_text(one) for one in value)


def read_line(value: object) -> tuple[str, ...]:
    return (read_text(value),)


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
        env[key] = read_text(one)
    return env


def read_job_value(option: Option, value: object) -> object:
    """Read an option of the job; None clears it."""
    if option.type is OptionType.VARIABLES:
        return _env(value)
    text = read_text(value)
    is_literal = option.type in (OptionType.JSON, OptionType.LINES)
    if text == NONE and not is_literal:
        return None
    return values.read_option(option, text, what=option.name)


def read_timezone(value: object) -> str | None:
    return check_zone(read_text(value))


def read_group(value: object) -> tuple[str | None, tuple[str, int | None] | None]:
    text = read_text(value)
    name, _ = values.read_group(text, what="group")
    return name, values.read_limit(text, what="group")


def read_scopes(value: object) -> tuple[tuple[str, str], ...]:
    return tuple(values.read_scope(read_text(one), what="scope") for one in read_list(value))


def read_max_runs(value: object) -> int | None:
    return values.read_max_runs(read_text(value), what="max_runs")


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


NO_TIME = "it has no time to run at"
NO_COMMAND = "the command is missing, expected one of command and shell"
_T = TypeVar("_T")
_A_QUEUE = 'such as: queue = "py:app"'
_A_COMMAND = 'such as: command = ["/usr/bin/rsync", "-a", "/home", "/srv"]'


def read_table(
    name: str,
    table: Mapping[str, Any],
    *,
    now: datetime | None = None,
    known: Collection[str] = (),
    is_portable: bool = False,
    also: Collection[str] = (),
) -> tuple[Wanted | None, list[Problem]]:
    """Read a table; return None and the problems if something is wrong.

    With `is_portable` times can lie in the past. So can those of `known`, the trigger texts that
    the schedule already has. Hints can name the keys of `also`, too.
    """
    reading = _Reading(
        name=name, table=table, now=now, known=known, is_portable=is_portable, also=also
    )
    return reading.read(), reading.problems


@dataclass(slots=True, kw_only=True)
class _Reading:
    """Reads the keys of one schedule, and notes each problem before it reads the next key."""

    name: str
    table: Mapping[str, Any]
    now: datetime | None
    known: Collection[str]
    is_portable: bool
    also: Collection[str]
    is_fast_ok: bool = False
    problems: list[Problem] = field(default_factory=list)

    def read(self) -> Wanted | None:
        """Read the schedule; None if there are problems."""
        self._try(None, partial(check_name, self.name, what="schedule name"))
        for key in self.table:
            if key not in OPTIONS:
                self._note(key, f"key {key!a} is unknown", hint_for_unknown(key, also=self.also))
        timezone = self._take("timezone", read_timezone, LOCAL)
        self.is_fast_ok = self._take("allow_fast", read_boolean, False)
        group, limit = self._take("group", read_group, (None, None))
        parts: dict[str, Any] = {
            "triggers": tuple(self._triggers(timezone)),
            "policies": self._policies(),
            "job": self._job(),
            "timezone": timezone,
            "group": group,
            "description": self._take("description", read_text, None),
            "queue": self._queue(),
            "scopes": self._take("scope", read_scopes, (GLOBAL_SCOPE,)),
            "max_runs": self._take("max_runs", read_max_runs, None),
        }
        for key in ("from", "until"):
            parts[f"{key}_at"] = self._take(key, partial(self._time, key, timezone), None)
        enabled = self._take("enabled", read_boolean, None)
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
        )

    def _take(self, key: str, read: Callable[[Any], object], default: object) -> Any:
        """Read a key's value; the default if it is missing or can't be read."""
        if key not in self.table:
            return default
        found = self._try(key, lambda: (read(self.table[key]),))
        return default if found is None else found[0]

    def _queue(self) -> str:
        queue: str = self._take("queue", read_text, COMMAND_QUEUE)
        is_of_program = bool(find_program(queue))
        if "callable" in self.table and not is_of_program:
            key = "queue" if "queue" in self.table else "callable"
            what = f"queue is {queue!r}" if key == "queue" else "queue is missing"
            self._note(key, f"{what}, expected that of the program with the callable", _A_QUEUE)
        elif queue != COMMAND_QUEUE and not is_of_program:
            what = f"queue is {queue!r}, which no engine serves"
            self._note("queue", what, "remove queue: only callables of a program need one")
        return queue

    def _try(self, key: str | None, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except InvalidInput as error:
            is_named = key is None or key in error.message
            message = error.message if is_named else f"{key}: {error.message}"
            self._note(key, message, error.hint or _example_of(key))
            return None

    def _note(self, key: str | None, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(schedule=self.name, key=key, message=message, hint=hint))

    def _triggers(self, timezone: str | None) -> Iterator[str]:
        given = [key for key in TRIGGERS if key in self.table and self.table[key] != []]
        if all(key in SWITCHED and self.table[key] is False for key in given):
            self._note(None, NO_TIME, "give cron, every, at, once, on_boot, after or on_demand")
        for key in given:
            if key in SWITCHED:
                if self._take(key, read_boolean, False):
                    yield SWITCHED[key]
                continue
            for value in self._take(key, read_list, []):
                text = self._try(key, partial(self._trigger, key, value, timezone))
                if text is not None:
                    yield text

    def _trigger(self, key: str, value: object, timezone: str | None) -> str:
        text = read_time_text(value) if key == "at" else read_text(value)
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
        text = read_time_text(value)
        if text == NONE:
            return None
        return read_time(text, what=key, timezone=timezone, now=self.now, is_past_ok=True)

    def _policies(self) -> Policies:
        changes: dict[str, Any] = {}
        for option in POLICIES:
            changes[option.field or ""] = self._take(
                option.name, partial(read_policy, option), option.default_value
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
        argv = self._take(key, read_argv if key == JobKind.COMMAND else read_line, None)
        job = None
        if argv is not None and not "".join(argv[:1]).strip():
            self._note(key, f"{key}: the command is missing", _A_COMMAND)
        elif argv is not None:
            job = self._try(key, lambda: Job(kind=JOBS[key], argv=argv))
        for option in JOB_OPTIONS:
            value = self._take(option.name, partial(read_job_value, option), None)
            if value is not None and job is not None:
                changed = self._try(option.name, partial(_with, job, option.name, value))
                job = changed or job
        return job


def _example_of(key: str | None) -> str | None:
    option = OPTIONS.get(key or "")
    return None if option is None else f"such as: {option.name} = {option.example}"


def _with(job: Job, name: str, value: object) -> Job:
    changes: dict[str, Any] = {name: value}
    return values.check_for_function(replace(job, **changes), name, what=name)
