"""Split a crontab into lines, and a line into its time and its command.

A line is blank, a comment, an assignment or an entry. As in cron, only LF ends a line; one CR
before it is removed. Assignments follow Debian's cron and cronie: quotes only around the whole
value, no expansion.

The trigger gate accepts more time fields than cron (`L`, `5#2`, `H`). It also reads a few texts
otherwise: Debian's cron takes `1#2` for `1`, `*5` for `*` and `fri-sun` for never. This module
refuses a field outside the plain grammar that every cron reads alike. The gate checks values and
ranges.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from edgecron.base.errors import InvalidInput
from edgecron.base.values import NamedTuple, dataclass, field
from edgecron.model.options import NO_NOTICES
from edgecron.model.schedule import ScheduleSpec

BOM = b"\xef\xbb\xbf"
# The longest command that Debian's cron takes.
DEBIAN_COMMAND_MOST = 998
# Linux passes no single argument of 128 KiB or more to a program, a NUL included.
LINE_MOST_BYTES = 131_071
MOVED_PREFIX = "# moved to edgecron: "
# Of comments that `export --crontab` writes and that are not part of a description.
OWN_PREFIX = "# edgecron: "

_ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._%+-]*(?:@[A-Za-z0-9.-]+)?", re.ASCII)
_ASSIGNMENT = re.compile(
    r"""(?:"(?P<double>[^"=]*)"|'(?P<single>[^'=]*)'|(?P<plain>(?!["'])[^\s=]*))"""
    r"""\s*=\s*(?P<value>.*)""",
    re.ASCII | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A numbered line (from 1) without its line end.

    `text` is None if it is not UTF-8, and `raw` shows such bytes as `\\xNN`. `is_ended` is
    False for a last line that no newline follows.
    """

    number: int
    raw: str
    text: str | None
    byte_count: int
    is_ended: bool
    has_cr: bool

    @property
    def is_comment(self) -> bool:
        return self.raw.lstrip(" \t").startswith("#")

    @property
    def is_blank(self) -> bool:
        return not self.raw.strip(" \t")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """`NAME = value` without quotes."""

    name: str
    value: str


def split_lines(content: bytes) -> list[Line]:
    """Split a crontab into lines, without a byte order mark at its start."""
    pieces = content.removeprefix(BOM).split(b"\n")
    last = pieces.pop()
    lines = [_read_line(number, piece, True) for number, piece in enumerate(pieces, 1)]
    if last:
        lines.append(_read_line(len(lines) + 1, last, False))
    return lines


def _read_line(number: int, piece: bytes, is_ended: bool) -> Line:
    body = piece.removesuffix(b"\r")
    raw = body.decode("utf-8", "backslashreplace")
    try:
        text: str | None = body.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    return Line(
        number=number,
        raw=raw,
        text=text,
        byte_count=len(body),
        is_ended=is_ended,
        has_cr=len(body) != len(piece),
    )


def read_assignment(text: str) -> Assignment | None:
    """Read the assignment that a line without leading blanks is; None if it is none.

    Raises InvalidInput if it is meant as one and cron would not read it so.
    """
    match = _ASSIGNMENT.fullmatch(text)
    if match is None:
        return None
    name = next(group for group in match.group("double", "single", "plain") if group is not None)
    value = match["value"]
    if not name:
        raise InvalidInput("the variable has no name", hint="write NAME = value")
    if not value:
        raise InvalidInput(
            f"variable {name[:60]!a} has no value, which cron refuses",
            hint='write NAME="" for an empty value',
        )
    quote = value[0]
    if quote not in "\"'":
        return Assignment(name=name, value=value.rstrip(" \t\n\v\f\r"))
    inner, closing, after = value[1:].partition(quote)
    if not closing or after.strip(" \t\n\v\f\r"):
        raise InvalidInput(
            f"the quotes of variable {name[:60]!a} do not enclose its whole value",
            hint="put the whole value in one pair of quotes, or in none",
        )
    return Assignment(name=name, value=inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line that cron would run, as a schedule. `stem` is its name before any -2, -3."""

    line: int
    raw: str
    stem: str
    spec: ScheduleSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A line that can't become a schedule, or that differs from cron or is refused by cron."""

    line: int
    raw: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crontab:
    """A whole crontab, in file order. If it has problems, edgecron imports no line.

    `mail_rules` has the addresses of each MAILTO, by the rule for notices that its lines name.
    """

    mail_rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    problems: tuple[Notice, ...] = ()
    warnings: tuple[Notice, ...] = ()


# Takes a trigger text, its zone and its schedule's name, and gives warnings; raises InvalidInput
# if they are unusable.
Validate = Callable[[str, str | None, str], Sequence[str]]

LOCAL = "local"
DEFAULT_SHELL = "/bin/sh"
DEFAULT_PATH = "/usr/bin:/bin"
RANDOM_DELAY_MOST = 1440  # minutes

_MAIL = frozenset({"MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"})


