"""Correct stored times after a wrong clock or a changed zone, without a clock or a store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgecron.base.units import format_ms
from edgecron.planning.corrections import (
    KeptTimes,
    ZonedTimes,
    find_zone_change_ms,
    plan_rebase,
    plan_repair,
    plan_rezone,
)
from edgecron.planning.next_fire import NextFire, Timing
from edgecron.planning.times import find_outdated
from edgecron.triggers import dump_trigger, parse_trigger
from tests.support.specs import make_timing, ms

NOW = ms("2026-11-20T08:30:00Z")
HOURLY = make_timing("0 * * * *")
AFTER_END = replace(make_timing("every 1h after end"), after_end_ms=3_600_000)


def kept(
    plan: str | None,
    *,
    decided: str,
    run: str | None = None,
    source: str = "0 * * * *",
    trusted: str | None = None,
    paused: str | None = None,
    is_idle: bool = False,
) -> KeptTimes:
    following = None
    if plan is not None:
        following = NextFire(plan_ms=ms(plan), due_ms=ms(run or plan), source=source)
    return KeptTimes(
        schedule_id=1,
        revision=1,
        name="backup",
        is_idle=is_idle,
        next=following,
        decided_until_ms=ms(decided),
        trusted_until_ms=None if trusted is None else ms(trusted),
        paused_until_ms=None if paused is None else ms(paused),
        planned_count=0,
    )


def repaired(times: KeptTimes, timing: Timing = HOURLY, *, is_set_back: bool = False) -> str | None:
    """`decided / next` of a repair, or None where nothing is changed."""
    found = plan_repair(timing, times, now_ms=NOW, is_set_back=is_set_back)
    if found is None:
        return None
    following = "-" if found.next is None else format_ms(found.next.plan_ms)
    return f"{format_ms(found.decided_until_ms)} {following}"


@pytest.mark.parametrize(
    ("times", "is_set_back", "expected"),
    [
        # Right as it is, also where something is due: that is for firing to decide.
        (kept("2026-11-20T09:00:00Z", decided="2026-11-20T08:00:00Z"), True, None),
        (kept("2026-11-20T05:00:00Z", decided="2026-11-20T04:00:00Z"), True, None),
        # Decided two hours ahead: believed, unless the clock was seen to be set back by far.
        (kept("2026-11-20T11:00:00Z", decided="2026-11-20T10:00:00Z"), False, None),
        (
            kept("2026-11-20T11:00:00Z", decided="2026-11-20T10:00:00Z"),
            True,
            "2026-11-20T08:30:00Z 2026-11-20T09:00:00Z",
        ),
        # Stranded.
        (
            kept("2099-01-01T01:00:00Z", decided="2099-01-01T00:00:00Z"),
            False,
            "2026-11-20T08:30:00Z 2026-11-20T09:00:00Z",
        ),
        # Made in 1970: nothing was missed since.
        (
            kept("1970-01-01T01:00:00Z", decided="1970-01-01T00:10:00Z"),
            False,
            "2026-11-20T08:30:00Z 2026-11-20T09:00:00Z",
        ),
        # It went by a wrong clock: it goes on where the right one left it, and is due at once.
        (
            kept(
                "1970-01-01T01:00:00Z",
                decided="1970-01-01T00:10:00Z",
                trusted="2026-11-20T05:00:00Z",
            ),
            False,
            "2026-11-20T05:00:00Z 2026-11-20T06:00:00Z",
        ),
        # A pause goes on to its end.
        (
            kept(
                "2099-01-01T01:00:00Z",
                decided="2099-01-01T00:00:00Z",
                paused="2026-11-21T00:00:00Z",
            ),
            False,
            "2026-11-20T08:30:00Z 2026-11-21T00:00:00Z",
        ),
        (
            kept(None, decided="2099-01-01T00:00:00Z", is_idle=True),
            False,
            "2026-11-20T08:30:00Z -",
        ),
        (kept(None, decided="2026-11-20T05:00:00Z", is_idle=True), False, None),
    ],
)
def test_a_repair(times: KeptTimes, is_set_back: bool, expected: str | None) -> None:
    assert repaired(times, is_set_back=is_set_back) == expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("2026-11-20T09:15:00Z", None),  # it counts from an end within the hour
        ("2099-01-01T01:00:00Z", "2026-11-20T08:00:00Z 2026-11-20T09:30:00Z"),
    ],
)
def test_an_interval_after_an_end_in_the_future_counts_from_now(
    plan: str, expected: str | None
) -> None:
    times = kept(plan, decided="2026-11-20T08:00:00Z", source="every 1h after end")

    assert repaired(times, AFTER_END) == expected


def test_an_interval_whose_run_goes_on_is_left_waiting_for_its_end() -> None:
    times = kept(None, decided="2099-01-01T00:00:00Z")

    assert repaired(times, AFTER_END) == "2026-11-20T08:30:00Z -"


def test_a_rebased_interval_keeps_where_it_stood_however_often() -> None:
    first = plan_rebase(
        make_timing("every 10m"),
        kept("2026-11-20T05:10:00Z", decided="2026-11-20T05:00:00Z"),
        now_ms=600_001,
    )
    assert first.next is not None
    again = plan_rebase(
        make_timing("every 10m"),
        replace(
            first.kept,
            next=first.next,
            decided_until_ms=first.decided_until_ms,
            trusted_until_ms=first.trusted_until_ms,
        ),
        now_ms=60_000,
    )

    assert (first.decided_until_ms, first.next.plan_ms) == (600_001, 1_200_000)
    assert again.next is not None
    assert (again.decided_until_ms, again.next.plan_ms) == (60_000, 600_000)
    assert first.trusted_until_ms == again.trusted_until_ms == ms("2026-11-20T05:00:00Z")


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        # To come: by the new rules, and never for the past.
        (kept("2026-11-20T08:45:00Z", decided="2026-11-20T05:45:00Z"), "2026-11-20T09:00:00Z"),
        # Due by the old ones: fired as it was promised.
        (kept("2026-11-20T08:15:00Z", decided="2026-11-20T05:45:00Z"), None),
        # Moved by a person.
        (
            kept(
                "2026-11-20T08:45:00Z",
                decided="2026-11-20T05:45:00Z",
                run="2026-11-20T10:00:00Z",
            ),
            None,
        ),
        (kept(None, decided="2026-11-20T05:45:00Z", is_idle=True), None),
    ],
)
def test_other_rules_of_a_zone(times: KeptTimes, expected: str | None) -> None:
    found = plan_rezone(HOURLY, times, changed_ms=NOW, now_ms=NOW)

    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert found.next is not None
        assert found.next.plan_ms == ms(expected)
        assert found.decided_until_ms == NOW
        assert found.has_moved


def test_a_time_since_the_zone_has_changed_is_due() -> None:
    times = kept("2026-11-20T08:45:00Z", decided="2026-11-20T05:45:00Z")
    hour_ms = NOW // 3_600_000 * 3_600_000

    found = plan_rezone(HOURLY, times, changed_ms=hour_ms - 1, now_ms=NOW)

    assert found is not None
    assert found.next is not None
    assert found.next.plan_ms == hour_ms
    assert found.decided_until_ms == hour_ms - 1


@pytest.mark.parametrize(
    ("set_s", "looked_s", "expected_s"),
    [
        (-10, -40, -10),  # since the last look, as the machine says
        (-3_600, -40, -40),  # a file with an old time was copied there
        (10, -40, -40),
        (None, -40, -40),
        (-3_600, -7_200, -3_600),
        (-9_000, -7_200, 0),  # the machine slept
        (None, -7_200, 0),
        (-10, None, 0),  # the first look
        (None, 30, 0),  # the clock was set back
    ],
)
def test_when_a_zone_has_changed(set_s: int | None, looked_s: int | None, expected_s: int) -> None:
    set_ms = None if set_s is None else NOW + set_s * 1000
    looked_ms = None if looked_s is None else NOW + looked_s * 1000

    found = find_zone_change_ms(set_ms, looked_ms=looked_ms, now_ms=NOW)

    assert found == NOW + expected_s * 1000


def test_the_same_time_by_other_rules_has_not_moved() -> None:
    found = plan_rezone(
        HOURLY,
        kept("2026-11-20T09:00:00Z", decided="2026-11-20T05:45:00Z"),
        changed_ms=NOW,
        now_ms=NOW,
    )

    assert found is not None  # what lies before now is decided, by either rules
    assert not found.has_moved


def test_what_a_pause_holds_is_counted_from_where_it_began() -> None:
    times = kept(
        "2026-11-20T11:45:00Z", decided="2026-11-20T05:45:00Z", paused="2026-11-20T11:30:00Z"
    )

    found = plan_rezone(HOURLY, times, changed_ms=NOW, now_ms=NOW)

    assert found is not None
    assert found.next is not None
    assert found.next.plan_ms == ms("2026-11-20T12:00:00Z")
    assert found.decided_until_ms == ms("2026-11-20T05:45:00Z")


def test_what_is_decided_and_has_no_row_any_more_stays_decided() -> None:
    """Its row would say so, had retention not removed it."""
    times = replace(
        kept("2026-11-22T09:00:00Z", decided="2026-11-22T08:00:00Z"),
        pruned_until_ms=ms("2026-11-21T10:00:00Z"),
    )

    found = repaired(times, is_set_back=True)

    assert found == "2026-11-21T10:00:00Z 2026-11-21T11:00:00Z"


def test_a_million_equal_next_times_are_checked_by_one_computation() -> None:
    text = dump_trigger(parse_trigger("0 9 * * *", "Europe/Berlin"))
    at_ms = ms("2026-03-09T08:00:00Z")
    one = ZonedTimes(1, f"[{text}]", at_ms - 86_400_000, at_ms, "0 9 * * *", is_plain=True)
    found = [
        one,
        one._replace(schedule_id=2, after_ms=at_ms - 1),
        one._replace(schedule_id=3, after_ms=at_ms - 86_400_000 - 1),  # It has another time before.
        one._replace(schedule_id=4, plan_ms=at_ms + 1),
        one._replace(schedule_id=5, after_ms=at_ms),
        one._replace(schedule_id=6, is_plain=False),
        one._replace(schedule_id=7, source="0 9 * * 1"),
        one._replace(schedule_id=8, compiled="[{}]"),
    ]

    assert find_outdated(found, only_local=False) == [3, 4, 5, 6, 7, 8]
    assert find_outdated(found, only_local=True) == [8]
