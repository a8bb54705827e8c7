"""What a run needs before it starts: read from text, put in words, and judged.

A condition is written `KIND:WHAT`. Each kind is a module of its own here and a row of `_KINDS`:
it reads its text, says itself in words, and judges by facts that the caller has gathered. Nothing
here reads a clock, a file or a database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from edgecron.base.checks import check_name
from edgecron.base.errors import InvalidDuration, InvalidInput
from edgecron.base.units import format_duration_ms, parse_duration_ms
from edgecron.base.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """What a text says is not known here: nothing says that it holds."""

    text: str

    @property
    def schedule(self) -> None:
        return None

    def words(self) -> str:
        return f"{self.text!a}, a condition that this edgecron can't read"

    def is_met(self, facts: Facts) -> bool:
        return False


_SLACK_MS = 60_000  # by which a clock may have been set back since


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A run of a schedule has ended well, not longer than `within_ms` ago; None: at any time."""

    schedule: str
    within_ms: int | None = None

    @property
    def text(self) -> str:
        lately = "" if self.within_ms is None else f":{format_duration_ms(self.within_ms)}"
        return f"success:{self.schedule}{lately}"

    def words(self) -> str:
        lately = "" if self.within_ms is None else f" within {format_duration_ms(self.within_ms)}"
        return f"a success of {self.schedule}{lately}"

    def is_met(self, facts: Facts) -> bool:
        ended_ms = facts.last_success_ms(self.schedule)
        if ended_ms is None:
            return False
        # One that ended in the future tells nothing of how long ago that was.
        return self.within_ms is None or -_SLACK_MS <= facts.now_ms - ended_ms <= self.within_ms


def parse_success(text: str) -> Success:
    """A condition from what follows `success:`. Raises InvalidInput."""
    name, colon, duration = text.partition(":")
    check_name(name, what="schedule name")
    if not colon:
        return Success(schedule=name)
    try:
        return Success(schedule=name, within_ms=parse_duration_ms(duration))
    except InvalidDuration as error:
        raise InvalidInput(
            f"condition 'success:{text}': {error.message}", hint=error.hint
        ) from None


class Facts(Protocol):
    """How things stand, for conditions to judge by."""

    @property
    def now_ms(self) -> int:
        """Wall time."""

    def last_success_ms(self, schedule: str) -> int | None:
        """When the newest success of a schedule ended, in any scope; None where there is none."""


class Condition(Protocol):
    """One condition, as it is kept in `text`."""

    @property
    def text(self) -> str:
        """The canonical text, which `parse_condition` reads back."""

    @property
    def schedule(self) -> str | None:
        """The schedule whose runs it looks at; None where it looks at none."""

    def words(self) -> str:
        """What it is, after `waits for`: `a success of backup within 1h`."""

    def is_met(self, facts: Facts) -> bool:
        """Whether it holds."""


__all__ = [
    "Condition",
    "Facts",
    "Success",
    "Unreadable",
    "check_needed",
    "check_needs",
    "find_unmet",
    "parse_condition",
    "parse_needs",
    "read_condition",
    "read_needs",
]

_MOST_TEXT = 256
_MOST_NEEDS = 16
# By kind: what reads the text after its colon, and how one is written.
_KINDS: Mapping[str, tuple[Callable[[str], Condition], str]] = {
    "success": (parse_success, "success:NAME or success:NAME:DURATION"),
}


@lru_cache(maxsize=256)
def parse_condition(text: str) -> Condition:
    """The condition that a text says. Raises InvalidInput for one that is not known."""
    if len(text) > _MOST_TEXT:
        raise InvalidInput(f"condition is {len(text)} long, expected at most {_MOST_TEXT}")
    kind, _, rest = text.strip().partition(":")
    if kind not in _KINDS:
        forms = ", ".join(form for _, form in _KINDS.values())
        raise InvalidInput(f"condition {text!a} is not known, expected {forms}")
    read, form = _KINDS[kind]
    if not rest:
        raise InvalidInput(f"condition {text!a} says nothing of what it needs, expected {form}")
    return read(rest)


def parse_needs(texts: Sequence[str]) -> tuple[Condition, ...]:
    """The conditions of a schedule, in the order of their texts."""
    return tuple(parse_condition(text) for text in texts)


def read_condition(text: str) -> Condition:
    """The condition that a stored text says, or one that never holds where it can't be read.

    A later version may have written it, or somebody's hand: the schedule shows it, and the others
    go on.
    """
    try:
        return parse_condition(text)
    except InvalidInput:
        return Unreadable(text=text)


def read_needs(texts: Sequence[str]) -> tuple[Condition, ...]:
    """The stored conditions of a schedule, in the order of their texts."""
    return tuple(read_condition(text) for text in texts)


def check_needs(texts: Sequence[str]) -> None:
    """Raise InvalidInput for what can't be read, is written twice, or is too much."""
    if len(texts) > _MOST_NEEDS:
        raise InvalidInput(f"{len(texts)} conditions are needed, expected at most {_MOST_NEEDS}")
    canonical = [condition.text for condition in parse_needs(texts)]
    if len(set(canonical)) != len(canonical):
        raise InvalidInput(f"the same condition is needed twice: {', '.join(canonical)}")


def check_needed(wanted: Mapping[str, Sequence[str]], *, names: Collection[str]) -> None:
    """Check the schedules that the needs of schedules being written look at.

    `wanted` are the needs by the name of their schedule, `names` all schedules that there are.
    Raises InvalidInput for one that is not there, and for a schedule that needs itself.
    """
    for name, needs in wanted.items():
        for condition in parse_needs(needs):
            needed = condition.schedule
            if needed == name:
                raise InvalidInput(f"schedule {name!r} needs {condition.text!r}, a run of its own")
            if needed is not None and needed not in names and needed not in wanted:
                from difflib import get_close_matches

                close = get_close_matches(needed, [*names, *wanted], n=1)
                raise InvalidInput(
                    f"schedule {name!r} needs {condition.text!r}, but there is no schedule"
                    f" {needed!r}",
                    hint=f"did you mean {close[0]!r}?" if close else "see: edgecron list",
                )


def find_unmet(needs: Sequence[str], facts: Facts) -> Condition | None:
    """The first condition that does not hold, or None where all do."""
    return next((one for one in read_needs(needs) if not one.is_met(facts)), None)