@dataclass(slots=True, kw_only=True)
class Settings:
    """Values of the assignments so far, for the lines that follow."""

    env: dict[str, str] = field(default_factory=dict)
    timezone: str = LOCAL
    jitter_s: float = 0.0
    notify: tuple[str, ...] = ()
    mail_rules: dict[str, tuple[str, ...]] = field(default_factory=dict)  # addresses by rule

    @property
    def shell(self) -> str:
        return self.env.get("SHELL", DEFAULT_SHELL)

    def job_env(self) -> dict[str, str]:
        """Copy the variables for one job, with those that cron sets if the crontab does not."""
        return {"SHELL": DEFAULT_SHELL, "PATH": DEFAULT_PATH, **self.env}


def apply_assignment(
    settings: Settings, assignment: Assignment, *, validate: Validate
) -> str | None:
    """Set what the assignment sets; return a warning if there is one. Raises InvalidInput."""
    name, value = assignment.name, assignment.value
    match name:
        case "CRON_TZ":
            return _set_timezone(settings, value, validate=validate)
        case "RANDOM_DELAY":
            _set_jitter(settings, value)
            return None
        case "SHELL" | "HOME" if not value.strip():
            raise InvalidInput(f"{name} is empty: cron could not start the jobs")
        case "MLS_LEVEL":
            raise InvalidInput(
                "MLS_LEVEL sets a security context, which can't be imported",
                hint="remove the line if these jobs can run in the engine's own context",
            )
        case "LOGNAME":
            return "LOGNAME is not imported: cron always sets it to the user"
        case "START_HOURS_RANGE":
            return "START_HOURS_RANGE is not imported: only anacron uses it"
        case "MAILTO":
            return _set_mail(settings, value)
        case _ if name in _MAIL:
            return f"{name} is not imported: a rule for notices says how mail is sent"
    settings.env[name] = value
    return None


def _set_timezone(settings: Settings, zone: str, *, validate: Validate) -> str | None:
    if not zone:
        settings.timezone = LOCAL
        return None
    try:
        if zone == LOCAL:
            raise InvalidInput("timezone 'local' is unknown", hint="write an IANA name")
        validate("0 0 * * *", zone, "CRON_TZ")
    except InvalidInput as error:
        raise InvalidInput(f"CRON_TZ: {error.message}", hint=error.hint) from None
    settings.timezone = zone
    return (
        "CRON_TZ sets the time zone, as in cronie; Debian's cron would ignore it and use local time"
    )


def _set_mail(settings: Settings, value: str) -> str | None:
    """Let a rule for notices send mail to these addresses, or none if it is empty."""
    addresses = tuple(part for part in re.split(r"[,\s]+", value) if part)
    if not addresses:
        settings.notify = (NO_NOTICES,)
        return None
    wrong = [address for address in addresses if _ADDRESS.fullmatch(address) is None]
    if wrong:
        settings.notify = ()
        return f"MAILTO is not imported: {wrong[0][:60]!a} is not an address"
    rule = f"mailto-{re.sub(r'[^A-Za-z0-9._-]+', '-', '-'.join(addresses))}"[:64]
    settings.notify = (rule,)
    settings.mail_rules[rule] = addresses
    return None


def mail_rule_text(rule: str, addresses: Sequence[str]) -> str:
    """Write the table of the configuration that mails output to addresses, as cron does."""
    listed = ", ".join(
        f'"{address}"' if "@" in address else f'"{address}@localhost"' for address in addresses
    )
    return (
        f'[notify."{rule}"]\nemail = [{listed}]\nschedules = []\nevents = ["ended"]\n'
        "needs_output = true"
    )


def _set_jitter(settings: Settings, minutes: str) -> None:
    if re.fullmatch(r"[0-9]{1,9}", minutes, re.ASCII) is None or int(minutes) > RANDOM_DELAY_MOST:
        raise InvalidInput(
            f"RANDOM_DELAY is {minutes[:60]!a}, expected minutes from 0 to {RANDOM_DELAY_MOST}"
        )
    settings.jitter_s = int(minutes) * 60.0


_BLANKS = re.compile(r"[ \t]+")
# Forms that cron does not know, but the gate or other programs do.
_OURS = re.compile(r"[LWHR?]|[LHR]\W.*|L\d|\d+[LW]|.*#.*", re.IGNORECASE | re.ASCII | re.DOTALL)

# The trigger text of each macro of cron.
MACROS = {
    "@reboot": "on boot",
    "@yearly": "@yearly",
    "@annually": "@annually",
    "@monthly": "@monthly",
    "@weekly": "@weekly",
    "@daily": "@daily",
    "@midnight": "@midnight",
    "@hourly": "@hourly",
}

