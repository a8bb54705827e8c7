"""Every trick that a clock can play: wrong at boot, set, suspended, moved to another zone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from pathlib import Path
from random import Random

import pytest

from edgecron.base.units import HOUR_MS, from_ms, to_ms
from edgecron.base.values import replace
from edgecron.base.zones import tzdata_version
from edgecron.engine.events import Event, EventKind
from edgecron.engine.sleep import NapSleeper
from edgecron.model.choices import CatchUp, Cause, Reason, Status
from edgecron.model.options import Policies
from edgecron.planning.catch_up import RepeatedTimes
from edgecron.planning.corrections import BUILT_MS, LARGE_MS
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.store import open_store
from tests.support.clock import FakeClock
from tests.support.forms import some_of
from tests.support.story import Story

EIGHT = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)  # a Friday
NINE = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
THE_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAR_AHEAD = datetime(2099, 7, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """An engine that has seen eight o'clock on a clock that is kept right."""
    found = Story(tmp_path / "story.db")
    found.world.clock.set_to(EIGHT)
    found.after_s(0)
    return found


def boot(story: Story, at: datetime, *, synchronised: bool, **options: int | None) -> None:
    """Start the machine and an engine, with a clock that says `at`."""
    story.world.reboot()
    story.world.clock.set_to(at)
    story.world.clock.synchronised = synchronised
    story.key = story.world.start_engine(**options)  # type: ignore[arg-type]


def correct(story: Story, to: datetime) -> None:
    """The network has come, and with it the time."""
    story.world.clock.set_to(to)
    story.world.clock.synchronised = True
    story.after_s(0)


def told(story: Story, *kinds: EventKind) -> list[Event]:
    return [event for event in story.world.events if event.kind in kinds]


def query(story: Story, sql: str) -> list[tuple[object, ...]]:
    database = Database(story.world.path)
    rows = database.rows(sql)
    database.close()
    return rows


def write(story: Story, sql: str, **values: object) -> None:
    database = Database(story.world.path)
    with database.transaction():
        database.change(sql, values)
    database.close()


# A clock that can't be trusted.


@pytest.mark.failure(5)
@pytest.mark.parametrize("wrong", [THE_EPOCH, FAR_AHEAD])
def test_a_wrong_clock_at_boot_fires_no_calendar_time_and_what_was_missed_is_caught_up(
    story: Story, wrong: datetime
) -> None:
    story.add("morning", "0 9 * * *")
    story.add("once", "at 2026-11-20T09:10:00Z")
    boot(story, wrong, synchronised=False)

    for _ in range(4):
        story.after_s(1800)
    while_wrong = [*story.runs("morning"), *story.runs("once")]
    correct(story, NINE + timedelta(hours=1))
    story.after_s(1)

    assert while_wrong == []
    [run] = story.runs("morning")
    assert (run.plan_at, run.cause, run.status) == (NINE, Cause.CATCH_UP, Status.SUCCESS)
    assert story.statuses("once") == ["success"]
    assert story.client.schedule("morning").next_plan_at == NINE + timedelta(days=1)
    assert len(told(story, EventKind.CLOCK_UNTRUSTED)) == 1
    assert len(told(story, EventKind.CLOCK_TRUSTED)) == 1


def test_after_the_wait_what_counts_elapsed_time_runs_and_the_calendar_does_not(
    story: Story,
) -> None:
    story.add("often", "every 10m")
    story.add("boot", "on boot")
    story.add("pause", "every 10m after end")
    story.add("daily", "@hourly")
    story.add("both", "@hourly", "every 10m")
    boot(story, THE_EPOCH, synchronised=False)

    story.after_s(0)
    story.after_s(599)
    before = story.bodies("often") + story.bodies("boot")
    story.after_s(1)
    at_once = story.statuses("boot")
    for _ in range(12):
        story.after_s(300)

    assert before == 0
    assert at_once == ["success"]
    assert story.statuses("often") == ["success"] * 6
    assert story.statuses("pause") == ["success"] * 6
    # One that has both waits as a whole: its times are decided in one order.
    assert story.runs("daily") == story.runs("both") == []
    assert len(told(story, EventKind.CLOCK_WAIT_OVER)) == 1


@pytest.mark.failure(5)
@pytest.mark.parametrize("wrong", [THE_EPOCH, FAR_AHEAD])
def test_an_interval_that_ran_by_a_wrong_clock_goes_on_where_the_right_one_left_off(
    story: Story, wrong: datetime
) -> None:
    story.add("often", "every 10m", policies=Policies(catch_up=CatchUp.SKIP))
    boot(story, wrong, synchronised=False)
    story.after_s(0)
    story.after_s(600)
    for _ in range(3):
        story.after_s(600)
    by_the_wrong_clock = story.statuses("often")

    correct(story, NINE + timedelta(minutes=5))
    story.after_s(300)

    assert by_the_wrong_clock == ["success"] * 3
    *_, off, missed, run = story.runs("often")
    assert [(one.reason, one.error_code, one.missed_count) for one in (off, missed)] == [
        (Reason.MISFIRE, "off", 2),
        (Reason.MISFIRE, "clock", 4),
    ]
    assert (off.missed_from_at, missed.missed_to_at) == (EIGHT + timedelta(minutes=10), NINE)
    assert run.plan_at == NINE + timedelta(minutes=10)
    assert query(story, "SELECT trusted_until FROM schedules") == [(None,)]


