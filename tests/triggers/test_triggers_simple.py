"""The triggers without a calendar: grids, instants, events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from edgecron.base.errors import InvalidTrigger
from edgecron.triggers import (
    AfterEndTrigger,
    AfterTrigger,
    EveryTrigger,
    TriggerKind,
    at,
    every,
    parse_trigger,
)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.failure(14)
def test_every_is_a_grid_that_does_not_drift() -> None:
    anchor = datetime(2026, 11, 20, 8, 0, 7, 999_000, tzinfo=UTC)
    trigger = parse_trigger("every 7m", anchor=anchor)
    after_ms = ms("2026-11-20T08:00:07Z")

    for number in range(1, 5000):
        after_ms = trigger.next_after_ms(after_ms) or 0
        assert after_ms == ms("2026-11-20T08:00:07Z") + number * 7 * 60_000


@pytest.mark.failure(14)
def test_every_day_counted_over_clock_changes_stays_a_day() -> None:
    trigger = parse_trigger("every 1d from 2026-03-01T08:00:00Z", "Europe/Berlin")

    count = trigger.count_ms(ms("2026-03-01T07:59Z"), ms("2027-03-01T07:59Z"))

    assert count == 365
    assert trigger.last_ms(0, ms("2027-03-01T07:59Z")) == ms("2027-02-28T08:00Z")


def test_a_grid_with_a_start_has_nothing_before_it_and_a_bare_one_has() -> None:
    bounded = parse_trigger("every 15m from 2026-11-20T08:05:00Z")
    bare = parse_trigger("every 15m", anchor=datetime(2026, 11, 20, 8, 5, tzinfo=UTC))

    assert bounded.next_after_ms(0) == ms("2026-11-20T08:05Z")
    assert bounded.next_after_ms(ms("2026-11-20T08:05Z")) == ms("2026-11-20T08:20Z")
    assert bounded.count_ms(0, ms("2026-11-20T08:20Z")) == 2
    assert bounded.last_ms(0, ms("2026-11-20T08:04Z")) is None
    assert bare.next_after_ms(ms("2026-11-20T07:00Z")) == ms("2026-11-20T07:05Z")
    assert bare.count_ms(ms("2026-11-20T07:00Z"), ms("2026-11-20T08:00Z")) == 4


def test_a_bare_every_without_an_anchor_counts_from_1970() -> None:
    trigger = parse_trigger("every 15m")

    assert trigger.next_after_ms(1) == 15 * 60_000
    assert trigger.interval_hint_ms(0) == 15 * 60_000
    assert isinstance(trigger, EveryTrigger)
    assert trigger.interval_ms == 15 * 60_000


@pytest.mark.parametrize(
    ("duration", "text"),
    [("15m", "every 15m"), (90, "every 1m30s"), (0.25, "every 250ms"),
     (timedelta(days=2, hours=1), "every 2d1h")],
)  # fmt: skip
def test_every_takes_a_text_a_timedelta_or_seconds(
    duration: str | float | timedelta, text: str
) -> None:
    assert every(duration).text == text
    assert every(duration) == parse_trigger(text)


@pytest.mark.parametrize(
    "duration", ["", "x", 0, -1, 1e-9, 1e300, float("nan"), float("inf"), timedelta(0)]
)
def test_every_refuses_what_is_no_duration(duration: str | float | timedelta) -> None:
    with pytest.raises(InvalidTrigger):
        every(duration)


def test_an_instant_fires_once() -> None:
    trigger = at(datetime(2026, 11, 20, 9, tzinfo=UTC))
    at_ms = ms("2026-11-20T09:00Z")

    assert trigger.text == "at 2026-11-20T09:00:00Z"
    assert trigger.next_after_ms(at_ms - 1) == at_ms
    assert trigger.next_after_ms(at_ms) is None
    assert trigger.count_ms(at_ms - 1, at_ms) == 1
    assert trigger.count_ms(at_ms, at_ms + 1) == 0
    assert trigger.last_ms(0, at_ms) == at_ms
    assert trigger.interval_hint_ms(0) is None
    with pytest.raises(InvalidTrigger, match="with an offset"):
        at(datetime(2026, 11, 20, 9))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at 2026-07-01 09:00", "at 2026-07-01T07:00:00Z"),
        ("at 2026-07-01T09:00:30", "at 2026-07-01T07:00:30Z"),
        ("AT 2026-07-01", "at 2026-06-30T22:00:00Z"),
        ("at 2026-07-01T09:00+05:30", "at 2026-07-01T03:30:00Z"),
        # In the gap: its end. Repeated: the first pass.
        ("at 2026-03-29 02:30", "at 2026-03-29T01:00:00Z"),
        ("at 2026-10-25 02:30", "at 2026-10-25T00:30:00Z"),
    ],
)
def test_a_local_time_without_an_offset_is_read_in_the_zone(text: str, expected: str) -> None:
    assert parse_trigger(text, "Europe/Berlin").text == expected


def test_event_driven_triggers_have_no_plan_times() -> None:
    boot, after, after_end = (
        parse_trigger(text) for text in ("ON Boot", "after backup:FAILURE", "every 1h after end")
    )

    assert [t.kind for t in (boot, after, after_end)] == [
        TriggerKind.BOOT,
        TriggerKind.AFTER,
        TriggerKind.AFTER_END,
    ]
    for trigger in (boot, after, after_end):
        assert trigger.next_after(datetime(2026, 1, 1, tzinfo=UTC)) is None
        assert trigger.count_ms(0, ms("2030-01-01T00:00Z")) == 0
        assert trigger.last_ms(0, ms("2030-01-01T00:00Z")) is None
    assert isinstance(after, AfterTrigger)
    assert (after.upstream, after.on) == ("backup", "failure")
    assert isinstance(after_end, AfterEndTrigger)
    assert after_end.interval_ms == 3_600_000
    assert parse_trigger("after backup:success").text == "after backup"
