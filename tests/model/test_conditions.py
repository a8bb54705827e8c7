"""Conditions: what is read, refused, said and judged."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from edgecron.base.errors import InvalidInput, InvalidName
from edgecron.model.conditions import (
    Success,
    check_needed,
    check_needs,
    find_unmet,
    parse_condition,
)
from edgecron.model.machine_conditions import Kind, MachineCondition

HOUR_MS = 3_600_000


@dataclass
class Known:
    """Facts that are simply given."""

    now_ms: int = 10 * HOUR_MS
    successes: dict[str, int] = field(default_factory=dict)

    machine: dict[MachineCondition, bool] = field(default_factory=dict)

    def last_success_ms(self, schedule: str) -> int | None:
        return self.successes.get(schedule)

    def holds(self, condition: MachineCondition) -> bool | None:
        return self.machine.get(condition)


@pytest.mark.parametrize(
    ("text", "condition", "canonical", "words"),
    [
        (
            "success:backup",
            Success(schedule="backup"),
            "success:backup",
            "a success of backup",
        ),
        (
            "success:backup:60m",
            Success(schedule="backup", within_ms=HOUR_MS),
            "success:backup:1h",
            "a success of backup within 1h",
        ),
        (
            "success:a.b-c_1:1H30m",
            Success(schedule="a.b-c_1", within_ms=HOUR_MS * 3 // 2),
            "success:a.b-c_1:1h30m",
            "a success of a.b-c_1 within 1h30m",
        ),
    ],
)
def test_a_condition_is_read_and_said(
    text: str, condition: Success, canonical: str, words: str
) -> None:
    read = parse_condition(text)

    assert read == condition
    assert (read.text, read.words()) == (canonical, words)
    assert parse_condition(read.text) == read


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("onlin", "condition 'onlin' is unknown, expected one of success, online, network"),
        ("succes:backup", "condition 'succes:backup' is unknown"),
        ("not:", "condition '' is unknown"),
        ("not:not:online", "condition 'not:online' is unknown"),
        ("success", "names no schedule, expected success:NAME"),
        ("success:", "names no schedule"),
        ("", "condition '' is unknown"),
        ("success:backup:", "condition 'success:backup:': duration ''"),
        ("success:backup:soon", "duration 'soon' is not understood"),
        ("success:backup:0s", "is zero"),
        ("success:backup:1H30M", "duration '1H30M' is ambiguous: 30mo or 30m?"),
        ("success:backup:1h:2h", "is not understood"),
        ("success:" + "x" * 300, "is 308 long"),
    ],
)
def test_what_is_not_known_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        parse_condition(text)

    assert message in str(error.value)


@pytest.mark.failure(57)
@pytest.mark.parametrize("name", ["../x", "a b", "a\nb", "7", "\u202egnp"])
def test_no_condition_names_what_no_schedule_can_be_called(name: str) -> None:
    with pytest.raises(InvalidName):
        parse_condition(f"success:{name}")


@pytest.mark.parametrize(
    ("ended_ago_ms", "is_lately", "is_ever"),
    [
        (None, False, False),
        (0, True, True),
        (HOUR_MS, True, True),
        (HOUR_MS + 1, False, True),
        (-5_000, True, True),  # the clock was set back since
        (-HOUR_MS, False, True),  # by so much that nobody knows how long ago it ended
    ],
)
def test_a_success_counts_for_as_long_as_is_said(
    ended_ago_ms: int | None, is_lately: bool, is_ever: bool
) -> None:
    known = Known()
    if ended_ago_ms is not None:
        known.successes["backup"] = known.now_ms - ended_ago_ms

    assert parse_condition("success:backup:1h").is_met(known) is is_lately
    assert parse_condition("success:backup").is_met(known) is is_ever


@pytest.mark.parametrize(
    ("text", "is_known", "expected"),
    [
        ("ac-power", True, True),
        ("ac-power", False, False),
        ("ac-power", None, None),
        ("not:ac-power", True, False),
        ("not:ac-power", False, True),
        ("not:ac-power", None, None),
    ],
)
def test_what_the_machine_can_not_tell_is_neither_met_nor_its_opposite(
    text: str, is_known: bool | None, expected: bool | None
) -> None:
    known = Known()
    if is_known is not None:
        known.machine[MachineCondition(kind=Kind.AC_POWER)] = is_known

    assert parse_condition(text).is_met(known) is expected
    assert (find_unmet((text,), known) is None) is (expected is True)


def test_the_opposite_of_a_success_holds_until_it_succeeds() -> None:
    known = Known()
    opposite = parse_condition("not:success:backup:1h")

    before = opposite.is_met(known)
    known.successes["backup"] = known.now_ms
    after = opposite.is_met(known)

    assert (before, after) == (True, False)
    assert opposite.words() == "no success of backup within 1h"


def test_the_first_that_does_not_hold_is_found() -> None:
    known = Known(successes={"a": 0, "b": 0})
    needs = ("success:a", "success:c", "success:d")

    unmet = find_unmet(needs, known)
    known.successes |= {"c": 0, "d": 0}

    assert unmet == Success(schedule="c")
    assert find_unmet(needs, known) is None
    assert find_unmet((), known) is None


def test_a_schedule_is_not_made_with_needs_that_can_not_be_read() -> None:
    with pytest.raises(InvalidInput, match="is unknown"):
        check_needs(("moon:full",))
    with pytest.raises(InvalidInput, match="twice"):
        check_needs(("success:a:60m", "success:a:1h"))
    with pytest.raises(InvalidInput, match="at most 16"):
        check_needs([f"success:s{number}" for number in range(17)])


def test_what_is_needed_must_be_there_and_be_another() -> None:
    needs = ("success:bakup:1h",)

    with pytest.raises(InvalidInput) as missing:
        check_needed({"report": needs}, names={"backup", "report"})
    with pytest.raises(InvalidInput, match="a run of its own"):
        check_needed({"report": ("success:report",)}, names={"report"})
    check_needed({"report": ("success:new",), "new": ()}, names=set())

    assert "there is no schedule 'bakup'" in str(missing.value)
    assert missing.value.hint == "did you mean 'backup'?"
