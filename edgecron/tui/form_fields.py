"""The fields of the form: from the table of a schedule to texts, and back. Pure.

A field has the key of a schedules file, or is `name`, `when`, `kind` or `job`. `when` has one time
per line, as `check` reads them. `kind` and `job` are the command or the shell line.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from shlex import join, split

from edgecron.base.errors import InvalidInput, InvalidTrigger
from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.formats.document_tables import (
    JOBS,
    LOCAL,
    SWITCHED,
    TRIGGERS,
    Problem,
    Table,
    default_of,
    trigger_key,
)
from edgecron.formats.option_texts import check_variable
from edgecron.model.choices import JobKind
from edgecron.model.options import LISTS, OPTIONS, Group, Option, OptionType
from edgecron.triggers.english import read_words

Texts = Mapping[str, str]
_SWITCH = ("false", "true")
_KINDS = (JobKind.COMMAND.value, JobKind.SHELL.value)
# Hints that differ from the help of the option, because the form has fields.
_OWN_HINTS = {
    "timezone": "an IANA name such as Europe/Berlin, or local",
    "env": "environment variables, KEY=VALUE, one per line",
    "between": "run only then: 21:00-05:00, MON-FRI or 21:00-05:00 MON-FRI, one per line",
    "not_between": "do not run then: 09:00-17:00, SAT,SUN or 09:00-17:00 MON-FRI, one per line",
    "except": "do not run then: 2026-12-24, holidays:DE-BY or /path/FILE.ics, one per line",
    "needs": "wait for: success:NAME:8h, online, ac-power, one per line",
    "while": "end or suspend the run without: ac-power, online, one per line",
    "scope": "run once for each: KIND:ID, one per line",
}
_TITLES = {
    Group.MISSED: "Missed times and overlapping runs",
    Group.END: "End of a run, and retries",
    Group.WAIT: "Waiting and order",
    Group.MORE: "More",
}
_PLACE = ("timezone", "cwd", "env", "description", "group")  # in the second section
_OTHER_FIELDS = ("allow_fast", "queue", "enabled")  # the form has no field for these
_LISTS = ("between", "not_between", "except", "needs", "scope")
_JOB_KEYS = tuple(JOBS)


class FieldKind(Enum):
    LINE = "line"
    LINES = "lines"  # a list of lines, or one text
    CHOICE = "choice"


class FormField(NamedTuple):
    """A field. `hint` says what to write, `default` what an empty field means."""

    key: str
    label: str
    hint: str
    form: FieldKind = FieldKind.LINE
    choices: tuple[str, ...] = ()
    default: str = ""


_FORMS = {
    OptionType.CHOICE: FieldKind.CHOICE,
    OptionType.SWITCH: FieldKind.CHOICE,
    OptionType.LINES: FieldKind.LINES,
    OptionType.VARIABLES: FieldKind.LINES,
    **dict.fromkeys(LISTS, FieldKind.LINES),
    OptionType.SCOPES: FieldKind.LINES,
}


def _field(option: Option) -> FormField:
    default = None if option.name == "timezone" else default_of(option.name)
    if option.type is OptionType.CODES and isinstance(default, list):
        default = ", ".join(map(str, default))
    return FormField(
        option.name,
        option.label or option.name.replace("_", " "),
        _OWN_HINTS.get(option.name, option.words),
        _FORMS.get(option.type, FieldKind.LINE),
        _SWITCH if option.type is OptionType.SWITCH else option.choices,
        "" if default is None or isinstance(default, list) else _plain(default),
    )


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sections() -> tuple[tuple[str, tuple[FormField, ...]], ...]:
    """Return the sections and their fields; the first has those that each schedule needs."""
    rest = {
        name: option
        for name, option in OPTIONS.items()
        if name not in (*TRIGGERS, *JOBS, *_OTHER_FIELDS)
    }
    place = tuple(_field(rest.pop(name)) for name in _PLACE)
    schedule = (
        FormField("name", "name", "letters, digits, _ - ."),
        FormField(
            "when",
            "when",
            "0 2 * * *, every 15m, at 09:00, once in 21:00-05:00, after X, on demand",
            FieldKind.LINES,
        ),
        FormField(
            "kind",
            "run a",
            "command: starts a program directly; shell: runs a line in /bin/sh",
            FieldKind.CHOICE,
            _KINDS,
        ),
        FormField("job", "job", "the command and its arguments, or the line", FieldKind.LINES),
    )
    by_group: dict[Group, list[FormField]] = {group: [] for group in _TITLES}
    for option in rest.values():
        by_group.get(option.group, by_group[Group.MORE]).append(_field(option))
    return (
        ("Schedule", schedule),
        ("Zone, folder, environment and group", place),
        *((title, tuple(by_group[group])) for group, title in _TITLES.items()),
    )


SECTIONS = _sections()
FIELDS: dict[str, FormField] = {field.key: field for _, fields in SECTIONS for field in fields}


def field_of(key: str | None) -> str | None:
    """Return the field for a key of a schedules file; None if there is none."""
    if key in TRIGGERS:
        return "when"
    if key in _JOB_KEYS:
        return "job"
    return key if key in FIELDS else None


def texts_of(name: str, table: Table) -> dict[str, str]:
    """Return the text of each field for a schedule."""
    texts = {key: _text(key, table) for key in FIELDS}
    texts["name"] = name
    texts["when"] = "\n".join(when_lines(table))
    kind = next((kind for kind in _JOB_KEYS if kind in table), JobKind.COMMAND.value)
    job = table.get(kind, "")
    texts |= {"kind": kind, "job": join(job) if isinstance(job, list) else job}
    texts["env"] = "\n".join(f"{key}={value}" for key, value in table.get("env", {}).items())
    texts["timezone"] = table.get("timezone", LOCAL)
    return texts


def _text(key: str, table: Table) -> str:
    field = FIELDS[key]
    value = table.get(key)
    if value is None:
        return field.default if field.form is FieldKind.CHOICE else ""
    if isinstance(value, list):
        return ("\n" if key in _LISTS else ", ").join(map(str, value))
    return _plain(value)


def when_lines(table: Table) -> list[str]:
    """Return the triggers of a table as lines."""
    lines = []
    for key in TRIGGERS:
        value = table.get(key)
        if value is None or value is False:
            continue
        if key in SWITCHED:
            lines.append(SWITCHED[key])
            continue
        texts = value if isinstance(value, list) else [value]
        lines += [text if key == "cron" else f"{key} {text}" for text in texts]
    return lines


def split_time(line: str) -> tuple[str, str]:
    """Split a line of `when` into the key of a schedules file and its text."""
    line = _trigger_text(line)
    key = trigger_key(line)
    return key, line if key == "cron" else line.partition(" ")[2].strip()


def _trigger_text(line: str) -> str:
    """Return the trigger text of a line in plain words; other lines as they are."""
    try:
        words = read_words(line)
    except InvalidTrigger:
        return line  # The check of the line shows this error.
    return line if words is None or words.zone is not None else words.text


def lines_of(text: str) -> list[str]:
    """Return the lines that are not blank."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def table_of(texts: Texts, *, base: Table, before: Texts) -> tuple[Table, list[Problem]]:
    """Return the table for these texts, and the problems of texts that can't be read.

    A field whose text is as `before` keeps its value of `base`.
    """
    table, problems = dict(base), list[Problem]()
    table.pop("enabled", None)  # The form does not pause or resume.
    changed = (key for key in FIELDS if texts[key] != before[key])
    for key in dict.fromkeys("job" if key == "kind" else key for key in changed):
        try:
            _set_value(table, key, texts)
        except InvalidInput as error:
            problems.append(Problem(key=key, message=error.message, hint=error.hint))
    return table, problems


