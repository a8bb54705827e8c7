"""What a run needs before it starts: a text to a frozen value, its words, and whether it is met.

A condition is written `KIND:WHAT`. Each kind is a module of its own here and a row of `_KINDS`:
it reads its text, says itself in words, and judges by facts that the caller has gathered. Nothing
here reads a clock, a file or a database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache

from edgecron.base.errors import InvalidInput
from edgecron.model.condition_facts import Condition, Facts
from edgecron.model.condition_success import Success, parse_success
from edgecron.model.condition_unreadable import Unreadable

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
