"""Read unit files of systemd, and a timer with its service as one schedule (systemd.syntax(7)).

A service that has only settings that a schedule has too becomes the schedule's command. Any other
service stays a unit, with its sandbox and its conditions, and the schedule starts it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from edgecron.base.errors import InvalidInput
from edgecron.base.units import MAX_DURATION_MS, format_duration_ms
from edgecron.base.values import NamedTuple, dataclass, replace
from edgecron.formats.crontab_names import suggest_stem
from edgecron.formats.systemd_calendar import LOCAL, read_calendar, read_span_ms
from edgecron.model.choices import CatchUp, JobKind
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec

_YES = frozenset({"1", "yes", "y", "true", "t", "on"})
_TIMES = ("OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec")
_AT_BOOT = ("OnActiveSec", "OnBootSec", "OnStartupSec")
# Settings of a service that a schedule has too, or that say nothing about its process.
_CARRIED_SERVICE = frozenset({
    "Type", "ExecStart", "User", "WorkingDirectory", "Environment", "EnvironmentFile", "Nice",
})  # fmt: skip
_CARRIED_UNIT = frozenset({"Description", "Documentation", "After", "Before"})
_TYPES = (None, "simple", "exec", "oneshot")
_PREFIXES = "@-:+!|"
_JITTER_MOST_S = MAX_DURATION_MS // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit by its settings, each with its values in order, after its drop-ins."""

    values: Mapping[tuple[str, str], tuple[str, ...]]

    def all(self, section: str, key: str) -> tuple[str, ...]:
        """Return the values of a setting that can be given several times."""
        return self.values.get((section, key), ())

    def last(self, section: str, key: str) -> str | None:
        """Return the value of a setting that counts once: its last one."""
        return (self.all(section, key) or (None,))[-1]

    def keys(self, section: str) -> frozenset[str]:
        """Return the names of the settings of a section."""
        return frozenset(key for found, key in self.values if found == section)

    def is_on(self, section: str, key: str) -> bool:
        """Return whether a switch is on."""
        return (self.last(section, key) or "").lower() in _YES


def read_unit(texts: Iterable[str]) -> Unit:
    """Read a unit file and its drop-ins, in this order. An empty value resets a setting."""
    values: dict[tuple[str, str], list[str]] = {}
    for text in texts:
        section = ""
        for line in _logical_lines(text):
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
                continue
            key, equals, value = line.partition("=")
            if not equals:
                continue  # systemd logs such a line and reads on.
            found = values.setdefault((section, key.strip()), [])
            if value.strip():
                found.append(value.strip())
            else:
                found.clear()
    return Unit(values={key: tuple(found) for key, found in values.items() if found})


def _logical_lines(text: str) -> Iterable[str]:
    """Yield lines without comments and blank lines; a backslash at the end joins two."""
    joined = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith(("#", ";")) or (not line and not joined):
            continue
        if line.endswith("\\"):
            joined += line[:-1].rstrip() + " "
            continue
        yield joined + line
        joined = ""
    if joined:
        yield joined.rstrip()


class UnitName(NamedTuple):
    """The parts of a unit's name: of `a@b.timer` the prefix `a` and the instance `b`."""

    full: str
    prefix: str
    instance: str | None

    @property
    def is_template(self) -> bool:
        return self.instance == ""

    @property
    def template(self) -> str | None:
        """The name of the file that an instance is read from."""
        if not self.instance:
            return None
        return f"{self.prefix}@.{self.full.rpartition('.')[2]}"


def read_unit_name(full: str) -> UnitName:
    """Split the name of a unit."""
    prefix, at, instance = full.rpartition(".")[0].partition("@")
    return UnitName(full, prefix, instance if at else None)


def resolve_specifiers(text: str, name: UnitName) -> str:
    """Replace the specifiers of the unit's name. Raises InvalidInput for any other one."""
    known = {
        "%": "%",
        "n": name.full,
        "N": name.full.rpartition(".")[0],
        "p": name.prefix,
        "i": name.instance or "",
        "I": _unescape(name.instance or ""),
    }

    def resolve(found: re.Match[str]) -> str:
        if found[1] not in known:
            raise InvalidInput(f"it uses the specifier %{found[1]}")
        return known[found[1]]

    return re.sub(r"%(.?)", resolve, text)


