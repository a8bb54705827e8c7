"""Triggers in plain English: what people write, and everything that edgecron itself prints."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.errors import InvalidTrigger
from edgecron.triggers import Trigger, describe, describe_briefly, parse_trigger
from edgecron.triggers.english import read_words
from tests.triggers.test_triggers_grammar import GOOD

START_MS = int(datetime(2026, 11, 20, 10, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("every 5 minutes", "every 5m"),
        ("Every 90 Seconds", "every 1m30s"),
        ("every other day", "every 2d"),
        ("every 1 hour and 30 minutes", "every 1h30m"),
        ("every hour", "every 1h"),
        ("every hour, on the hour", "0 * * * *"),
        ("daily", "@daily"),
        ("daily at 07:30", "30 7 * * *"),
        ("every day at 7:30", "30 7 * * *"),
        ("every weekday at 9", "0 9 * * MON-FRI"),
        ("weekdays at 9am", "0 9 * * MON-FRI"),
        ("at 9 on weekdays", "0 9 * * MON-FRI"),
        ("on weekends at noon", "0 12 * * SAT,SUN"),
        ("mondays at 9:15pm", "15 21 * * MON"),
        ("every monday and thursday at midnight", "0 0 * * MON,THU"),
        ("Mon to Fri at 8, 12 and 16", "0 8-16/4 * * MON-FRI"),
        ("friday to monday at 6", "0 6 * * MON,FRI-SUN"),
        ("first monday", "0 0 * * MON#1"),
        ("the first monday of the month at 9", "0 9 * * MON#1"),
        ("last friday of every month at 18:00", "0 18 * * L5"),
        ("every second tuesday of the month at 6", "0 6 * * TUE#2"),
        ("2nd and 4th tuesday at 3", "0 3 * * TUE#2,TUE#4"),
        ("first, third friday", "0 0 * * FRI#1,FRI#3"),
        ("every second day", "every 2d"),
        ("every second hour", "every 2h"),
        ("every second minute", "every 2m"),
        ("every second week", "every 14d"),
        ("every second", "every 1s"),
        ("every second on monday", "* * * * * MON"),
        ("last day of february", "0 0 L 2 *"),
        ("last friday of march", "0 0 * 3 L5"),
        ("every last day of the month", "0 0 L * *"),
        ("every first day of the month at 8", "0 8 1 * *"),
        ("every week day at 9", "0 9 * * MON-FRI"),
        ("once a day at 9", "0 9 * * *"),
        ("once a week on tuesday", "0 0 * * TUE"),
        ("every month", "0 0 1 * *"),
        ("every month on the 15th", "0 0 15 * *"),
        ("may 1 to 5", "0 0 1-5 5 *"),
        ("1 to 5 may at 9", "0 9 1-5 5 *"),
        ("jan 1 and jan 15", "0 0 1,15 1 *"),
        ("jan 1, jul 1", "0 0 1 1,7 *"),
        ("1st and 15th of march", "0 0 1,15 3 *"),
        ("1st of march and april", "0 0 1 3,4 *"),
        ("yearly at 9", "0 9 1 1 *"),
        ("every year on the first monday of september", "0 0 * 9 MON#1"),
        ("daily on weekdays at 9", "0 9 * * MON-FRI"),
        ("every monday and every friday at 9 and 17", "0 9,17 * * MON,FRI"),
        ("on the 13th, or on friday", "0 0 13 * FRI"),
        ("every hour from 1 to 5pm", "0 13-17 * * *"),
        ("every hour between 12 and 5pm on weekdays", "0 12-17 * * MON-FRI"),
        ("every day at 5 and 6pm", "0 17,18 * * *"),
        ("every day at 5 and 6am", "0 5,6 * * *"),
        ("every day at 18 and 6", "0 6,18 * * *"),
        ("every hour from 09:00 to 5pm", "0 9-17 * * *"),
        ("once between 1 and 5pm", "once in 13:00-17:00"),
        ("once between 9 and 24:00", "once in 09:00-24:00"),
        ("once between 9 and noon", "once in 09:00-12:00"),
        ("once between 21 and 5", "once in 21:00-05:00"),
        ("once between 11:00 and 10:00", "once in 11:00-10:00"),
        ("last day of the month at 23:30", "30 23 L * *"),
        ("monthly at 6", "0 6 1 * *"),
        ("monthly on the 15th at 6", "0 6 15 * *"),
        ("weekly on tuesday", "0 0 * * TUE"),
        ("on the 1st and 15th at 8", "0 8 1,15 * *"),
        ("every year on march 1 at 9", "0 9 1 3 *"),
        ("24 december at 18:00", "0 18 24 12 *"),
        ("every 15 minutes on weekdays", "*/15 * * * MON-FRI"),
        ("every 15 minutes from 09:00 to 17:45 on weekdays", "*/15 9-17 * * MON-FRI"),
        ("every 2 hours from 9 to 17", "0 9-17/2 * * *"),
        ("hourly", "@hourly"),
        ("at minute 5 of every hour", "5 * * * *"),
        ("at boot", "on boot"),
        ("only on demand", "on demand"),
        ("when Backup fails", "after Backup:failure"),
        ("after backup succeeds", "after backup"),
        ("1 hour after its end", "every 1h after end"),
        ("once between 21:00 and 05:00 every day", "once in 21:00-05:00"),
        (
            "once between 21:00 and 05:00, Monday to Friday, when ac-power",
            "once in 21:00-05:00 MON-FRI when ac-power",
        ),
        ("once, at 2026-12-24T18:00:00Z", "at 2026-12-24T18:00:00Z"),
    ],
)
def test_words_mean_one_trigger_text(words: str, text: str) -> None:
    assert parse_trigger(words).text == parse_trigger(text).text


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        ("weekdays at 25", "there is no time '25'", "09:00"),
        ("daily at 13pm", "there is no time '13pm'", "9pm"),
        ("daily at 9:00 and 17:30", "different minutes", "a trigger for each"),
        ("every 15 minutes from 9 to 17", "begin and end with an hour", "16:45 or 17:45"),
        ("every 7 minutes on weekdays", "does not divide an hour", "a step that does"),
        ("friday the 13th", "days of the month and of the week", "when it is Friday"),
        ("on the 31st in february", "can never fire", "a day that its months have"),
        ("every second friday", "could count weeks", "'second friday of the month'"),
        ("every third friday", "could count weeks", "'every 21d from"),
        ("every 3rd day", "counts days from an unknown", "'every 3d from"),
        ("every second of march", "could mean several things", "every 14d from"),
        ("once between noon and 5", "'5' could be am or pm", "am or pm behind each"),
        ("once between 9 and midnight", "'9' could be am or pm", "am or pm behind each"),
        ("every day at noon and 3", "'3' could be am or pm", "am or pm behind each"),
        ("march 2027", "is not understood", "write words such as"),
        ("may 1 - 5", "is not understood", "write words such as"),
        ("monday 9", "is not understood", "write words such as"),
        ("every second and third monday", "could count weeks", "'second and third monday of"),
        ("every second, third friday", "could count weeks", "'second, third friday of the"),
        ("every other friday at 9", "could mean several things", "every 14d from"),
        ("every second weekday", "could mean several things", "every 14d from"),
        ("every second last friday", "could mean several things", "every 14d from"),
        ("every second day at 9", "counts days from an unknown", "'every 2d from"),
        ("every other week on monday", "counts weeks from an unknown", "'every 14d from"),
        ("every 1 month", "counts months", "write 'monthly', or a cron text such as 0 0 1 */2"),
        ("every 2 months", "counts months", "write 'monthly', or a cron text such as 0 0 1 */2"),
        ("every 2 years", "counts years", "write 'yearly'"),
        ("jan 1, dec 25", "not the same days of each month", "a trigger for each"),
        ("25th of december and 1st of january", "not the same days", "a trigger for each"),
        ("1st and 15th, dec 25", "not the same days", "a trigger for each"),
        ("january, december 25", "not the same days", "a trigger for each"),
        ("15th march and last day of april", "not the same days", "a trigger for each"),
        ("monday at 9, tuesday at 10", "days with times of their own", "a trigger for each"),
        ("mon at 9 and fri at 17", "days with times of their own", "a trigger for each"),
        ("monday at 9 and 17, friday at 9", "days with times of their own", "for each"),
        ("monday at 9, friday", "days with times of their own", "a trigger for each"),
        ("at 9 on mondays and at 10", "days with times of their own", "a trigger for each"),
        ("monthly on monday", "is monthly, but names a day of each week", "'first monday of the"),
        ("every month on friday", "is monthly, but names a day of each week", "first monday"),
        ("every month in march", "is monthly, but names months", "'march 1'"),
        ("yearly on monday", "is yearly, but does not name a date", "'every year on march 1'"),
        ("yearly on the 5th", "is yearly, but does not name a date", "'every year on march 1'"),
        ("weekly on the 5th", "is weekly, but names days of the month", "remove 'weekly'"),
        ("weekly or monthly", "is weekly and monthly", "a trigger for each"),
        ("daily or on monday", "an 'or' between different things", "a trigger for each"),
        ("daily on the 5th", "for each day, and for some", "one of the two"),
        ("weekly every 5 minutes", "more often", "one of the two"),
        ("every 15 minutes, every 2 hours", "two intervals", "a trigger for each"),
        ("every 5 minutes every hour on monday", "two intervals", "a trigger for each"),
        ("once between 9 and 5", "'9' could be am or pm", "am or pm behind each"),
        ("every hour from 9 to 5pm", "'9' could be am or pm", "am or pm behind each"),
        ("every day at 1pm and 3", "'3' could be am or pm", "am or pm behind each"),
        ("every day at 9, 12 and 3pm", "could be am or pm", "am or pm behind each"),
        ("every day at 9 and 5", "'9' could be am or pm", "am or pm behind each"),
        (
            "every hour from 22:00 to 06:00",
            "passes midnight",
            "two triggers, the second from 00:00",
        ),
        ("days 5 to 3 at 9", "go backwards", "the smaller number first"),
        ("at 9", "time '9' is not understood", "write 'daily at 9'"),
        ("daily at 9, 10 to 12", "is not understood", "write words such as"),
        ("daily at 9 30", "is not understood", "write words such as"),
        ("last weekday of the month", "is not understood", "write words such as"),
        ("25 and 26 december", "is not understood", "write words such as"),
        ("monday - friday at 9", "is not understood", "write words such as"),
        ("every monday morning", "is not understood", "write words such as"),
        ("every hour and minute", "is not understood", "write words such as"),
        ("daily at 9 (Asia/Tokyo)", "names the zone Asia/Tokyo", "give it to the schedule"),
    ],
)
def test_words_that_no_trigger_can_mean_are_refused(words: str, problem: str, hint: str) -> None:
    with pytest.raises(InvalidTrigger, match=problem) as refused:
        parse_trigger(words)

    assert hint in (refused.value.hint or "")
    for form in re.findall(r"write '(\w[^']+)'", refused.value.hint or ""):
        parse_trigger(form)


@pytest.mark.parametrize("text", [*GOOD, "H 3 * * *", "in 20m", "at 09:00", "once in 9:00-10:00"])
def test_a_trigger_text_is_never_read_as_words(text: str) -> None:
    assert read_words(text) is None


@pytest.mark.parametrize(
    "text", ["every", "every now and then", "monday-ish", "at 9", "soon", "1", "and"]
)
def test_other_words_are_no_trigger(text: str) -> None:
    assert read_words(text) is None


def fires(trigger: Trigger) -> list[int | None]:
    found: list[int | None] = []
    at_ms: int | None = START_MS
    while at_ms is not None and len(found) < 40:
        at_ms = trigger.next_after_ms(at_ms)
        found.append(at_ms)
    return found


def check_reads_back(trigger: Trigger) -> None:
    words = describe(trigger)
    for text in (words, words.removesuffix(" (UTC)")):
        if len(text) <= 256:  # the longest text of a trigger
            again = parse_trigger(text)
            assert fires(again) == fires(trigger)
            assert describe(again) == words or "every " in words


@pytest.mark.parametrize("text", GOOD)
def test_the_words_of_each_kind_of_trigger_read_back(text: str) -> None:
    check_reads_back(parse_trigger(text))


@pytest.mark.parametrize("text", [text for text in GOOD if not text.startswith("at ")])
def test_the_brief_words_of_a_trigger_read_back(text: str) -> None:
    trigger = parse_trigger(text)

    again = parse_trigger(describe_briefly(trigger))

    if " from " not in text:  # Brief words have no start.
        assert fires(again) == fires(trigger)
    assert again.kind is trigger.kind or "every" in describe_briefly(trigger)


_TIMES = ("0 2", "5,50 *", "*/15 9-17", "0,30 9,17", "* 9", "*/7 3,9", "5 9-17/4", "0 */2",
          "*/10 * *", "30 5 4", "* * 3", "7 1-9/2 0-3")  # fmt: skip
_DAYS = ("* *", "1 *", "1,15,L *", "15W *", "31W 1", "13 * 5#2", "31 4 0", "*/2 * MON",
         "*/3,8 1-6 TUE-THU", "*/2 * L5", "* 2 1#1,L3", "* 1,3-6 1,4", "* * FRI-SUN",
         "L * MON", "1-7,9 12 *", "* * */2", "*/5 * */2")  # fmt: skip


@pytest.mark.parametrize(("time", "days"), list(product(_TIMES, _DAYS)))
def test_the_words_of_a_cron_text_read_back(time: str, days: str) -> None:
    text = f"{time} {days}" if len(days.split()) == 3 else f"{time} {days} *"
    check_reads_back(parse_trigger(text))


def _list(least: int, most: int) -> st.SearchStrategy[str]:
    numbers = st.sets(st.integers(least, most), min_size=1, max_size=5)
    return st.one_of(st.just("*"), numbers.map(lambda found: ",".join(map(str, sorted(found)))))


@given(
    parts=st.tuples(_list(0, 59), _list(0, 23), _list(1, 28), _list(1, 12), _list(0, 6)),
    seconds=st.none() | _list(0, 59),
)
@settings(max_examples=150, deadline=None)
def test_the_words_of_any_cron_text_read_back(parts: tuple[str, ...], seconds: str | None) -> None:
    check_reads_back(parse_trigger(" ".join(parts if seconds is None else (seconds, *parts))))


@given(count=st.integers(1, 10_000_000_000))
@settings(max_examples=100, deadline=None)
def test_the_words_of_any_interval_read_back(count: int) -> None:
    trigger = parse_trigger(f"every {count}ms")

    assert fires(parse_trigger(describe(trigger))) == fires(trigger)