def test_an_engine_may_wait_for_a_right_clock_without_end(story: Story) -> None:
    story.add("often", "every 10m")
    story.add("boot", "on boot")
    boot(story, THE_EPOCH, synchronised=False, clock_wait_ms=None)

    for _ in range(24):
        story.after_s(3600)

    assert story.runs("often") == story.runs("boot") == []


def test_what_a_person_runs_is_not_held(story: Story) -> None:
    story.add("morning", "0 9 * * *")
    boot(story, THE_EPOCH, synchronised=False)
    story.after_s(0)

    story.client.run_now("morning")
    story.after_s(0)

    assert story.statuses("morning") == ["success"]


def test_an_untrusted_clock_is_looked_at_again_and_what_is_held_wakes_nobody(story: Story) -> None:
    story.add("morning", "0 9 * * *")
    boot(story, FAR_AHEAD, synchronised=False)

    first = story.engine.step().wake_ms
    story.world.clock.advance_ms(590_000)
    story.engine.step()
    near_the_end = story.engine.step().wake_ms

    assert first == to_ms(FAR_AHEAD) + 30_000
    assert near_the_end == to_ms(FAR_AHEAD) + 600_000


def test_a_clock_that_is_right_by_now_is_trusted_without_being_set(story: Story) -> None:
    story.add("morning", "0 9 * * *")
    boot(story, NINE + timedelta(days=500), synchronised=False)
    story.after_s(0)
    before = story.runs("morning")

    story.world.clock.synchronised = True
    story.after_s(30)

    assert before == []
    assert story.statuses("morning") == ["skipped:misfire", "success"]


def test_one_boot_in_2099_poisons_nothing(story: Story) -> None:
    boot(story, FAR_AHEAD, synchronised=False)
    for _ in range(30):
        story.after_s(3600)

    [(mark_ms,)] = query(story, "SELECT trusted_high_at FROM meta")
    boot(story, NINE + timedelta(days=2), synchronised=False)
    story.after_s(0)

    assert mark_ms == to_ms(EIGHT + timedelta(hours=24))  # by elapsed time, and written rarely
    assert len(told(story, EventKind.CLOCK_TRUSTED)) == 0
    assert len(told(story, EventKind.CLOCK_UNTRUSTED)) == 1


def test_a_clock_that_is_kept_right_takes_a_poisoned_mark_back(story: Story) -> None:
    write(story, "UPDATE meta SET trusted_high_at = :far", far=to_ms(FAR_AHEAD))
    boot(story, NINE, synchronised=True)

    story.after_s(0)

    assert query(story, "SELECT trusted_high_at FROM meta") == [(to_ms(NINE),)]


def test_the_mark_is_written_hourly_at_most_and_only_beside_other_work(story: Story) -> None:
    story.add("often", "every 25m")
    marks = set()
    for _ in range(60):
        story.after_s(300)
        marks.add(query(story, "SELECT trusted_high_at FROM meta")[0][0])

    story.client.remove("often")
    for _ in range(40):
        story.after_s(1800)
        marks.add(query(story, "SELECT trusted_high_at FROM meta")[0][0])

    assert len(marks) <= 5 + 1 + 1


def test_a_clock_behind_what_has_surely_passed_is_not_trusted(story: Story) -> None:
    story.add("often", "*/5 * * * *")
    boot(story, EIGHT - timedelta(minutes=6), synchronised=False)
    story.after_s(0)
    held = told(story, EventKind.CLOCK_UNTRUSTED)

    boot(story, EIGHT - timedelta(minutes=4), synchronised=False)
    story.after_s(0)

    assert len(held) == 1
    assert len(told(story, EventKind.CLOCK_UNTRUSTED)) == 1


def test_a_schedule_that_was_made_in_1970_has_missed_nothing_since(story: Story) -> None:
    boot(story, THE_EPOCH, synchronised=False)
    story.after_s(0)
    story.add("morning", "0 9 * * *")

    correct(story, EIGHT)

    assert story.runs("morning") == []
    assert story.client.schedule("morning").next_plan_at == NINE


# A clock that is set.


@pytest.mark.failure(4)
@pytest.mark.parametrize(
    ("trigger", "back_s"),
    some_of(product(("*/10 * * * *", "every 10m after end"), (90, 1000, 2 * 3600, 3 * 3600)), 3),
)
def test_what_follows_elapsed_time_goes_on_when_the_clock_is_set_back_a_little(
    story: Story, trigger: str, back_s: int
) -> None:
    story.add("often", trigger)
    for _ in range(18):
        story.after_s(100)
    gaps_s = []
    since_s = 0
    before = story.bodies("often")

    story.world.clock.step_ms(-back_s * 1000)
    minutes = back_s // 60 + 120
    for _ in range(minutes):
        story.after_s(60)
        since_s += 60
        if story.bodies("often") > before:
            gaps_s.append(since_s)
            before, since_s = story.bodies("often"), 0

    # Two hours beyond the step: no elapsed interval is lost, and the step makes none much shorter.
    assert max(gaps_s) <= 720, gaps_s
    assert minutes // 10 - 1 <= len(gaps_s) <= minutes // 10 + 2
    fires = [(body.plan_ms, body.fire_key) for body in story.world.bodies]
    assert len(fires) == len(set(fires))


