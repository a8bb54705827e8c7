"""Conditions that a run waits for: read from text, put in words, and judged by facts. Pure.

A condition is written `KIND:WHAT`, for example `success:nightly:8h` or `ac-power`. `not:` before
it means its opposite. A run starts when all conditions of its schedule hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from edgecron.base.checks import check_name, suggest
from edgecron.base.errors import InvalidDuration, InvalidInput
from edgecron.base.units import format_duration_ms, parse_duration_ms
from edgecron.base.values import dataclass, replace
from edgecron.base.window_texts import split_once_in
from edgecron.model.machine_conditions import (
    Facts,
    Kind,
    Machine,
    MachineCondition,
    judge,
    parse_machine_condition,
)

_MOST_TEXT = 256
_MOST_NEEDS = 16
_FORM = "success:NAME or success:NAME:DURATION"
_EXAMPLE = "for example: success:nightly:8h, or ac-power"
_SLACK_MS = 60_000  # a clock can have been set back by this much since a success
_NOT = "not:"
_KINDS = ("success", *(kind.value for kind in Kind))
# What people write instead, and the condition that they mean.
_OTHER_WORDS = {
    "internet": "online", "connected": "online", "wifi": "network:NAME", "vpn": "network:NAME",
    "interface": "network:NAME", "power": "ac-power", "ac": "ac-power", "mains": "ac-power",
    "plugged": "ac-power", "cpu": "load:2", "space": "disk:/srv:5GB", "free": "disk:/srv:5GB",
    "file": "exists:PATH", "path": "exists:PATH", "mount": "mounted:PATH", "after": "success:NAME",
}  # fmt: skip


def _hint_for(text: str, close: str | None) -> str:
    """Suggest a condition for an unknown text; a bare name is probably that of a schedule."""
    if close is not None:
        return f"did you mean {close!r}?"
    try:
        check_name(text, what="schedule name")
    except InvalidInput:
        return _EXAMPLE
    return f"if that is a schedule: success:{text}; or a condition such as ac-power"


class Condition(Protocol):
    """One condition of a schedule."""

    @property
    def text(self) -> str:
        """The canonical text, which `parse_condition` reads."""

    @property
    def schedule(self) -> str | None:
        """The schedule that the condition names; None if it names none."""

    def words(self, *, is_met: bool = True) -> str:
        """The condition in words, after `waits for`; its opposite if not `is_met`."""

    def is_met(self, facts: Facts) -> bool | None:
        """Whether the condition holds; None if that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A run of a schedule succeeded, at most `within_ms` ago; None: at any time."""

    schedule: str
    within_ms: int | None = None

    @property
    def text(self) -> str:
        within = "" if self.within_ms is None else f":{format_duration_ms(self.within_ms)}"
        return f"success:{self.schedule}{within}"

    def words(self, *, is_met: bool = True) -> str:
        """For example `a success of backup within 1h`."""
        within = "" if self.within_ms is None else f" within {format_duration_ms(self.within_ms)}"
        return f"{'a' if is_met else 'no'} success of {self.schedule}{within}"

    def is_met(self, facts: Facts) -> bool:
        ended_ms = facts.last_success_ms(self.schedule)
        if ended_ms is None:
            return False
        # The age of a success in the future is unknown.
        return self.within_ms is None or -_SLACK_MS <= facts.now_ms - ended_ms <= self.within_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Opposite:
    """The opposite of a condition. If that is unknown, so is its opposite."""

    of: Success | MachineCondition

    @property
    def text(self) -> str:
        return f"{_NOT}{self.of.text}"

    @property
    def schedule(self) -> str | None:
        return self.of.schedule

    def words(self, *, is_met: bool = True) -> str:
        return self.of.words(is_met=not is_met)

    def is_met(self, facts: Facts) -> bool | None:
        is_met = self.of.is_met(facts)
        return None if is_met is None else not is_met


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCondition:
    """A stored condition that this edgecron can't read. It never holds."""

    text: str
    schedule: None = None

    def words(self, *, is_met: bool = True) -> str:
        return f"{self.text!a}, a condition that this edgecron can't read"

    def is_met(self, facts: Facts) -> bool:
        return False


@lru_cache(maxsize=256)
def parse_condition(text: str) -> Success | MachineCondition | Opposite:
    """The condition of a text. Raises InvalidInput for an unknown one."""
    text = text.strip()
    if len(text) > _MOST_TEXT:
        raise InvalidInput(f"condition is {len(text)} long, expected at most {_MOST_TEXT}")
    if text.startswith(_NOT):
        return Opposite(of=_parse_plain(text.removeprefix(_NOT)))
    return _parse_plain(text)


