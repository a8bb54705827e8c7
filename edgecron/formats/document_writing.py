"""Write schedules as a document, which `document.py` reads back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any

from edgecron.base.units import format_duration_ms, format_instant
from edgecron.base.window_texts import source_of
from edgecron.formats.option_texts import PRIORITIES, is_fast
from edgecron.formats.toml import write_key, write_table
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
from edgecron.model.schedule import Definition, Schedule, ScheduleSpec
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
