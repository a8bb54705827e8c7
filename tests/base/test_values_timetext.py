"""Durations and instants as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecron.base.errors import InvalidDuration, InvalidTime
from edgecron.base.units import (
    MAX_DURATION_MS,
    format_duration_ms,
    format_instant,
    format_ms,
    from_ms,
    parse_duration_ms,
    parse_instant,
    to_ms,
)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("250ms", 250),
        ("90s", 90_000),
        ("15m", 900_000),
        ("6h", 21_600_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("1h30m", 5_400_000),
        (" 15m ", 900_000),
        ("1d0h1s", 86_401_000),
        ("1mo", 30 * 86_400_000),
        ("1H30m", 5_400_000),
    ],
)
def test_a_duration_is_a_number_and_a_unit_repeated(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    "text",
    ["", " ", "15", "m", "1.5h", "-5m", "5 m", "5parsecs", "1h 30m", "١٥m", "5M", "0s", "0h0m",
     "2h2h", "1h30m1h", "1m1M", "101w5300", "37000d", "9999999999999s", "15m\n5s", "1e3s"],
)  # fmt: skip
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidDuration):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["1M", "1h1M"])
def test_a_capital_m_could_be_a_minute_or_a_month(text: str) -> None:
    with pytest.raises(InvalidDuration, match=r"1mo or 1m\?") as caught:
        parse_duration_ms(text)

    assert caught.value.hint == "write 1m for minutes, or 30d for months of 30 days"


@pytest.mark.failure(12)
def test_a_text_of_a_megabyte_is_refused_in_a_short_message() -> None:
    with pytest.raises(InvalidDuration) as duration:
        parse_duration_ms("1h" * 500_000 + "x")
    with pytest.raises(InvalidTime) as instant:
        parse_instant("2026" * 250_000)

    assert len(duration.value.message) < 200
    assert len(instant.value.message) < 200


@given(st.integers(1, MAX_DURATION_MS))
def test_a_duration_reads_back_exactly(duration_ms: int) -> None:
    assert parse_duration_ms(format_duration_ms(duration_ms)) == duration_ms


def test_no_duration_at_all_has_a_text() -> None:
    assert format_duration_ms(0) == "0s"


@given(st.integers(to_ms(datetime(1, 1, 1, tzinfo=UTC)), to_ms(datetime(9999, 12, 31, tzinfo=UTC))))
def test_an_instant_reads_back_exactly(instant_ms: int) -> None:
    text = format_instant(from_ms(instant_ms))

    assert to_ms(parse_instant(text)) == instant_ms
    assert format_ms(instant_ms) == text


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (datetime(2026, 11, 20, 8, 0, tzinfo=UTC), "2026-11-20T08:00:00Z"),
        (datetime(2026, 11, 20, 8, 0, 0, 7000, tzinfo=UTC), "2026-11-20T08:00:00.007Z"),
        (datetime(2026, 11, 20, 8, 0, 0, 999, tzinfo=UTC), "2026-11-20T08:00:00Z"),
        (datetime(2026, 11, 20, 9, tzinfo=timezone(timedelta(hours=1))), "2026-11-20T08:00:00Z"),
        (datetime(33, 1, 2, tzinfo=UTC), "0033-01-02T00:00:00Z"),
    ],
)
def test_an_instant_is_shown_in_utc(instant: datetime, text: str) -> None:
    assert format_instant(instant) == text


def test_nothing_stays_nothing() -> None:
    assert format_ms(None) is None


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-11-20", "2026-11-20T08:00:00", "08:00", "2026-13-01T00:00:00Z",
     "2026-11-20T24:30:00Z", "0001-01-01T00:00:00+05:00", "２０２６-11-20T08:00:00Z"],
)  # fmt: skip
def test_a_time_without_an_offset_or_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidTime):
        parse_instant(text)


def test_milliseconds_are_rounded_down_before_1970_too() -> None:
    assert to_ms(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
