"""iCalendar files: which days and times their events take."""

from __future__ import annotations

from datetime import date

import pytest

from edgecron.base.errors import InvalidInput
from edgecron.formats.calendar_files import read_calendar


def file_of(*events: str) -> str:
    body = "".join(f"BEGIN:VEVENT\nUID:{n}\n{one}\nEND:VEVENT\n" for n, one in enumerate(events))
    return f"BEGIN:VCALENDAR\nVERSION:2.0\n{body}END:VCALENDAR\n".replace("\n", "\r\n")


def items(*events: str, timezone: str | None = "UTC") -> tuple[str, ...]:
    return read_calendar(
        file_of(*events), timezone=timezone, since=date(2026, 1, 1), until=date(2029, 1, 1)
    )


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("DTSTART;VALUE=DATE:20261224", "2026-12-24"),
        ("DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261225", "2026-12-24"),
        ("DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20270103", "2026-12-24..2027-01-02"),
        ("DTSTART;VALUE=DATE:20261224\nDURATION:P2D", "2026-12-24..2026-12-25"),
        (
            "DTSTART:20261224T090000Z\nDTEND:20261224T110000Z",
            "2026-12-24T09:00:00Z..2026-12-24T11:00:00Z",
        ),
        (
            'DTSTART;TZID="Europe/Berlin":20260701T090000\nDURATION:PT1H30M',
            "2026-07-01T07:00:00Z..2026-07-01T08:30:00Z",
        ),
        (
            "DTSTART:20260701T090000\nDTEND:20260701T100000",
            "2026-07-01T13:00:00Z..2026-07-01T14:00:00Z",
        ),
    ],
)
def test_an_event_takes_its_days_or_times(event: str, expected: str) -> None:
    assert items(event, timezone="America/New_York") == (expected,)


def test_an_event_without_length_or_that_is_cancelled_takes_nothing() -> None:
    assert items("DTSTART:20261224T090000Z") == ()
    assert items("DTSTART;VALUE=DATE:20261224\nSTATUS:CANCELLED") == ()


def test_long_lines_and_alarms_are_read_as_the_standard_says() -> None:
    event = (
        "SUMMARY:a long\n  line\nDTSTART;VALUE=DA\n TE:20261224\n"
        "BEGIN:VALARM\nDTSTART;VALUE=DATE:20200101\nEND:VALARM"
    )
    assert items(event) == ("2026-12-24",)


def test_repeated_events_come_in_each_year_but_for_their_exceptions() -> None:
    event = (
        "DTSTART;VALUE=DATE:20201224\nRRULE:FREQ=YEARLY\n"
        "EXDATE;VALUE=DATE:20271224\nRDATE;VALUE=DATE:20270501"
    )
    assert items(event) == ("2026-12-24", "2027-05-01", "2028-12-24")


def test_an_event_that_moves_one_of_a_series_replaces_it() -> None:
    series = "DTSTART;VALUE=DATE:20261201\nRRULE:FREQ=WEEKLY;COUNT=3"
    moved = "UID:0\nRECURRENCE-ID;VALUE=DATE:20261208\nDTSTART;VALUE=DATE:20261210"
    text = file_of(series, moved).replace("UID:1\r\n", "")

    found = read_calendar(text, timezone="UTC", since=date(2026, 1, 1), until=date(2029, 1, 1))

    assert found == ("2026-12-01", "2026-12-10", "2026-12-15")


def test_a_series_keeps_its_time_of_day_when_the_clocks_change() -> None:
    event = (
        "DTSTART;TZID=Europe/Berlin:20261024T090000\nDURATION:PT1H\n"
        "RRULE:FREQ=DAILY;UNTIL=20261025T080000Z"
    )
    assert items(event) == (
        "2026-10-24T07:00:00Z..2026-10-24T08:00:00Z",
        "2026-10-25T08:00:00Z..2026-10-25T09:00:00Z",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "does not begin with BEGIN:VCALENDAR"),
        (file_of("SUMMARY:x"), "no DTSTART"),
        (file_of("DTSTART:tomorrow"), "'tomorrow' of an event is not understood"),
        (file_of("DTSTART;VALUE=DATE:20261399"), "'20261399' of an event is not understood"),
        (file_of("DTSTART;TZID=Nowhere:20261224T090000\nDURATION:PT1H"), "Nowhere"),
        (file_of("DTSTART:20261224T090000Z\nDURATION:soon"), "'soon' of an event"),
        (file_of("DTSTART;VALUE=DATE:20261224\nRRULE:FREQ=HOURLY"), "more often than daily"),
        (file_of("DTSTART;VALUE=DATE:20261224\nRRULE:FREQ=OFTEN"), "RRULE:FREQ=OFTEN"),
        (file_of("DTSTART;VALUE=DATE:20000101\nRRULE:FREQ=DAILY"), "over 1,000 events"),
    ],
)
def test_what_can_not_be_read_is_refused_with_its_reason(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_calendar(text, timezone="UTC", since=date(2026, 1, 1), until=date(2029, 1, 1))
