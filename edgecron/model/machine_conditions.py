"""Conditions of the machine: power, network, load, disks and files, as values.

A condition is written `KIND` or `KIND:WHAT`, for example `ac-power` or `disk:/srv:5GB`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from edgecron.base.errors import InvalidInput
from edgecron.base.units import format_duration_ms, format_size, parse_duration_ms, parse_size
from edgecron.base.values import dataclass

_RESOURCES = ("cpu", "io", "memory")
_COMMAND_MS, _MOST_COMMAND_MS = 10_000, 600_000  # how long the command of a condition may take


class Kind(StrEnum):
    """The kinds of conditions of the machine."""

    ONLINE = "online"  # there is a default route, and no service reports a dead end
    NETWORK = "network"  # an interface, a connection or a wireless network of this name is up
    UNMETERED = "unmetered"  # the network is not metered
    AC_POWER = "ac-power"  # no battery is being used
    BATTERY = "battery"  # at least so many percent are left, or there is no battery
    IDLE = "idle"  # nobody has typed for so long
    LOAD = "load"  # the load of one minute is below this
    PRESSURE = "pressure"  # tasks waited for a resource for less than this, in percent of 10 s
    DISK = "disk"  # at least so many bytes are free at a path
    MOUNTED = "mounted"  # a file system is mounted at a path
    EXISTS = "exists"  # a file or folder exists
    COMMAND = "command"  # a command succeeds


class Machine(Protocol):
    """The facts of a machine. None: this machine can't tell."""

    def is_online(self) -> bool | None:
        """Whether there is a way to the internet, as far as that is known."""

    def online_note(self) -> str | None:
        """Why a default route leads nowhere, if that is reported."""

    def is_unmetered(self) -> bool | None:
        """Whether the network is not metered."""

    def unmetered_note(self) -> str | None:
        """Why it is unknown whether the network is metered; None if it is known."""

    def networks(self) -> frozenset[str] | None:
        """The names of interfaces that are up, and of the networks that are joined."""

    def is_on_mains(self) -> bool | None:
        """Whether a mains supply feeds the machine; True if it has no battery."""

    def battery_percent(self) -> float | None:
        """The charge of its batteries together; 100 if it has none."""

    def idle_ms(self) -> int | None:
        """How long ago a user last typed."""

    def load(self) -> float | None:
        """The load average of the last minute."""

    def pressure_percent(self, resource: str) -> float | None:
        """For which share of the last 10 s some task waited for `cpu`, `io` or `memory`."""

    def look_at_paths(self, paths: Iterable[str]) -> None:
        """Look at paths, for a bounded time. `free_bytes` and `exists` say what was seen."""

    def look_at_bus(self) -> None:
        """Look at the system bus, for a bounded time, and follow it until `forget_bus`."""

    def forget_bus(self) -> None:
        """Follow the system bus no more."""

    def is_silent(self, path: str) -> bool:
        """Whether a path did not answer when it was looked at last."""

    def filenos(self) -> list[int]:
        """Descriptors that show an answer of a silent path, and a change on the system bus."""

    def clear(self) -> None:
        """Forget what `filenos` has shown."""

    def forget_paths(self) -> None:
        """Let go of the paths that do not answer."""

    def free_bytes(self, path: str) -> int | None:
        """The space that is left for users at a path; None also if there is no such path."""

    def is_mounted(self, path: str) -> bool | None:
        """Whether a file system is mounted at a path."""

    def exists(self, path: str) -> bool | None:
        """Whether a path exists."""


