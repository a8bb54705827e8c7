"""Windows and days as people write them."""

from __future__ import annotations

from datetime import date

import pytest

from edgecron.base.errors import InvalidInput
from edgecron.base.window_texts import parse_days, parse_window, week_of
from edgecron.model.options import Policies

HOUR_S = 3600
DAY_S = 24 * HOUR_S


@pytest.mark.parametrize(
    ("text", "start_s", "end_s", "weekdays"),
    [
        ("21:00-05:00", 21 * HOUR_S, 29 * HOUR_S, (0, 1, 2, 3, 4, 5, 6)),
        ("9:30-17:00 MON-FRI", 9 * HOUR_S + 1800, 17 * HOUR_S, (0, 1, 2, 3, 4)),
        ("SAT,SUN", 0, DAY_S, (5, 6)),
        ("fri-mon", 0, DAY_S, (0, 4, 5, 6)),
        ("00:00-24:00", 0, DAY_S, (0, 1, 2, 3, 4, 5, 6)),
        ("22:00-00:00 MON,WED-THU", 22 * HOUR_S, DAY_S, (0, 2, 3)),
    ],
)
def test_a_window_is_read(text: str, start_s: int, end_s: int, weekdays: tuple[int, ...]) -> None:
    assert parse_window(text) == (start_s, end_s, weekdays)


@pytest.mark.parametrize(
    "text",
    ["", "21-05", "21:00", "25:00-26:00", "21:60-22:00", "21:00-05:00 MON FRI", "MON-", "XYZ",
     "MON-FRI 21:00-05:00", "-", "21:00-05:00-07:00", "2１:00-05:00"],
)  # fmt: skip
def test_what_is_no_window_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_window(text)
    assert "not understood" in caught.value.message
    assert "21:00-05:00" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("9-17", "09:00-17:00"),
        ("9am-5pm", "09:00-17:00"),
        ("12am-12pm", "00:00-12:00"),
        ("8.30-17.00 Monday-Friday", "08:30-17:00 MON-FRI"),
        ("MON-FRI 21:00-05:00", "21:00-05:00 MON-FRI"),
        ("tuesday,Thurs", "TUE,THU"),
    ],
)
def test_a_rough_window_gets_the_one_that_was_meant(text: str, meant: str) -> None:
    with pytest.raises(InvalidInput, match="not understood") as caught:
        parse_window(text)
    assert caught.value.hint == f"did you mean {meant!r}?"


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is empty"):
        parse_window("09:00-09:00")


def test_a_window_does_not_open_at_the_end_of_a_day() -> None:
    with pytest.raises(InvalidInput, match="opens at 24:00") as caught:
        parse_window("24:00-05:00")
    assert "00:00-05:00" in str(caught.value.hint)


def test_days_are_read_with_both_ends() -> None:
    first, last = parse_days("2026-12-24..2027-01-02")
    assert last - first == (date(2027, 1, 2) - date(2026, 12, 24)).days
    assert parse_days("1970-01-02") == (1, 1)


@pytest.mark.parametrize("text", ["", "24.12.2026", "2026-13-01", "2026-12-24..", "tomorrow"])
def test_what_is_no_day_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match="not understood") as caught:
        parse_days(text)
    assert "2026-12-24" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "hint"),
    [("4.1.2027", "did you mean 2027-01-04?"), ("Sunday", "for days of the week: not-between SUN")],
)
def test_a_day_in_another_form_gets_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_days(text)
    assert caught.value.hint == hint


def test_days_that_end_before_they_begin_are_refused() -> None:
    with pytest.raises(InvalidInput, match="end before they begin"):
        parse_days("2027-01-02..2026-12-24")


def test_a_week_without_any_open_time_is_refused() -> None:
    with pytest.raises(InvalidInput, match="between and not-between leave no time"):
        Policies(between=("09:00-12:00",), not_between=("08:00-17:00",))


def test_too_many_windows_are_refused() -> None:
    with pytest.raises(InvalidInput, match="expected at most"):
        Policies(between=tuple(f"{hour % 24:02}:00-24:00" for hour in range(40)))


def test_too_many_days_are_refused_with_the_way_to_give_them() -> None:
    days = tuple(f"2028-01-{day:02}" for day in range(1, 32))
    Policies(except_days=days)
    with pytest.raises(InvalidInput, match="except has 62 values") as refused:
        Policies(except_days=days * 2)
    assert refused.value.hint is not None
    assert "2026-12-24..2027-01-02" in refused.value.hint


def test_windows_of_a_week_are_joined() -> None:
    week = week_of(("20:00-22:00", "22:00-23:00"), ("21:00-21:30",))
    assert len([at for at, is_open in week if is_open]) == 14
