"""How many instants several triggers have together: against sets of the instants themselves."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgecron.triggers import Trigger, combine, parse_trigger

FAST = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
DAY_MS = 86_400_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def instants(trigger: Trigger, after_ms: int, until_ms: int) -> set[int]:
    """One by one; what one trigger alone says is held by tests of its own."""
    found: set[int] = set()
    at_ms = trigger.next_after_ms(after_ms)
    while at_ms is not None and at_ms <= until_ms:
        found.add(at_ms)
        at_ms = trigger.next_after_ms(at_ms)
    return found


def check(members: list[tuple[str, str | None]], after_ms: int, length_ms: int) -> None:
    triggers = [parse_trigger(text, zone) for text, zone in members]

    count = combine(triggers).count_ms(after_ms, after_ms + length_ms)

    expected = set().union(*(instants(t, after_ms, after_ms + length_ms) for t in triggers))
    assert count == len(expected)


# Gaps and folds of an hour, of half an hour, of two, at midnight, and of a whole day.
CHANGES = st.sampled_from(
    [
        ("Europe/Berlin", ms("2026-03-29T01:00Z")),
        ("Europe/Berlin", ms("2026-10-25T01:00Z")),
        ("Australia/Lord_Howe", ms("2026-04-04T15:00Z")),
        ("Australia/Lord_Howe", ms("2026-10-03T15:30Z")),
        ("Antarctica/Troll", ms("2026-03-29T01:00Z")),
        ("Asia/Beirut", ms("2026-03-28T22:00Z")),
        ("Asia/Beirut", ms("2026-10-24T21:00Z")),
        ("Pacific/Apia", ms("2011-12-30T10:00Z")),
        ("America/New_York", ms("2026-11-01T06:00Z")),
    ]
)
OTHER_ZONES = st.sampled_from([None, "Asia/Kolkata", "America/New_York", "Pacific/Kiritimati"])
BUSY = st.sampled_from(
    ["* * * * *", "*/5 * * * *", "*/7 1-3 * * *", "0 2 * * *", "30 2 * * *", "0 3 * * *",
     "*/20 * * * * *", "1-59 0-23 * * *", "30-59 30 0-4 * * *", "0 0 29 3 *", "15 * * * 0",
     "0 0-23 * * *", "0 0 * * *", "*/3 0-5 30,31 * *", "every 7m", "every 90s", "every 1d",
     "every 61s from 2026-03-28T23:00:30Z", "every 2500ms", "every 1001s", "every 3601s",
     "at 2026-03-29T01:00:00Z", "at 2026-03-29T01:00:00.5Z", "on boot", "on demand"]
)  # fmt: skip


@settings(FAST, max_examples=150)
@given(
    texts=st.lists(BUSY, min_size=2, max_size=4, unique=True),
    change=CHANGES,
    other=OTHER_ZONES,
    own_zone=st.booleans(),
    before_ms=st.integers(0, DAY_MS),
    length_ms=st.integers(0, 2 * DAY_MS),
)
def test_around_a_clock_change_every_instant_counts_once(
    texts: list[str],
    change: tuple[str, int],
    other: str | None,
    own_zone: bool,
    before_ms: int,
    length_ms: int,
) -> None:
    zone, at_ms = change
    zones = [zone if own_zone or index % 2 == 0 else other for index in range(len(texts))]

    check(list(zip(texts, zones, strict=True)), at_ms - before_ms, length_ms)


QUIET = st.sampled_from(
    ["0 2 * * *", "30 2 * * *", "0 3 * * *", "0 3 * * 0", "0 */12 * * *", "0 2 29 2 *",
     "30 2 1-7 * MON", "0 0 L * *", "0 12 15W */2 *", "0 0 * * L0", "every 1d", "every 7d",
     "every 37h", "every 100000s", "every 86399s", "every 2d from 2031-05-05T01:00:00Z"]
)  # fmt: skip
ZONES = st.sampled_from(
    ["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "America/New_York",
     "Africa/Casablanca"]
)  # fmt: skip


@settings(FAST, max_examples=50)
@given(
    members=st.lists(st.tuples(QUIET, ZONES), min_size=2, max_size=4, unique=True),
    after_ms=st.integers(ms("1965-01-01T00:00Z"), ms("2040-01-01T00:00Z")),
    days=st.integers(30, 4000),
)
def test_over_years_every_instant_counts_once(
    members: list[tuple[str, str | None]], after_ms: int, days: int
) -> None:
    check(members, after_ms, days * DAY_MS)


@settings(FAST, max_examples=100)
@given(
    grids=st.lists(
        st.tuples(st.integers(1, 4000), st.integers(0, 20), st.booleans()),
        min_size=2,
        max_size=4,
    ),
    after_ms=st.integers(-5_000, 25_000),
    length_ms=st.integers(0, 30_000),
)
def test_grids_of_any_distance_and_start_count_each_instant_once(
    grids: list[tuple[int, int, bool]], after_ms: int, length_ms: int
) -> None:
    triggers = [
        parse_trigger(
            f"every {interval_ms}ms" + (f" from 1970-01-01T00:00:{start_s:02}Z" * is_bounded),
            anchor=datetime.fromtimestamp(start_s, UTC),
        )
        for interval_ms, start_s, is_bounded in grids
    ]

    count = combine(triggers).count_ms(after_ms, after_ms + length_ms)

    expected = {
        at_ms
        for interval_ms, start_s, is_bounded in grids
        for at_ms in range(after_ms + 1, after_ms + length_ms + 1)
        if (at_ms - start_s * 1000) % interval_ms == 0
        and (not is_bounded or at_ms >= start_s * 1000)
    }
    assert count == len(expected)


def test_many_triggers_over_a_long_range_are_counted_in_a_bounded_number_of_steps() -> None:
    texts = ["* * * * * *", *(f"{minute}-59 * * * *" for minute in range(40))]
    triggers = combine([parse_trigger(text) for text in texts])
    asked: list[int] = []

    class Counted(Trigger):
        """A trigger that notes each question for a next time."""

        __slots__ = ("_trigger",)
        kind = triggers.triggers[0].kind
        text = "counted"
        timezone = None

        def __init__(self, trigger: Trigger) -> None:
            self._trigger = trigger

        def next_after_ms(self, ms: int) -> int | None:
            asked.append(ms)
            return self._trigger.next_after_ms(ms)

        def count_ms(self, after_ms: int, until_ms: int) -> int:
            return self._trigger.count_ms(after_ms, until_ms)

        def last_ms(self, after_ms: int, until_ms: int) -> int | None:
            return self._trigger.last_ms(after_ms, until_ms)

        def list_ms(self, after_ms: int, until_ms: int) -> list[int]:
            return self._trigger.list_ms(after_ms, until_ms)

    start_ms = ms("2026-01-01T00:00Z")

    count = combine([Counted(one) for one in triggers.triggers]).count_ms(
        start_ms, start_ms + 2 * DAY_MS
    )

    assert count >= 2 * 86_400
    assert len(asked) <= 70_000


def test_triggers_of_too_many_times_count_shared_ones_twice() -> None:
    seconds, pairs = parse_trigger("* * * * * *"), parse_trigger("*/2 * * * * *")
    start_ms = ms("2026-01-01T00:00Z")

    hours = combine([seconds, pairs]).count_ms(start_ms, start_ms + DAY_MS // 6)
    day = combine([seconds, pairs]).count_ms(start_ms, start_ms + DAY_MS)

    assert hours == 86_400 // 6
    assert day == 86_400 + 43_200


def test_all_of_history_can_be_counted() -> None:
    triggers = combine(
        [parse_trigger("0 0 1 1 *", "Europe/Berlin"), parse_trigger("0 12 * * *", "UTC")]
    )

    # Of the years 1 to 9999, but for a day or two at both ends.
    count = triggers.count_ms(-(10**17), 10**17)

    assert count == triggers.triggers[0].count_ms(-(10**17), 10**17) + triggers.triggers[
        1
    ].count_ms(-(10**17), 10**17)
