"""The one table of schedule options.

Command line, TOML documents, configuration defaults, the dashboard's form, JSON, HTTP schemas,
columns, `show` and the reference page are made from it. To add an option, give `Policies` a field
(or `Job` in `model/job.py`), add an entry here, and add the column by a migration (`SCRIPTS` in
`store/sqlite/migrate.py`).
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Protocol

from edgecron.base.checks import check_range
from edgecron.base.errors import InvalidInput
from edgecron.base.units import MAX_DURATION_MS
from edgecron.base.values import NamedTuple, dataclass
from edgecron.base.window_texts import check_windows
from edgecron.model.choices import (
    COMMAND_QUEUE,
    GLOBAL_SCOPE,
    CatchUp,
    Durability,
    OnInterrupt,
    Overlap,
    Priority,
    StallAction,
    WhileLost,
)
from edgecron.model.engine import ANYWHERE, check_placement


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
    is_clearable: bool = False  # can be set to None, which means no limit
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


NONE = "none"  # clears an option
NO_NOTICES = "off"  # in place of the names of rules
RULE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
MOST_PRIORITY = 1000
_MOST_S = MAX_DURATION_MS // 1000
_MOST = 1_000_000  # of any count


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """How a schedule behaves beyond its times. Seconds can be fractions; None means no limit."""

    catch_up: CatchUp = CatchUp.ONCE
    max_late_s: float | None = None  # None: 24 h or one interval, whichever is longer
    overlap: Overlap = Overlap.SKIP
    max_running: int | None = None  # None: 1 per schedule and scope, unlimited under allow
    timeout_s: float | None = None
    stall_timeout_s: float | None = None  # without output
    stall_action: StallAction = StallAction.NOTICE
    kill_grace_s: float = 10.0
    retries: int = 0
    retry_delay_s: float = 10.0
    retry_factor: float = 2.0
    retry_max_delay_s: float = 3600.0
    on_interrupt: OnInterrupt = OnInterrupt.LEAVE
    ok_codes: tuple[int, ...] = (0,)
    priority: int = Priority.NORMAL
    jitter_s: float = 0.0
    needs: tuple[str, ...] = ()  # texts of conditions, all of which must hold
    needs_deadline_s: float = 86_400.0  # how long after due a run waits for them
    while_needs: tuple[str, ...] = ()  # conditions of the machine that must hold during a run
    while_lost: WhileLost = WhileLost.END
    notify: tuple[str, ...] = ()  # names of rules for notices, beside those that match; or "off"
    keep_awake: bool = False
    wake: bool = False
    durability: Durability = Durability.FULL
    between: tuple[str, ...] = ()  # windows; runs start only in one of them, if there are any
    not_between: tuple[str, ...] = ()  # windows in which no run starts
    except_days: tuple[str, ...] = ()  # days on which no run starts
    on: str = ANYWHERE  # the machine that runs it, or label:SITE

    def __post_init__(self) -> None:
        check_range("max-late", self.max_late_s, 0, _MOST_S)
        check_range("max-running", self.max_running, 1, _MOST)
        check_range("timeout", self.timeout_s, 0.001, _MOST_S)
        check_range("stall-timeout", self.stall_timeout_s, 0.001, _MOST_S)
        check_range("kill-grace", self.kill_grace_s, 0, _MOST_S)
        check_range("retries", self.retries, 0, _MOST)
        check_range("retry-delay", self.retry_delay_s, 0, _MOST_S)
        check_range("retry-factor", self.retry_factor, 1, _MOST)
        check_range("retry-max-delay", self.retry_max_delay_s, 0, _MOST_S)
        check_range("priority", self.priority, -_MOST, _MOST)
        check_range("jitter", self.jitter_s, 0, _MOST_S)
        check_range("needs-deadline", self.needs_deadline_s, 0, _MOST_S)
        if not self.ok_codes or not all(0 <= code <= 255 for code in self.ok_codes):
            raise InvalidInput(f"ok-codes are {self.ok_codes}, expected codes from 0 to 255")
        if self.notify:
            _check_rule_names(self.notify)
        if self.on != ANYWHERE:
            check_placement(self.on, what="on")
        if self.between or self.not_between or self.except_days:
            check_windows(self.between, self.not_between, self.except_days)


def _check_rule_names(names: tuple[str, ...]) -> None:
    for name in names:
        if RULE_NAME.fullmatch(name) is None:
            raise InvalidInput(
                f"notify is {name[:70]!r}, expected names of rules", hint="for example: mail,chat"
            )


_POLICIES = Policies()
_T = OptionType
_G = Group


def _trigger(name: str, help: str, *, metavar: str, example: str) -> Option:
    return Option(
        name, _T.TRIGGERS, _G.WHEN, help, metavar=metavar, example=example, is_repeatable=True
    )


def _job(name: str, type: OptionType, help: str, **more: Any) -> Option:
    return Option(name, type, _G.JOB, help, part=Part.JOB, field=name, column=name, **more)


def _spec(
    name: str, type: OptionType, group: Group, help: str, *, field: str = "", **more: Any
) -> Option:
    return Option(name, type, group, help, part=Part.SPEC, field=field or name, **more)


def _policy(
    name: str, type: OptionType, group: Group, help: str, *, field: str = "", **more: Any
) -> Option:
    field = field or (f"{name}_s" if type is _T.DURATION else name)
    return Option(
        name, type, group, help, part=Part.POLICIES, default_value=getattr(_POLICIES, field),
        **{"field": field, "column": field, "has_default": True, **more},
    )  # fmt: skip


# In the order in which a document has them.
OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        _spec("description", _T.LINES, _G.MORE, "describe the schedule, for people", metavar="TEXT",
              example='"nightly backup"', column="description"),
        _trigger("cron",
                 "run at the times of a cron text: 5 fields, 6 with seconds first, or @daily",
                 metavar="TEXT", example='"30 2 * * *"'),
        _trigger("every", "run at an interval: 15m, '15m from TIME', '1h after end'",
                 metavar="DURATION", example='"15m"'),
        _trigger("at", "run once at this time, such as 'tomorrow 09:00'",
                 metavar="TIME", example='"2030-12-24T18:00:00Z"'),
        _trigger("once", "run once in each window, as soon as conditions are true",
                 metavar="'in WINDOW [when CONDITION...]'",
                 example='"in 21:00-05:00 when ac-power"'),
        Option("allow_fast", _T.SWITCH, _G.WHEN,
               "allow intervals under a second", example="true", is_advanced=True),
        Option("on_boot", _T.SWITCH, _G.WHEN, "run once after each boot of the machine",
               example="true"),
        Option("on_demand", _T.SWITCH, _G.WHEN, "run only when asked: it has no times",
               example="true"),
        _trigger("after", "run when another schedule's run has ended (default: success)",
                 metavar="NAME[:success|failure|any]", example='"other:success"'),
        _spec("timezone", _T.ZONE, _G.WHEN,
              "read cron texts and times in this zone", default="local",
              metavar="ZONE|local", example='"Europe/Berlin"', column="timezone", flag="tz",
              label="zone", has_default=True),
        _spec("from", _T.TIME, _G.WHEN, "do not run before this time", field="from_at",
              metavar="TIME", example='"2030-01-01T00:00:00Z"', column="from_at"),
        _spec("until", _T.TIME, _G.WHEN, "do not run after this time", field="until_at",
              metavar="TIME", example='"2031-01-01T00:00:00Z"', column="until_at"),
        _spec("max_runs", _T.COUNT, _G.WHEN, "stop after N planned runs", metavar="N",
              example="10", least=1, is_clearable=True, column="max_runs"),
        _policy("jitter", _T.DURATION, _G.WHEN,
                "delay each start by a stable amount, at most this much",
                default="0s", metavar="DURATION", example='"5m"'),
        _policy("between", _T.WINDOWS, _G.WHEN,
                "run only in this window: 21:00-05:00, MON-FRI, '21:00-05:00 MON-FRI'",
                metavar="WINDOW", example='["21:00-05:00"]', column="between_times",
                is_repeatable=True),
        _policy("not_between", _T.WINDOWS, _G.WHEN, "do not run in this window",
                metavar="WINDOW", example='["09:00-17:00 MON-FRI"]', column="not_between_times",
                is_repeatable=True),
        _policy("except", _T.DAYS, _G.WHEN,
                "do not run on these days: 2026-12-24, holidays:DE-BY, FILE.ics",
                metavar="DAYS", example='["2026-12-24..2027-01-02"]', field="except_days",
                column="except_days", is_repeatable=True),
        Option("command", _T.COMMAND, _G.JOB, "start this command, without a shell", flag="",
               example='["/usr/bin/rsync", "-a"]'),
        Option("shell", _T.TEXT, _G.JOB, "run this line by /bin/sh, instead of a command",
               metavar="LINE", example='"date | logger"'),
        Option("callable", _T.TEXT, _G.JOB, "call this function of a Python program", flag="",
               example='"report"'),
        _job("env", _T.VARIABLES, "set an environment variable of the job", metavar="KEY=VALUE",
             example='{ LANG = "C" }', is_repeatable=True),
        _job("env_file", _T.PATH, "read KEY=VALUE lines from this file at each run",
             metavar="PATH", example='"/etc/backup.env"', has_default=True),
        _job("cwd", _T.PATH, "run in this folder", default="HOME", metavar="PATH",
             example='"/srv"', label="folder", has_default=True),
        _job("user", _T.USER, "run as another user (root only)", metavar="NAME",
             example='"backup"'),
        _job("nice", _T.COUNT, "set the niceness, -20 to 19; below the engine's own only as root",
             default="the engine's own", metavar="N", example="10", least=-20, most=19,
             is_clearable=True, has_default=True, is_advanced=True),
        _job("ionice", _T.TEXT, "set the disk priority; best-effort from 0 (first) to 7",
             default="the engine's own", metavar="idle|best-effort[:N]", example='"idle"',
             is_clearable=True, has_default=True, is_advanced=True),
        _job("memory_max", _T.TEXT, "limit the memory of a run: see `edgecron help jobs`",
             default="none", metavar="SIZE", example='"512MiB"', is_clearable=True,
             has_default=True, is_advanced=True),
        _job("cpu_max", _T.TEXT, "limit a run to a share of the processors, such as 50% or 1.5",
             default="none", metavar="N%|N", example='"50%"', is_clearable=True,
             has_default=True, is_advanced=True),
        _job("stdin", _T.LINES, "give this text to the command on stdin", metavar="TEXT",
             example='"yes"', is_advanced=True),
        _job("payload", _T.JSON, "give this JSON value to the job, as EDGECRON_PAYLOAD",
             metavar="JSON", example="'{\"size\": 3}'"),
        _policy("catch_up", _T.CHOICE, _G.MISSED,
                "choose which missed times to run: the latest, none or all",
                default="once", choices=tuple(CatchUp), example='"skip"'),
        _policy("max_late", _T.DURATION, _G.MISSED,
                "run a missed time if it is at most this late",
                default="24h or one interval, whichever is longer", metavar="DURATION",
                example='"6h"', is_clearable=True),
        _policy("overlap", _T.CHOICE, _G.MISSED,
                "choose what happens if an earlier run is active: queue lets one wait,"
                " replace ends the earlier one", default="skip", choices=tuple(Overlap),
                example='"queue"'),
        _policy("max_running", _T.COUNT, _G.MISSED, "run at most N at the same time",
                default="1; unlimited with overlap allow", metavar="N", example="2", least=1,
                is_clearable=True),
        _policy("timeout", _T.DURATION, _G.END, "end a run after this time", default="none",
                metavar="DURATION", example='"1h"', least=1, is_clearable=True),
        _policy("stall_timeout", _T.DURATION, _G.END,
                "report a run that prints nothing for this time", default="none",
                metavar="DURATION", example='"10m"', least=1, is_clearable=True),
        _policy("stall_action", _T.CHOICE, _G.END,
                "choose what happens after --stall-timeout: only report the run, or also end it",
                default="notice", choices=tuple(StallAction), example='"end"', is_advanced=True),
        _policy("kill_grace", _T.DURATION, _G.END,
                "wait this long between TERM and KILL", default="10s",
                metavar="DURATION", example='"30s"', is_advanced=True),
        _policy("retries", _T.COUNT, _G.END, "repeat a failed run up to N times", default="0",
                metavar="N", example="3"),
        _policy("retry_delay", _T.DURATION, _G.END, "wait this long before the first retry",
                default="10s", metavar="DURATION", example='"1m"'),
        _policy("retry_factor", _T.FACTOR, _G.END, "multiply the wait after each retry",
                default="2", metavar="X", example="3", least=1, most=100, is_advanced=True),
        _policy("retry_max_delay", _T.DURATION, _G.END, "wait at most this long before a retry",
                default="1h", metavar="DURATION", example='"2h"', is_advanced=True),
        _policy("on_interrupt", _T.CHOICE, _G.END,
                "choose what happens if the end of a run is unknown, as after a power cut",
                default="leave", choices=tuple(OnInterrupt), example='"retry"', is_advanced=True),
        _policy("ok_codes", _T.CODES, _G.END, "treat these exit codes as a success", default="0",
                metavar="0,2", example="[0, 2]"),
        _policy("notify", _T.RULES, _G.END,
                "also send notices by these rules; off sends none",
                default="the rules that match", metavar="RULE[,RULE]|off", example='["mail"]'),
        _policy("priority", _T.PRIORITY, _G.WAIT,
                "start queued runs of higher priority first", default="normal",
                metavar="low|normal|high|N", example='"high"', most=MOST_PRIORITY),
        _spec("group", _T.GROUP, _G.WAIT,
              "put the schedule in a group, which runs at most N jobs at once",
              metavar="NAME[:N]", example='"disk:2"', column="group_name"),
        _policy("needs", _T.CONDITIONS, _G.WAIT,
                "wait until CONDITION is true: success:NAME, online, ac-power, ...",
                metavar="CONDITION", example='["success:other:8h"]',
                is_repeatable=True),
        _policy("needs_deadline", _T.DURATION, _G.WAIT,
                "skip the run if it still waits this long after its due time",
                default="24h", metavar="DURATION", example='"2h"', is_advanced=True),
        _policy("while", _T.CONDITIONS, _G.WAIT,
                "end or suspend a run if CONDITION is no longer true",
                metavar="CONDITION", example='["ac-power"]', field="while_needs",
                is_repeatable=True),
        _policy("while_lost", _T.CHOICE, _G.WAIT,
                "choose what happens to a run that loses its --while condition",
                default="end", choices=tuple(WhileLost), example='"suspend"'),
        _policy("on", _T.TEXT, _G.WAIT,
                "run on each machine, on a named one, or on one with a label", default="any",
                metavar="any|each|NAME|label:SITE", example='"label:berlin"', column="placed_on",
                has_default=False),
        _policy("keep_awake", _T.SWITCH, _G.MORE,
                "keep the machine from sleeping while a run is active",
                default="false", example="true", has_default=False, is_advanced=True),
        _policy("wake", _T.SWITCH, _G.MORE,
                "wake the sleeping machine for the next run, by its real-time clock",
                default="false", example="true", has_default=False, is_advanced=True),
        _policy("durability", _T.CHOICE, _G.MORE,
                "choose what a power cut can cost, and how much is written: see"
                " `edgecron help flash`",
                default="full", choices=tuple(Durability), example='"normal"', is_advanced=True),
        _spec("scope", _T.SCOPES, _G.MORE, "run once for each scope", field="scopes",
              metavar="KIND:ID", example='["device:pump-3"]', label="scopes",
              is_repeatable=True, is_advanced=True),
        _spec("queue", _T.TEXT, _G.MORE, "name the program that runs a callable", flag="",
              example='"py:app"', column="queue"),
        Option("enabled", _T.SWITCH, _G.MORE,
               "false pauses the schedule; unchanged if not given", flag="", example="false"),
    )
}  # fmt: skip
# Fields of JSON that peers of the release before write, and their names now.
FORMER_FIELDS = {"grace_s": "max_late_s"}
REMOVED_FIELDS = frozenset({"notes"})  # Peers of the release before write them; nothing reads them.
POLICIES = tuple(option for option in OPTIONS.values() if option.part is Part.POLICIES)
JOB_OPTIONS = tuple(option for option in OPTIONS.values() if option.part is Part.JOB)
DEFAULTABLE = tuple(option for option in OPTIONS.values() if option.has_default)
# What a document that does not name a key means, beside the policies.
OTHER_DEFAULTS: dict[str, object] = {
    "timezone": "local",
    "scope": [GLOBAL_SCOPE[0]],
    "queue": COMMAND_QUEUE,
    "enabled": True,
    "allow_fast": False,
}
