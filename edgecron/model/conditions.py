"""Conditions that a run waits for: read from text, put in words, and judged by facts. Pure.

A condition is written `KIND:WHAT`. The only kind so far is `success:NAME[:DURATION]`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from edgecron.base.checks import check_name, suggest
from edgecron.base.errors import InvalidDuration, InvalidInput
from edgecron.base.units import format_duration_ms, parse_duration_ms
from edgecron.base.values import dataclass

_MOST_TEXT = 256
_MOST_NEEDS = 16
_FORM = "success:NAME or success:NAME:DURATION"
_EXAMPLE = "for example: success:nightly:8h"
_SLACK_MS = 60_000  # a clock can have been set back by this much since a success


class Facts(Protocol):
    """The facts by which conditions are judged."""

    @property
    def now_ms(self) -> int:
        """Wall time."""

    def last_success_ms(self, schedule: str) -> int | None:
        """When the newest success of a schedule ended, in any scope; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A run of a schedule succeeded, at most `within_ms` ago; None: at any time."""

    schedule: str
    within_ms: int | None = None

    @property
    def text(self) -> str:
        """The canonical text, which `parse_condition` reads."""
        within = "" if self.within_ms is None else f":{format_duration_ms(self.within_ms)}"
        return f"success:{self.schedule}{within}"

    def words(self) -> str:
        """The condition in words, after `waits for`: `a success of backup within 1h`."""
        within = "" if self.within_ms is None else f" within {format_duration_ms(self.within_ms)}"
        return f"a success of {self.schedule}{within}"

    def is_met(self, facts: Facts) -> bool:
        """Whether the condition holds."""
        ended_ms = facts.last_success_ms(self.schedule)
        if ended_ms is None:
            return False
        # The age of a success in the future is unknown.
        return self.within_ms is None or -_SLACK_MS <= facts.now_ms - ended_ms <= self.within_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCondition:
    """A stored condition that this edgecron can't read. It never holds."""

    text: str
    schedule: None = None

    def words(self) -> str:
        return f"{self.text!a}, a condition that this edgecron can't read"

    def is_met(self, facts: Facts) -> bool:
        return False


Condition = Success | UnknownCondition


@lru_cache(maxsize=256)
def parse_condition(text: str) -> Success:
    """The condition of a text. Raises InvalidInput for an unknown one."""
    if len(text) > _MOST_TEXT:
        raise InvalidInput(f"condition is {len(text)} long, expected at most {_MOST_TEXT}")
    kind, _, rest = text.strip().partition(":")
    if kind != "success":
        raise InvalidInput(f"condition {text!a} is unknown, expected {_FORM}", hint=_EXAMPLE)
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


def parse_needs(texts: Sequence[str]) -> tuple[Success, ...]:
    """The conditions of a schedule that is being written. Raises InvalidInput."""
    return tuple(parse_condition(text) for text in texts)


def read_needs(texts: Sequence[str]) -> tuple[Condition, ...]:
    """The stored conditions of a schedule."""
    return tuple(read_condition(text) for text in texts)


def check_needs(texts: Sequence[str]) -> None:
    """Raise InvalidInput for conditions that are unknown, repeated or too many."""
    if len(texts) > _MOST_NEEDS:
        raise InvalidInput(f"{len(texts)} conditions are needed, expected at most {_MOST_NEEDS}")
    canonical = [condition.text for condition in parse_needs(texts)]
    if len(set(canonical)) != len(canonical):
        raise InvalidInput(f"the same condition is needed twice: {', '.join(canonical)}")


def check_needed(wanted: Mapping[str, Sequence[str]], *, names: Collection[str]) -> None:
    """Check the schedules that the conditions of schedules being written refer to.

    `wanted` has the conditions by schedule, `names` all schedules that exist. Raises InvalidInput
    for a schedule that does not exist, and for one that needs itself.
    """
    for name, needs in wanted.items():
        for condition in parse_needs(needs):
            needed = condition.schedule
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


def find_unmet(needs: Sequence[str], facts: Facts) -> Condition | None:
    """The first condition that does not hold; None if all do."""
    return next((one for one in read_needs(needs) if not one.is_met(facts)), None)