_MACRO_HINTS = {
    "@every_minute": "write * * * * *",
    "@every_second": "add it with: edgecron add NAME --every 1s",
    "@applenotonbattery": "write only the five time fields",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The time part of a line as a trigger text, and the unchanged rest."""

    trigger: str
    rest: str


_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Field(NamedTuple):
    name: str
    expected: str
    most: int
    element: re.Pattern[str]


def _field(name: str, expected: str, most: int, names: str = "") -> _Field:
    value = rf"(?:[0-9]{{1,9}}{names})"
    element = rf"(?:\*|(?P<first>{value})(?:-(?P<last>{value}))?)(?P<step>/[0-9]{{1,9}})?"
    return _Field(name, expected, most, re.compile(element, re.IGNORECASE | re.ASCII))


_FIELDS = (
    _field("minute", "0-59", 59),
    _field("hour", "0-23", 23),
    _field("day of month", "1-31", 31),
    _field("month", "1-12 or JAN-DEC", 12, "|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"),
    _field("day of week", "0-7 or SUN-SAT", 7, "|sun|mon|tue|wed|thu|fri|sat"),
)


def split_timing(text: str) -> Timing:
    """Split a line without leading blanks into its trigger and the rest. Raises InvalidInput."""
    if text.startswith("@"):
        return _split_macro(text)
    parts = _BLANKS.split(text, maxsplit=5)
    if len(parts) < 5:
        raise InvalidInput(
            f"{text[:60]!a} is neither a variable (NAME = value) nor five time fields",
            hint="write minute, hour, day of month, month, day of week and a command",
        )
    for place, part in enumerate(parts[:5]):
        _check_part(place, part)
    return _check_rest(" ".join(parts[:5]), parts[5] if len(parts) == 6 else "")


def _split_macro(text: str) -> Timing:
    macro, rest = (*_BLANKS.split(text, maxsplit=1), "")[:2]
    trigger = MACROS.get(macro)
    if trigger is None:
        raise InvalidInput(
            f"{macro[:60]!a} is not a time that cron knows",
            hint=_MACRO_HINTS.get(macro.lower(), f"expected one of {', '.join(MACROS)}"),
        )
    return _check_rest(trigger, rest)


def _check_rest(trigger: str, rest: str) -> Timing:
    if rest.startswith("*"):
        raise InvalidInput(
            "a * follows the time, but cron expects a command or a user",
            hint="cron knows no seconds: write minute, hour, day of month, month, day of week",
        )
    return Timing(trigger=trigger, rest=rest)


@lru_cache(maxsize=512)  # Ten thousand lines have few different parts.
def _check_part(place: int, part: str) -> None:
    for element in part.split(","):
        _check_element(_FIELDS[place], element)


def _check_element(field: _Field, element: str) -> None:
    """Refuse what cron does not know, or reads otherwise than the gate, which checks the rest."""
    match = field.element.fullmatch(element)
    if match is None:
        hint = None
        if "~" in element:
            hint = "a random time can't be imported: write a fixed time, and use --jitter"
        elif _OURS.fullmatch(element):
            hint = "cron itself does not know this form; add it with: edgecron add NAME --cron TEXT"
        raise InvalidInput(
            f"{field.name} is {element[:60]!a}, expected {field.expected}, a range, a list or a"
            " step",
            hint=hint,
        )
    first, last, step = match["first"], match["last"], match["step"]
    if first and step and not last:
        raise InvalidInput(
            f"{field.name} {element!a} means only {first} to some crons, and others refuse it",
            hint=f"write {first}-{field.most}{step}, or {first}",
        )
    if last and last.lower() == "sun" and first.lower() != "sun":
        number = _DAYS.index(first.lower()) if first.lower() in _DAYS else first
        raise InvalidInput(
            f"{field.name} {element!a} runs backwards, so cron never runs it",
            hint=f"write {number}-7",
        )


# Debian; cronie and SUSE; the BSDs; macOS. The owner's name is the file's.
_SPOOLS = ("/var/spool/cron/crontabs", "/var/spool/cron/tabs", "/var/spool/cron", "/var/cron/tabs")
_MAC_SPOOLS = ("/usr/lib/cron/tabs", "/private/var/at/tabs")


def is_system_path(path: str | os.PathLike[str]) -> bool:
    """Whether a crontab lies under /etc, as given or with its links followed.

    A name without a folder is in the current folder; `-` is never under /etc.
    """
    if os.fspath(path) == "-":
        return False
    roots = {"/etc", os.path.realpath("/etc")}
    return any(
        PurePosixPath(form).is_relative_to(root) for form in _find_forms(path) for root in roots
    )


def find_spool_owner(path: str | os.PathLike[str]) -> str | None:
    """Find the user whose spooled crontab a path is, such as /var/spool/cron/crontabs/NAME."""
    for form in _find_forms(path):
        file = PurePosixPath(form)
        if str(file.parent) in (*_SPOOLS, *_MAC_SPOOLS) and form not in _SPOOLS:
            return file.name
    return None


def _find_forms(path: str | os.PathLike[str]) -> tuple[str, ...]:
    given = os.path.abspath(path)
    try:
        return given, os.path.realpath(given)
    except ValueError:  # a NUL character: no such file can be
        return (given,)