def _parse_plain(text: str) -> Success | MachineCondition:
    of_machine = parse_machine_condition(text)
    if of_machine is not None:
        return of_machine
    kind, _, rest = text.partition(":")
    if kind != "success":
        close = _OTHER_WORDS.get(kind.lower()) or suggest(kind, _KINDS)
        raise InvalidInput(
            f"condition {text!a} is unknown, expected one of {', '.join(_KINDS)}",
            hint=_hint_for(text, close),
        )
    if not rest:
        raise InvalidInput(f"condition {text!a} names no schedule, expected {_FORM}", hint=_EXAMPLE)
    name, colon, duration = rest.partition(":")
    check_name(name, what="schedule name")
    if not colon:
        return Success(schedule=name)
    try:
        return Success(schedule=name, within_ms=parse_duration_ms(duration))
    except InvalidDuration as error:
        raise InvalidInput(
            f"condition 'success:{rest}': {error.message}", hint=error.hint
        ) from None


def read_condition(text: str) -> Condition:
    """The condition of a stored text, or one that never holds if the text can't be read.

    A later version or a person might have written it: the schedule shows it, and others continue.
    """
    try:
        return parse_condition(text)
    except InvalidInput:
        return UnknownCondition(text=text)


def parse_needs(texts: Sequence[str]) -> tuple[Success | MachineCondition | Opposite, ...]:
    """The conditions of a schedule that is being written. Raises InvalidInput."""
    return tuple(parse_condition(text) for text in texts)


def read_needs(texts: Sequence[str]) -> tuple[Condition, ...]:
    """The stored conditions of a schedule."""
    return tuple(read_condition(text) for text in texts)


def needs_of_fire(needs: tuple[str, ...], *sources: str | None) -> tuple[str, ...]:
    """The conditions of a fire: those of its triggers, by their texts, and of its schedule."""
    of_triggers = [split_once_in(source) for source in sources if source is not None]
    texts = [text for one in of_triggers if one is not None for text in one.conditions]
    return (*dict.fromkeys((*texts, *needs)),) if texts else needs


def bind(condition: Condition, schedule_id: int) -> Condition:
    """The condition for runs of a schedule, in whose environment its command runs."""
    plain = condition.of if isinstance(condition, Opposite) else condition
    if not isinstance(plain, MachineCondition) or plain.kind is not Kind.COMMAND:
        return condition
    bound = replace(plain, of=schedule_id)
    return Opposite(of=bound) if isinstance(condition, Opposite) else bound


def find_of_machine(texts: Iterable[str], schedule_id: int = 0) -> set[MachineCondition]:
    """The conditions of the machine among these, to look at it before a run is decided."""
    found = set()
    for text in texts:
        condition = bind(read_condition(text), schedule_id)
        plain = condition.of if isinstance(condition, Opposite) else condition
        if isinstance(plain, MachineCondition):
            found.add(plain)
    return found


def look_at(machine: Machine, texts: Iterable[str]) -> dict[MachineCondition, bool]:
    """Which conditions of the machine among these hold; without those it can't tell.

    A machine that looked at the system bus follows it until `forget_bus`.
    """
    return judge(machine, find_of_machine(texts))


def find_note(machine: Machine, text: str) -> str | None:
    """Why a condition does not hold, or why a machine can't tell; None: nothing to say."""
    return next(filter(None, (one.find_note(machine) for one in find_of_machine((text,)))), None)


def check_needs(texts: Sequence[str]) -> None:
    """Raise InvalidInput for conditions that are unknown, repeated or too many."""
    if len(texts) > _MOST_NEEDS:
        raise InvalidInput(f"{len(texts)} conditions are needed, expected at most {_MOST_NEEDS}")
    canonical = [condition.text for condition in parse_needs(texts)]
    if len(set(canonical)) != len(canonical):
        raise InvalidInput(f"the same condition is needed twice: {', '.join(canonical)}")


def check_kept(texts: Sequence[str]) -> None:
    """Raise InvalidInput for conditions that can't be watched during a run."""
    check_needs(texts)
    for condition in parse_needs(texts):
        if condition.schedule is not None:
            raise InvalidInput(
                f"condition {condition.text!a} can't be watched during a run,"
                " expected a condition of the machine",
                hint=f"wait for it before the start: --needs {condition.text}",
            )


def check_needed(wanted: Mapping[str, Sequence[str]], *, names: Collection[str]) -> None:
    """Check the schedules that the conditions of schedules being written refer to.

    `wanted` has the conditions by schedule, `names` all schedules that exist. Raises InvalidInput
    for a schedule that does not exist, and for one that needs itself.
    """
    for name, needs in wanted.items():
        for condition in parse_needs(needs):
            needed = condition.schedule
            if needed is None:
                continue
            if needed == name:
                raise InvalidInput(
                    f"schedule {name!r} can't need {condition.text!r}, a run of its own",
                    hint="name another schedule; to run after its own end: --every '1h after end'",
                )
            if needed not in names and needed not in wanted:
                close = suggest(needed, [*names, *wanted])
                raise InvalidInput(
                    f"schedule {name!r} needs {condition.text!r}, but there is no schedule"
                    f" {needed!r}",
                    hint=f"did you mean {close!r}?" if close else "see: edgecron list",
                )


def find_unmet(needs: Sequence[str], facts: Facts, *, schedule_id: int = 0) -> Condition | None:
    """The first condition of a schedule that does not hold; None if all do."""
    bound = (bind(one, schedule_id) for one in read_needs(needs))
    return next((one for one in bound if not one.is_met(facts)), None)
