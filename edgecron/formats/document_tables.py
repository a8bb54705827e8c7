"""Schedules as tables of a document: write them, and plan what a document changes. Pure.

`document.py` reads what is written here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Any

from edgecron.base.errors import ChangedByOthers, InvalidDocument
from edgecron.base.units import format_duration_ms, format_instant
from edgecron.base.values import dataclass, replace
from edgecron.base.window_texts import source_of
from edgecron.formats.option_texts import PRIORITIES, is_fast, is_secret
from edgecron.formats.toml import Lines, find_lines, write_key, write_table
from edgecron.model.choices import COMMAND_QUEUE, GLOBAL_SCOPE, JobKind
from edgecron.model.engine import EACH
from edgecron.model.job import Job
from edgecron.model.options import (
    JOB_OPTIONS,
    NONE,
    OPTIONS,
    OTHER_DEFAULTS,
    POLICIES,
    Option,
    OptionType,
    Part,
    Policies,
)
from edgecron.model.schedule import Definition, Difference, Schedule, ScheduleSpec
from edgecron.triggers.kinds import ON_DEMAND

Table = dict[str, Any]  # by key: text, numbers, booleans, lists of them, or a table of texts

SCHEDULES = "schedules"  # the table of a document's schedules
TEMPLATES = "templates"  # and of what several of them share
LOCAL = "local"  # the time zone if a document names none
# Triggers that a switch names, by its key.
SWITCHED = {"on_boot": "on boot", "on_demand": ON_DEMAND}
TRIGGERS = ("cron", "every", "at", "once", *SWITCHED, "after")
JOBS = {kind.value: kind for kind in JobKind}
_ORDER = {key: place for place, key in enumerate(OPTIONS)}.__getitem__
_GLOBAL_SCOPES = (GLOBAL_SCOPE,)
_job_values = attrgetter(*(option.name for option in JOB_OPTIONS))
_PLAIN_JOB = _job_values(Job(kind=JobKind.COMMAND, argv=("true",)))
_PRIORITY_NAMES = {number: name for name, number in PRIORITIES.items()}


def default_of(key: str) -> object:
    """Return the value of a key that a document does not name, None for no value."""
    if key in OTHER_DEFAULTS:
        return OTHER_DEFAULTS[key]
    option = OPTIONS.get(key)  # not of one variable, such as env.LANG
    if option is None or option.part is not Part.POLICIES:
        return None
    if option.is_clearable and option.default != NONE:
        return option.default.partition(" or ")[0].partition(";")[0]
    return value_text(option, option.default_value)


def trigger_key(text: str) -> str:
    """Return the key of a trigger's text."""
    word, _, rest = text.lower().partition(" ")
    if word == "on":
        return "on_demand" if rest.strip() == "demand" else "on_boot"
    return word if word in ("every", "at", "once", "after") else "cron"


def schedule_table(schedule: Schedule | Definition) -> Table:
    """Write the keys of a stored schedule, with its pause without end and its group's limit."""
    return spec_table(
        schedule.spec, is_enabled=schedule.enabled, group_most=schedule.group_max_running
    )


def spec_table(
    spec: ScheduleSpec, *, is_enabled: bool = True, group_most: int | None = None
) -> Table:
    """Write the keys that differ from the defaults, in the order of `OPTIONS`."""
    table: Table = {**_triggers(spec.triggers), **_job(spec.job), **_policies(spec.policies)}
    if spec.description is not None:
        table["description"] = spec.description
    if spec.timezone != LOCAL:
        table["timezone"] = "UTC" if spec.timezone is None else spec.timezone
    if spec.max_runs is not None:
        table["max_runs"] = spec.max_runs
    if "every" in table and any(map(is_fast, spec.triggers)):
        # A permission that nothing stores: other databases need it to accept this schedule.
        table["allow_fast"] = True
    if spec.group is not None:
        table["group"] = spec.group if group_most is None else f"{spec.group}:{group_most}"
    if spec.scopes != _GLOBAL_SCOPES and spec.policies.on != EACH:
        table["scope"] = scope_texts(spec)
    if spec.queue != COMMAND_QUEUE:
        table["queue"] = spec.queue
    if not is_enabled:
        table["enabled"] = False
    if spec.from_at is not None:
        table["from"] = format_instant(spec.from_at)
    if spec.until_at is not None:
        table["until"] = format_instant(spec.until_at)
    return {key: table[key] for key in sorted(table, key=_ORDER)}


def _triggers(texts: tuple[str, ...]) -> Table:
    found: Table = {}
    for text in texts:
        key = trigger_key(text)
        if key in SWITCHED:
            found[key] = True
            continue
        words = text if key == "cron" else text.partition(" ")[2]
        before = found.get(key)
        if before is None:
            found[key] = words
        else:
            found[key] = [*(before if isinstance(before, list) else [before]), words]
    return found


