"""The trigger `once in`: its windows, through clock changes, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.errors import InvalidTrigger
from edgecron.base.units import from_ms, to_ms
from edgecron.base.zones import load_zone
from edgecron.triggers import (
    OnceInTrigger,
    describe,
    describe_briefly,
    dump_trigger,
    load_trigger,
    parse_trigger,
)

ZONES = ("Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Pacific/Apia", "UTC")
_HOUR_MS = 3_600_000


def once_in(text: str, timezone: str | None = "Europe/Berlin") -> OnceInTrigger:
    trigger = parse_trigger(f"once in {text}", timezone)
    assert isinstance(trigger, OnceInTrigger)
    return trigger


def windows_after(trigger: OnceInTrigger, at: datetime, count: int) -> list[tuple[str, float]]:
    """The next windows: when they open by the wall clock, and for how many hours."""
    found = []
    for _ in range(count):
        opens = trigger.next_after(at)
        assert opens is not None
        at = opens
        hours = (trigger.closes_ms(to_ms(opens)) - to_ms(opens)) / _HOUR_MS
        wall = opens.astimezone(load_zone(trigger.timezone))
        found.append((wall.strftime("%a %d %H:%M"), hours))
    return found


def test_a_window_opens_on_its_days_and_can_pass_midnight() -> None:
    trigger = once_in("21:00-05:00 FRI,SUN when ac-power")

    found = windows_after(trigger, datetime(2026, 11, 18, tzinfo=UTC), 3)

    assert found == [("Fri 20 21:00", 8), ("Sun 22 21:00", 8), ("Fri 27 21:00", 8)]


def test_clock_changes_make_a_window_longer_or_shorter() -> None:
    autumn = windows_after(once_in("21:00-05:00"), datetime(2026, 10, 23, 20, tzinfo=UTC), 3)
    spring = windows_after(once_in("21:00-05:00"), datetime(2026, 3, 27, 21, tzinfo=UTC), 3)

    assert [hours for _, hours in autumn] == [9, 8, 8]
    assert [hours for _, hours in spring] == [7, 8, 8]


def test_a_window_that_clocks_skip_opens_after_the_gap() -> None:
    found = windows_after(once_in("02:15-02:45"), datetime(2026, 3, 28, tzinfo=UTC), 3)

    assert found == [("Sat 28 02:15", 0.5), ("Sun 29 03:00", 0.5), ("Mon 30 02:15", 0.5)]


def test_a_window_that_clocks_repeat_opens_once() -> None:
    found = windows_after(once_in("02:15-02:45"), datetime(2026, 10, 24, 12, tzinfo=UTC), 2)

    assert found == [("Sun 25 02:15", 0.5), ("Mon 26 02:15", 0.5)]


def test_a_whole_day_is_a_window() -> None:
    found = windows_after(once_in("MON-FRI"), datetime(2026, 11, 20, 12, tzinfo=UTC), 2)

    assert found == [("Mon 23 00:00", 24), ("Tue 24 00:00", 24)]


@settings(max_examples=300, deadline=None)
@given(
    zone=st.sampled_from(ZONES),
    start=st.integers(0, 95),
    quarters=st.integers(1, 96),
    day=st.integers(14_900, 22_000),
)
def test_windows_follow_each_other_and_runs_start_within_them(
    zone: str, start: int, quarters: int, day: int
) -> None:
    end = start + quarters
    clock = [f"{at // 4:02}:{at % 4 * 15:02}" for at in (start, end if end <= 96 else end - 96)]
    if clock[0] == clock[1]:
        return
    trigger = once_in(f"{clock[0]}-{clock[1]}", zone)
    opens_ms = trigger.next_after_ms(day * 86_400_000)
    assert opens_ms is not None
    following_ms = trigger.next_after_ms(opens_ms)
    assert following_ms is not None

    closes_ms = trigger.closes_ms(opens_ms)

    assert opens_ms < closes_ms
    assert 0 <= trigger.spread_ms(opens_ms) < closes_ms - opens_ms
    wall = from_ms(closes_ms).astimezone(load_zone(zone))
    length_ms = quarters * 900_000
    # The wall clock shows the end, unless clocks changed within the window.
    if closes_ms - opens_ms == length_ms and not clock_change_notes_near(trigger, opens_ms):
        assert wall.strftime("%H:%M") == clock[1].replace("24:00", "00:00")
    assert closes_ms <= following_ms or clock_change_notes_near(trigger, opens_ms)


def clock_change_notes_near(trigger: OnceInTrigger, at_ms: int) -> bool:
    """Whether the zone's offset changes within two days of an instant."""
    zone, at = load_zone(trigger.timezone), from_ms(at_ms)
    offsets = {
        (at + timedelta(hours=hours)).astimezone(zone).utcoffset() for hours in range(-48, 49)
    }
    return len(offsets) > 1


def test_runs_without_conditions_are_spread_over_the_first_half_of_the_window() -> None:
    opens = to_ms(datetime(2026, 11, 20, 20, tzinfo=UTC))

    assert once_in("21:00-05:00").spread_ms(opens) == 4 * _HOUR_MS
    assert once_in("21:00-05:00 when ac-power").spread_ms(opens) == 0


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("ac-power and  idle:10m", ("ac-power", "idle:10m")),
        (
            "command:sh -c 'a and b' and not:command[5s]:grep \"x and y\" /z AND online",
            ("command:sh -c 'a and b'", 'not:command[5s]:grep "x and y" /z', "online"),
        ),
        (r"command:echo it\'s and online", (r"command:echo it\'s", "online")),
        ("network:Bob's and online", ("network:Bob's", "online")),
        ("exists:/a  b and online", ("exists:/a  b", "online")),
    ],
)
def test_conditions_are_divided_at_the_word_and(text: str, conditions: tuple[str, ...]) -> None:
    trigger = once_in(f"21:00-05:00  MON  when  {text}")

    assert trigger.conditions == conditions
    assert trigger.text == f"once in 21:00-05:00 MON when {' and '.join(conditions)}"
    assert parse_trigger(trigger.text, "Europe/Berlin") == trigger


def test_the_trigger_in_words() -> None:
    trigger = once_in("21:00-05:00 mon-fri when ac-power and idle:10m")

    assert trigger.text == "once in 21:00-05:00 MON-FRI when ac-power and idle:10m"
    assert trigger.conditions == ("ac-power", "idle:10m")
    assert describe(trigger) == (
        "once between 21:00 and 05:00, Monday to Friday, when ac-power and idle:10m (Europe/Berlin)"
    )
    assert describe_briefly(trigger) == "once between 21:00 and 05:00, Monday to Friday"
    assert describe(once_in("00:00-24:00", None)) == "once between 00:00 and 24:00 every day (UTC)"


def test_the_stored_form_is_read_back() -> None:
    trigger = once_in("21:00-05:00 SAT when disk:/srv:5GB")

    assert load_trigger(dump_trigger(trigger)) == trigger


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("once", "expected a window", "once in 21:00-05:00"),
        ("once 21:00-05:00", "expected a window", "once in 21:00-05:00"),
        ("once in 9-17", "window '9-17' is not understood", "did you mean '09:00-17:00'?"),
        ("once in 21:00-21:00", "is empty", "write 21:00-05:00"),
        ("once in 21:00-05:00 when", "'' is not a condition", "when ac-power and idle:10m"),
        ("once in 21:00-05:00 when A!", "'A!' is not a condition", "when ac-power and idle:10m"),
    ],
)
def test_a_text_that_is_no_window_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidTrigger, match=message) as caught:
        parse_trigger(text)

    assert hint in (caught.value.hint or "")
