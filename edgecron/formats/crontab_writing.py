"""Write schedules as a crontab; a comment says why a schedule has no line.

Each line is read back first: if cron would read another meaning, the line is not written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from shlex import join, quote

from edgecron.base.errors import InvalidInput
from edgecron.formats.crontab import read_command
from edgecron.formats.crontab_lines import (
    DEBIAN_COMMAND_MOST,
    DEFAULT_PATH,
    DEFAULT_SHELL,
    LOCAL,
    OWN_PREFIX,
)
from edgecron.model.choices import GLOBAL_SCOPE, JobKind, Overlap
from edgecron.model.job import Job
from edgecron.model.options import JOB_OPTIONS, Policies
from edgecron.model.schedule import Definition, Schedule, ScheduleSpec
from edgecron.triggers.gate import gate

_BOOT = "on boot"
_MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_NUMBERS = r"(?:\*|\d+|\d+-\d+)(?:/\d+)?"
_NAMES = r"[A-Za-z]{3}"
# Neither L, W, # and H, nor what cron programs take differently: a step from one number, and
# ranges of names.
_FIELD = re.compile(rf"(?:{_NUMBERS}|{_NAMES})(?:,(?:{_NUMBERS}|{_NAMES}))*", re.ASCII)
_LONE_STEP = re.compile(r"(?:^|,)\d+/")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DEFAULTS = Policies()
_CRON_ENV = {"SHELL": DEFAULT_SHELL, "PATH": DEFAULT_PATH}
_HEAD = """\
# Written by edgecron export --crontab. Unlike edgecron, cron does not catch up missed times, and
# starts a run while the one before is still active. If PATH is not set, it is /usr/bin:/bin.
"""
# Policies that cron does not have: the field, and its name for people.
_LOST = {
    "timeout_s": "timeout",
    "stall_timeout_s": "stall_timeout",
    "stall_action": "stall_action",
    "retries": "retries",
    "max_running": "max_running",
    "jitter_s": "jitter",
    "on_interrupt": "on_interrupt",
    "ok_codes": "ok_codes",
    "priority": "priority",
    "notify": "notify",
}

_SAYABLE = ("env", "cwd", "user", "stdin", "payload")  # the payload with a comment
_UNSAYABLE_OPTIONS = tuple(option for option in JOB_OPTIONS if option.name not in _SAYABLE)


class _Unsayable(Exception):
    """The reason why a schedule has no line."""


def write_crontab(schedules: Iterable[Schedule | Definition], *, owner: str) -> str:
    """Write the crontab of a user, `owner`, with a paragraph for each schedule."""
    return "\n".join([_HEAD, *(_paragraph(schedule, owner) for schedule in schedules)])


def _paragraph(schedule: Schedule | Definition, owner: str) -> str:
    spec = schedule.spec
    lines = [f"{OWN_PREFIX}{spec.name}"]
    if spec.description is not None:
        # A line without a letter would end the description for who imports it.
        described = [_printable(line) for line in spec.description.split("\n")]
        lines += [f"# {line}" for line in described if any(map(str.isalnum, line))]
    try:
        found = _lines(spec, owner)
        if not schedule.enabled:
            raise _Unsayable("it is paused")
    except _Unsayable as why:
        return "\n".join([*lines, f"{OWN_PREFIX}not exported: {_printable(str(why))}", ""])
    lost = _lost(spec)
    if lost:
        lines.append(f"{OWN_PREFIX}cron ignores its {', '.join(lost)}")
    return "\n".join([*lines, *found, ""])


def _printable(text: str) -> str:
    words = text
    if not text.isprintable():
        words = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(words.split())


def _lines(spec: ScheduleSpec, owner: str) -> list[str]:
    """Write the lines of a schedule, one for each trigger. Raises _Unsayable."""
    _need_sayable(spec, owner)
    command = _command(spec.job)
    rest = _escaped(command, spec.job)
    lines = [f"{_timing(spec, text)} {rest}" for text in spec.triggers]
    for line in lines:
        _check(line, spec, command=command)
    return lines


def _need_sayable(spec: ScheduleSpec, owner: str) -> None:
    job = spec.job
    if job.kind is JobKind.CALLABLE:
        raise _Unsayable("cron can't run a function of a program")
    if job.user not in (None, owner):
        raise _Unsayable(f"it runs as user {job.user}")
    unknown = [one.name for one in _UNSAYABLE_OPTIONS if one.value_of(spec) is not None]
    if unknown:
        raise _Unsayable(f"cron does not support {', '.join(unknown)}")
    if (spec.from_at, spec.until_at, spec.max_runs) != (None, None, None):
        raise _Unsayable("cron does not support from, until and max_runs")
    if spec.policies.between or spec.policies.not_between or spec.policies.except_days:
        raise _Unsayable("cron does not support between, not_between and except")
    if spec.policies.needs:
        raise _Unsayable("cron does not support needs")
    if spec.scopes != (GLOBAL_SCOPE,):
        raise _Unsayable("cron does not support scopes")
    names = [name for name in job.env if _VARIABLE.fullmatch(name) is None]
    if names:
        raise _Unsayable(f"cron can't set {', '.join(names)}")


def _timing(spec: ScheduleSpec, text: str) -> str:
    """Write the time fields. Raises _Unsayable."""
    if text == _BOOT:
        return "@reboot"
    kind = text.partition(" ")[0]
    if kind in ("every", "at", "once", "after", "on"):
        raise _Unsayable(f"{text!r} is not a time that cron knows")
    if spec.timezone != LOCAL:
        zone = "UTC" if spec.timezone is None else spec.timezone
        raise _Unsayable(f"its time zone is {zone}, but cron uses local time")
    if text.lower() in _MACROS:
        return text.lower()
    fields = text.split()
    if len(fields) == 6 and fields[0] == "0":
        del fields[0]
    if len(fields) != 5 or not all(_is_plain(*each) for each in enumerate(fields)):
        raise _Unsayable(f"not every cron understands {text!r}")
    return " ".join(fields)


@lru_cache(maxsize=512)  # Ten thousand times have few different fields.
def _is_plain(place: int, field: str) -> bool:
    """Whether every cron reads a field of the five alike. Raises _Unsayable if none reads it."""
    if _FIELD.fullmatch(field) is None or _LONE_STEP.search(field) is not None:
        return False
    fields = ["*"] * 5
    fields[place] = field
    try:
        gate(" ".join(fields))
    except InvalidInput as error:
        raise _Unsayable(error.message) from None
    return True


def _command(job: Job) -> str:
    """Write the command for cron's shell. Raises _Unsayable."""
    line = job.argv[0] if job.kind is JobKind.SHELL else join(job.argv)
    env = {name: text for name, text in job.env.items() if _CRON_ENV.get(name) != text}
    start = _exports(env)
    if job.cwd is not None:
        start += f"cd {_path(job.cwd)} || exit; "
    command = start + line.lstrip().rstrip("\n")
    if "\n" in command or "\r" in command:
        raise _Unsayable("its command has several lines, and cron allows one")
    return command


