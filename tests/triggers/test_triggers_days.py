"""The day fields against the calendar, day by day; and the days that are easy to get wrong."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

import pytest

from edgecron.base.errors import InvalidTrigger
from edgecron.base.tzif import Spans
from edgecron.triggers import CronTrigger, parse_trigger
from edgecron.triggers.fields import DayRule
from tests.support.forms import tried
from tests.triggers.triggers_oracle import Expression

EPOCH = date(1970, 1, 1)
DAYS = ["*", "1", "31", "13", "1-7", "*/2", "*/10", "29-31", "L", "15,L", "1W", "15W", "31W", "28W"]
WEEKDAYS = ["*", "0", "7", "1-5", "5-7", "*/2", "L0", "L5,L1", "1#1", "5#5", "SUN#3,2#4"]
MONTHS = ["*", "2", "1,3,12", "FEB-APR", "*/5"]


def rule_of(text: str) -> DayRule:
    trigger = parse_trigger(text)
    assert isinstance(trigger, CronTrigger)
    return trigger.fields.rule


@pytest.mark.parametrize("weekday", WEEKDAYS)
def test_the_day_fields_agree_with_the_calendar_over_eleven_years(weekday: str) -> None:
    start, end = date(2095, 12, 1), date(2106, 12, 31)
    first, until = (start - EPOCH).days, (end - EPOCH).days
    chance = random.Random(weekday)
    # Each field of a day with each second one of a weekday; all of them while a mutation is hunted.
    for day in DAYS[tried(WEEKDAYS.index(weekday) % 2, 0) :: tried(2, 1)]:
        text = f"0 0 {day} {chance.choice(MONTHS)} {weekday}"
        expression = Expression(text)

        expected = [
            number
            for number in range(first, until)
            for on in [EPOCH + timedelta(days=number)]
            if expression.is_day(on.year, on.month, on.day)
        ]

        if not expected:
            with pytest.raises(InvalidTrigger, match="can never fire"):
                parse_trigger(text)
            continue
        rule = rule_of(text)
        assert rule.count(first, until) == len(expected), text
        for _ in range(60):
            low, high = sorted(chance.randrange(first, until) for _ in range(2))
            if chance.random() < 0.6:
                high = min(low + chance.randrange(40), until)
            part = [number for number in expected if low <= number < high]
            assert rule.first(low, high) == (part[0] if part else None), text
            assert rule.last(high - 1, low) == (part[-1] if part else None), text
            assert rule.count(low, high) == len(part), text


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        # 1 August 2026 is a Saturday, 31 May 2026 a Sunday, 15 August 2026 a Saturday.
        ("0 0 1W * *", "2026-07-31", "2026-08-03"),
        ("0 0 31W * *", "2026-05-01", "2026-05-29"),
        ("0 0 15W * *", "2026-08-01", "2026-08-14"),
        ("0 0 15W * *", "2026-11-01", "2026-11-16"),
        # A month that ends before the day: its last weekday.
        ("0 0 31W * *", "2026-11-01", "2026-11-30"),
        ("0 0 L * *", "2028-02-01", "2028-02-29"),
        ("0 0 L * *", "2100-02-01", "2100-02-28"),
        ("0 0 * * L5", "2026-11-01", "2026-11-27"),
        ("0 0 * * 5#5", "2026-11-01", "2027-01-29"),
        ("0 0 13 * 5#2", "2027-03-01", "2027-03-12"),
        ("0 0 13 * 5#2", "2027-03-12", "2027-03-13"),
        ("0 0 29 2 *", "2096-03-01", "2104-02-29"),
    ],
)
def test_a_special_day_falls_where_the_calendar_says(text: str, after: str, expected: str) -> None:
    trigger = parse_trigger(text)

    found = trigger.next_after(datetime.fromisoformat(after).replace(tzinfo=UTC))

    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_a_mark_is_the_highest_wall_time_of_all_earlier_spans() -> None:
    # Back by two hours, and an hour later forward by one: the wall clock is where it was.
    spans = Spans([(-(10**12), 7200), (1_000_000, 0), (1_003_600, 3600)], 2_000_000)

    assert spans.marks[1:] == [1_007_200, 1_007_200]


def test_a_change_without_a_new_offset_makes_no_span() -> None:
    spans = Spans([(-(10**12), 3600), (500, 3600), (1000, 0), (1000, 3600), (2000, 0)], 10_000)

    assert spans.starts == [-(10**12), 2000]
    assert spans.offsets == [3600, 0]
