"""What is refused, and with which words."""

from __future__ import annotations

import pytest

from edgecron.base.errors import InvalidTrigger
from edgecron.triggers import CronTrigger, parse_trigger


def values(text: str) -> dict[str, object]:
    trigger = parse_trigger(text, name="backup")
    assert isinstance(trigger, CronTrigger)
    return trigger.fields.to_json()


@pytest.mark.failure(10)
@pytest.mark.parametrize(
    "text",
    [
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 30-31 FEB *",
        "0 0 30 2 */7",
        "0 0 */31 2 2#2",  # the first day is never in the second week
    ],
)
def test_a_date_that_never_comes_is_refused(text: str) -> None:
    with pytest.raises(InvalidTrigger, match="can never fire") as caught:
        parse_trigger(text)

    assert caught.value.hint


@pytest.mark.failure(11)
@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("R * * * *", "R (a random time) is not supported", "H"),
        ("0 R(2-5) * * *", "R (a random time) is not supported", "H"),
        ("5-1 * * * *", "minute is '5-1', expected a range from low to high", "lower"),
        ("0 22-2 * * *", "hour is '22-2'", "22,23,0,1,2"),
        ("0 0 * * SAT-MON", "day of week is 'SAT-MON'", "SAT,SUN,MON"),
        ("0 0 * * 6-0", "day of week is '6-0'", "SAT,SUN"),
        ("0 0 * NOV-FEB *", "month is 'NOV-FEB'", "NOV,DEC,JAN,FEB"),
        ("*/0 * * * *", "minute is '*/0', expected a step of at least 1", "*/1"),
        ("5/0 * * * *", "expected a step of at least 1", "5/1"),
        ("* * * *", "has 4 fields, expected 5", "minute hour day month weekday"),
        ("0 * * * * * 2030", "has 7 fields, expected 5", "year"),
        ("midnight", "has 1 field, expected 5", "@midnight"),
        ("sometimes", "has 1 field, expected 5", "every weekday at 9"),
        ("60 * * * *", "minute is '60', expected 0-59", "0-59"),
        ("0 24 * * *", "hour is '24', expected 0-23", "0-23"),
        ("0 0 0 * *", "day of month is '0', expected 1-31", "1-31"),
        ("0 0 32 * *", "day of month is '32', expected 1-31", "1-31"),
        ("0 0 * 13 *", "month is '13', expected 1-12", "1-12"),
        ("0 0 * 0 *", "month is '0', expected 1-12", "1-12"),
        ("0 0 * * 8", "day of week is '8', expected 0-7", "0-7"),
        ("60 0 0 * * *", "second is '60', expected 0-59", "0-59"),
        ("0 0 ? * *", "? is not supported", "*"),
        ("0 0 * * ?", "? is not supported", "*"),
        ("0~30 * * * *", "~ (a random time) is not supported", "H"),
        ("0 0 LW * *", "LW is not supported", "L5"),
        ("0 0 L-3 * *", "L with an offset is not supported", "L"),
        ("0 0 1-L * *", "a range to L is not supported", "31"),
        ("0 0 W15 * *", "W comes after the day", "15W"),
        ("0 0 1-5W * *", "W needs one day", "15W"),
        ("0 0 15W,20 * *", "expected only one nearest weekday", "trigger"),
        ("0 0 * * 5L", "the last weekday is written L and a number", "L5"),
        ("0 0 * * LFRI", "the last weekday is written L and a number", "L5"),
        ("0 0 * * L", "L stands in the day fields only", "L5"),
        ("L 0 * * *", "L stands in the day fields only", "L5"),
        ("0 0 * * 15W", "W stands in the day of month only", "15W"),
        ("0 0 * * 5#6", "expected # and a number from 1 to 5", "L5"),
        ("0 0 * * 5#0", "expected # and a number from 1 to 5", "L5"),
        ("0 0 * * MON-FRI#2", "a range with # is not supported", "1#2"),
        ("0 0 5#2 * *", "# stands in the day of week only", "FRI#2"),
        ("0 0 * * 1,5#2", "plain days or n-th and last days, not both", "two triggers"),
        ("0 0 * * *,5#2", "plain days or n-th and last days, not both", "two triggers"),
        ("0 0 * * monday", "names have three letters", "write MON"),
        ("0 2 * * * root", "six fields begin with seconds", "--user"),
        ("0 0 2 * * friday", "names have three letters", "write FRI"),
        ("0 0 * * someday", "names have three letters", "SUN-SAT"),
        ("MON 0 * * *", "minute is 'MON', expected 0-59", "0-59"),
        ("0 0 * MON *", "month is 'MON', expected 1-12", "JAN-DEC"),
        ("-5 * * * *", "negative numbers are not supported", "1-5"),
        ("0,,5 * * * *", "an item of a list is empty", "commas"),
        ("5, * * * *", "an item of a list is empty", "commas"),
        ("*-5 * * * *", "expected 0-59", "range"),
        ("*5 * * * *", "minute is '*5', expected 0-59", "*"),
        ("1.5 * * * *", "minute is '1.5', expected 0-59", "*"),
        ("1-2-3 * * * *", "minute is '1-2-3', expected 0-59", "*"),
        ("1/2/3 * * * *", "minute is '1/2/3', expected 0-59", "*"),
        ("00005 * * * *", "the number is too long", "value"),
        ("H,30 * * * *", "expected only H in its field", "trigger"),
        ("H(30-10) * * * *", "expected a range from low to high", "lower"),
        ("H(0-99) * * * *", "minute is '99', expected 0-59", "0-59"),
        ("H/0 * * * *", "expected a step of at least 1", "H/1"),
        ("@reboot", "macro '@reboot' is unknown", "on boot"),
        ("@every 5m", "macro '@every' is unknown", "every 5m"),
        ("@fortnightly", "macro '@fortnightly' is unknown", "five fields"),
        ("@daily @daily", "macro '@daily' is unknown", "five fields"),
        ("٣ * * * *", "not printable ASCII", "digits"),
        ("0 0 * * ５", "not printable ASCII", "digits"),
        ("0\u00a02 * * *", "not printable ASCII", "digits"),
        ("0 2 * * *\x00", "not printable ASCII", "digits"),
        ("0 2 * * *\n0 3 * * *", "not printable ASCII", "digits"),
        ("", "trigger is empty", "every 15m"),
        ("   ", "trigger is empty", "every 15m"),
        ("every", "is not understood", "every 15m"),
        ("every 15 moments", "is not understood", "every 15m"),
        ("every parsec", "'parsec' is not understood", "1h30m"),
        ("every 0m", "is zero", "15m"),
        ("every 200000d", "longer than 100 years", "15m"),
        ("every 15m from", "is not understood", "2026-11-20"),
        ("every 15m from now", "is not understood", "2026-11-20"),
        ("every 15m after lunch", "is not understood", "after end"),
        ("every 15m after end of day", "is not understood", "after end"),
        ("at", "is not understood", "2026-11-20"),
        ("at noon", "is not understood", "2026-11-20"),
        ("at 2026-02-30 09:00", "not on the calendar", "2026-11-20"),
        ("on fire", "is not understood, expected 'on boot' or 'on demand'", "on boot"),
        ("after", "schedule name '' is not usable", "A-Z"),
        ("after 12", "schedule name '12' is not usable", "digits"),
        ("after a b", "schedule name 'a b' is not usable", "a-b"),
        ("after backup:done", "the outcome is 'done', expected success, failure, any", "any"),
        ("after backup:", "the outcome is ''", "any"),
    ],
)
def test_what_is_not_promised_is_refused_by_name(text: str, says: str, hint: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        parse_trigger(text, name="backup")

    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.failure(11)
@pytest.mark.parametrize(
    ("text", "minutes"), [("*/90 * * * *", [0]), ("10/90 * * * *", [10]), ("*/60 * * * *", [0])]
)
def test_a_step_beyond_its_field_is_taken_as_cron_takes_it_with_a_warning(
    text: str, minutes: list[int]
) -> None:
    trigger = parse_trigger(text)

    assert values(text)["minutes"] == minutes
    assert len(trigger.warnings) == 1
    assert "step is longer than the field" in trigger.warnings[0]
    assert parse_trigger("*/30 * * * *").warnings == ()


@pytest.mark.failure(12)
@pytest.mark.parametrize(
    "text",
    [
        ",".join(["1"] * 200_000) + " * * * *",
        "9" * 5_000 + " * * * *",
        "*/" + "9" * 5_000 + " * * * *",
        "every " + "9" * 5_000 + "m",
        "at " + "2" * 100_000,
    ],
)
def test_a_huge_text_is_refused_by_its_length_alone(text: str) -> None:
    with pytest.raises(InvalidTrigger, match=r"characters long, expected at most 256") as caught:
        parse_trigger(text)

    assert len(caught.value.message) < 200


def test_256_characters_are_not_too_many() -> None:
    text = ",".join(["10"] * 80) + " " * 9 + " * * *"
    text += " " * (254 - len(text)) + " *"

    assert len(text) == 256
    assert parse_trigger(text).text.endswith("10 * * * *")


@pytest.mark.parametrize("text", [None, 5, b"0 2 * * *", ["0 2 * * *"]])
def test_what_is_no_text_is_refused(text: object) -> None:
    with pytest.raises(InvalidTrigger, match="expected text"):
        parse_trigger(text)  # type: ignore[arg-type]


def test_H_without_a_name_is_refused_with_a_hint() -> None:
    with pytest.raises(InvalidTrigger, match="needs a schedule's name") as caught:
        parse_trigger("H 2 * * *")

    assert "give a schedule name" in (caught.value.hint or "")
    assert parse_trigger("@daily", name="backup", seed=b"x").text == "@daily"