def _exports(env: Mapping[str, str]) -> str:
    pairs = " ".join(f"{name}={quote(text)}" for name, text in env.items())
    return f"export {pairs}; " if pairs else ""


def _path(path: str) -> str:
    return f"~/{quote(path[2:])}" if path.startswith("~/") and path[2:] else quote(path)


def _escaped(command: str, job: Job) -> str:
    """Write a command and its stdin as cron reads them, separated by %."""
    line = command.replace("%", "\\%")
    if job.stdin:
        line += "%" + job.stdin.removesuffix("\n").replace("%", "\\%").replace("\n", "%")
    return line


def _check(line: str, spec: ScheduleSpec, *, command: str) -> None:
    """Raise _Unsayable unless reading the line gives the same command and input."""
    if len(line) > DEBIAN_COMMAND_MOST:
        raise _Unsayable(f"its line would have {len(line)} characters, too many for cron")
    try:
        found, stdin = read_command(line)
    except InvalidInput as error:
        raise _Unsayable(error.message) from None
    if found != command or (stdin or "") != (spec.job.stdin or ""):
        raise _Unsayable("cron would read its command or its stdin differently")


def _lost(spec: ScheduleSpec) -> list[str]:
    policies = spec.policies
    found = [
        key for name, key in _LOST.items() if getattr(policies, name) != getattr(_DEFAULTS, name)
    ]
    if policies.overlap not in (Overlap.SKIP, Overlap.ALLOW):
        found.append("overlap")
    if spec.group is not None:
        found.append("group")
    if spec.job.payload is not None:
        found.append("payload")
    return found
