"""Whatever a text is, it is read as a duration, a time, a size or a trigger, or refused in words.

Never another error, never a letter that a terminal would obey, and what was read is read back.
"""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.errors import InvalidDuration, InvalidInput, InvalidTime, InvalidTrigger
from edgecron.base.units import (
    MAX_DURATION_MS,
    format_duration_ms,
    format_instant,
    parse_duration_ms,
    parse_instant,
    parse_size,
)
from edgecron.base.value_texts import parse_when
from edgecron.triggers import parse_trigger
from tests.support.forms import tried

OFTEN = settings(derandomize=True, database=None, deadline=None, max_examples=tried(100, 400))
NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
ZONES = st.sampled_from(
    [None, "UTC", "Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia",
     "Asia/Beirut"]
)  # fmt: skip
PARTS = [
    "0", "1", "9", "15", "59", "60", "00", "2026", "9999", "0001", "999999999999", "1e3", "-", "+",
    ":", ".", "T", "Z", "z", " ", "  ", "\t", "\n", "ms", "s", "m", "h", "d", "w", "M", "y", "in ",
    "now", "today", "tomorrow", "yesterday", "noon", "every", "after", "end", "from", "at", "on",
    "boot", "until", "for", "@", "@daily", "@reboot", "*", "/", ",", "#", "L", "W", "H", "R", "(",
    ")", "?", "mon", "FRI-SUN", "jan", "KiB", "GB", "2026-11-20", "2026-11-20T08:00:00", "+02:00",
    "2026-03-28 02:30", "08:00", "24:00", "٣", "é", "\x1b[2J", "\0", "\u202e", "\ufeff", "\ud800",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS), max_size=8).map("".join) | st.text(max_size=30)


def check_harmless(error: InvalidInput) -> None:
    """A person can be shown it as it is: one line, and nothing that a terminal obeys."""
    assert all(text.isprintable() for text in (error.message, error.hint or ""))


@OFTEN
@given(text=TEXTS)
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        duration_ms = parse_duration_ms(text)
    except InvalidDuration as error:
        check_harmless(error)
    else:
        assert 1 <= duration_ms <= MAX_DURATION_MS
        assert parse_duration_ms(format_duration_ms(duration_ms)) == duration_ms


@OFTEN
@given(text=TEXTS)
def test_any_text_is_an_instant_or_refused(text: str) -> None:
    try:
        instant = parse_instant(text)
    except InvalidTime as error:
        check_harmless(error)
    else:
        kept = instant.replace(microsecond=instant.microsecond // 1000 * 1000)
        assert parse_instant(format_instant(instant)) == kept


@OFTEN
@given(text=TEXTS, zone=ZONES)
def test_any_text_is_a_time_or_refused(text: str, zone: str | None) -> None:
    try:
        when = parse_when(text, timezone=zone, now=NOW)
    except InvalidInput as error:
        check_harmless(error)
    else:
        kept = when.replace(microsecond=when.microsecond // 1000 * 1000)
        assert parse_when(format_instant(when), timezone=zone, now=NOW) == kept


@OFTEN
@given(text=TEXTS)
def test_any_text_is_a_size_or_refused(text: str) -> None:
    try:
        size = parse_size(text, what="output")
    except InvalidInput as error:
        check_harmless(error)
    else:
        assert parse_size(str(size), what="output") == size


@OFTEN
@given(text=TEXTS, zone=ZONES)
def test_any_text_is_a_trigger_that_reads_itself_back_or_refused(
    text: str, zone: str | None
) -> None:
    try:
        trigger = parse_trigger(text, zone, "backup", anchor=NOW)
    except InvalidTrigger as error:
        check_harmless(error)
    else:
        again = parse_trigger(trigger.text, zone, "backup", anchor=NOW)
        assert (again, again.text) == (trigger, trigger.text)
        assert all(warning.isprintable() for warning in trigger.warnings)