@pytest.mark.failure(4)
@pytest.mark.parametrize(
    ("interval_s", "backs_s", "is_seen"),
    some_of(
        product(
            (60, 600, 5400),
            ((90,), (1000,), (3600,), (3 * 3600,), (3000, 20, 3600)),
            (True, False),
        ),
        3,
    ),
)
@pytest.mark.parametrize("steps", [30, pytest.param(60, marks=pytest.mark.slow)])
def test_a_clock_that_is_set_back_cuts_no_interval_short_and_stops_none(
    story: Story, interval_s: int, backs_s: tuple[int, ...], is_seen: bool, steps: int
) -> None:
    story.add("often", f"every {interval_s}s")
    step_s = interval_s / steps
    starts_s: list[float] = []
    steps_back = {round((2.4 + n / 3) * interval_s): back for n, back in enumerate(backs_s)}

    for elapsed_s in range(0, 9 * interval_s, round(step_s)):
        if elapsed_s in steps_back:
            if not is_seen:
                story.world.kill_engine(story.key)
            story.world.clock.step_ms(-steps_back.pop(elapsed_s) * 1000)
            if not is_seen:
                story.key = story.world.start_engine()
        before = story.bodies("often")
        story.after_s(step_s)
        starts_s += [elapsed_s] * (story.bodies("often") - before)

    gaps_s = [later - earlier for earlier, later in pairwise(starts_s)]
    assert steps_back == {}
    assert min(gaps_s) >= interval_s
    # It stays on its grid. An engine that did not see the step takes the last fire for one of now.
    assert max(gaps_s) < (2 if is_seen else 3 * len(backs_s)) * interval_s
    assert len(story.runs("often")) == len(starts_s)


def test_an_interval_that_is_no_longer_than_the_step_back_keeps_its_grid(story: Story) -> None:
    story.add("often", "every 90m")
    story.after_s(5400)

    story.world.clock.step_ms(-HOUR_MS)
    story.after_s(3600)
    an_hour_later = story.bodies("often")
    story.after_s(5400)

    assert an_hour_later == 1
    assert [run.fire_key for run in story.runs("often")] == ["", ""]


@pytest.mark.failure(4)
@pytest.mark.parametrize("back_s", [1, 90, 1000, 2 * 3600, 3 * 3600])
def test_a_small_step_back_fires_no_fixed_time_again(story: Story, back_s: int) -> None:
    story.add("morning", "10 8 * * *")
    story.add("once", "at 2026-11-20T08:20:00Z")
    story.add("both", "15 8 * * *", "every 1h")
    story.after_s(1260)

    story.world.clock.step_ms(-back_s * 1000)
    for _ in range(5 * 12):
        story.after_s(300)

    assert story.bodies("morning") == story.bodies("once") == 1
    quarter_past = to_ms(EIGHT + timedelta(minutes=15))
    plans = [body.plan_ms for body in story.world.bodies if body.schedule == "both"]
    assert plans.count(quarter_past) == 1
    assert len(plans) >= 5


@pytest.mark.failure(4)
def test_a_clock_that_is_slewed_by_a_second_runs_nothing_a_second_time(story: Story) -> None:
    story.add("minutely", "* * * * *")
    story.add("often", "every 1m")
    for _ in range(10):
        story.after_s(60)
        story.world.clock.step_ms(-1500)
        story.after_s(1.5)

    assert story.bodies("minutely") == story.bodies("often") == 10


def test_a_retry_waits_as_long_as_it_was_to_though_the_clock_is_set_back(story: Story) -> None:
    story.add("fails", "at 2026-11-20T08:05:00Z", code=1, policies=Policies(retries=1))
    story.after_s(301)

    story.world.clock.step_ms(-2 * HOUR_MS)
    story.after_s(0)
    story.after_s(30)

    assert [run.attempt for run in story.runs("fails") if run.started_at is not None] == [1, 2]


def test_a_clock_that_is_put_right_again_catches_up_nothing_that_ran_before(story: Story) -> None:
    story.add("often", "every 10m")
    for _ in range(6):
        story.after_s(600)
    story.world.clock.step_ms(-HOUR_MS)
    story.after_s(60)
    before = story.bodies("often")

    story.world.clock.step_ms(HOUR_MS)
    story.after_s(60)
    at_once = story.bodies("often")
    story.after_s(600)

    assert at_once == before
    assert story.bodies("often") == before + 1
    assert all(run.status is Status.SUCCESS for run in story.runs("often"))


