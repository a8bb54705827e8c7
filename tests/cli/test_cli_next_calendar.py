"""Upcoming runs as an iCalendar file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from edgecron.cli.list_ import write_calendar
from edgecron.planning.forecast import UpcomingFire

NOW = datetime(2026, 11, 28, 8, 0, tzinfo=UTC)
PLAN = datetime(2026, 11, 29, 2, 30, tzinfo=UTC)


def fire(schedule: str = "nightly", *, source: str | None = "30 2 * * *") -> UpcomingFire:
    return UpcomingFire(
        schedule=schedule, plan_at=PLAN, due_at=PLAN + timedelta(seconds=90), source=source
    )


def test_a_fire_is_an_event_at_the_time_when_it_can_start() -> None:
    assert write_calendar([fire()], origin="uuid-1", now=NOW).split("\r\n") == [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//edgecron//next//EN",
        "BEGIN:VEVENT",
        "UID:20261129T023000Z-nightly@uuid-1",
        "DTSTAMP:20261128T080000Z",
        "DTSTART:20261129T023130Z",
        "DTEND:20261129T023230Z",
        "SUMMARY:nightly",
        "DESCRIPTION:30 2 * * *",
        "TRANSP:TRANSPARENT",
        "END:VEVENT",
        "END:VCALENDAR",
        "",
    ]


def test_without_fires_it_is_an_empty_calendar() -> None:
    assert "VEVENT" not in write_calendar([], origin="uuid-1", now=NOW)


def test_special_letters_are_escaped_and_no_line_can_be_added() -> None:
    written = write_calendar([fire(source="a;b,c\\d\nEND:VEVENT")], origin="uuid-1", now=NOW)

    assert "DESCRIPTION:a\\;b\\,c\\\\d\\nEND:VEVENT\r\n" in written


def test_long_lines_are_folded_within_75_octets_and_no_letter_is_cut() -> None:
    source = "0 9 * * * " + "é" * 100
    written = write_calendar([fire(source=source)], origin="uuid-1", now=NOW)

    assert all(len(line.encode()) <= 75 for line in written.split("\r\n"))
    assert f"DESCRIPTION:{source}\r\n" in written.replace("\r\n ", "")
