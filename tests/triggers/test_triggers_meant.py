"""A duration, time or cron text that is nearly right gets the one that was probably meant."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from edgecron.base.errors import InvalidDuration, InvalidTime, InvalidTrigger
from edgecron.base.units import parse_duration_ms
from edgecron.base.value_texts import parse_when
from edgecron.triggers import parse_trigger

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("5min", "5m"),
        ("5 Minutes", "5m"),
        ("1 hour 30 minutes", "1h30m"),
        ("1h30", "1h30m"),
        ("1d12", "1d12h"),
        ("1.5h", "1h30m"),
        ("1,5h", "1h30m"),
        ("hourly", "1h"),
        ("daily", "1d"),
    ],
)
def test_a_duration_that_is_nearly_right_is_suggested(text: str, meant: str) -> None:
    with pytest.raises(InvalidDuration) as refused:
        parse_duration_ms(text)

    assert refused.value.hint == f"did you mean {meant}?"
    parse_duration_ms(meant)


@pytest.mark.parametrize("text", ["0", "0s", "5 parsecs", "soon", "-5m", "1 2 3 4 5 6", "9" * 60])
def test_a_duration_without_a_clear_meaning_gets_examples(text: str) -> None:
    with pytest.raises(InvalidDuration) as refused:
        parse_duration_ms(text)

    assert "0s" not in (refused.value.hint or "").split()
    assert (refused.value.hint or "").startswith("write ")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("9am", "did you mean '09:00'?"),
        ("12 AM", "did you mean '00:00'?"),
        ("tomorrow 9:30pm", "did you mean 'tomorrow 21:30'?"),
        ("tomorow 09:00", "did you mean 'tomorrow 09:00'?"),
        ("24.12.2026 18:00", "did you mean '2026-12-24 18:00'?"),
        ("2026/12/24", "did you mean '2026-12-24'?"),
        ("in 5 minutes", "write 'in 5m'"),
        ("5 min ago", "write '5m ago'"),
        ("in 20", "write 'in 20m'"),
    ],
)
def test_a_time_that_is_nearly_right_is_suggested(text: str, hint: str) -> None:
    with pytest.raises(InvalidTime) as refused:
        parse_when(text, timezone="Europe/Berlin", now=NOW)

    assert refused.value.hint == hint
    parse_when(hint.split("'")[1], timezone="Europe/Berlin", now=NOW)


@pytest.mark.parametrize("text", ["13pm", "31.02.2026", "25:00", "at noon"])
def test_no_time_is_suggested_that_does_not_exist(text: str) -> None:
    with pytest.raises(InvalidTime) as refused:
        parse_when(text, timezone=None, now=NOW)

    assert (refused.value.hint or "").startswith("write 2026-11-20T08:00:00Z")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2026-13-01", "there is no month 13"),
        ("2026-02-30", "its month has no day 30"),
        ("2026-02-01 24:00", "there is no hour 24"),
        ("2026-02-01 10:61", "there is no minute 61"),
    ],
)
def test_the_part_of_a_date_that_does_not_exist_is_named(text: str, words: str) -> None:
    with pytest.raises(InvalidTime, match=f"is not on the calendar: {words}"):
        parse_when(text, timezone=None, now=NOW)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("@dayly", "did you mean @daily?"),
        ("@daily @daily", "write one of these, or five fields"),
        ("0 2 * * mo", "did you mean MON?"),
        ("after nightly:failed", "write 'after nightly:failure', or nothing behind"),
    ],
)
def test_a_trigger_that_is_nearly_right_is_suggested(text: str, hint: str) -> None:
    with pytest.raises(InvalidTrigger) as refused:
        parse_trigger(text)

    assert (refused.value.hint or "").startswith(hint)