def test_a_clock_that_was_set_back_while_no_engine_ran_stops_no_interval(story: Story) -> None:
    story.add("often", "every 10m")
    story.add("morning", "5 8 * * *")
    for _ in range(6):
        story.after_s(600)
    story.world.kill_engine(story.key)
    story.world.clock.step_ms(-HOUR_MS)

    story.key = story.world.start_engine()
    before = story.bodies("often")
    story.after_s(0)
    for _ in range(3):
        story.after_s(600)

    assert story.bodies("often") >= before + 3
    assert story.bodies("morning") == 1


def test_what_a_peer_decides_while_an_engine_starts_is_no_time_of_a_clock_set_back(
    story: Story,
) -> None:
    story.add("often", "every 10m")
    story.after_s(600)
    decided_ms = story.world.clock.now_ms()
    store = open_store(story.world.path, now_ms=decided_ms)
    readings = iter((decided_ms - 5_000, decided_ms + 10))

    peers = store.find_set_back(read_now=lambda: next(readings))
    claimed_ahead = store.find_set_back(read_now=lambda: decided_ms - 20)
    back = store.find_set_back(read_now=lambda: decided_ms - 5_000)
    store.close()

    assert peers == []
    assert claimed_ahead == []
    assert [kept.name for kept in back] == ["often"]


def test_a_second_step_back_goes_on_too_and_engines_agree(story: Story) -> None:
    story.add("often", "every 10m")
    other = story.world.start_engine()
    for _ in range(6):
        story.after_s(600)
    before = story.bodies("often")

    for _ in range(2):
        story.world.clock.step_ms(-HOUR_MS)
        for _ in range(30):
            story.after_s(60)
            story.world.engines[other][0].step()

    assert story.bodies("often") - before in (5, 6, 7)
    fires = [(body.plan_ms, body.fire_key) for body in story.world.bodies]
    assert len(fires) == len(set(fires))


def test_that_a_clock_was_set_is_on_record(story: Story) -> None:
    story.add("often", "every 10m")
    story.after_s(1200)

    story.world.clock.step_ms(-2 * HOUR_MS)
    story.after_s(0)

    state = story.client.clock_state()
    assert state.is_trusted
    assert (state.set_at_ms, state.set_by_ms) == (state.now_ms, -2 * HOUR_MS)


@pytest.mark.parametrize("synchronised", [True, False, None])
def test_a_clock_that_was_trusted_and_is_set_back_a_little_is_trusted(
    story: Story, synchronised: bool | None
) -> None:
    story.add("often", "* * * * *")
    story.after_s(60)
    story.after_s(60)
    before = story.bodies("often")

    story.world.clock.step_ms(-2 * HOUR_MS)
    story.world.clock.synchronised = synchronised
    story.after_s(0)
    for _ in range(5):
        story.after_s(60)

    assert story.bodies("often") >= before + 5


@pytest.mark.failure(4)
def test_a_large_step_back_computes_anew_and_what_has_a_row_stays_decided(story: Story) -> None:
    story.add("hourly", "0 * * * *")
    for _ in range(6):
        story.after_s(3600)  # 09:00 to 14:00
    before = [run.plan_at for run in story.runs("hourly")]

    story.world.clock.step_ms(-5 * HOUR_MS - 60_000)  # 08:59
    story.after_s(0)
    following = story.client.schedule("hourly").next_plan_at
    for _ in range(7):
        story.after_s(3600)  # up to 15:59

    assert following == NINE
    plans = [run.plan_at for run in story.runs("hourly")]
    assert plans == [*before, NINE + timedelta(hours=6)]
    [moved] = told(story, EventKind.RETIMED)
    assert (moved.schedule, moved.details["reason"]) == ("hourly", "clock")
    assert moved.details["next_ms"] == to_ms(NINE)