def uneditable_fields(texts: Texts, table: Table) -> frozenset[str]:
    """Return the fields whose texts can't be edited on a screen."""
    hidden = {key for key, text in texts.items() if clean(text, keep="\n") != text}
    if any("\n" in value for value in table.get("env", {}).values()):
        hidden.add("env")
    return frozenset(hidden)


def _set_value(table: Table, key: str, texts: Texts) -> None:
    text = texts[key]
    if key == "name":
        return
    if key == "when":
        _set_times(table, lines_of(text))
    elif key == "job":
        _set_job(table, texts["kind"], texts["job"])
    elif not text.strip() or (FIELDS[key].form is FieldKind.CHOICE and text == FIELDS[key].default):
        table.pop(key, None)
    elif key == "env":
        table[key] = dict(_variable(line) for line in text.splitlines() if line.strip())
    elif key in _LISTS:
        table[key] = lines_of(text)
    elif FIELDS[key].choices == _SWITCH:
        table[key] = text == "true"
    else:
        table[key] = text if FIELDS[key].form is FieldKind.LINES else text.strip()


def _set_times(table: Table, lines: list[str]) -> None:
    for key in TRIGGERS:
        table.pop(key, None)
    for line in lines:
        key, text = split_time(line)
        if key not in SWITCHED:
            table.setdefault(key, []).append(text)
        elif f"on {text.lower()}" == SWITCHED[key]:
            table[key] = True
        else:
            raise InvalidInput(f"{clean(line)!r} is not a trigger, expected: on boot or on demand")


def _set_job(table: Table, kind: str, text: str) -> None:
    for key in _JOB_KEYS:
        table.pop(key, None)
    if not text.strip():
        return
    if kind != JobKind.COMMAND.value:
        table[kind] = text
        return
    try:
        table[kind] = split(text)
    except ValueError as error:
        words = f"{str(error)[:1].lower()}{str(error)[1:]}"
        raise InvalidInput(
            f"the command can't be split into words: {words}", hint="as a shell would read it"
        ) from None


def _variable(line: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    if not equals or not key.strip():
        # Never quote the line: it may be a secret.
        raise InvalidInput("a line of env is not KEY=VALUE")
    check_variable(key.strip(), what="env")
    return key.strip(), value