def _job(job: Job) -> Table:
    is_command = job.kind is JobKind.COMMAND
    table: Table = {job.kind.value: list(job.argv) if is_command else job.argv[0]}
    values = _job_values(job)
    if values != _PLAIN_JOB:
        for option, value in zip(JOB_OPTIONS, values, strict=True):
            if value is not None and value != {}:
                table[option.name] = dict(value) if isinstance(value, Mapping) else value
    return table


@lru_cache(maxsize=256)  # Most schedules have the policies of others.
def _policies(policies: Policies) -> Table:
    return {
        option.name: value_text(option, getattr(policies, option.field or ""))
        for option in POLICIES
        if getattr(policies, option.field or "") != option.default_value
    }


def value_text(option: Option, value: Any) -> object:
    """Write the value of a policy as text, a number, or a list."""
    if value is None:
        return NONE
    match option.type:
        case OptionType.DURATION:
            return format_duration_ms(round(value * 1000))
        case OptionType.CODES | OptionType.RULES | OptionType.CONDITIONS:
            return list(value)
        case OptionType.WINDOWS:
            return list(value)
        case OptionType.DAYS:
            return [source_of(text) for text in value]
        case OptionType.PRIORITY:
            return _PRIORITY_NAMES.get(int(value), int(value))
        case OptionType.FACTOR:
            return int(value) if value == int(value) else float(value)
    return value if isinstance(value, int) else str(value)


def scope_texts(spec: ScheduleSpec) -> list[str]:
    """Return the scopes of a schedule as texts; `global` is that of one without scopes."""
    return [kind if (kind, id_) == GLOBAL_SCOPE else f"{kind}:{id_}" for kind, id_ in spec.scopes]


_FOR_PROGRAMS = ("callable", "queue")  # not for people who edit a command
_COLUMN = 40  # at which the words about a key begin


def write_document(schedules: Iterable[Schedule | Definition]) -> str:
    """Write a document of schedules, in their order."""
    return "\n".join(
        write_table((SCHEDULES, schedule.spec.name), schedule_table(schedule))
        for schedule in schedules
    )


def write_for_editing(schedule: Schedule) -> str:
    """Write one schedule for a person to change, with all other keys as comments."""
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
            "# A file without changes, or an empty file, changes nothing.",
            f"# To rename the schedule, change [{name}].",
            "",
            write_table((SCHEDULES, schedule.name), table),
            "# All other keys, with their defaults in brackets:",
            "",
            *others,
            "",
        ]
    )


# What a document wants, and what is wrong with it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A schedule that a document wants.

    `enabled` None keeps the current state. `limit` is its group and the most runs of that group at
    the same time, None being no limit. If `limit` itself is None, the group's limit stays.
    `is_declared`: a program declares it at each start, so an `at` in the past never fires, and a
    changed interval keeps its phase. `is_portable`: the file can come from another machine, so an
    `at` can lie in the past and an upstream can be missing.
    """

    spec: ScheduleSpec
    enabled: bool | None = None
    limit: tuple[str, int | None] | None = None
    is_declared: bool = False
    is_portable: bool = False


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


# What a document changes.

APPLY = "apply "  # begins the origin of what a document made; its file follows
PRUNABLE = "no longer in the file; --prune removes it"
_MAY_BE_SECRET = ("env", "payload", "stdin")
SECRET = "***"  # shown instead of the value of a variable that is called like a secret


class Action(StrEnum):
    CREATE = "create"  # the document has it, the database has not
    CHANGE = "change"  # both have it, and say different things
    KEEP = "keep"  # both have it, and say the same
    REMOVE = "remove"  # a former version of the document made it, and it is to be pruned
    LEAVE = "leave"  # the database has it, the document has not, and that is as it should be


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A key whose value changes; None is no value, or the default."""

    key: str
    old: object
    new: object


