"""What a trigger text means, and how it reads back from text and from its compiled form."""

from __future__ import annotations

import copy
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from edgecron.base.errors import InvalidTime, InvalidTrigger, UnknownTimezone
from edgecron.triggers import (
    CronTrigger,
    cron,
    dump_trigger,
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
    "on demand",
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
        trigger.text = "* * * * *"  # type: ignore[misc]

    assert copy.deepcopy(trigger) == trigger


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
        ("0-59 * * * *", "minutes", "*"),
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
        ("0 0 * * 0-7", "weekdays", "*"),
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


def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(InvalidTime, match="with an offset"):
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
