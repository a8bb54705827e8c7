"""A specification as the keys and values of a document: what differs from the defaults alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from edgecron.documents.values import POLICIES, PRIORITIES, is_fast
from edgecron.model import (
    COMMAND_QUEUE,
    GLOBAL_SCOPE,
    JobKind,
    Policies,
    Schedule,
    ScheduleSpec,
)
from edgecron.timetext import format_duration_ms, format_instant
from edgecron.values import dataclass

Table = dict[str, Any]  # by key: text, numbers, booleans, lists of them, or a table of texts

LOCAL = "local"  # the time zone of what names none
TRIGGERS = ("cron", "every", "at", "on_boot", "after")
JOBS = {kind.value: kind for kind in JobKind}
_DEFAULTS = Policies()
_OTHER_DEFAULTS: Table = {
    "timezone": LOCAL,
    "scope": [GLOBAL_SCOPE[0]],
    "queue": COMMAND_QUEUE,
    "enabled": True,
    "allow_fast": False,
    "grace": "24h",
    "max_running": 1,
}
_TRIGGER_KEYS = {"every": "every", "at": "at", "on": "on_boot", "after": "after"}
_PRIORITY_NAMES = {number: name for name, number in PRIORITIES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of a document: an example of its value as TOML, and what it says, default included."""

    example: str
    words: str


# In the order in which a document has them.
KEYS: Mapping[str, Key] = {
    "description": Key(example='"nightly backup"', words="a note for people"),
    "cron": Key(example='"30 2 * * *"', words="5 fields, 6, or @daily; several: an array"),
    "every": Key(example='"15m"', words="'15m from TIME', '1h after end'; several: an array"),
    "at": Key(example='"2030-12-24T18:00:00Z"', words="once; several: an array"),
    "allow_fast": Key(example="true", words="allow intervals under a second (false)"),
    "on_boot": Key(example="true", words="once each time the machine has booted"),
    "after": Key(example='"other:success"', words="NAME[:success|failure|any]; or an array"),
    "timezone": Key(example='"Europe/Berlin"', words="of cron and times (local)"),
    "from": Key(example='"2030-01-01T00:00:00Z"', words="not before"),
    "until": Key(example='"2031-01-01T00:00:00Z"', words="not after"),
    "max_runs": Key(example="10", words="so many planned runs at most"),
    "jitter": Key(example='"5m"', words="start up to this much later"),
    "command": Key(example='["/usr/bin/rsync", "-a"]', words="started without a shell"),
    "shell": Key(example='"date | logger"', words="a line for /bin/sh, instead of command"),
    "callable": Key(example='"report"', words="a function that a Python program registers"),
    "env": Key(example='{ LANG = "C" }', words="variables of the job's"),
    "env_file": Key(example='"/etc/backup.env"', words="KEY=VALUE lines, read at each run"),
    "cwd": Key(example='"/srv"', words="the folder to run in (HOME)"),
    "user": Key(example='"backup"', words="run as another user (root only)"),
    "stdin": Key(example='"yes"', words="what the command reads"),
    "payload": Key(example="'{\"size\": 3}'", words="JSON, the command's EDGECRON_PAYLOAD"),
    "catch_up": Key(example='"skip"', words="missed times: once, skip, all (once)"),
    "grace": Key(example='"6h"', words="how late is too late (24h)"),
    "overlap": Key(example='"queue"', words="skip, queue, allow, replace (skip)"),
    "max_running": Key(example="2", words="at the same time (1)"),
    "timeout": Key(example='"1h"', words="end it after (none)"),
    "kill_grace": Key(example='"30s"', words="between TERM and KILL (10s)"),
    "retries": Key(example="3", words="further attempts after a failure (0)"),
    "retry_delay": Key(example='"1m"', words="before the first of them (10s)"),
    "retry_factor": Key(example="3", words="by which the delay grows (2)"),
    "retry_max_delay": Key(example='"2h"', words="up to which it grows (1h)"),
    "on_interrupt": Key(example='"retry"', words="when its end is not known: leave, retry (leave)"),
    "ok_codes": Key(example="[0, 2]", words="exit codes that are a success (0)"),
    "priority": Key(example='"high"', words="low, normal, high, or a number (normal)"),
    "group": Key(example='"disk:2"', words="NAME[:N], N runs of the group at once"),
    "needs": Key(example='["success:other:8h"]', words="wait until these hold"),
    "needs_deadline": Key(example='"2h"', words="how long after its time to wait (24h)"),
    "scope": Key(example='["device:pump-3"]', words="fire for each of these"),
    "queue": Key(example='"py:app"', words="which program runs a callable"),
    "enabled": Key(
        example="false", words="false: paused without end; left as it is where not said"
    ),
}


