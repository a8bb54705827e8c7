"""The gap and fold rule, told by named examples with literal instants."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from edgecron.triggers import parse_trigger
from tests.triggers.triggers_oracle import all_zones


def plan_times(text: str, zone: str, *, after: str, until: str) -> list[str]:
    """Every plan time in (after, until], by asking for the next one again and again."""
    trigger = parse_trigger(text, zone)
    last = datetime.fromisoformat(until)
    found: list[str] = []
    at = trigger.next_after(datetime.fromisoformat(after))
    while at is not None and at <= last:
        found.append(at.strftime("%Y-%m-%dT%H:%M:%SZ"))
        at = trigger.next_after(at)
    return found


@pytest.mark.failure(1)
def test_a_fixed_time_in_the_spring_gap_runs_once_at_the_gaps_end() -> None:
    found = plan_times(
        "30 2 * * *", "Europe/Berlin", after="2026-03-28T02:00Z", until="2026-03-30T12:00Z"
    )

    assert found == ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]


@pytest.mark.failure(1)
def test_several_skipped_times_and_the_gaps_own_end_are_one_run() -> None:
    found = plan_times(
        "0,15,30,45 2,3 * * *",
        "Europe/Berlin",
        after="2026-03-29T00:00Z",
        until="2026-03-29T02:00Z",
    )

    assert found == [
        "2026-03-29T01:00:00Z",
        "2026-03-29T01:15:00Z",
        "2026-03-29T01:30:00Z",
        "2026-03-29T01:45:00Z",
    ]


@pytest.mark.failure(1)
@pytest.mark.parametrize("second", [0, 1, 30, 59])
def test_a_start_in_the_minute_before_the_gap_finds_the_gaps_end(second: int) -> None:
    trigger = parse_trigger("30 2 * * *", "Europe/Berlin")

    found = trigger.next_after(datetime(2026, 3, 29, 0, 59, second, 500_000, tzinfo=UTC))

    assert found == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert trigger.next_after(found) == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


@pytest.mark.failure(1)
def test_a_wildcard_catches_nothing_up_after_a_gap() -> None:
    found = plan_times(
        "*/30 2 * * *", "Europe/Berlin", after="2026-03-28T12:00Z", until="2026-03-30T12:00Z"
    )

    assert found == ["2026-03-30T00:00:00Z", "2026-03-30T00:30:00Z"]


@pytest.mark.failure(2)
def test_a_fixed_time_in_the_repeated_hour_runs_in_the_first_pass_only() -> None:
    found = plan_times(
        "30 2 * * *", "Europe/Berlin", after="2026-10-24T12:00Z", until="2026-10-26T12:00Z"
    )

    assert found == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]


@pytest.mark.failure(2)
def test_a_start_inside_the_second_pass_does_not_run_a_fixed_time_again() -> None:
    trigger = parse_trigger("30 2 * * *", "Europe/Berlin")

    found = trigger.next_after(datetime(2026, 10, 25, 1, 15, tzinfo=UTC))

    assert found == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.failure(2)
def test_a_wildcard_runs_in_both_passes_of_the_repeated_hour() -> None:
    found = plan_times(
        "*/30 2 * * *", "Europe/Berlin", after="2026-10-24T12:00Z", until="2026-10-25T12:00Z"
    )

    assert found == [
        "2026-10-25T00:00:00Z",
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:00:00Z",
        "2026-10-25T01:30:00Z",
    ]


@pytest.mark.failure(1)
@pytest.mark.parametrize(
    ("text", "zone", "after", "expected"),
    [
        # 30 minutes: 02:00 to 02:30 on 2026-10-04 at Lord Howe (+10:30 to +11).
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00Z", "2026-10-03T15:30:00Z"),
        # 2 hours: 01:00 to 03:00 on 2026-03-29 at Troll (+0 to +2).
        ("30 2 * * *", "Antarctica/Troll", "2026-03-28T12:00Z", "2026-03-29T01:00:00Z"),
        # At midnight: 00:00 to 01:00 on 2026-03-29 in Beirut (+2 to +3).
        ("0 0 * * *", "Asia/Beirut", "2026-03-28T12:00Z", "2026-03-28T22:00:00Z"),
        # A whole day: 2011-12-30 never came in Apia (-10 to +14).
        ("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00Z", "2011-12-30T10:00:00Z"),
        # No daylight flag: Pyongyang moved from +8:30 to +9 on 2018-05-05 at 00:00 (23:30 +8:30).
        ("45 23 4 5 *", "Asia/Pyongyang", "2018-05-04T00:00Z", "2018-05-04T15:00:00Z"),
    ],
)
def test_a_gap_of_any_length_is_caught_up(text: str, zone: str, after: str, expected: str) -> None:
    trigger = parse_trigger(text, zone)

    found = trigger.next_after(datetime.fromisoformat(after))

    assert found == datetime.fromisoformat(expected)


@pytest.mark.failure(1)
def test_the_day_that_apia_skipped_is_one_run_for_a_job_of_many_times() -> None:
    found = plan_times(
        "0 0-23 * * *", "Pacific/Apia", after="2011-12-30T08:30Z", until="2011-12-30T12:00Z"
    )

    assert found == [
        "2011-12-30T09:00:00Z",
        "2011-12-30T10:00:00Z",
        "2011-12-30T11:00:00Z",
        "2011-12-30T12:00:00Z",
    ]


@pytest.mark.failure(1)
def test_seconds_of_a_skipped_minute_collapse_into_one_run() -> None:
    found = plan_times(
        "* 30 2 * * *", "Europe/Berlin", after="2026-03-28T12:00Z", until="2026-03-29T12:00Z"
    )

    assert found == ["2026-03-29T01:00:00Z"]


@pytest.mark.failure(2)
def test_a_minute_from_H_makes_a_fixed_job() -> None:
    trigger = parse_trigger("H 2 * * *", "Europe/Berlin", name="backup")

    count = trigger.count_ms(
        int(datetime(2026, 10, 24, 12, tzinfo=UTC).timestamp()) * 1000,
        int(datetime(2026, 10, 25, 12, tzinfo=UTC).timestamp()) * 1000,
    )

    assert count == 1


@pytest.mark.failure(1)
@pytest.mark.failure(2)
@pytest.mark.parametrize(
    "text",
    [
        "30 2 * * *",
        pytest.param("0 0 * * *", marks=pytest.mark.slow),
        pytest.param("59 23 * * *", marks=pytest.mark.slow),
    ],
)
def test_a_daily_fixed_job_runs_once_for_each_day_of_a_century_in_every_zone(text: str) -> None:
    after_ms = int(datetime(1972, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)

    counts = {
        zone: parse_trigger(text, zone).count_ms(after_ms, after_ms + 36_525 * 86_400_000)
        for zone in all_zones()
    }

    # One more or less where the zone has moved over the date line or past the hour since.
    assert {zone: count for zone, count in counts.items() if abs(count - 36_525) > 1} == {}