@pytest.mark.failure(4)
def test_a_range_that_was_missed_twice_and_longer_leaves_a_row_for_each_of_its_times(
    story: Story,
) -> None:
    story.add("hourly", "0 * * * *", policies=Policies(catch_up=CatchUp.SKIP))
    for hours in (5, -5, 5, -5, 7):
        story.world.clock.step_ms(hours * HOUR_MS + 90_000 * (hours // abs(hours)))
        story.after_s(0)

    assert lost(story, "hourly", until_ms=story.world.clock.now_ms()) == []
    ranges = [(run.missed_from_at, run.missed_count) for run in story.runs("hourly")]
    assert ranges == [(NINE, 5), (NINE, 7)]


@pytest.mark.failure(3)
def test_a_large_step_forward_is_a_misfire_like_any_other(story: Story) -> None:
    story.add("hourly", "0 * * * *")

    story.world.clock.step_ms(5 * HOUR_MS + 90_000)
    story.after_s(0)

    assert story.statuses("hourly") == ["skipped:misfire", "success"]
    assert story.runs("hourly")[0].missed_count == 4
    [event] = told(story, EventKind.CLOCK_SET)
    assert event.details["by_s"] == 5 * 3600 + 90


@pytest.mark.failure(5)
@pytest.mark.parametrize("is_running", [True, False])
def test_a_next_time_stranded_in_the_far_future_is_repaired(story: Story, is_running: bool) -> None:
    story.world.clock.set_to(FAR_AHEAD)  # by what kept it "right"
    story.after_s(0)
    story.add("morning", "0 9 * * *")
    story.add("later", "every 1h after end")
    story.add("held", "0 9 * * *")
    story.client.pause("held")
    stranded = story.client.schedule("morning").next_plan_at

    if is_running:
        correct(story, EIGHT)
    else:
        boot(story, EIGHT, synchronised=True)
        story.after_s(0)
    story.client.resume("held")

    assert stranded is not None
    assert stranded.year == 2099
    assert story.client.schedule("morning").next_plan_at == NINE
    assert story.client.schedule("later").next_plan_at == NINE
    assert story.client.schedule("held").next_plan_at == NINE
    moved = {event.schedule: event for event in told(story, EventKind.RETIMED)}
    assert moved["morning"].details["next_was_ms"] == to_ms(stranded)


def test_a_fire_that_was_decided_early_by_hand_is_not_brought_back(story: Story) -> None:
    story.add("monthly", "0 9 1 * *")
    story.client.reschedule("monthly", EIGHT + timedelta(minutes=1))
    story.after_s(60)
    decided = story.client.schedule("monthly")

    boot(story, NINE, synchronised=True)
    story.after_s(0)

    assert story.statuses("monthly") == ["success"]
    assert decided.decided_until == datetime(2026, 12, 1, 9, tzinfo=UTC)
    assert story.client.schedule("monthly") == decided


@pytest.mark.parametrize("hours", [5, 640_000])
def test_what_was_queued_ahead_is_brought_back_by_an_engine_that_starts_later(
    story: Story, hours: int
) -> None:
    """Nobody saw the clock being corrected."""
    story.world.clock.step_ms(hours * HOUR_MS)
    story.after_s(0)
    story.add("flaky", "every 10m", code=1, policies=Policies(retries=1, retry_delay_s=60.0))
    story.after_s(600)
    waiting = story.statuses("flaky")
    story.world.kill_engine(story.key)
    story.world.clock.step_ms(-hours * HOUR_MS)

    story.key = story.world.start_engine()
    for _ in range(6):
        story.after_s(20)

    assert waiting == ["failed:exit", "queued"]
    assert story.statuses("flaky") == ["failed:exit", "failed:exit"]


@pytest.mark.parametrize("hours", [2, 6])
@pytest.mark.parametrize("is_seen", [True, False])
def test_a_success_in_the_future_opens_no_gate_for_longer(
    story: Story, hours: int, is_seen: bool
) -> None:
    story.add("backup", "@yearly")
    story.world.clock.step_ms(hours * HOUR_MS)
    story.client.run_now("backup")
    story.after_s(0)
    if not is_seen:
        story.world.kill_engine(story.key)
    story.world.clock.step_ms(-hours * HOUR_MS)
    if not is_seen:
        story.key = story.world.start_engine()
    story.after_s(0)
    needs = Policies(needs=("success:backup:30m",), needs_deadline_s=60.0)
    story.add("report", "every 20m", policies=needs)

    for _ in range(6):
        story.after_s(600)
    before = story.statuses("report")
    story.client.run_now("backup")
    story.after_s(0)
    story.after_s(1)

    assert before == ["success", "skipped:condition", "queued"]
    assert story.statuses("report") == ["success", "skipped:condition", "success"]


def test_a_clock_that_became_wrong_gives_up_nothing_when_a_run_ends(story: Story) -> None:
    needs = Policies(needs=("success:backup:1h",), needs_deadline_s=7200.0)
    story.add("backup", "@yearly")
    story.add("other", "@yearly", lasts_s=600)
    story.add("report", "@hourly", policies=needs)
    story.after_s(3600)
    story.client.run_now("other")
    story.after_s(0)

    story.world.clock.synchronised = False
    story.world.clock.set_to(FAR_AHEAD)
    story.after_s(0)

    assert story.statuses("other") == ["success"]
    assert story.statuses("report") == ["queued"]


def test_what_a_clock_that_was_ahead_has_queued_waits_from_now_on(story: Story) -> None:
    story.add("flaky", "@hourly", code=1, policies=Policies(retries=1, retry_delay_s=60.0))
    story.world.clock.set_to(FAR_AHEAD)  # by what kept it "right"
    story.after_s(0)
    *_, failed, retry = story.runs("flaky")

    correct(story, EIGHT)
    story.after_s(120)  # its delay is jittered

    assert (failed.status, retry.status) == (Status.FAILED, Status.QUEUED)
    assert story.statuses("flaky")[-2:] == ["failed:exit", "failed:exit"]
    assert story.runs("flaky")[-1].started_at == EIGHT + timedelta(minutes=2)


# Suspend and resume.


@pytest.mark.failure(6)
def test_a_resume_is_noticed_and_what_came_due_meanwhile_runs_at_once(story: Story) -> None:
    story.add("hourly", "0 * * * *")

    story.world.clock.suspend_ms(3 * HOUR_MS + 1_500)
    is_noticed = story.engine.has_changed()
    story.after_s(0)

    assert is_noticed
    [event] = told(story, EventKind.RESUMED)
    assert event.details["asleep_s"] == 3 * 3600 + 1.5
    assert told(story, EventKind.CLOCK_SET) == []
    assert story.statuses("hourly") == ["skipped:misfire", "success"]


@pytest.mark.failure(7)
def test_a_clock_that_was_set_is_news_to_a_sleeping_engine(story: Story) -> None:
    before = story.engine.has_changed()

    story.world.clock.step_ms(-90_000)

    assert not before
    assert story.engine.has_changed()


class Restless(FakeClock):
    """A machine that sleeps again and again."""

    def monotonic_ms(self) -> int:
        self.suspend_ms(60_000)
        return super().monotonic_ms()


@pytest.mark.failure(6)
def test_a_nap_ends_where_the_machine_was_asleep_meanwhile() -> None:
    sleeper = NapSleeper(Restless(EIGHT), nap_ms=1)

    ready = sleeper.wait([], until_ms=None)  # Else it would sleep its 45 s out.

    assert ready == set()


# Zones that change.


def moved_to(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `local` means from now on."""
    monkeypatch.setenv("TZ", zone)


def test_another_local_zone_has_its_times_computed_anew(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_to("Europe/Berlin", monkeypatch)
    boot(story, EIGHT, synchronised=True)
    story.add("local", "0 18 * * *", timezone="local")
    story.add("fixed", "0 18 * * *", timezone="Europe/Berlin")
    story.after_s(0)
    in_berlin = story.client.schedule("local").next_plan_at

    moved_to("America/New_York", monkeypatch)
    story.after_s(31)

    [engine] = story.client.store.find_engines()
    assert engine.local_timezone == "America/New_York"
    assert in_berlin == datetime(2026, 11, 20, 17, tzinfo=UTC)
    assert story.client.schedule("local").next_plan_at == datetime(2026, 11, 20, 23, tzinfo=UTC)
    assert story.client.schedule("fixed").next_plan_at == in_berlin
    *_, changed = told(story, EventKind.LOCAL_ZONE_CHANGED)
    assert changed.details["now"] == "America/New_York"
    assert [event.schedule for event in told(story, EventKind.RETIMED)] == ["local"]


def test_another_local_zone_fires_nothing_for_the_past_and_loses_nothing_that_was_due(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_to("America/New_York", monkeypatch)
    boot(story, EIGHT, synchronised=True)
    story.add("due", "15 3 * * *", timezone="local")  # 08:15Z
    story.add("past", "30 8 * * *", timezone="local")  # 13:30Z; in Berlin it was 07:30Z
    story.after_s(0)

    story.world.clock.advance_ms(1_000_000)  # 08:16:40Z, and nobody has looked yet
    moved_to("Europe/Berlin", monkeypatch)
    story.after_s(0)

    assert story.statuses("due") == ["success"]
    assert story.runs("past") == []
    assert story.client.schedule("past").next_plan_at == datetime(2026, 11, 21, 7, 30, tzinfo=UTC)
    assert story.client.schedule("due").next_plan_at == datetime(2026, 11, 21, 2, 15, tzinfo=UTC)
    story.client.remove("past")
    assert story.runs("past") == []  # nor is a time of the new zone counted as missed


def test_a_local_time_before_another_zone_is_noticed_runs(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_to("UTC", monkeypatch)
    boot(story, EIGHT, synchronised=True)
    story.add("local", "5 11 * * *", timezone="local")
    story.after_s(0)
    for _ in range(10):
        story.after_s(29)  # 08:04:50Z

    moved_to("Etc/GMT-3", monkeypatch)  # 08:05Z is 11:05
    for _ in range(4):
        story.after_s(10)

    [run] = story.runs("local")
    assert (run.status, run.plan_at) == ("success", EIGHT + timedelta(minutes=5))
    assert story.client.schedule("local").next_plan_at == run.plan_at + timedelta(days=1)


def test_another_local_zone_is_noticed_across_a_restart(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_to("Europe/Berlin", monkeypatch)
    boot(story, EIGHT, synchronised=True)
    story.add("local", "0 18 * * *", timezone="local")
    story.after_s(0)

    moved_to("Asia/Tokyo", monkeypatch)
    boot(story, NINE - timedelta(minutes=1), synchronised=True)
    story.after_s(0)

    assert story.client.schedule("local").next_plan_at == NINE
    *_, changed = told(story, EventKind.LOCAL_ZONE_CHANGED)
    assert (changed.details["was"], changed.details["now"]) == ("Europe/Berlin", "Asia/Tokyo")


def test_the_first_engine_has_local_times_of_a_shell_with_another_zone_computed_anew(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_to("America/New_York", monkeypatch)
    story.add("local", "0 18 * * *", timezone="local")
    marks = story.client.store.find_clock_marks()
    story.client.store.retime((), marks=replace(marks, local_timezone=None))

    moved_to("Europe/Berlin", monkeypatch)
    boot(story, EIGHT, synchronised=True)
    story.after_s(0)

    assert story.client.schedule("local").next_plan_at == datetime(2026, 11, 20, 17, tzinfo=UTC)
    assert [event.schedule for event in told(story, EventKind.RETIMED)] == ["local"]
    assert told(story, EventKind.LOCAL_ZONE_CHANGED) == []


def test_a_pause_keeps_what_it_holds_when_the_zone_changes(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_to("Europe/Berlin", monkeypatch)
    boot(story, EIGHT, synchronised=True)
    story.add("held", "30 * * * *", timezone="local")
    story.after_s(0)
    story.client.pause("held", until=EIGHT + timedelta(hours=2))

    story.after_s(3600)
    moved_to("Asia/Kolkata", monkeypatch)  # half an hour off
    story.after_s(31)
    story.after_s(3600)

    held, run = story.runs("held")  # 09:00Z, by the rules there are when the pause ends
    assert (held.reason, held.missed_count) == (Reason.PAUSED, 1)
    assert run.plan_at == EIGHT + timedelta(hours=2)


@pytest.mark.failure(8)
def test_other_zone_data_has_all_calendar_times_computed_anew(story: Story) -> None:
    story.add("berlin", "0 18 * * *", timezone="Europe/Berlin")
    story.add("grid", "every 7h")
    before = story.client.schedule("grid")
    write(story, "UPDATE meta SET tzdata_version = '2019a'")
    # By the rules of that version, the winter had not begun yet.
    write(
        story,
        """UPDATE schedules SET next_plan_at = next_plan_at - 3600000,
               next_run_at = next_run_at - 3600000 WHERE name = 'berlin'""",
    )

    boot(story, EIGHT, synchronised=True)
    story.after_s(0)
    story.after_s(60)

    assert story.client.schedule("berlin").next_plan_at == datetime(2026, 11, 20, 17, tzinfo=UTC)
    assert story.client.schedule("grid").next_plan_at == before.next_plan_at
    [changed] = told(story, EventKind.TZDATA_CHANGED)
    assert (changed.details["was"], changed.details["now"]) == ("2019a", tzdata_version())
    assert [event.schedule for event in told(story, EventKind.RETIMED)] == ["berlin"]
    assert query(story, "SELECT tzdata_version FROM meta") == [(tzdata_version(),)]


def test_a_next_time_that_the_zone_still_gives_is_not_written_again(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_to("Europe/Berlin", monkeypatch)
    boot(story, EIGHT, synchronised=True)
    story.add("same", "0 18 * * *", timezone="local")
    story.add("utc", "0 18 * * *")
    story.add("paused", "0 18 * * *", timezone="local")
    story.after_s(0)
    story.client.pause("paused", until=EIGHT + timedelta(hours=2))
    columns = "SELECT name, next_plan_at, next_run_at, decided_until, revision FROM schedules"
    before = query(story, columns)
    write(story, "UPDATE meta SET tzdata_version = '2019a', local_timezone = NULL")

    boot(story, NINE, synchronised=True)
    story.after_s(0)

    assert query(story, columns) == before
    assert query(story, "SELECT tzdata_version, local_timezone FROM meta") == [
        (tzdata_version(), "Europe/Berlin")
    ]
    assert told(story, EventKind.RETIMED) == []


def test_times_of_the_new_zone_that_have_passed_are_not_missed_if_the_next_one_is_the_same(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_to("UTC", monkeypatch)
    boot(story, EIGHT, synchronised=True)
    story.add("twice", "0 6,12 * * *", timezone="local")  # in six hours' distance
    story.after_s(0)
    before = story.client.schedule("twice").next_plan_at
    story.after_s(2 * 3600)

    moved_to("Etc/GMT-3", monkeypatch)  # 03:00Z and 09:00Z
    story.after_s(31)
    moved_to("UTC", monkeypatch)
    story.after_s(31)
    story.client.remove("twice")

    assert before == EIGHT + timedelta(hours=4)
    assert story.runs("twice") == []


@pytest.mark.failure(9)
def test_a_zone_that_is_gone_does_not_keep_the_others_from_being_computed_anew(
    story: Story,
) -> None:
    for name, zone in (
        ("first", "Europe/Berlin"),
        ("gone", "Europe/Paris"),
        ("last", "Asia/Tokyo"),
    ):
        story.add(name, "0 18 * * *", timezone=zone)
    write(story, "UPDATE meta SET tzdata_version = '2019a'")
    write(
        story,
        """UPDATE schedule_revisions SET snapshot = replace(snapshot, :there, :gone)""",
        there="Europe/Paris",
        gone="Europe/Atlantis",
    )
    write(
        story, "UPDATE schedules SET next_plan_at = next_plan_at + 1, next_run_at = next_run_at + 1"
    )

    boot(story, EIGHT, synchronised=True)
    story.after_s(0)

    assert "Atlantis" in (story.client.schedule("gone").trigger_error or "")
    assert story.client.schedule("gone").next_plan_at is None
    assert [event.schedule for event in told(story, EventKind.BROKEN)] == ["gone"]
    assert [event.schedule for event in told(story, EventKind.RETIMED)] == ["first", "last"]


def test_several_engines_agree_on_what_is_put_right(story: Story) -> None:
    story.add("hourly", "0 * * * *")
    other = story.world.start_engine()
    random = Random(7)
    for _ in range(6):
        story.after_s(3600)
        story.world.step(other)

    story.world.clock.step_ms(-5 * HOUR_MS - 60_000)
    for _ in range(20):
        story.world.step(random.choice((other, story.key)))
        story.world.clock.advance_ms(1_200_000)

    plans = [run.plan_at for run in story.runs("hourly")]
    assert sorted(plans) == sorted(set(plans))
    assert len(told(story, EventKind.RETIMED)) == 1
    assert _hours(plans) == list(range(9, 16))


def _hours(plans: Iterable[datetime]) -> list[int]:
    return sorted(plan.hour for plan in plans)


def test_the_release_is_what_a_new_database_goes_by(tmp_path: Path) -> None:
    story = Story(tmp_path / "new.db")
    story.world.clock.set_ms(BUILT_MS - 301_000)
    story.world.clock.synchronised = None  # The kernel does not say.
    story.after_s(0)
    early = told(story, EventKind.CLOCK_UNTRUSTED)

    story.world.clock.set_ms(BUILT_MS)
    story.after_s(0)

    assert len(early) == 1
    assert len(told(story, EventKind.CLOCK_TRUSTED)) == 1


# Any tricks, in any order.


def play_a_trick(story: Story, random: Random, true_ms: int) -> int:
    """One trick, and perhaps a restart; the time that it really is by then."""
    clock = story.world.clock
    passes_ms = random.choice((1_000, 60_000, 900_000, 4_000_000))
    trick = random.choice(("none", "suspend", "step", "wrong", "correct", "boot", "kill"))
    if trick == "suspend":
        clock.suspend_ms(passes_ms)
    else:
        clock.advance_ms(passes_ms)
    true_ms += passes_ms
    if trick == "step":
        clock.step_ms(random.choice((-1, 1)) * random.choice((30_000, 2 * HOUR_MS, 30 * HOUR_MS)))
    elif trick == "wrong":
        clock.synchronised = False
        clock.set_to(random.choice((THE_EPOCH, FAR_AHEAD, EIGHT - timedelta(days=300))))
    elif trick == "correct":
        clock.set_ms(true_ms)
        clock.synchronised = True
    elif trick == "boot":
        story.world.reboot()
        story.key = story.world.start_engine(clock_wait_ms=random.choice((0, 600_000, None)))
    elif trick == "kill":
        story.world.kill_engine(story.key)
        story.key = story.world.start_engine()
    return true_ms


def lost(story: Story, name: str, *, until_ms: int) -> list[datetime]:
    """The times of a schedule since eight o'clock that have left no row."""
    times = story.client.timing(story.client.schedule(name)).times
    rows = story.runs(name)
    plans = {run.plan_at for run in rows if run.missed_from_at is None}
    ranges = [
        (run.missed_from_at, run.missed_to_at)
        for run in rows
        if run.missed_from_at is not None and run.missed_to_at is not None
    ]
    found, ms = [], to_ms(EIGHT)
    while (following := times.next_with_source(ms)) is not None and following[0] <= until_ms:
        ms = following[0]
        at = from_ms(ms)
        if at not in plans and not any(first <= at <= last for first, last in ranges):
            found.append(at)
    return found


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 400))]
)
def test_whatever_the_clock_did_in_the_end_all_times_are_right_and_nothing_ran_twice(
    story: Story, seed: int
) -> None:
    random = Random(seed)
    story.add("cron", "30 * * * *", timezone="Europe/Berlin")
    story.add("often", "every 20m")
    story.add("both", "0 * * * *", "every 45m")
    true_ms = story.world.clock.now_ms()
    for _ in range(60):
        true_ms = play_a_trick(story, random, true_ms)
        for _ in range(random.randrange(3)):
            story.engine.step()

    true_ms += 60_000
    correct(story, EIGHT + timedelta(milliseconds=true_ms - to_ms(EIGHT)))
    for _ in range(5):
        story.after_s(0.1)

    now_ms = story.world.clock.now_ms()
    for name in ("cron", "often", "both"):
        schedule = story.client.schedule(name)
        decided_ms = to_ms(schedule.decided_until)
        # A small step back leaves decided what it has decided.
        assert decided_ms <= now_ms + LARGE_MS, name
        times = story.client.timing(schedule).times
        assert schedule.next_plan_at is not None
        if to_ms(schedule.next_plan_at) <= decided_ms and times.elapsed is not None:
            # All of these follow elapsed time, and go on in a span that the clock repeats.
            repeated = RepeatedTimes(times, times.elapsed, until_ms=decided_ms)
            following = repeated.next_with_source(now_ms)
        else:
            following = times.next_with_source(max(now_ms, decided_ms))
        assert following is not None
        assert to_ms(schedule.next_plan_at) == following[0], name
        assert lost(story, name, until_ms=now_ms) == [], name
    assert query(story, "SELECT count(*) FROM schedules WHERE trusted_until IS NOT NULL") == [(0,)]
    fires = [(body.schedule, body.plan_ms, body.fire_key) for body in story.world.bodies]
    assert len(fires) == len(set(fires))
