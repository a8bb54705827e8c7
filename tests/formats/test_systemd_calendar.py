"""Calendar expressions of systemd have the same times in edgecron, or are refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.errors import InvalidInput
from edgecron.base.units import from_ms, to_ms
from edgecron.formats.systemd_calendar import read_calendar, read_span_ms
from edgecron.triggers import parse_trigger
from edgecron.triggers.base import combine
from tests.support.debian import TIMERS, unit_texts
from tests.support.forms import tried
from tests.support.systemd import START, times_of_systemd

YEAR_MS = 366 * 86_400_000


def times_after(expression: str, *, zone: str = "UTC", since: datetime = START) -> Iterator[int]:
    """Yield the times that edgecron has for an expression on a machine in a zone."""
    calendar = read_calendar(expression)
    zone = zone if calendar.timezone == "local" else calendar.timezone
    triggers = combine([parse_trigger(text, zone) for text in calendar.triggers])
    at_ms = triggers.next_after_ms(to_ms(since))
    while at_ms is not None:
        yield at_ms
        at_ms = triggers.next_after_ms(at_ms)


def times_of_edgecron(
    expression: str, count: int, *, zone: str = "UTC", since: datetime = START
) -> list[int]:
    return list(islice(times_after(expression, zone=zone, since=since), count))


@pytest.mark.parametrize(
    "expression",
    [
        *("minutely", "hourly", "daily", "weekly", "monthly", "quarterly", "semiannually"),
        *("yearly", "annually", "anually", "biannually", "Bi-Annually", "semi-annually"),
        *("daily UTC", "weekly Asia/Tokyo", "Sun 04:00 America/Phoenix"),
        *("*-*-* 6,18:00", "*-*-* 00/12:00:00", "*:09,39", "*:00/10", "*:07/20:30", "*:*:0/15"),
        *("Mon..Fri 22:30", "Sat,Mon-Wed,Sun 1:2:3", "Wednesday", "Sun, *-*-* 03:10", "Mon *:0/7"),
        *("Sun *-*-1..7 00:57", "Mon,Fri *-*-08..14", "Tue *-*-22..28,1..7 5:00", "Wed *-*-29..31"),
        *("Sun *-*-01", "Fri *-*-1,13 8:00", "Sun *-*-13", "Sun,Wed *-*-2/5", "Mon *-*-1/3"),
        *("*-*~01 12:00", "*-02~01", "*-04,06,09,11~02..03", "*-1,4~5/2", "*-5,6~2..7/2"),
        *("Mon *-*~07/1", "Thu,Sun *-*~01..07 4:05", "Sat *-3/3~7/1"),
        *("*-12-24 18:00", "12-24", "*-1/4-1..10/3", "2..4-29..31", "*-02-29", "*-10/2-15"),
        *("2026-12-24 06:00:07", "26-12-24", "@1800000000", "2026-02-28 23:59 Asia/Tokyo"),
        *("9..17/4:00", "9..17/20:00", "2..2:00", "0/23:30", "*-*-1/30", "1,2,3,5,8,13,21:0"),
    ],
)
def test_a_carried_expression_has_the_times_that_systemd_reports(expression: str) -> None:
    assert times_of_edgecron(expression, 40) == times_of_systemd(expression, 40)


@pytest.mark.parametrize("expression", ["daily", "Mon 6,18:00", "*-*-1,15 04:30", "*-*~01 5:00"])
def test_the_times_of_a_whole_year_are_the_same(expression: str) -> None:
    ours = times_of_edgecron(expression, 400)

    assert ours == times_of_systemd(expression, 400)
    assert ours[-1] > to_ms(START) + YEAR_MS


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("Fri *-*-13", "wants weekday and day of month both"),
        ("2027-*-01", "names years"),
        ("Mon 2027-01-04", "names years"),
        ("*:*:0/0.5", "fractions of a second"),
        ("10:00:00.25", "fractions of a second"),
        ("*-*~02", "the end of February"),
        ("Mon *-*~02", "its last 7 days"),
        ("*-02-30", "can never fire"),
        ("10:00 Nowhere/Else", "unknown time zone"),
    ],
)
def test_what_edgecron_cannot_express_is_refused_by_name(expression: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_calendar(expression)

    assert reason in refused.value.message


OF_DEBIAN = sorted(
    {
        line.partition("=")[2]
        for units in TIMERS.values()
        for lines in units.values()
        for line in unit_texts(lines)[0].splitlines()
        if line.startswith("OnCalendar=")
    }
)
AT_NIGHT = [
    *("*:0/20", "*:30", "00:30", "02:00", "02:30", "Sun 02:30", "*-*-* 02,03:15", "2,3:0/7"),
    *("*:00/15:10", "01,02:59:59"),
]
CHANGES = [
    ("Europe/Berlin", "2026-03-28"), ("Europe/Berlin", "2026-10-24"),
    ("America/New_York", "2026-03-07"), ("America/New_York", "2026-10-31"),
    ("Australia/Lord_Howe", "2026-04-04"), ("Australia/Lord_Howe", "2026-10-03"),
    ("America/Santiago", "2026-04-04"), ("America/Santiago", "2026-09-05"),
    ("Africa/Cairo", "2026-04-23"), ("Africa/Cairo", "2026-10-29"),
]  # fmt: skip


def as_systemd_has_them(expression: str, *, zone: str, since: datetime, until_ms: int) -> list[int]:
    """Remove what only edgecron runs: after skipped times, and the second of repeated times."""
    around = timedelta(days=2)
    last = from_ms(until_ms) + around
    walls = {
        from_ms(at_ms).replace(tzinfo=None)
        for at_ms in takewhile(to_ms(last).__ge__, times_after(expression, since=since - around))
    }
    found = []
    for at_ms in takewhile(until_ms.__ge__, times_after(expression, zone=zone, since=since)):
        local = from_ms(at_ms).astimezone(ZoneInfo(zone))
        if local.fold == 0 and local.replace(tzinfo=None) in walls:
            found.append(at_ms)
    return found


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_when_clocks_change_the_times_differ_only_as_the_topic_says(zone: str, day: str) -> None:
    since = datetime.fromisoformat(day).replace(tzinfo=UTC)

    for expression in (*OF_DEBIAN, *AT_NIGHT):
        theirs = times_of_systemd(expression, 60, zone=zone, since=since)

        assert theirs, expression
        ours = as_systemd_has_them(expression, zone=zone, since=since, until_ms=theirs[-1])
        assert ours == theirs, expression


def test_a_skipped_time_and_a_repeated_one() -> None:
    spring = datetime(2026, 3, 28, 12, tzinfo=UTC)
    autumn = datetime(2026, 10, 24, 23, tzinfo=UTC)

    def of(expression: str, since: datetime, count: int) -> tuple[list[str], list[str]]:
        ours = times_of_edgecron(expression, count, zone="Europe/Berlin", since=since)
        theirs = times_of_systemd(expression, count, zone="Europe/Berlin", since=since) or []
        said = ([f"{from_ms(one):%d %H:%M}" for one in both] for both in (ours, theirs))
        return next(said), next(said)

    assert of("02:30", spring, 2) == (["29 01:00", "30 00:30"], ["30 00:30", "31 00:30"])
    assert of("02:30", autumn, 2) == (["25 00:30", "26 01:30"], ["25 00:30", "26 01:30"])
    assert of("*:30", autumn, 3) == (
        ["24 23:30", "25 00:30", "25 01:30"],
        ["24 23:30", "25 00:30", "25 02:30"],
    )


WRONG = [
    *("", "  ", "reboot", "12", "5:", ":30", "*/2:00", "5..2:00", "*-*-1/31", "0/24:00", "12/2-1"),
    *("Fri..Mon", "mon..tue..wed", "00:00 Mon", "wednes", "0 0:00", "*-*-*T10:00", "*-*~0"),
    *("*-*-0", "*-02~30", "*-*~07..01", "24:00", "23:60", "23:59:60", "13-1", "1,2,*-1", "*-1-"),
    *(
        "@",
        "@x",
        "*-*-* 1:2:3:4",
        "*:0/0",
        "1.5:00",
        "*:*:5..5",
        "a:b",
        "*-*-*-*",
        "Mon Tue",
        "\0",
        "ä",
    ),
]


@pytest.mark.parametrize("expression", WRONG)
def test_what_systemd_refuses_edgecron_refuses_too(expression: str) -> None:
    with pytest.raises(InvalidInput):
        read_calendar(expression)

    if expression.strip() and "\0" not in expression:
        assert times_of_systemd(expression, 1) is None


def fields(least: int, most: int) -> st.SearchStrategy[str]:
    """Write fields of a calendar expression: values, ranges and steps, in lists."""
    value = st.integers(least, most)
    part = st.one_of(
        value.map(str),
        st.tuples(value, value).map(lambda ends: f"{min(ends)}..{max(ends)}"),
        st.tuples(value, st.integers(1, 9)).map(lambda both: f"{both[0]}/{both[1]}"),
        st.tuples(value, value, st.integers(1, 9)).map(
            lambda three: f"{min(three[:2])}..{max(three[:2])}/{three[2]}"
        ),
    )
    return st.one_of(st.just("*"), st.lists(part, min_size=1, max_size=3).map(",".join))


EXPRESSIONS = st.tuples(
    st.sampled_from(["", "", "Mon ", "Sun ", "Mon..Fri ", "Sat,Sun "]),
    fields(1, 12),
    st.one_of(fields(1, 28).map("-{}".format), fields(1, 9).map("~{}".format)),
    fields(0, 23),
    fields(0, 59),
    fields(0, 59),
).map(lambda one: "{}*-{}{} {}:{}:{}".format(*one))


@settings(max_examples=tried(15, 30), deadline=None)
@given(expression=EXPRESSIONS)
def test_any_expression_has_the_times_of_systemd_or_is_refused(expression: str) -> None:
    try:
        ours: list[int] | None = times_of_edgecron(expression, 20)
    except InvalidInput:
        ours = None
    if ours is not None:
        assert ours == times_of_systemd(expression, 20)


@given(text=st.text(st.sampled_from("*0123456789-~./:, @MonSuTUC"), max_size=30) | st.text())
def test_any_text_is_a_calendar_or_refused(text: str) -> None:
    with suppress(InvalidInput):
        assert read_calendar(text).triggers
    with suppress(InvalidInput):
        assert read_span_ms(text) >= 0


@pytest.mark.parametrize(
    ("text", "span_ms"),
    [
        ("90", 90_000),
        ("1h 30min", 5_400_000),
        ("2h30", 7_230_000),
        ("1.5h", 5_400_000),
        ("1d 1hr 1m 1s 1ms", 90_061_001),
        ("1w", 604_800_000),
        ("1M", 2_629_800_000),
        ("2 months", 5_259_600_000),
        ("1y", 31_557_600_000),
        ("500us", 0),
        ("0", 0),
    ],
)
def test_a_time_span_is_read_as_systemd_does(text: str, span_ms: int) -> None:
    assert read_span_ms(text) == span_ms


@pytest.mark.parametrize("text", ["", "infinity", "-5", "5 parsecs", "h", "1h,2m", "1..2"])
def test_what_is_no_time_span_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a time span"):
        read_span_ms(text)
