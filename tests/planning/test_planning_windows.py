"""Windows: plan times are compared with the clock on the wall, minute by minute, by zoneinfo."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.errors import InvalidInput
from edgecron.base.units import format_instant, from_ms, to_ms
from edgecron.base.values import replace
from edgecron.base.zones import load_zone
from edgecron.model.choices import CatchUp, Cause, Reason
from edgecron.model.options import Policies
from edgecron.planning.catch_up import plan_fire
from edgecron.planning.next_fire import Timing, excluded_until, next_fire, next_fires
from edgecron.planning.times import compile_spec, timing_of, window_warning
from edgecron.planning.windows import find_windows
from edgecron.triggers import combine, parse_trigger
from tests.support.specs import make_due, make_spec, ms

MINUTE_MS = 60_000
DAY_MS = 86_400_000
NAMES = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
# A gap and a fold at night, at midnight, of half an hour and of two hours; and a whole day.
ZONES = {
    "Europe/Berlin": ("2026-03-26", "2026-10-23"),
    "America/Havana": ("2026-03-06", "2026-10-30"),
    "Australia/Lord_Howe": ("2026-04-02", "2026-10-02"),
    "Antarctica/Troll": ("2026-03-27", "2026-10-23"),
    "Pacific/Apia": ("2011-12-28",),
    "UTC": ("2026-02-26",),
}
clocks = st.tuples(st.integers(0, 23), st.sampled_from([0, 15, 30, 59]))
weekdays = st.one_of(
    st.just(""),
    st.sampled_from(NAMES),
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).map("-".join),
    st.sets(st.sampled_from(NAMES), min_size=1).map(",".join),
)
windows = (
    st.tuples(clocks, clocks, weekdays)
    .filter(lambda one: one[0] != one[1])
    .map(lambda one: f"{one[0][0]:02}:{one[0][1]:02}-{one[1][0]:02}:{one[1][1]:02} {one[2]}")
    .map(str.strip)
)


def is_open(at_ms: int, policies: Policies, zone: ZoneInfo) -> bool:
    """Whether the wall clock shows a time of the windows, as plainly as can be."""
    wall = from_ms(at_ms).astimezone(zone)
    day, minute = wall.date(), wall.hour * 60 + wall.minute
    if any(_is_day(day, text) for text in policies.except_days):
        return False
    if any(_holds(day, minute, text) for text in policies.not_between):
        return False
    return not policies.between or any(_holds(day, minute, text) for text in policies.between)


def _is_day(day: date, text: str) -> bool:
    first, _, last = text.partition("..")
    return first <= day.isoformat() <= (last or first)


def _holds(day: date, minute: int, text: str) -> bool:
    times, _, names = text.partition(" ")
    first, last = (int(one[:2]) * 60 + int(one[3:]) for one in times.split("-"))
    if first < last:
        return first <= minute < last and _is_named(day, names)
    if minute >= first:
        return _is_named(day, names)
    return minute < last and _is_named(day - timedelta(days=1), names)


def _is_named(day: date, names: str) -> bool:
    found: set[int] = set()
    for part in names.split(",") if names else ["MON-SUN"]:
        first, _, last = part.partition("-")
        at = NAMES.index(first)
        found.add(at)
        while last and NAMES[at] != last:
            at = (at + 1) % 7
            found.add(at)
    return day.weekday() in found


def timing_in(
    zone: str | None, policies: Policies, *triggers: str, until_at: datetime | None = None
) -> Timing:
    spec = replace(make_spec("backup", *triggers), timezone=zone, policies=policies)
    spec = replace(spec, until_at=until_at)
    return timing_of(spec, [parse_trigger(text, zone) for text in triggers], seed=b"seed")


@settings(max_examples=12, deadline=None)
@given(
    zone=st.sampled_from(sorted(ZONES)),
    between=st.lists(windows, max_size=2),
    not_between=st.lists(windows, max_size=1),
    after_days=st.integers(0, 5),
    data=st.data(),
)
def test_each_minute_is_open_as_the_clock_on_the_wall_says(
    zone: str,
    between: list[str],
    not_between: list[str],
    after_days: int,
    data: st.DataObject,
) -> None:
    start = datetime.fromisoformat(f"{data.draw(st.sampled_from(ZONES[zone]))}T00:00Z")
    off = (start + timedelta(days=after_days)).date().isoformat()
    try:
        policies = Policies(
            between=tuple(between), not_between=tuple(not_between), except_days=(off,)
        )
    except InvalidInput:
        return  # no open time at all
    found = find_windows(policies.between, policies.not_between, policies.except_days, zone)
    assert found is not None
    info, start_ms = load_zone(zone), to_ms(start)
    minutes = range(start_ms, start_ms + 6 * DAY_MS, MINUTE_MS)
    expected = [at_ms for at_ms in minutes if is_open(at_ms, policies, info)]

    assert [at_ms for at_ms in minutes if found.is_open(at_ms)] == expected

    end_ms = minutes[-1]
    timing = timing_in(zone, policies, "* * * * *")
    walked = []
    fire = next_fire(timing, start_ms - 1)
    while fire is not None and fire.plan_ms <= end_ms and found.is_open(fire.plan_ms):
        walked.append(fire.plan_ms)
        fire = next_fire(timing, fire.plan_ms)
    assert walked == expected
    assert timing.excluded is not None
    assert timing.times.count_ms(start_ms - 1, end_ms) == len(expected)
    assert timing.excluded.count_ms(start_ms - 1, end_ms) == len(minutes) - len(expected)
    assert timing.times.last_ms(start_ms - 1, end_ms) == (expected[-1] if expected else None)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Asia/Kolkata"])
def test_years_of_plan_times_are_counted_as_by_brute_force(zone: str) -> None:
    policies = Policies(
        between=("21:00-05:00 MON-FRI", "00:00-24:00 SAT"), except_days=("2026-12-24..2027-01-02",)
    )
    timing = timing_in(zone, policies, "*/30 * * * *")
    start_ms, end_ms = ms("2026-01-01T00:00:00Z"), ms("2029-01-01T00:00:00Z")
    info, step_ms = load_zone(zone), 30 * MINUTE_MS
    expected = sum(
        is_open(at_ms, policies, info) for at_ms in range(start_ms + step_ms, end_ms + 1, step_ms)
    )
    assert timing.times.count_ms(start_ms, end_ms) == expected


def test_the_weekday_is_that_on_which_the_window_opens() -> None:
    found = find_windows(("21:00-05:00 FRI",), (), (), "UTC")
    assert found is not None
    assert found.is_open(ms("2026-11-28T04:59:00Z"))  # Saturday
    assert not found.is_open(ms("2026-11-28T05:00:00Z"))
    assert not found.is_open(ms("2026-11-28T21:00:00Z"))
    assert found.next_open_ms(ms("2026-11-28T05:00:00Z")) == ms("2026-12-04T21:00:00Z")


def test_a_schedule_that_could_never_run_is_refused() -> None:
    spec = make_spec("backup", "0 12 * * *", timezone="UTC", between=("21:00-05:00",))
    now = datetime(2026, 11, 20, tzinfo=UTC)
    with pytest.raises(InvalidInput, match="would never run") as caught:
        compile_spec(spec, seed=b"", made_at=now, now=now)
    assert caught.value.hint == "see: edgecron help windows"


def test_the_closed_hours_become_one_range_when_the_window_opens() -> None:
    timing = timing_in("UTC", Policies(between=("21:00-05:00",)), "* * * * *")
    due = make_due("2026-11-20T21:00:00Z", decided="2026-11-20T04:59:00Z")

    plan = plan_fire(timing, due, now_ms=due.plan_ms)

    [excluded] = plan.missed
    assert excluded.reason is Reason.EXCLUDED
    assert (excluded.from_ms, excluded.to_ms) == (
        ms("2026-11-20T05:00:00Z"),
        ms("2026-11-20T20:59:00Z"),
    )
    assert excluded.count == 16 * 60
    assert [fire.plan_ms for fire in plan.fires] == [due.plan_ms]


def test_a_missed_night_is_told_from_the_closed_hours() -> None:
    timing = timing_in(
        "UTC", Policies(between=("21:00-05:00",), catch_up=CatchUp.SKIP), "0 * * * *"
    )
    due = make_due("2026-11-20T22:00:00Z", decided="2026-11-20T21:00:00Z")

    plan = plan_fire(timing, due, now_ms=ms("2026-11-22T21:30:00Z"))

    counts = {one.reason: one.count for one in plan.missed}
    assert counts == {Reason.EXCLUDED: 2 * 16, Reason.MISFIRE: 2 * 8}
    assert not plan.fires


def test_a_late_run_that_would_open_too_late_is_missed() -> None:
    policies = Policies(between=("21:00-05:00",), max_late_s=12 * 3600)
    timing = timing_in("UTC", policies, "0 22 * * *")
    due = make_due("2026-11-20T22:00:00Z", decided="2026-11-20T21:59:00Z")

    at_night = plan_fire(timing, due, now_ms=ms("2026-11-21T04:00:00Z"))
    by_day = plan_fire(timing, due, now_ms=ms("2026-11-21T06:00:00Z"))

    assert [fire.cause for fire in at_night.fires] == [Cause.CATCH_UP]
    assert [one.reason for one in by_day.missed] == [Reason.MISFIRE]


def test_jitter_stays_in_the_window_of_its_plan_time() -> None:
    policies = Policies(between=("21:00-22:00",), jitter_s=7200)
    timing = timing_in("UTC", policies, "*/5 * * * *")
    fire = next_fire(timing, ms("2026-11-20T20:00:00Z"))
    for _ in range(50):
        assert fire is not None
        assert from_ms(fire.due_ms).hour == 21
        fire = next_fire(timing, fire.plan_ms)


def test_the_last_excluded_time_before_the_end_is_decided_too() -> None:
    until = datetime(2026, 11, 21, 12, tzinfo=UTC)
    timing = timing_in("UTC", Policies(between=("21:00-05:00",)), "0 * * * *", until_at=until)
    fire = next_fire(timing, ms("2026-11-21T04:00:00Z"))
    assert fire is not None
    assert fire.plan_ms == to_ms(until)

    due = make_due("2026-11-21T12:00:00Z", decided="2026-11-21T04:00:00Z")
    plan = plan_fire(timing, due, now_ms=fire.plan_ms)

    assert [(one.reason, one.count) for one in plan.missed] == [(Reason.EXCLUDED, 8)]
    assert plan.next is None


def test_without_windows_nothing_is_looked_up() -> None:
    assert find_windows((), (), (), "Europe/Berlin") is None
    timing = timing_in("UTC", Policies(), "0 * * * *")
    assert timing.excluded is None
    assert timing.times.next_with_source(0) == combine(
        [parse_trigger("0 * * * *", "UTC")]
    ).next_with_source(0)


def test_an_event_of_a_calendar_excludes_only_its_times() -> None:
    text = "/a.ics = 2026-11-22 2026-11-20T09:00:00Z..2026-11-20T11:30:00Z"
    timing = timing_in("UTC", Policies(except_days=(text,)), "0 * * * *")

    windows = timing.windows
    assert windows is not None
    span = windows.span_at(ms("2026-11-20T10:00:00Z"))
    assert span == (False, ms("2026-11-20T09:00:00Z"), ms("2026-11-20T11:30:00Z"))
    assert windows.next_open_ms(ms("2026-11-20T10:00:00Z")) == ms("2026-11-20T11:30:00Z")
    assert not windows.is_open(ms("2026-11-22T10:00:00Z"))
    excluded = excluded_until(
        timing, decided_until_ms=ms("2026-11-20T00:00:00Z"), until_ms=ms("2026-11-20T12:00:00Z")
    )
    assert excluded is not None
    assert excluded.count == 3


def test_a_calendar_that_has_not_been_read_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has not been read"):
        timing_in("UTC", Policies(except_days=("/a.ics",)), "0 * * * *")


@pytest.mark.parametrize(
    ("trigger", "hours", "left"),
    [
        ("0 4 * * *", 2, "1h"),  # It begins too late.
        ("0 * * * *", 9, "8h"),  # The window is too short.
        ("0 * * * *", 2, None),  # The last run of a window ends after it, the first does not.
        ("0 22 * * *", 7, None),
    ],
)
def test_a_window_that_is_too_short_for_the_usual_run_is_found(
    trigger: str, hours: int, left: str | None
) -> None:
    timing = timing_in("UTC", Policies(between=("21:00-05:00",)), trigger)
    for now in ("2026-11-20T12:00:00Z", "2026-11-20T23:30:00Z"):
        found = window_warning(timing, usual_ms=hours * 3_600_000, after_ms=ms(now))
        if left is None:
            assert found is None
        else:
            assert found is not None
            assert f"usually take {hours}h, but a window closes {left} after" in found


def test_a_window_of_an_hour_that_the_clocks_skip_excludes_that_day() -> None:
    timing = timing_in("Europe/Berlin", Policies(between=("02:00-03:00",)), "30 2 * * *")

    in_spring = next_plans(timing, "2026-03-27T12:00:00Z", 2)
    excluded = excluded_until(
        timing, decided_until_ms=ms("2026-03-28T12:00:00Z"), until_ms=ms("2026-03-29T12:00:00Z")
    )
    in_autumn = next_plans(timing, "2026-10-24T12:00:00Z", 2)

    assert in_spring == ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]
    assert excluded is not None
    assert (excluded.count, excluded.from_ms) == (1, ms("2026-03-29T01:00:00Z"))
    assert in_autumn == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]


def test_a_window_holds_a_repeated_hour_in_both_passes() -> None:
    timing = timing_in("Europe/Berlin", Policies(between=("02:00-03:00",)), "*/30 * * * *")
    assert next_plans(timing, "2026-10-24T12:00:00Z", 5) == [
        "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z",
        "2026-10-25T01:30:00Z", "2026-10-26T01:00:00Z",
    ]  # fmt: skip


def next_plans(timing: Timing, after: str, count: int) -> list[str]:
    plans_ms = [fire.plan_ms for fire in islice(next_fires(timing, ms(after)), count)]
    return [format_instant(from_ms(plan_ms)) for plan_ms in plans_ms]