def default_of(key: str) -> object:
    """What holds where a document does not name a key; None is nothing."""
    if key in _OTHER_DEFAULTS:
        return _OTHER_DEFAULTS[key]
    if key in POLICIES:
        name, _ = POLICIES[key]
        return _policy(key, name, getattr(_DEFAULTS, name))
    return None


def trigger_key(text: str) -> str:
    """The key under which a trigger's text stands."""
    return _TRIGGER_KEYS.get(text.partition(" ")[0].lower(), "cron")


def schedule_table(schedule: Schedule) -> Table:
    """The keys of a schedule as it is kept, its pause without end and its group's limit too."""
    return spec_table(
        schedule.spec, is_enabled=schedule.enabled, group_most=schedule.group_max_running
    )


def spec_table(
    spec: ScheduleSpec, *, is_enabled: bool = True, group_most: int | None = None
) -> Table:
    """The keys of a specification that differ from the defaults, in the order of `KEYS`."""
    table: Table = {
        **_triggers(spec),
        **_job(spec),
        **_policies(spec.policies),
    }
    group = spec.group if group_most is None else f"{spec.group}:{group_most}"
    zone = "UTC" if spec.timezone is None else spec.timezone
    for key, value, default in (
        ("description", spec.description, None),
        ("timezone", zone, LOCAL),
        ("max_runs", spec.max_runs, None),
        # A permission that nothing stores: other databases need it to accept this schedule.
        ("allow_fast", any(map(is_fast, spec.triggers)), False),
        ("group", group if spec.group is not None else None, None),
        ("needs", list(spec.policies.needs), []),
        ("scope", _scopes(spec), [GLOBAL_SCOPE[0]]),
        ("queue", spec.queue, COMMAND_QUEUE),
        ("enabled", is_enabled, True),
    ):
        if value != default:
            table[key] = value
    for key, instant in (("from", spec.from_at), ("until", spec.until_at)):
        if instant is not None:
            table[key] = format_instant(instant)
    return {key: table[key] for key in KEYS if key in table}


def _triggers(spec: ScheduleSpec) -> Table:
    found: dict[str, list[str]] = {}
    for text in spec.triggers:
        key = trigger_key(text)
        words = text if key == "cron" else text.partition(" ")[2]
        found.setdefault(key, []).append(words)
    return {
        key: True if key == "on_boot" else texts[0] if len(texts) == 1 else texts
        for key, texts in found.items()
    }


def _job(spec: ScheduleSpec) -> Table:
    job = spec.job
    is_command = job.kind is JobKind.COMMAND
    table: Table = {job.kind.value: list(job.argv) if is_command else job.argv[0]}
    for key in ("env_file", "cwd", "user", "stdin", "payload"):
        value = getattr(job, key)
        if value is not None:
            table[key] = value
    if job.env:
        table["env"] = dict(job.env)
    return table


@lru_cache(maxsize=256)  # Most schedules have the policies of others.
def _policies(policies: Policies) -> Table:
    return {
        key: _policy(key, name, getattr(policies, name))
        for key, (name, _) in POLICIES.items()
        if getattr(policies, name) != getattr(_DEFAULTS, name)
    }


def _policy(key: str, name: str, value: Any) -> object:
    if value is None:
        return "none"
    if key == "ok_codes":
        return list(value)
    if key == "priority":
        return _PRIORITY_NAMES.get(int(value), int(value))
    if key == "retry_factor":
        return int(value) if value == int(value) else float(value)
    if name.endswith("_s"):
        return format_duration_ms(round(value * 1000))
    return value if isinstance(value, int) else str(value)


def _scopes(spec: ScheduleSpec) -> list[str]:
    return [kind if (kind, id_) == GLOBAL_SCOPE else f"{kind}:{id_}" for kind, id_ in spec.scopes]
