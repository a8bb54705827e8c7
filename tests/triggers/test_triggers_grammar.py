"""What a trigger text may say, what is refused and with which words, and how it reads back."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from edgecron.errors import InvalidTime, InvalidTrigger, UnknownTimezone
from edgecron.triggers import (
    AfterEndTrigger,
    AfterTrigger,
    CronTrigger,
    EveryTrigger,
    TriggerKind,
    at,
    cron,
    dump_trigger,
    every,
    from_json,
    load_trigger,
    parse_trigger,
)
from edgecron.triggers.gate import MACROS

GOOD = [
    "0 2 * * *",
    "*/15 9-17 * * MON-FRI",
    "30 0 2 * * *",
    "@daily",
    "@Yearly",
    "0 0 L * *",
    "0 0 15W * *",
    "0 9 * * L5",
    "0 9 13 * 5#2",
    "0 9 31 4 0",
    "0 9 * * FRI-SUN",
    "5/10 * * jan,MAR 7",
    "every 15m",
    "every 250ms",
    "every 90m from 2026-11-20T08:00:00Z",
    "every 1h after end",
    "at 2026-11-20T08:00:00Z",
    "at 2026-11-20T08:00:00.250Z",
    "on boot",
    "after backup",
    "after backup:failure",
    "after a.b-c_1:any",
]


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def values(text: str) -> dict[str, object]:
    trigger = parse_trigger(text, name="backup")
    assert isinstance(trigger, CronTrigger)
    return trigger.fields.to_json()


@pytest.mark.parametrize("timezone", [None, "Europe/Berlin", "local"])
@pytest.mark.parametrize("text", GOOD)
def test_text_and_json_read_back_as_the_same_trigger(text: str, timezone: str | None) -> None:
    trigger = parse_trigger(text, timezone)

    again = parse_trigger(trigger.text, timezone)
    loaded = load_trigger(dump_trigger(trigger))

    assert again == trigger
    assert loaded == trigger
    assert hash(loaded) == hash(trigger)
    assert from_json(trigger.to_json()) == trigger
    assert again.text == trigger.text
    assert loaded.timezone == timezone
    start_ms = ms("2026-03-01T00:00Z")
    assert loaded.next_after_ms(start_ms) == trigger.next_after_ms(start_ms)


def test_equal_compiled_texts_give_the_same_object() -> None:
    text = dump_trigger(parse_trigger("0 2 * * *", "Europe/Berlin"))

    assert load_trigger(text) is load_trigger(text)


def test_white_space_is_normalised_and_names_are_kept_as_written() -> None:
    trigger = parse_trigger("  0\t9  * Jan-MAR   Mon ")

    assert trigger.text == "0 9 * Jan-MAR Mon"


def test_a_trigger_is_frozen_and_copies_as_itself() -> None:
    trigger = parse_trigger("0 2 * * *")

    with pytest.raises(AttributeError):
        trigger.text = "* * * * *"

    assert copy.deepcopy(trigger) is trigger


def test_zones_and_anchors_tell_triggers_apart() -> None:
    anchored = parse_trigger("every 7m", anchor=datetime(2026, 1, 1, 0, 3, tzinfo=UTC))

    assert parse_trigger("0 2 * * *", "Europe/Berlin") != parse_trigger("0 2 * * *")
    assert anchored != parse_trigger("every 7m")
    assert from_json(anchored.to_json()) == anchored


@pytest.mark.parametrize("macro", sorted(MACROS))
def test_a_macro_is_its_five_fields(macro: str) -> None:
    plain = values(MACROS[macro])

    assert values(macro) == plain
    assert parse_trigger(macro).text == macro


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("5/20 * * * *", "minutes", [5, 25, 45]),
        ("59/15 * * * *", "minutes", [59]),
        ("10-30/10 * * * *", "minutes", [10, 20, 30]),
        ("*/25 * * * *", "minutes", [0, 25, 50]),
        ("3,1,2,1 * * * *", "minutes", [1, 2, 3]),
        ("5-5 * * * *", "minutes", [5]),
        ("5-5/3 * * * *", "minutes", [5]),
        ("0-59 * * * *", "minutes", list(range(60))),
        ("0 23/1 * * *", "hours", [23]),
        ("0 0 * DEC/3 *", "months", [12]),
        ("0 0 * jan-Mar *", "months", [1, 2, 3]),
        ("0 0 * * MON-MON", "weekdays", [1]),
        ("0 0 * * 7", "weekdays", [0]),
        ("0 0 * * 7-7", "weekdays", [0]),
        ("0 0 * * SUN-SUN", "weekdays", [0]),
        ("0 0 * * 5-7", "weekdays", [0, 5, 6]),
        ("0 0 * * FRI-SUN", "weekdays", [0, 5, 6]),
        ("0 0 * * fri-7", "weekdays", [0, 5, 6]),
        ("0 0 * * 1-7/2", "weekdays", [0, 1, 3, 5]),
        ("0 0 * * 0-7", "weekdays", [0, 1, 2, 3, 4, 5, 6]),
        ("0 0 * * 6-7,1", "weekdays", [0, 1, 6]),
        ("0 0 * * SUN-TUE", "weekdays", [0, 1, 2]),
        ("0 0 * * L7", "last_weekdays", [0]),
        ("0 0 * * L5,l1", "last_weekdays", [1, 5]),
        ("0 0 * * 5#2,FRI#4,7#1", "nth_weekdays", [[0, 1], [5, 2], [5, 4]]),
        ("0 0 15W * *", "nearest_weekdays", [15]),
        ("0 0 15W * *", "days", []),
        ("0 0 L,15 * *", "last_day", True),
        ("15 0 0 * * *", "seconds", [15]),
        ("*/20 0 0 * * *", "seconds", [0, 20, 40]),
    ],
)
def test_a_field_holds_what_cron_means_by_it(text: str, key: str, expected: object) -> None:
    assert values(text)[key] == expected


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


def test_the_31st_of_april_ored_with_sunday_is_every_sunday_in_april() -> None:
    trigger = parse_trigger("0 9 31 4 0")

    assert trigger.next_after(datetime(2026, 4, 1, tzinfo=UTC)) == datetime(
        2026, 4, 5, 9, tzinfo=UTC
    )
    assert trigger.count_ms(ms("2026-01-01T00:00Z"), ms("2027-01-01T00:00Z")) == 4


def test_a_leap_day_on_a_sunday_is_found_forty_years_ahead() -> None:
    trigger = parse_trigger("0 0 29 2 */7")

    found = trigger.next_after(datetime(2088, 2, 29, tzinfo=UTC))

    assert found == datetime(2128, 2, 29, tzinfo=UTC)


def test_a_step_in_a_day_field_is_anded_and_a_plain_pair_is_ored() -> None:
    stepped = parse_trigger("0 0 */2 * 5")
    plain = parse_trigger("0 0 13 * 5#2")

    # November 2026: Fridays are 6, 13, 20, 27; the second is the 13th itself.
    assert stepped.count_ms(ms("2026-10-31T12:00Z"), ms("2026-11-30T12:00Z")) == 2
    assert plain.count_ms(ms("2026-11-30T12:00Z"), ms("2026-12-31T12:00Z")) == 2


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
        ("hourly", "has 1 field, expected 5", "@hourly"),
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
        ("0 0 15W,20 * *", "expected a nearest weekday alone", "trigger"),
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
        ("0 0 * * monday", "names have three letters", "SUN-SAT"),
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
        ("H,30 * * * *", "expected H alone in its field", "trigger"),
        ("H(30-10) * * * *", "expected a range from low to high", "lower"),
        ("H(0-99) * * * *", "minute is '99', expected 0-59", "0-59"),
        ("H/0 * * * *", "expected a step of at least 1", "H/1"),
        ("@reboot", "macro '@reboot' is not known", "on boot"),
        ("@every 5m", "macro '@every' is not known", "every 5m"),
        ("@fortnightly", "macro '@fortnightly' is not known", "five fields"),
        ("@daily @daily", "macro '@daily' is not known", "five fields"),
        ("٣ * * * *", "not printable ASCII", "digits"),
        ("0 0 * * ５", "not printable ASCII", "digits"),
        ("0\u00a02 * * *", "not printable ASCII", "digits"),
        ("0 2 * * *\x00", "not printable ASCII", "digits"),
        ("0 2 * * *\n0 3 * * *", "not printable ASCII", "digits"),
        ("", "trigger is empty", "every 15m"),
        ("   ", "trigger is empty", "every 15m"),
        ("every", "is not understood", "every 15m"),
        ("every 15 minutes", "is not understood", "every 15m"),
        ("every parsec", "'parsec' is not understood", "1h30m"),
        ("every 0m", "is zero", "every 15m"),
        ("every 200000d", "longer than 100 years", "every 15m"),
        ("every 15m from", "is not understood", "2026-11-20"),
        ("every 15m from now", "is not understood", "2026-11-20"),
        ("every 15m after lunch", "is not understood", "after end"),
        ("every 15m after end of day", "is not understood", "after end"),
        ("at", "is not understood", "2026-11-20"),
        ("at noon", "is not understood", "2026-11-20"),
        ("at 2026-02-30 09:00", "not on the calendar", "2026-11-20"),
        ("on fire", "is not understood, expected 'on boot'", "on boot"),
        ("after", "schedule name '' is not usable", "A-Z"),
        ("after 12", "schedule name '12' is not usable", "digits"),
        ("after a b", "schedule name 'a b' is not usable", "A-Z"),
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
def test_a_huge_text_is_refused_at_once_by_its_length(text: str) -> None:
    started = time.perf_counter()

    with pytest.raises(InvalidTrigger, match=r"characters long, expected at most 256") as caught:
        parse_trigger(text)

    assert time.perf_counter() - started < 0.1
    assert len(caught.value.message) < 200


def test_256_characters_are_not_too_many() -> None:
    text = ",".join(["10"] * 80) + " " * 9 + " * * *"
    text += " " * (254 - len(text)) + " *"

    assert len(text) == 256
    assert parse_trigger(text).text.endswith("10 * * * *")


@pytest.mark.parametrize("text", [None, 5, b"0 2 * * *", ["0 2 * * *"]])
def test_what_is_no_text_is_refused(text: object) -> None:
    with pytest.raises(InvalidTrigger, match="expected a text"):
        parse_trigger(text)  # type: ignore[arg-type]


def test_H_is_stable_and_depends_on_name_and_seed() -> None:
    one = parse_trigger("H H * * *", name="backup", seed=b"one")
    names = {dump_trigger(parse_trigger("H H * * *", name=f"job{n}")) for n in range(50)}
    seeds = {
        dump_trigger(parse_trigger("H H * * *", name="backup", seed=bytes([n]))) for n in range(50)
    }

    assert one == parse_trigger("H H * * *", name="backup", seed=b"one")
    assert from_json(one.to_json()) == one
    assert len(names) > 40
    assert len(seeds) > 40


@pytest.mark.parametrize("name", [f"job{n}" for n in range(40)])
def test_H_stays_within_its_range(name: str) -> None:
    trigger = parse_trigger("H(10-19)/4 H(2-5) H H H", name=name)
    assert isinstance(trigger, CronTrigger)
    fields = trigger.fields

    assert 10 <= fields.minutes[0] <= 13
    assert {b - a for a, b in zip(fields.minutes, fields.minutes[1:], strict=False)} == {4}
    assert fields.minutes[-1] <= 19
    assert 2 <= fields.hours[0] <= 5
    assert 1 <= fields.rule.days[0] <= 28
    assert 0 <= fields.rule.weekdays[0] <= 6


def test_H_without_a_name_is_refused_with_a_hint() -> None:
    with pytest.raises(InvalidTrigger, match="needs a schedule's name") as caught:
        parse_trigger("H 2 * * *")

    assert "give a schedule name" in (caught.value.hint or "")
    assert parse_trigger("@daily", name="backup", seed=b"x").text == "@daily"


@pytest.mark.failure(14)
def test_every_is_a_grid_that_does_not_drift() -> None:
    anchor = datetime(2026, 11, 20, 8, 0, 7, 999_000, tzinfo=UTC)
    trigger = parse_trigger("every 7m", anchor=anchor)
    after_ms = ms("2026-11-20T08:00:07Z")

    for number in range(1, 5000):
        after_ms = trigger.next_after_ms(after_ms) or 0
        assert after_ms == ms("2026-11-20T08:00:07Z") + number * 7 * 60_000


@pytest.mark.failure(14)
def test_every_day_counted_over_clock_changes_stays_a_day() -> None:
    trigger = parse_trigger("every 1d from 2026-03-01T08:00:00Z", "Europe/Berlin")

    count = trigger.count_ms(ms("2026-03-01T07:59Z"), ms("2027-03-01T07:59Z"))

    assert count == 365
    assert trigger.last_ms(0, ms("2027-03-01T07:59Z")) == ms("2027-02-28T08:00Z")


def test_a_grid_with_a_start_has_nothing_before_it_and_a_bare_one_has() -> None:
    bounded = parse_trigger("every 15m from 2026-11-20T08:05:00Z")
    bare = parse_trigger("every 15m", anchor=datetime(2026, 11, 20, 8, 5, tzinfo=UTC))

    assert bounded.next_after_ms(0) == ms("2026-11-20T08:05Z")
    assert bounded.next_after_ms(ms("2026-11-20T08:05Z")) == ms("2026-11-20T08:20Z")
    assert bounded.count_ms(0, ms("2026-11-20T08:20Z")) == 2
    assert bounded.last_ms(0, ms("2026-11-20T08:04Z")) is None
    assert bare.next_after_ms(ms("2026-11-20T07:00Z")) == ms("2026-11-20T07:05Z")
    assert bare.count_ms(ms("2026-11-20T07:00Z"), ms("2026-11-20T08:00Z")) == 4


def test_a_bare_every_without_an_anchor_counts_from_1970() -> None:
    trigger = parse_trigger("every 15m")

    assert trigger.next_after_ms(1) == 15 * 60_000
    assert trigger.interval_hint_ms(0) == 15 * 60_000
    assert isinstance(trigger, EveryTrigger)
    assert trigger.interval_ms == 15 * 60_000


@pytest.mark.parametrize(
    ("duration", "text"),
    [("15m", "every 15m"), (90, "every 1m30s"), (0.25, "every 250ms"),
     (timedelta(days=2, hours=1), "every 2d1h")],
)  # fmt: skip
def test_every_takes_a_text_a_timedelta_or_seconds(
    duration: str | float | timedelta, text: str
) -> None:
    assert every(duration).text == text
    assert every(duration) == parse_trigger(text)


@pytest.mark.parametrize(
    "duration", ["", "x", 0, -1, 1e-9, 1e300, float("nan"), float("inf"), timedelta(0)]
)
def test_every_refuses_what_is_no_duration(duration: str | float | timedelta) -> None:
    with pytest.raises(InvalidTrigger):
        every(duration)


def test_an_instant_fires_once() -> None:
    trigger = at(datetime(2026, 11, 20, 9, tzinfo=UTC))
    at_ms = ms("2026-11-20T09:00Z")

    assert trigger.text == "at 2026-11-20T09:00:00Z"
    assert trigger.next_after_ms(at_ms - 1) == at_ms
    assert trigger.next_after_ms(at_ms) is None
    assert trigger.count_ms(at_ms - 1, at_ms) == 1
    assert trigger.count_ms(at_ms, at_ms + 1) == 0
    assert trigger.last_ms(0, at_ms) == at_ms
    assert trigger.interval_hint_ms(0) is None
    with pytest.raises(InvalidTrigger, match="no offset"):
        at(datetime(2026, 11, 20, 9))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at 2026-07-01 09:00", "at 2026-07-01T07:00:00Z"),
        ("at 2026-07-01T09:00:30", "at 2026-07-01T07:00:30Z"),
        ("AT 2026-07-01", "at 2026-06-30T22:00:00Z"),
        ("at 2026-07-01T09:00+05:30", "at 2026-07-01T03:30:00Z"),
        # In the gap: its end. Repeated: the first pass.
        ("at 2026-03-29 02:30", "at 2026-03-29T01:00:00Z"),
        ("at 2026-10-25 02:30", "at 2026-10-25T00:30:00Z"),
    ],
)
def test_a_local_time_without_an_offset_is_read_in_the_zone(text: str, expected: str) -> None:
    assert parse_trigger(text, "Europe/Berlin").text == expected


def test_event_driven_triggers_have_no_plan_times() -> None:
    boot, after, after_end = (
        parse_trigger(text) for text in ("ON Boot", "after backup:FAILURE", "every 1h after end")
    )

    assert [t.kind for t in (boot, after, after_end)] == [
        TriggerKind.BOOT,
        TriggerKind.AFTER,
        TriggerKind.AFTER_END,
    ]
    for trigger in (boot, after, after_end):
        assert trigger.next_after(datetime(2026, 1, 1, tzinfo=UTC)) is None
        assert trigger.count_ms(0, ms("2030-01-01T00:00Z")) == 0
        assert trigger.last_ms(0, ms("2030-01-01T00:00Z")) is None
    assert isinstance(after, AfterTrigger)
    assert (after.upstream, after.on) == ("backup", "failure")
    assert isinstance(after_end, AfterEndTrigger)
    assert after_end.interval_ms == 3_600_000
    assert parse_trigger("after backup:success").text == "after backup"


def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(InvalidTime, match="no offset"):
        cron("0 2 * * *").next_after(datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.failure(13)
def test_the_next_time_is_strictly_later_than_the_instant_asked() -> None:
    trigger = cron("0 2 * * *")

    assert trigger.next_after_ms(ms("2026-01-01T02:00Z")) == ms("2026-01-02T02:00Z")
    assert trigger.next_after_ms(ms("2026-01-01T02:00Z") - 1) == ms("2026-01-01T02:00Z")


@pytest.mark.failure(9)
@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "cronn"},
        {"timezone": 5},
        {"fields": None},
        {"fields": {}},
        {"text": None, "kind": "after"},
        {"kind": "every", "interval_ms": 0, "anchor_ms": 0},
    ],
)
def test_a_damaged_compiled_form_is_refused(damage: dict[str, object]) -> None:
    good = parse_trigger("0 2 * * *").to_json()

    with pytest.raises((InvalidTrigger, UnknownTimezone)):
        from_json({**good, **damage})
    for text in ("", "{", "[]", "null", "5", "{}"):
        with pytest.raises(InvalidTrigger, match="damaged"):
            load_trigger(text)


@pytest.mark.failure(9)
def test_a_zone_that_is_no_more_is_refused_when_read() -> None:
    stored = dump_trigger(parse_trigger("0 2 * * *", "Europe/Berlin"))

    with pytest.raises(UnknownTimezone, match="Europe/Atlantis"):
        load_trigger(stored.replace("Europe/Berlin", "Europe/Atlantis"))


def test_reading_a_compiled_trigger_never_imports_croniter() -> None:
    stored = dump_trigger(parse_trigger("0 2 * * *", "Europe/Berlin"))
    program = (
        "import sys\n"
        "from edgecron.triggers import load_trigger\n"
        f"assert load_trigger({stored!r}).next_after_ms(0)\n"
        "heavy = {'croniter', 'asyncio', 'rich', 'textual', 'difflib', 'inspect', 'zoneinfo'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"
