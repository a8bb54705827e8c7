"""Schedules of other programs on a machine, as values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from edgecron.base.values import dataclass, field
from edgecron.formats.crontab_lines import LOCAL
from edgecron.model.schedule import ScheduleSpec

# A script whose name has a dot is not run by run-parts.
MOVED_SUFFIX = ".moved-to-edgecron"
OWN_CRONTAB = "crontab of "  # begins the source of a user's own lines; the name follows


class Origin(StrEnum):
    """The program that runs a job."""

    CRON = "cron"
    ANACRON = "anacron"
    FOLDER = "run-parts"
    TIMER = "systemd"
    USER_TIMER = "systemd --user"
    LAUNCHD = "launchd"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineJob:
    """A schedule of another program.

    `source` is a file, the crontab of a user, or a unit. `line` and `raw` are those of a crontab.
    `spec` is the schedule that edgecron would have; None with the `reason` why it can't have it.
    Of a timer, `raw` has the links that enable it, by JSON, and `service` names what it
    starts.
    `mail_rules` has the addresses of MAILTO by the rule for notices that `spec` names.
    `is_caught_up`: whether its program runs it later if the machine slept; None if this does not
    apply. `notes` are facts for people. `become`: the words before the command of the user who can
    adopt it; None if no other user can.
    """

    name: str
    origin: Origin
    source: str
    command: str
    triggers: tuple[str, ...] = ()
    timezone: str = LOCAL
    line: int | None = None
    raw: str | None = None
    spec: ScheduleSpec | None = None
    reason: str | None = None
    become: str | None = None
    notes: tuple[str, ...] = ()
    service: str | None = None
    mail_rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_enabled: bool = True
    is_caught_up: bool | None = False
    is_spread: bool = False  # its program adds a random delay
    is_moved: bool = False  # edgecron has it now


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """All jobs that were found, those that edgecron has now, and what could not be read."""

    jobs: tuple[MachineJob, ...]
    moved: tuple[MachineJob, ...]
    unread: tuple[str, ...]
