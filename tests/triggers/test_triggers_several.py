"""Counting: one trigger in closed form, and several as one with each instant once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from edgecron.base.errors import InvalidTrigger
from edgecron.triggers import Triggers, combine, parse_trigger

FAST = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
DAY_MS = 86_400_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def walk(triggers: Triggers, after_ms: int, until_ms: int) -> list[int]:
    found: list[int] = []
    at_ms = triggers.next_after_ms(after_ms)
    while at_ms is not None and at_ms <= until_ms:
        found.append(at_ms)
        at_ms = triggers.next_after_ms(at_ms)
    return found


@pytest.mark.parametrize("years", [1, 50])
def test_counting_every_second_of_many_years_takes_no_time(years: int) -> None:
    trigger = parse_trigger("* * * * * *", "Europe/Berlin")
    start_ms = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    end_ms = start_ms + years * 365 * DAY_MS

    # One by one, 1,600 million of them would take hours.
    count = trigger.count_ms(start_ms, end_ms)
    last_ms = trigger.last_ms(start_ms, end_ms)

    assert count == years * 365 * 86_400
    assert last_ms == end_ms


def test_the_earliest_wins_and_names_its_text() -> None:
    triggers = combine([parse_trigger("0 9 * * *"), parse_trigger("every 4h")])

    assert triggers.next_with_source(ms("2026-01-01T08:30Z")) == (
        ms("2026-01-01T09:00Z"), "0 9 * * *")  # fmt: skip
    assert triggers.next_with_source(ms("2026-01-01T09:00Z")) == (
        ms("2026-01-01T12:00Z"), "every 4h")  # fmt: skip
    assert triggers.interval_hint_ms(ms("2026-01-01T08:30Z")) == 3 * 3_600_000


def test_the_same_instant_from_two_is_one_and_the_first_written_names_it() -> None:
    triggers = combine([parse_trigger("0 9 * * *"), parse_trigger("every 3h")])

    assert triggers.next_with_source(ms("2026-01-01T08:30Z")) == (
        ms("2026-01-01T09:00Z"), "0 9 * * *")  # fmt: skip
    assert triggers.next_after_ms(ms("2026-01-01T09:00Z")) == ms("2026-01-01T12:00Z")
    assert triggers.count_ms(ms("2026-01-01T00:00Z"), ms("2026-01-02T00:00Z")) == 8


def test_a_grid_needs_no_zone_and_goes_on_where_the_local_one_can_not_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    triggers = combine([parse_trigger("every 5m from 2026-11-20T08:00:00Z", "local")])
    monkeypatch.setenv("TZ", "Middle/Earth")

    found = triggers.next_with_source(ms("2026-11-20T09:01:00Z"))

    assert found is not None
    assert found[0] == ms("2026-11-20T09:05:00Z")


def test_the_same_question_has_another_answer_in_another_local_zone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    triggers = combine([parse_trigger("0 9 * * *", "local")])
    before = triggers.next_after_ms(ms("2026-07-01T00:00:00Z"))

    monkeypatch.setenv("TZ", "Europe/Berlin")
    after = triggers.next_after_ms(ms("2026-07-01T00:00:00Z"))

    assert before == ms("2026-07-02T00:00:00Z")
    assert after == ms("2026-07-01T07:00:00Z")


def test_no_trigger_and_event_driven_ones_have_no_times() -> None:
    for triggers in (combine([]), combine([parse_trigger("on boot"), parse_trigger("after x")])):
        assert triggers.next_with_source(0) is None
        assert triggers.next_after_ms(0) is None
        assert triggers.last_ms(0, DAY_MS) is None
        assert triggers.count_ms(0, DAY_MS) == 0
        assert triggers.interval_hint_ms(0) is None


def test_two_zones_and_a_gap_share_their_instants() -> None:
    # 02:30 is skipped and runs at 03:00, which the second one names.
    triggers = combine(
        [parse_trigger("30 2 * * *", "Europe/Berlin"), parse_trigger("0 3 * * *", "Europe/Berlin")]
    )

    assert triggers.count_ms(ms("2026-03-28T12:00Z"), ms("2026-03-29T12:00Z")) == 1
    assert triggers.count_ms(ms("2026-03-01T12:00Z"), ms("2027-03-01T12:00Z")) == 729


MEMBERS = st.sampled_from(
    ["* * * * *", "*/5 * * * *", "*/7 1-3 * * *", "0 2 * * *", "30 2 * * *", "0 3 * * *",
     "*/20 * * * * *", "0 0 29 3 *", "every 7m", "every 90s from 2026-03-28T00:00:30Z", "every 1d",
     "every 2500ms", "at 2026-03-29T01:00:00Z", "at 2026-03-29T01:00:00.5Z", "on boot",
     "15 * * * *", "1-59 0-23 * * *", "1-58 0-22 * * *", "30-59 30 0-4 * * *"]
)  # fmt: skip
ZONES = st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", None])


@settings(FAST, max_examples=60)
@given(
    members=st.lists(st.tuples(MEMBERS, ZONES), min_size=1, max_size=4),
    after_ms=st.integers(ms("2026-03-27T00:00Z"), ms("2026-03-29T06:00Z")),
    length_ms=st.integers(0, 2 * DAY_MS),
)
def test_count_and_last_of_several_are_those_of_a_walk(
    members: list[tuple[str, str | None]], after_ms: int, length_ms: int
) -> None:
    triggers = combine([parse_trigger(text, zone) for text, zone in members])

    found = walk(triggers, after_ms, after_ms + length_ms)

    assert triggers.count_ms(after_ms, after_ms + length_ms) == len(found)
    assert triggers.last_ms(after_ms, after_ms + length_ms) == (found[-1] if found else None)
    assert len(set(found)) == len(found)


@settings(FAST, max_examples=60)
@given(
    interval_ms=st.integers(1, 40_000),
    anchor_s=st.integers(-100, 100),
    is_bounded=st.booleans(),
    after_ms=st.integers(-200_000, 200_000),
    length_ms=st.integers(0, 300_000),
)
def test_count_and_last_of_any_grid_are_those_of_brute_force(
    interval_ms: int, anchor_s: int, is_bounded: bool, after_ms: int, length_ms: int
) -> None:
    anchor = datetime.fromtimestamp(anchor_s, UTC)
    text = f"every {interval_ms}ms"
    if is_bounded:
        text += f" from {anchor:%Y-%m-%dT%H:%M:%SZ}"
    trigger = parse_trigger(text, anchor=anchor)
    first = 0 if is_bounded else -400_000 // interval_ms
    grid = (anchor_s * 1000 + k * interval_ms for k in range(first, 700_000 // interval_ms + 2))

    expected = [at for at in grid if after_ms < at <= after_ms + length_ms]

    assert trigger.count_ms(after_ms, after_ms + length_ms) == len(expected)
    assert trigger.last_ms(after_ms, after_ms + length_ms) == (expected[-1] if expected else None)
    if expected:
        assert trigger.next_after_ms(after_ms) == expected[0]


@settings(FAST, max_examples=100)
@given(
    text=st.sampled_from(["0 2 29 2 *", "30 2 * 3 0", "0 0 1 1 *", "0 4 L * *", "15 3 15W */2 *",
                          "0 0 * * L0", "0 12 1-7 * */2"]),
    zone=st.sampled_from(["Europe/Berlin", "Pacific/Apia", "America/New_York", "UTC"]),
    after_ms=st.integers(ms("1971-01-01T00:00Z"), ms("2090-01-01T00:00Z")),
    days=st.integers(1, 20_000),
)  # fmt: skip
def test_count_and_last_over_decades_are_those_of_a_walk(
    text: str, zone: str, after_ms: int, days: int
) -> None:
    triggers = combine([parse_trigger(text, zone)])

    found = walk(triggers, after_ms, after_ms + days * DAY_MS)

    assert triggers.count_ms(after_ms, after_ms + days * DAY_MS) == len(found)
    assert triggers.last_ms(after_ms, after_ms + days * DAY_MS) == (found[-1] if found else None)


@settings(FAST, max_examples=400)
@given(text=st.text(alphabet="0123456789*/,-LWH#?() SUNMONat@every", max_size=40))
def test_any_text_is_a_trigger_or_refused_and_never_anything_else(text: str) -> None:
    refusal: InvalidTrigger | None = None
    try:
        trigger = parse_trigger(text, "Europe/Berlin", "backup")
    except InvalidTrigger as error:
        refusal = error

    if refusal is not None:
        assert "\n" not in refusal.message
        assert refusal.hint
    else:
        assert parse_trigger(trigger.text, "Europe/Berlin", "backup") == trigger
        assume(trigger.next_after_ms(0) is not None)
        assert trigger.count_ms(0, trigger.next_after_ms(0) or 0) == 1


def test_schedules_with_the_same_triggers_share_the_work_of_their_next_time() -> None:
    at_ms = ms("2026-07-01T00:00:00Z")
    first, second = (combine([parse_trigger("0 9 * * *")]) for _ in range(2))

    assert first.next_with_source(at_ms) is second.next_with_source(at_ms)
    assert first.next_with_source(at_ms + DAY_MS) == (ms("2026-07-02T09:00:00Z"), "0 9 * * *")
    assert first.next_with_source(at_ms) == (ms("2026-07-01T09:00:00Z"), "0 9 * * *")
