"""The variables in force at a line of a crontab, and what each of them means to cron."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from edgecron.base.errors import InvalidInput
from edgecron.base.values import dataclass, field
from edgecron.formats.crontab_fields import Fault
from edgecron.formats.crontab_lines import Assignment

# Takes a trigger text, its zone and its schedule's name, and gives warnings; raises InvalidInput
# where they are unusable.
Validate = Callable[[str, str | None, str], Sequence[str]]

LOCAL = "local"
DEFAULT_SHELL = "/bin/sh"
DEFAULT_PATH = "/usr/bin:/bin"
RANDOM_DELAY_MOST = 1440  # minutes

_MAIL = frozenset({"MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"})


@dataclass(slots=True, kw_only=True)
class Settings:
    """What the assignments so far have set; it holds for the lines that follow."""

    env: dict[str, str] = field(default_factory=dict)
    timezone: str = LOCAL
    jitter_s: float = 0.0

    @property
    def shell(self) -> str:
        return self.env.get("SHELL", DEFAULT_SHELL)

    def job_env(self) -> dict[str, str]:
        """A copy for one job, with what cron itself sets where the crontab does not."""
        return {"SHELL": DEFAULT_SHELL, "PATH": DEFAULT_PATH, **self.env}


def apply_assignment(
    settings: Settings, assignment: Assignment, *, validate: Validate
) -> Fault | str | None:
    """Set what the assignment sets. A Fault: it can't be; a text: a warning; None: all is well."""
    name, value = assignment.name, assignment.value
    match name:
        case "CRON_TZ":
            return _set_timezone(settings, value, validate=validate)
        case "RANDOM_DELAY":
            return _set_jitter(settings, value)
        case "SHELL" | "HOME" if not value.strip():
            return Fault(message=f"{name} is empty, and cron could start nothing")
        case "MLS_LEVEL":
            return Fault(
                message="MLS_LEVEL sets a security context, which is not carried over",
                hint="leave the line out if these jobs may run in the engine's own context",
            )
        case "LOGNAME":
            return "LOGNAME is not carried over: cron always sets it to the user itself"
        case "START_HOURS_RANGE":
            return "START_HOURS_RANGE is not carried over: only anacron knows it, cron does not"
        case _ if name in _MAIL:
            # MAILTO="" asks for no mail, and none will come.
            if name == "MAILTO" and not value:
                return None
            return f"{name} is not carried over: no mail is sent, output is kept in the history"
    settings.env[name] = value
    return None


def _set_timezone(settings: Settings, zone: str, *, validate: Validate) -> Fault | str | None:
    if not zone:
        settings.timezone = LOCAL
        return None
    try:
        if zone == LOCAL:
            raise InvalidInput("timezone 'local' is unknown", hint="write an IANA name")
        validate("0 0 * * *", zone, "CRON_TZ")
    except InvalidInput as error:
        return Fault(message=f"CRON_TZ: {error.message}", hint=error.hint)
    settings.timezone = zone
    return "CRON_TZ is taken as cronie takes it; Debian's cron would ignore it and use local time"


def _set_jitter(settings: Settings, minutes: str) -> Fault | None:
    if re.fullmatch(r"[0-9]{1,9}", minutes, re.ASCII) is None or int(minutes) > RANDOM_DELAY_MOST:
        return Fault(
            message=f"RANDOM_DELAY is {minutes[:60]!a}, expected minutes from 0 to"
            f" {RANDOM_DELAY_MOST}"
        )
    settings.jitter_s = int(minutes) * 60.0
    return None