def _unescape(text: str) -> str:
    """Undo systemd-escape: a dash is a slash, and `\\x2d` a dash."""
    slashed = text.replace("-", "/")
    return re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), slashed)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """An ExecStart value: its prefixes, such as `-`, and the text behind them."""

    prefixes: str
    text: str


def read_command_line(value: str) -> CommandLine:
    """Split off the prefixes of an ExecStart value."""
    text = value.lstrip(_PREFIXES)
    return CommandLine(prefixes=value[: len(value) - len(text)], text=text.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerReading:
    """A timer with its service as a schedule.

    `reason` says why it can't be a schedule; then `spec` is None. `notes` name what the schedule
    does otherwise. `command` is the service's command as people know it.
    """

    triggers: tuple[str, ...]
    timezone: str
    is_persistent: bool
    service: str
    command: str
    spec: ScheduleSpec | None = None
    reason: str | None = None
    notes: tuple[str, ...] = ()


def service_of(timer: Unit, name: UnitName) -> str:
    """Return the name of the unit that a timer starts."""
    named = timer.last("Timer", "Unit")
    try:
        return (
            f"{name.full.removesuffix('.timer')}.service"
            if named is None
            else (resolve_specifiers(named, name))
        )
    except InvalidInput:
        return str(named)


def read_timer(
    name: UnitName,
    timer: Unit,
    service: Unit | None,
    *,
    is_user: bool,
    importer: str,
) -> TimerReading:
    """Read a timer and its service. `is_user`: they are units of a user, not of the system.

    `importer` is the user who would own the schedule: a job of this user needs no --user.
    """
    started = service_of(timer, name)
    commands = () if service is None else service.all("Service", "ExecStart")
    reading = TimerReading(
        triggers=(),
        timezone=LOCAL,
        is_persistent=timer.is_on("Timer", "Persistent"),
        service=started,
        command=" ; ".join(_show(one, read_unit_name(started)) for one in commands) or started,
    )
    try:
        triggers, timezone, notes = _read_times(timer, is_user=is_user)
    except InvalidInput as error:
        return replace(reading, reason=error.message)
    reading = replace(reading, triggers=triggers, timezone=timezone)
    if service is None:
        return replace(reading, reason=f"its service {started} was not found")
    try:
        job = _read_job(read_unit_name(started), service, is_user=is_user, importer=importer)
        jitter_s = _read_jitter(timer)
    except InvalidInput as error:
        return replace(reading, reason=error.message)
    spec = ScheduleSpec(
        name=suggest_stem(f"/{name.full.removesuffix('.timer').replace('/', '-')}"),
        triggers=triggers,
        job=job,
        timezone=timezone,
        description=_describe(timer, service),
        policies=Policies(
            jitter_s=jitter_s,
            wake=timer.is_on("Timer", "WakeSystem"),
            catch_up=CatchUp.ONCE if reading.is_persistent else CatchUp.SKIP,
        ),
    )
    return replace(reading, spec=spec, notes=notes)


def _show(value: str, name: UnitName) -> str:
    """Return a command as people know it; a specifier of other things stays as it is."""
    text = read_command_line(value).text
    try:
        return resolve_specifiers(text, name)
    except InvalidInput:
        return text


def _describe(timer: Unit, service: Unit) -> str | None:
    described = service.last("Unit", "Description") or timer.last("Unit", "Description")
    if described is None or "%" in described:
        return None
    return described if described.isprintable() and len(described) < 500 else None


def _read_times(timer: Unit, *, is_user: bool) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Read when a timer elapses: triggers, their zone, and what differs in edgecron."""
    for key, what in (
        ("OnClockChange", "it elapses when the clock is set (OnClockChange=)"),
        ("OnTimezoneChange", "it elapses when the time zone changes (OnTimezoneChange=)"),
    ):
        if timer.is_on("Timer", key):
            raise InvalidInput(what)
    calendars = [read_calendar(text) for text in timer.all("Timer", "OnCalendar")]
    zones = {calendar.timezone for calendar in calendars}
    if len(zones) > 1:
        raise InvalidInput("its OnCalendar= lines name different time zones")
    triggers = [text for calendar in calendars for text in calendar.triggers]
    spans = {key: timer.all("Timer", key) for key in _TIMES}
    notes = []
    if is_user and spans["OnStartupSec"]:
        raise InvalidInput("it counts from the login of its user (OnStartupSec=)")
    active, inactive = spans["OnUnitActiveSec"], spans["OnUnitInactiveSec"]
    starts = [text for key in _AT_BOOT for text in spans[key]]
    if starts and spans["OnActiveSec"] and not (active or inactive or triggers):
        raise InvalidInput("it elapses once after it is started (OnActiveSec=)")
    if starts:
        triggers.append("on boot")
        if any(read_span_ms(text) for text in starts):
            notes.append(f"edgecron runs it at boot, not {' and '.join(starts)} later")
    triggers += [_interval(text) for text in active]
    triggers += [f"{_interval(text)} after end" for text in inactive]
    if not triggers:
        raise InvalidInput("it has no times")
    return tuple(dict.fromkeys(triggers)), next(iter(zones), LOCAL), tuple(notes)


def _interval(text: str) -> str:
    interval_ms = read_span_ms(text)
    if not 1 <= interval_ms <= MAX_DURATION_MS:
        raise InvalidInput(f"its interval {text[:40]!a} is not from 1 ms to 100 years")
    return f"every {format_duration_ms(interval_ms)}"


def _read_jitter(timer: Unit) -> float:
    text = timer.last("Timer", "RandomizedDelaySec")
    jitter_s = 0.0 if text is None else read_span_ms(text) / 1000
    if jitter_s > _JITTER_MOST_S:
        raise InvalidInput(f"its RandomizedDelaySec= is {text}, expected at most 100 years")
    return jitter_s


def _read_job(name: UnitName, service: Unit, *, is_user: bool, importer: str) -> Job:
    """Make the command of the service, or one that starts the service as it is."""
    if not service.all("Service", "ExecStart"):
        raise InvalidInput(f"its service {name.full} has no command")
    try:
        return _carry(name, service, is_user=is_user, importer=importer)
    except InvalidInput:
        scope = ("--user",) if is_user else ()
        return Job(
            kind=JobKind.COMMAND,
            argv=("systemctl", *scope, "start", "--wait", name.full),
        )


def _carry(name: UnitName, service: Unit, *, is_user: bool, importer: str) -> Job:
    """Make a job of a service. Raises InvalidInput if the job would lack a setting."""
    strange = (service.keys("Service") - _CARRIED_SERVICE) | (service.keys("Unit") - _CARRIED_UNIT)
    if strange or service.last("Service", "Type") not in _TYPES:
        raise InvalidInput(f"it has {', '.join(sorted(strange)) or 'another Type'}=")
    commands = service.all("Service", "ExecStart")
    line = read_command_line(commands[0])
    if len(commands) > 1 or line.prefixes.strip(":") or set(line.text) & set("$\\;"):
        raise InvalidInput("its command needs systemd")
    folder, user = service.last("Service", "WorkingDirectory"), service.last("Service", "User")
    user = "root" if user is None and not is_user else user
    files = service.all("Service", "EnvironmentFile")
    if len(files) > 1 or any(not file.startswith("/") for file in files):
        raise InvalidInput("its files of variables need systemd")
    if folder is None:
        folder = None if is_user else "/"
    elif not folder.startswith("/"):
        raise InvalidInput("its folder needs systemd")
    env = _read_env(service.all("Service", "Environment"), name)
    nice = service.last("Service", "Nice")
    return Job(
        kind=JobKind.COMMAND,
        argv=tuple(_split(resolve_specifiers(line.text, name))),
        env=env,
        env_file=resolve_specifiers(files[0], name) if files else None,
        cwd=None if folder is None else resolve_specifiers(folder, name),
        user=None if user in (None, importer) else resolve_specifiers(str(user), name),
        nice=None if nice is None else _read_nice(nice),
    )


def _read_nice(text: str) -> int:
    if re.fullmatch(r"-?\d{1,2}", text, re.ASCII) is None:
        raise InvalidInput(f"its Nice= is {text[:20]!a}")
    return int(text)


def _read_env(lines: Sequence[str], name: UnitName) -> dict[str, str]:
    env = {}
    for line in lines:
        if "\\" in line or "$" in line:
            raise InvalidInput("its variables need systemd")
        for word in _split(resolve_specifiers(line, name)):
            key, equals, value = word.partition("=")
            if not equals:
                raise InvalidInput(f"its variable {word[:40]!a} has no value")
            env[key] = value
    return env


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InvalidInput(f"its quotes are not closed: {text[:60]!a}") from error