def may_be_secret(change: FieldChange | Difference) -> bool:
    """Whether the values of a change are never shown in a log."""
    return change.key.split(".")[0] in _MAY_BE_SECRET


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The planned change of one schedule. `schedule` is the existing one, `wanted` the new one.

    `note` gives a reason or a warning for people.
    """

    action: Action
    name: str
    schedule: Schedule | None = None
    wanted: Wanted | None = None
    changes: tuple[FieldChange, ...] = ()
    note: str | None = None


def compare(
    wanted: Collection[Wanted],
    schedules: Collection[Schedule],
    *,
    origins: Mapping[str, str],
    origin: str,
    is_pruned: bool,
) -> tuple[Step, ...]:
    """Decide about each schedule: first those of the document, in its order, then the others.

    `origins` say by schedule what made it what it is, `origin` is what the document's own will be:
    only those of the same origin are pruned.
    """
    there = {schedule.name: schedule for schedule in schedules}
    steps = [compare_one(one, there.get(one.spec.name)) for one in wanted]
    named = {one.spec.name for one in wanted}
    for schedule in schedules:
        if schedule.name in named:
            continue
        if origins.get(schedule.name) != origin:
            note = _stranger_words(origins.get(schedule.name))
            step = Step(action=Action.LEAVE, name=schedule.name, schedule=schedule, note=note)
        elif is_pruned:
            changes = find_changes(schedule_table(schedule), {})
            step = Step(
                action=Action.REMOVE, name=schedule.name, schedule=schedule, changes=changes
            )
        else:
            step = Step(action=Action.LEAVE, name=schedule.name, schedule=schedule, note=PRUNABLE)
        steps.append(step)
    return tuple(steps)


def need_unchanged(opened: Schedule, current: Schedule) -> None:
    """Raise ChangedByOthers if a schedule has changed since it was opened."""
    if (current.id, current.revision) == (opened.id, opened.revision):
        return
    changes = find_changes(schedule_table(opened), schedule_table(current))
    keys = ", ".join(change.key for change in changes) or "none of the keys in this text"
    raise ChangedByOthers(
        f"another program changed schedule {opened.name!r} since you opened it: {keys}",
        hint="to replace these changes with your text: edit again",
    )


def compare_one(wanted: Wanted, schedule: Schedule | None) -> Step:
    """Decide about one schedule of a document."""
    name = wanted.spec.name
    if schedule is None:
        most = None if wanted.limit is None else wanted.limit[1]
        table = spec_table(wanted.spec, is_enabled=wanted.enabled is not False, group_most=most)
        changes = find_changes({}, table)
        return Step(action=Action.CREATE, name=name, wanted=wanted, changes=changes)
    settled = _settle(wanted, schedule)
    changes = find_changes(schedule_table(schedule), _wanted_table(settled, schedule))
    if name != schedule.name:
        changes = (FieldChange(key="name", old=schedule.name, new=name), *changes)
    action = Action.CHANGE if changes else Action.KEEP
    return Step(action=action, name=name, schedule=schedule, wanted=settled, changes=changes)


def find_changes(old: Table, new: Table, *, is_revealed: bool = False) -> tuple[FieldChange, ...]:
    """List the keys whose values differ; each variable by itself.

    Variables that are called like secrets have no values, unless `is_revealed`.
    """
    changes = []
    for key in OPTIONS:
        before, after = old.get(key), new.get(key)
        if key == "env":
            changes += _find_env_changes(before or {}, after or {}, is_revealed=is_revealed)
        elif _sorted(key, before) != _sorted(key, after):
            changes.append(FieldChange(key=key, old=before, new=after))
    return tuple(changes)


def _settle(wanted: Wanted, schedule: Schedule) -> Wanted:
    """Keep the existing texts if they mean the same as the wanted ones.

    Otherwise another order of triggers, or another name of UTC, would move the next time.
    """
    old, spec = schedule.spec, wanted.spec
    if _zone(old) == _zone(spec):
        spec = replace(spec, timezone=old.timezone)
        if sorted(old.triggers) == sorted(spec.triggers):
            spec = replace(spec, triggers=old.triggers)
    return replace(wanted, spec=spec)


def _zone(spec: ScheduleSpec) -> str:
    return "UTC" if spec.timezone is None else spec.timezone


def _wanted_table(wanted: Wanted, schedule: Schedule) -> Table:
    is_enabled = schedule.enabled if wanted.enabled is None else wanted.enabled
    if wanted.limit is not None:
        most = wanted.limit[1]
    else:
        most = schedule.group_max_running if wanted.spec.group == schedule.spec.group else None
    return spec_table(wanted.spec, is_enabled=is_enabled, group_most=most)


_UNORDERED = ("between", "not_between", "except", "needs", "scope")


def _sorted(key: str, value: object) -> object:
    if (key in TRIGGERS or key in _UNORDERED) and isinstance(value, list):
        return sorted(value)
    return value


def _find_env_changes(
    old: Mapping[str, str], new: Mapping[str, str], *, is_revealed: bool
) -> list[FieldChange]:
    shown = (lambda _, value: value) if is_revealed else _shown
    return [
        FieldChange(
            key=f"env.{name}", old=shown(name, old.get(name)), new=shown(name, new.get(name))
        )
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def _shown(name: str, value: str | None) -> str | None:
    return SECRET if value is not None and is_secret(name, value) else value


def _stranger_words(origin: str | None) -> str:
    if origin is not None and origin.startswith(APPLY):
        return f"it came from {origin.removeprefix(APPLY)}"
    return "not made by apply"
