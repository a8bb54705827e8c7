"""How busy the coming week is: against the fires themselves, one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.errors import UnknownTimezone
from edgecron.base.units import from_ms, to_ms
from edgecron.base.zones import load_zone
from edgecron.client import Client
from edgecron.model.listing import Recurrence
from edgecron.triggers import combine, dump_trigger, parse_trigger
from edgecron.views.busy import WeekHeat, WeekTally, week_from
from tests.support.clock import FakeClock
from tests.support.forms import tried
from tests.support.newdatabases import new_database
from tests.support.offering import let_vanish
from tests.support.specs import SEED, make_spec

BERLIN = "Europe/Berlin"
ORDINARY = datetime(2026, 11, 20, 8, 12, 34, 567_000, tzinfo=UTC)
FALLS_BACK = datetime(2026, 10, 22, 8, 12, 34, 567_000, tzinfo=UTC)  # Berlin's do on the 25th


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(ORDINARY)


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[Client]:
    with Client(new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms()), clock=clock) as made:
        yield made


def heat_of(client: Client, zone: str = BERLIN) -> WeekHeat:
    *slices, heat = client.week_heat(zone)
    assert slices == [None] * len(slices)
    assert heat is not None
    return heat


def walked(client: Client, zone: str = BERLIN) -> WeekHeat:
    """The same from each fire that `next` shows."""
    here, now = load_zone(zone), client.now()
    first = now.astimezone(here).date()
    found: Counter[tuple[int, int]] = Counter()
    names = set()
    for fire in client.next_fires():
        local = fire.due_at.astimezone(here)
        day = (local.date() - first).days
        if fire.due_at - now > timedelta(days=8):
            break
        if day < 7 and fire.due_at > now:
            found[day, local.hour] += 1
            names.add(fire.schedule)
    return WeekHeat(
        first_day=first,
        counts=tuple(tuple(found[day, hour] for hour in range(24)) for day in range(7)),
        schedules=len(names),
    )


def total(heat: WeekHeat) -> int:
    return sum(map(sum, heat.counts))


MANY = [
    ("* * * * *", BERLIN),
    ("*/7 * * * *", BERLIN),
    ("0 3 * * *", BERLIN),
    ("30 2 * * *", BERLIN),
    ("30 2 * * *", "America/New_York"),
    ("15,45 9-17 * * 1-5", "Asia/Kolkata"),
    ("0 0 1,21 * *", "Australia/Lord_Howe"),
    ("*/20 4 * * * *", "Pacific/Kiritimati"),
    ("0 0 * * *", "Asia/Kathmandu"),
    ("every 1h", None),
    ("every 90m", None),
    ("every 7m", None),
    ("every 61s from 2026-11-22T10:00:30Z", None),
    ("every 2500s from 2026-01-01T00:00:00.250Z", None),
    ("every 3d", None),
    ("at 2026-11-23T09:00:00Z", None),
    ("at 2030-01-01T00:00:00Z", None),
    ("on boot", None),
]


def add_many(client: Client) -> None:
    client.add_all(
        [make_spec(f"job-{n}", text, timezone=zone) for n, (text, zone) in enumerate(MANY)]
    )


@pytest.mark.parametrize(
    ("now", "zone"),
    [
        (ORDINARY, BERLIN),
        (ORDINARY, "Asia/Kolkata"),
        (FALLS_BACK, BERLIN),
        (FALLS_BACK, "UTC"),
        (datetime(2026, 3, 27, 22, 59, 59, 999_000, tzinfo=UTC), BERLIN),
        (datetime(2026, 10, 2, 15, 30, tzinfo=UTC), "Australia/Lord_Howe"),
        (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), BERLIN),
    ],
)
def test_each_fire_of_the_week_counts_in_its_local_hour(
    tmp_path: Path, now: datetime, zone: str
) -> None:
    with Client(tmp_path / "edgecron.db", clock=FakeClock(now)) as client:
        add_many(client)

        assert heat_of(client, zone) == walked(client, zone)


def test_a_repeated_hour_has_both_passes_and_a_skipped_one_none(tmp_path: Path) -> None:
    spring = datetime(2026, 3, 28, 11, tzinfo=UTC)
    for now, day, expected in ((FALLS_BACK, 3, 120), (spring, 1, 0)):
        with Client(tmp_path / f"{day}.db", clock=FakeClock(now)) as client:
            client.add(make_spec("job", "* * * * *", timezone=BERLIN))

            heat = heat_of(client)

        assert heat.counts[day][2] == expected
        assert heat.counts[day][4] == 60


def test_it_begins_now_and_has_seven_days(client: Client) -> None:
    client.add(make_spec("job", "* * * * *"))

    heat = heat_of(client)

    assert heat.first_day == date(2026, 11, 20)
    assert len(heat.counts) == 7
    assert heat.counts[0][:11] == (0,) * 9 + (47, 60)  # It is 09:12:34 in Berlin.
    assert all(heat.counts[day] == (60,) * 24 for day in range(1, 7))
    assert heat.schedules == 1


def test_schedules_of_one_pattern_add_up(client: Client) -> None:
    client.add_all([make_spec(f"job-{n}", f"{n} 4 * * *") for n in range(60)])

    heat = heat_of(client, "UTC")

    assert heat.counts[1][4] == 60
    assert total(heat) == 360  # Today's are over.
    assert heat.schedules == 60


def test_an_instant_of_two_triggers_counts_once(client: Client) -> None:
    client.add(make_spec("shared", "0 4 * * *", "0 */4 * * *", "every 6h"))
    client.add(make_spec("apart", "0 4 * * *", "30 5 * * *"))

    assert heat_of(client) == walked(client)


def test_triggers_that_meet_in_many_hours_have_the_right_sum(client: Client) -> None:
    client.add(make_spec("often", "*/5 * * * *", "*/7 * * * *", "every 20m"))

    heat, expected = heat_of(client), walked(client)

    assert total(heat) == total(expected)
    for day, hours in zip(heat.counts, expected.counts, strict=True):
        assert all(abs(here - there) <= 2 for here, there in zip(day, hours, strict=True))


def test_bounds_of_schedules_are_kept(client: Client) -> None:
    day = timedelta(days=1)
    for name, spec in {
        "until": replace(make_spec("until"), until_at=ORDINARY + 2 * day),
        "ended": replace(make_spec("ended"), until_at=ORDINARY + timedelta(seconds=5)),
        "from": replace(make_spec("from"), from_at=ORDINARY + 3 * day),
        "later": replace(make_spec("later"), from_at=ORDINARY + 30 * day),
        "few": make_spec("few", "*/10 * * * *", max_runs=25),
        "many": make_spec("many", "0 4 * * *", max_runs=25),
        "grid": replace(make_spec("grid", "every 25m", max_runs=100), from_at=ORDINARY + day),
    }.items():
        client.add(spec)
        assert heat_of(client) == walked(client), name


def test_paused_ones_count_from_the_end_of_their_pause_on(client: Client) -> None:
    for name in ("endless", "until", "beyond"):
        client.add(make_spec(name, "*/30 * * * *", "every 1h"))
    client.pause("endless")
    client.pause("until", until=ORDINARY + timedelta(days=2))
    client.pause("beyond", until=ORDINARY + timedelta(days=20))

    heat = heat_of(client)

    assert heat == walked(client)
    assert heat.schedules == 1


def test_what_nobody_runs_does_not_count(client: Client) -> None:
    client.add(make_spec("poll", "every 1h", queue="py:app"))
    client.add(make_spec("sweep", "every 1h", queue="py:app"))
    let_vanish(client, "sweep")

    heat = heat_of(client)

    assert heat == walked(client)
    assert heat.schedules == 1


@pytest.mark.parametrize("hours", [1, 30, 24 * 20])
@pytest.mark.parametrize("trigger", ["0 */2 * * *", "0 5 * * *", "every 3h"])
def test_a_moved_run_counts_where_it_was_moved_to(client: Client, trigger: str, hours: int) -> None:
    client.add(make_spec("job", trigger))
    client.reschedule("job", ORDINARY + timedelta(hours=hours))

    assert heat_of(client) == walked(client)


def test_jitter_moves_no_run(client: Client) -> None:
    client.add(make_spec("job", "0 5 * * *", jitter_s=7200))

    assert [day[5] for day in heat_of(client, "UTC").counts] == [0, 1, 1, 1, 1, 1, 1]


def test_an_interval_after_the_end_counts_as_if_runs_took_no_time(client: Client) -> None:
    client.add(make_spec("job", "every 6h after end"))

    assert total(heat_of(client, "UTC")) == 26  # From 14:12 on.
    assert heat_of(client, "UTC").counts[1] == tuple(int(hour % 6 == 2) for hour in range(24))


def test_what_is_due_already_does_not_count(client: Client, clock: FakeClock) -> None:
    client.add(make_spec("job", "0 * * * *"))
    clock.advance_ms(5 * 3_600_000)

    assert total(heat_of(client, "UTC")) == total(walked(client, "UTC")) == 6 * 24 + 10


def test_what_cant_be_read_leaves_the_others(client: Client) -> None:
    client.add(make_spec("good", "0 4 * * *"))
    for n, damage in enumerate(
        ["[]", "[{}]", '[{"kind":"every","interval_ms":0,"anchor_ms":0,"bounded":false}]',
         '[{"kind":"every","interval_ms":"1","anchor_ms":0}]', '{"kind":"every"}',
         '[{"kind":"cron","text":"x","timezone":"Mars/Base","fields":{}}]']
    ):  # fmt: skip
        client.add(make_spec(f"bad-{n}", "0 4 * * *"))
        client.store.close()
        damaging = apsw.Connection(str(client.path))
        damaging.execute("UPDATE schedules SET compiled = ? WHERE name = ?", (damage, f"bad-{n}"))
        damaging.close()
        client.close()

    assert heat_of(client).schedules == 1


def test_an_unknown_zone_is_refused(client: Client) -> None:
    with pytest.raises(UnknownTimezone):
        next(client.week_heat("Mars/Base"))


def test_many_are_counted_in_slices(client: Client) -> None:
    client.add_all([make_spec(f"job-{n}", f"{n % 60} 4 * * *") for n in range(501)])

    found = list(client.week_heat("UTC"))

    assert found[:-1] == [None] * 20
    assert found[-1] is not None
    assert found[-1].schedules == 501


def test_what_is_known_of_patterns_is_bounded() -> None:
    now_ms = to_ms(ORDINARY)
    week = week_from(now_ms, zone=BERLIN)
    tally = WeekTally(week)
    expected = 0
    for n in range(5000):
        trigger = parse_trigger(f"every {3_600_000 + n}ms", anchor=ORDINARY, seed=SEED)
        plan_ms = trigger.next_after_ms(now_ms)
        expected += trigger.count_ms(now_ms, week.end_ms - 1)

        tally.add(
            Recurrence(f"[{dump_trigger(trigger)}]", plan_ms, plan_ms, None, None, None, None, 0)
        )

    assert total(tally.result()) == expected


ZONES = st.sampled_from([None, BERLIN, "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"])
TRIGGERS = st.one_of(
    st.builds("{} {} * * {}".format, st.integers(0, 59), st.integers(0, 23), st.integers(0, 6)),
    st.builds("*/{} {} * * *".format, st.integers(1, 59), st.sampled_from(["*", "1-4", "*/5"])),
    st.builds("{} */{} 1-20 * *".format, st.integers(0, 59), st.integers(1, 12)),
    st.builds("every {}s".format, st.integers(600, 200_000)),
)


@settings(max_examples=tried(20, 60))
@given(
    texts=st.lists(TRIGGERS, min_size=1, max_size=3, unique=True),
    own=ZONES,
    zone=ZONES.filter(bool),
    now=st.sampled_from([ORDINARY, FALLS_BACK, datetime(2026, 4, 2, tzinfo=UTC)]),
    later_s=st.integers(0, 2 * 86_400),
    left=st.none() | st.integers(0, 300),
)
def test_any_triggers_count_as_their_times_do(
    texts: list[str],
    own: str | None,
    zone: str,
    now: datetime,
    later_s: int,
    left: int | None,
) -> None:
    now_ms = to_ms(now)
    triggers = [parse_trigger(text, own, anchor=now, seed=SEED) for text in texts]
    times = combine(triggers)
    plan_ms = times.next_after_ms(now_ms + later_s * 1000)
    assert plan_ms is not None
    week = week_from(now_ms, zone=zone)
    tally = WeekTally(week)
    compiled = f"[{','.join(dump_trigger(trigger) for trigger in triggers)}]"

    tally.add(Recurrence(compiled, plan_ms, plan_ms, None, None, left, None, 0))

    here = load_zone(zone)
    expected: Counter[tuple[int, int]] = Counter()
    at_ms: int | None = plan_ms
    while at_ms is not None and at_ms < week.end_ms and (left is None or expected.total() < left):
        local = from_ms(at_ms).astimezone(here)
        expected[(local.date() - week.first_day).days, local.hour] += 1
        at_ms = times.next_after_ms(at_ms)
    counts = tally.result().counts
    if len(texts) == 1:
        assert {(day, hour): counts[day][hour] for day, hour in expected} == expected
    else:
        assert all(
            (day, hour) in expected or not counts[day][hour]
            for day in range(7)
            for hour in range(24)
        )
    assert sum(map(sum, counts)) == expected.total()


def test_schedules_that_run_very_often_can_be_left_out(client: Client) -> None:
    client.add_all([make_spec("often", "* * * * *"), make_spec("seldom", "every 5m")])

    *_, heat = client.week_heat("UTC", most_per_hour=12)

    assert heat is not None
    assert heat.counts[1] == (12,) * 24
    assert (heat.schedules, heat.frequent) == (1, 1)
