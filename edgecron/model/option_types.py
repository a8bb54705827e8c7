"""Types, groups, help and places of schedule options, for the table of options."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

from edgecron.base.values import NamedTuple


class OptionType(StrEnum):
    """The type of an option's values. It decides how each interface reads and writes them."""

    TRIGGERS = "triggers"  # texts of a kind of trigger
    COMMAND = "command"  # an argv
    TEXT = "text"
    LINES = "lines"  # text of several lines
    PATH = "path"
    USER = "user"
    JSON = "json"  # the text of a JSON value
    VARIABLES = "variables"  # environment variables
    TIME = "time"
    ZONE = "zone"
    DURATION = "duration"  # kept in seconds
    COUNT = "count"  # a whole number from `least` to `most`
    FACTOR = "factor"  # a number from `least` to `most`
    PRIORITY = "priority"  # a whole number, or a name
    CODES = "codes"  # exit codes
    RULES = "rules"  # names of rules for notices
    CHOICE = "choice"  # one of `choices`
    CONDITIONS = "conditions"
    WINDOWS = "windows"  # times of day and weekdays
    DAYS = "days"  # dates
    GROUP = "group"  # a name, and the limit of that group
    SCOPES = "scopes"
    SWITCH = "switch"


LISTS = (OptionType.CONDITIONS, OptionType.WINDOWS, OptionType.DAYS)  # of texts


class Group(StrEnum):
    """The tasks by which help and the dashboard's form group options. The value is the heading."""

    WHEN = "when (you can give several: the earliest comes first)"
    JOB = "what to run"
    MISSED = "missed times and overlapping runs"
    END = "the end of a run, and retries"
    WAIT = "waiting and order"
    MORE = "more"


class Part(StrEnum):
    """The value that has the field of an option."""

    SPEC = "spec"
    JOB = "job"
    POLICIES = "policies"


class Specified(Protocol):
    """A value that has options: a specification."""

    @property
    def job(self) -> object: ...

    @property
    def policies(self) -> object: ...


class Option(NamedTuple):
    """A schedule option.

    `name` is its key in TOML and HTTP, and with dashes its command line option, unless `flag` is
    another one; '' is none. `field` is where its value is, None for a part of the triggers or of
    the command. `help` is a verb phrase; `default` says what applies if the option is not given,
    '' for nothing. `example` is a value as TOML. `least` and `most` bound numbers;
    a duration can be 0 if `least` is 0.
    """

    name: str
    type: OptionType
    group: Group
    help: str
    part: Part = Part.SPEC
    field: str | None = None
    default: str = ""
    metavar: str = ""
    example: str = ""
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 1_000_000
    column: str = ""
    flag: str | None = None
    is_repeatable: bool = False
    is_clearable: bool = False  # None is a value: no limit
    is_advanced: bool = False  # rare: shown by `help add --all`
    has_default: bool = False  # [defaults] of the configuration can set it
    label: str = ""  # in the dashboard's form
    default_value: Any = None  # of a policy that is not given

    @property
    def option(self) -> str:
        """How the command line names it, such as `--output-cap`; '' if it does not."""
        flag = self.name if self.flag is None else self.flag
        return f"--{flag.replace('_', '-')}" if flag else ""

    @property
    def words(self) -> str:
        """The option's help, with its default last."""
        return f"{self.help} (default: {self.default})" if self.default else self.help

    def value_of(self, spec: Specified) -> Any:
        """The value that a schedule has."""
        holder: object = spec
        if self.part is Part.POLICIES:
            holder = spec.policies
        elif self.part is Part.JOB:
            holder = spec.job
        return getattr(holder, self.field or "")
