"""Triggers in plain words, notes on clock changes, and times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from edgecron.base.errors import InvalidTime, InvalidTrigger, UnknownTimezone
from edgecron.base.value_texts import parse_when
from edgecron.triggers import parse_trigger
from edgecron.triggers.words import clock_change_notes, describe

YEAR_2026 = (
    int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000),
    int(datetime(2027, 1, 1, tzinfo=UTC).timestamp() * 1000),
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 2 * * *", "at 02:00 every day"),
        ("30 5 4 * * *", "at 04:05:30 every day"),
        ("0,30 9,17 * * *", "at 09:00, 09:30, 17:00 and 17:30 every day"),
        ("*/15 9-17 * * MON-FRI", "every 15 minutes from 09:00 to 17:45, Monday to Friday"),
        ("0 4 13 * 5#2", "at 04:00, on day 13, or on the second Friday, of the month"),
        ("0 9 31 4 0", "at 09:00, on day 31 of the month, or on Sunday, in April"),
        ("0 0 */2 * MON", ("at 00:00, on days 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, "
         "29 and 31 of the month, when it is Monday")),
        ("@hourly", "every hour, on the hour"),
        ("@yearly", "at 00:00, on day 1 of the month, in January"),
        ("@weekly", "at 00:00, Sunday"),
        ("* * * * *", "every minute"),
        ("* * * * * *", "every second"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("0 */2 * * *", "every 2 hours from 00:00 to 22:00"),
        ("5 9-17 * * *", "every hour from 09:05 to 17:05"),
        ("5 * * * *", "at minute 5 of every hour"),
        ("* 9 * * *", "every minute from 09:00 to 09:59"),
        ("5,50 * * * *", "at minutes 5 and 50 of every hour"),
        ("*/7 3,9 * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of hours 3 and 9"),
        ("0 0 L * *", "at 00:00, on the last day of the month"),
        ("0 0 1,15,L * *", "at 00:00, on days 1 and 15 and the last day of the month"),
        ("0 0 15W * *", "at 00:00, on the weekday nearest to day 15 of the month"),
        ("0 0 * * L5", "at 00:00, on the last Friday of the month"),
        ("0 0 * 2 1#1,L3", ("at 00:00, on the first Monday and the last Wednesday of the month, "
         "in February")),
        ("0 0 13 * 0-6", "at 00:00 every day"),
        ("0 0 * * FRI-SUN", "at 00:00, Friday to Sunday"),
        ("0 0 * 1,3-6 1,4", "at 00:00, Monday and Thursday, in January and March to June"),
    ],
)  # fmt: skip
def test_a_cron_text_in_plain_words(text: str, words: str) -> None:
    assert describe(parse_trigger(text, "Europe/Berlin")) == f"{words} (Europe/Berlin)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("every 15m", "every 15 minutes"),
        ("every 1h", "every hour"),
        ("every 90m", "every 1 hour and 30 minutes"),
        ("every 8d", "every 8 days"),
        ("every 2w", "every 2 weeks"),
        ("every 1d from 2026-11-20T08:00:00Z", "every day, from 2026-11-20T08:00:00Z"),
        ("every 1h after end", "1 hour after the end of the last run"),
        ("at 2026-11-20T08:00:00Z", "once, at 2026-11-20T08:00:00Z"),
        ("on boot", "once each time the machine has booted"),
        ("on demand", "only on demand"),
        ("after backup", "each time backup has succeeded"),
        ("after backup:failure", "each time backup has failed"),
        ("after backup:any", "each time backup has ended"),
    ],
)
def test_other_triggers_in_plain_words(text: str, words: str) -> None:
    assert describe(parse_trigger(text)) == words


def test_the_zone_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")

    assert describe(parse_trigger("0 2 * * *")) == "at 02:00 every day (UTC)"
    assert describe(parse_trigger("0 2 * * *", "local")).endswith("(local time, Asia/Tokyo)")


@pytest.mark.failure(1)
@pytest.mark.failure(2)
@pytest.mark.parametrize(
    ("text", "forward", "back"),
    [
        ("30 2 * * *", "02:30 does not exist that day; it runs once, at 03:00",
         "02:30 comes twice, and it runs the first time only"),
        ("0,30 2 * * *",
         "2 times from 02:00 to 02:30 do not exist that day; they run as one, at 03:00",
         "2 times from 02:00 to 02:30 come twice, and they run the first time only"),
        ("*/30 2 * * *",
         "2 times from 02:00 to 02:30 do not exist that day, and nothing runs in place",
         "2 times from 02:00 to 02:30 come twice, and they run both times"),
    ],
)  # fmt: skip
def test_each_clock_change_that_matters_has_a_note(text: str, forward: str, back: str) -> None:
    notes = clock_change_notes(parse_trigger(text, "Europe/Berlin"), *YEAR_2026)

    assert [(note.date, note.at) for note in notes] == [
        ("2026-03-29", datetime(2026, 3, 29, 1, tzinfo=UTC)),
        ("2026-10-25", datetime(2026, 10, 25, 1, tzinfo=UTC)),
    ]
    assert notes[0].text == f"clocks go forward from 02:00 to 03:00: {forward}"
    assert notes[1].text == f"clocks go back from 03:00 to 02:00: {back}"


@pytest.mark.parametrize(
    ("text", "timezone"),
    [("30 4 * * *", "Europe/Berlin"), ("30 2 * * *", "UTC"), ("every 15m", "Europe/Berlin"),
     ("30 2 * * MON", "Europe/Berlin"), ("on boot", None)],
)  # fmt: skip
def test_a_trigger_that_no_change_meets_has_no_note(text: str, timezone: str | None) -> None:
    assert clock_change_notes(parse_trigger(text, timezone), *YEAR_2026) == []


def test_a_day_that_never_came_is_noted_with_its_dates() -> None:
    trigger = parse_trigger("0 12 * * *", "Pacific/Apia")
    since, until = datetime(2011, 12, 1, tzinfo=UTC), datetime(2012, 1, 10, tzinfo=UTC)

    (note,) = clock_change_notes(
        trigger, int(since.timestamp() * 1000), int(until.timestamp() * 1000)
    )

    assert note.text == (
        "clocks go forward from 2011-12-30 00:00 to 2011-12-31 00:00: 2011-12-30 12:00 does not "
        "exist that day; it runs once, at 2011-12-31 00:00"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20T08:00:00Z", "2026-11-20T08:00:00Z"),
        ("2026-11-20t08:00:00z", "2026-11-20T08:00:00Z"),
        ("2026-11-20T08:00:00.250+02:00", "2026-11-20T06:00:00.250Z"),
        ("2026-11-21 09:00", "2026-11-21T08:00:00Z"),
        ("2026-11-21T09:00:30", "2026-11-21T08:00:30Z"),
        ("2026-07-21", "2026-07-20T22:00:00Z"),
        ("now", "2026-11-20T10:00:00Z"),
        ("in 20m", "2026-11-20T10:20:00Z"),
        ("in 1h 30m", "2026-11-20T11:30:00Z"),
        ("today 18:00", "2026-11-20T17:00:00Z"),
        ("today 09:00", "2026-11-20T08:00:00Z"),
        ("Tomorrow 09:00", "2026-11-21T08:00:00Z"),
        ("11:01", "2026-11-20T10:01:00Z"),
        ("11:00", "2026-11-21T10:00:00Z"),
        ("9:00", "2026-11-21T08:00:00Z"),
        # 20 November 2026 is a Friday.
        ("sat 09:00", "2026-11-21T08:00:00Z"),
        ("friday 23:00", "2026-11-27T22:00:00Z"),
        ("yesterday 09:00", "2026-11-19T08:00:00Z"),
        ("yesterday", "2026-11-18T23:00:00Z"),
        ("today", "2026-11-19T23:00:00Z"),
        ("tomorrow", "2026-11-20T23:00:00Z"),
        ("monday", "2026-11-22T23:00:00Z"),
        ("at tomorrow 09:00", "2026-11-21T08:00:00Z"),
        ("at 2026-11-21 09:00", "2026-11-21T08:00:00Z"),
        ("20m ago", "2026-11-20T09:40:00Z"),
        ("1h 30m ago", "2026-11-20T08:30:00Z"),
        ("2026-03-29 02:30", "2026-03-29T01:00:00Z"),
        ("2026-10-25 02:30", "2026-10-25T00:30:00Z"),
    ],
)
def test_a_time_as_people_write_it(text: str, expected: str) -> None:
    now = datetime(2026, 11, 20, 10, tzinfo=UTC)

    found = parse_when(text, timezone="Europe/Berlin", now=now)

    assert found == datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    "text",
    ["", " ", "soon", "in", "in 20", "in 5 parsecs", "in 0m", "25:00", "12:60", "ago", "5 ago",
     "in 1M", "at", "mond 09:00", "2026-02-30 09:00", "2026-11-20 25:00",
     "2026-11-20T", "20261120T090000", "2026-W47-5", "٢٠٢٦-11-20 09:00", "9" * 5000,
     "0001-01-01", "9999-12-31 23:59", "in 99999d", "today 09:00 sharp", "09:00:99"],
)  # fmt: skip
def test_a_time_that_means_nothing_is_refused_with_a_hint(text: str) -> None:
    now = datetime(2026, 11, 20, 10, tzinfo=UTC)

    with pytest.raises(InvalidTime) as caught:
        parse_when(text, timezone="Europe/Berlin", now=now)

    assert caught.value.hint
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12:00", "2026-11-20T11:00:00Z"),
        ("09:00", "2026-11-20T08:00:00Z"),
        ("friday 23:00", "2026-11-13T22:00:00Z"),
        ("monday 09:00", "2026-11-16T08:00:00Z"),
        ("thu", "2026-11-18T23:00:00Z"),
        ("tomorrow 09:00", "2026-11-21T08:00:00Z"),
    ],
)
def test_who_asks_about_the_past_means_today_and_the_last_weekday(text: str, expected: str) -> None:
    now = datetime(2026, 11, 20, 10, tzinfo=UTC)

    found = parse_when(text, timezone="Europe/Berlin", now=now, is_past=True)

    assert found == datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    ("is_past", "named", "not_named"),
    [(False, "'in 20m'", "ago"), (True, "'2h ago'", "in 20m")],
)
@pytest.mark.parametrize("text", ["noon", "tomorrow 25:00", "a b c", "\x00"])
def test_the_hint_names_no_time_that_would_be_refused(
    text: str, is_past: bool, named: str, not_named: str
) -> None:
    with pytest.raises(InvalidTime) as caught:
        parse_when(text, timezone="UTC", now=datetime(2026, 11, 20, tzinfo=UTC), is_past=is_past)

    assert named in str(caught.value.hint)
    assert not_named not in str(caught.value.hint)


def test_a_trigger_text_reads_relative_times_when_it_knows_the_time() -> None:
    now = datetime(2026, 11, 20, 10, tzinfo=UTC)

    def canonical(text: str) -> str:
        return parse_trigger(text, "Europe/Berlin", now=now).text

    assert canonical("at tomorrow 09:00") == "at 2026-11-21T08:00:00Z"
    assert canonical("in 20m") == "at 2026-11-20T10:20:00Z"
    assert canonical("every 15m from tomorrow 09:00") == "every 15m from 2026-11-21T08:00:00Z"
    with pytest.raises(InvalidTrigger):
        parse_trigger("at tomorrow 09:00", "Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("every 1M", "1mo or 1m?"),
        ("every 2h2h", "names the unit h twice"),
        ("every 1mo", "months differ in length"),
    ],
)
def test_an_interval_that_could_mean_two_things_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidTrigger, match=said.replace("?", r"\?")) as caught:
        parse_trigger(text)

    assert caught.value.hint


def test_a_time_in_an_unknown_zone_is_refused() -> None:
    with pytest.raises(UnknownTimezone):
        parse_when("09:00", timezone="Europe/Berlim", now=datetime(2026, 11, 20, tzinfo=UTC))
