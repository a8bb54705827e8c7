"""Triggers in plain English: what people write, and everything that edgecron itself prints."""

from __future__ import annotations

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
        ("every second tuesday at 6", "0 6 * * TUE#2"),
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
        ("daily at 9 (Asia/Tokyo)", "names the zone Asia/Tokyo", "give it to the schedule"),
    ],
)
def test_words_that_no_trigger_can_mean_are_refused(words: str, problem: str, hint: str) -> None:
    with pytest.raises(InvalidTrigger, match=problem) as refused:
        parse_trigger(words)

    assert hint in (refused.value.hint or "")


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