class Facts(Protocol):
    """The facts by which conditions are judged."""

    @property
    def now_ms(self) -> int:
        """Wall time."""

    def last_success_ms(self, schedule: str) -> int | None:
        """When the newest success of a schedule ended, in any scope; None if there is none."""

    def holds(self, condition: MachineCondition) -> bool | None:
        """Whether a condition of the machine holds; None if that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCondition:
    """One condition of the machine.

    `name` is a network, resource, path or command; `amount` is in percent, milliseconds, bytes or a
    load. A command belongs to a schedule, by the id `of`: it gets that schedule's environment.
    """

    kind: Kind
    name: str = ""
    amount: float = 0
    of: int = 0
    schedule: None = None

    @property
    def text(self) -> str:
        """The canonical text, which `parse_machine_condition` reads."""
        if self.kind is Kind.COMMAND:
            is_usual = self.amount == _COMMAND_MS
            limit = "" if is_usual else f"[{format_duration_ms(round(self.amount))}]"
            return f"{self.kind.value}{limit}:{self.name}"
        rest = [self.name] if self.name else []
        if self.kind in _AMOUNTS:
            rest.append(_amount_text(self.kind, self.amount))
        return ":".join([self.kind.value, *rest])

    def words(self, *, is_met: bool = True) -> str:
        """The condition in words, after `waits for`; of its opposite if not `is_met`."""
        yes, no = _WORDS[self.kind]
        amount = _amount_text(self.kind, self.amount) if self.kind in _AMOUNTS else ""
        return (yes if is_met else no).format(name=self.name, amount=amount)

    def is_met(self, facts: Facts) -> bool | None:
        """Whether the condition holds; None if that is unknown."""
        return facts.holds(self)

    def find_note(self, machine: Machine) -> str | None:
        """Why the condition does not hold, or why a machine can't tell; None: nothing to say."""
        if self.kind in _PATHS and machine.is_silent(self.name):
            return f"{self.name} did not answer"
        if self.kind is Kind.ONLINE:
            return machine.online_note()
        return machine.unmetered_note() if self.kind is Kind.UNMETERED else None

    def is_met_by(self, machine: Machine) -> bool | None:
        """Whether the condition holds on a machine; None if the machine can't tell."""
        if self.kind is Kind.COMMAND:
            return None  # Only an engine that has run it knows.
        found = _FACTS[self.kind](machine, self.name)
        if found is None or isinstance(found, bool):
            return found
        if isinstance(found, frozenset):
            return self.name in found
        return found < self.amount if self.kind in _BELOW else found >= self.amount


NOTHING_KNOWN: Mapping[MachineCondition, bool] = MappingProxyType({})
_BY_WORD = {kind.value: kind for kind in Kind}
_AMOUNTS = (Kind.BATTERY, Kind.IDLE, Kind.LOAD, Kind.PRESSURE, Kind.DISK)
_BELOW = (Kind.LOAD, Kind.PRESSURE)
_PATHS = (Kind.DISK, Kind.EXISTS)  # a file system has to answer
# Services of the system bus know more about these than the kernel.
OF_BUS = frozenset(
    {Kind.ONLINE, Kind.NETWORK, Kind.UNMETERED, Kind.AC_POWER, Kind.BATTERY, Kind.IDLE}
)
_FACTS: dict[Kind, Callable[[Machine, str], bool | float | frozenset[str] | None]] = {
    Kind.ONLINE: lambda machine, _: machine.is_online(),
    Kind.NETWORK: lambda machine, _: machine.networks(),
    Kind.UNMETERED: lambda machine, _: machine.is_unmetered(),
    Kind.AC_POWER: lambda machine, _: machine.is_on_mains(),
    Kind.BATTERY: lambda machine, _: machine.battery_percent(),
    Kind.IDLE: lambda machine, _: machine.idle_ms(),
    Kind.LOAD: lambda machine, _: machine.load(),
    Kind.PRESSURE: lambda machine, name: machine.pressure_percent(name),
    Kind.DISK: lambda machine, name: machine.free_bytes(name),
    Kind.MOUNTED: lambda machine, name: machine.is_mounted(name),
    Kind.EXISTS: lambda machine, name: machine.exists(name),
}
# What a run waits for: the condition, and its opposite.
_WORDS = {
    Kind.ONLINE: ("a network connection", "the network connection to end"),
    Kind.NETWORK: ("network {name}", "network {name} to go down"),
    Kind.UNMETERED: ("a network that is not metered", "a metered network"),
    Kind.AC_POWER: ("AC power", "battery power"),
    Kind.BATTERY: ("a battery charge of {amount} or more", "a battery charge below {amount}"),
    Kind.IDLE: ("{amount} without typing", "a user to type"),
    Kind.LOAD: ("a load below {amount}", "a load of {amount} or more"),
    Kind.PRESSURE: ("{name} pressure below {amount}", "{name} pressure of {amount} or more"),
    Kind.DISK: ("{amount} of free space at {name}", "less than {amount} of free space at {name}"),
    Kind.MOUNTED: ("a file system at {name}", "no file system at {name}"),
    Kind.EXISTS: ("{name} to exist", "{name} to be removed"),
    Kind.COMMAND: ("`{name}` to succeed", "`{name}` to fail"),
}
# How each kind is written, and an example.
FORMS = {
    Kind.ONLINE: ("online", "online"),
    Kind.NETWORK: ("network:NAME", "network:office-wifi"),
    Kind.UNMETERED: ("unmetered", "unmetered"),
    Kind.AC_POWER: ("ac-power", "ac-power"),
    Kind.BATTERY: ("battery:N%", "battery:50%"),
    Kind.IDLE: ("idle:DURATION", "idle:10m"),
    Kind.LOAD: ("load:N", "load:2"),
    Kind.PRESSURE: ("pressure:cpu|io|memory:N%", "pressure:io:10%"),
    Kind.DISK: ("disk:PATH:SIZE", "disk:/srv:5GB"),
    Kind.MOUNTED: ("mounted:PATH", "mounted:/media/usb"),
    Kind.EXISTS: ("exists:PATH", "exists:/run/vpn.up"),
    Kind.COMMAND: ("command:ARGV or command[TIMEOUT]:ARGV", "command:ping -c1 10.0.0.1"),
}


def parse_machine_condition(text: str) -> MachineCondition | None:
    """The condition of a text; None if its kind is not one of the machine's.

    Raises InvalidInput if what follows the kind is invalid.
    """
    word, colon, rest = text.partition(":")
    word, bracket, limit = word.partition("[")
    if word not in _BY_WORD or (bracket and word != Kind.COMMAND):
        return None
    kind = _BY_WORD[word]
    try:
        if kind is Kind.COMMAND:
            return _parse_command(rest, limit if bracket else None)
        return _parse(kind, rest if colon else None)
    except InvalidInput as error:
        form, example = FORMS[kind]
        raise InvalidInput(
            f"condition {text!a}: {error.message}, expected {form}", hint=f"for example: {example}"
        ) from None


def judge(
    machine: Machine, conditions: Collection[MachineCondition]
) -> dict[MachineCondition, bool]:
    """Which of these conditions hold on a machine; without those it can't tell.

    A machine that looked at the system bus follows it until `forget_bus`.
    """
    if any(one.kind in OF_BUS for one in conditions):
        machine.look_at_bus()
    machine.look_at_paths({one.name for one in conditions if one.kind in _PATHS})
    found = {one: one.is_met_by(machine) for one in conditions}
    return {one: is_met for one, is_met in found.items() if is_met is not None}


def _parse(kind: Kind, rest: str | None) -> MachineCondition:
    if kind in (Kind.ONLINE, Kind.UNMETERED, Kind.AC_POWER):
        if rest is not None:
            raise InvalidInput(f"{kind.value!r} takes no value")
        return MachineCondition(kind=kind)
    if not rest or (kind in (Kind.DISK, Kind.PRESSURE) and ":" not in rest):
        raise InvalidInput("it is not complete")
    name = ""
    if kind in (Kind.DISK, Kind.PRESSURE):
        name, _, rest = rest.rpartition(":")
    elif kind not in _AMOUNTS:
        name = rest
    if kind is Kind.PRESSURE and name not in _RESOURCES:
        raise InvalidInput(f"resource {name!a} is unknown")
    if kind in (Kind.DISK, Kind.MOUNTED, Kind.EXISTS):
        name = _path(name)
    amount = _parse_amount(kind, rest) if kind in _AMOUNTS else 0
    return MachineCondition(kind=kind, name=name, amount=amount)


def _parse_command(text: str, limit: str | None) -> MachineCondition:
    if not split_command(text):
        raise InvalidInput("it is not complete")
    amount = _COMMAND_MS
    if limit is not None:
        if not limit.endswith("]"):
            raise InvalidInput("']' is missing after the timeout")
        amount = parse_duration_ms(limit.removesuffix("]"))
        if not 0 < amount <= _MOST_COMMAND_MS:
            most = format_duration_ms(_MOST_COMMAND_MS)
            raise InvalidInput(f"timeout {limit.removesuffix(']')!a} is not between 1ms and {most}")
    return MachineCondition(kind=Kind.COMMAND, name=text.strip(), amount=amount)


def split_command(text: str) -> tuple[str, ...]:
    """The words of a command, quoted as in a shell. Raises InvalidInput."""
    import shlex  # Rarely needed, and engines import this module.

    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise InvalidInput("a quote has no end") from None


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise InvalidInput(f"path {text!a} does not start with /")
    # The kernel's table of mounts has no slash at the end.
    return text.rstrip("/") or "/"


def _parse_amount(kind: Kind, text: str) -> float:
    if kind is Kind.IDLE:
        return parse_duration_ms(text)
    if kind is Kind.DISK:
        try:
            return parse_size(text, what="size")
        except InvalidInput:
            raise InvalidInput(f"size {text!a} is not understood") from None
    number = text.removesuffix("%") if kind is not Kind.LOAD else text
    most = 10_000 if kind is Kind.LOAD else 100
    try:
        amount = float(number)
    except ValueError:
        raise InvalidInput(f"{text!a} is not a number") from None
    if not 0 < amount <= most:  # Also no NaN.
        raise InvalidInput(f"{text!a} is not between 0 and {most}")
    return amount


def _amount_text(kind: Kind, amount: float) -> str:
    if kind is Kind.IDLE:
        return format_duration_ms(round(amount))
    if kind is Kind.DISK:
        return format_size(round(amount))
    return f"{amount:g}" if kind is Kind.LOAD else f"{amount:g}%"
