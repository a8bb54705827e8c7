"""Stories told to an engine by hand: one step at a time, on a clock that only moves when told."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.units import format_ms, from_ms
from edgecron.engine.events import EventKind
from edgecron.model.choices import CatchUp, Cause, Overlap, Reason, Status
from edgecron.model.listing import RunChoice
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from edgecron.store.sqlite.store import SqliteStore
from tests.support.clock import PacedClock
from tests.support.story import START_MS, Story

MINUTE_MS = 60_000


def test_a_schedule_fires_at_its_time_and_not_before(story: Story) -> None:
    story.add("minutely", "* * * * *")

    story.after_s(59.9)
    early = story.runs("minutely")
    story.after_s(0.1)

    assert early == []
    [run] = story.runs("minutely")
    assert run.status is Status.SUCCESS
    assert run.cause is Cause.SCHEDULE
    assert run.plan_at == run.due_at
    assert run.trigger_text == "* * * * *"


def test_a_step_says_when_the_next_one_is_due(story: Story) -> None:
    story.add("hourly", "@hourly")

    step = story.engine.step()

    assert step.wake_ms == START_MS + 60 * MINUTE_MS


@pytest.mark.failure(3)
def test_after_hours_away_the_latest_time_runs_and_the_others_are_one_row(story: Story) -> None:
    story.add("often", "*/5 * * * *")

    story.after_s(3 * 3600 + 90)

    missed, run = story.runs("often")
    assert (missed.status, missed.reason, missed.missed_count) == (
        Status.SKIPPED,
        Reason.MISFIRE,
        35,
    )
    assert (run.status, run.cause) == (Status.SUCCESS, Cause.CATCH_UP)
    assert story.bodies("often") == 1


def test_catch_up_skip_runs_nothing_that_is_late(story: Story) -> None:
    story.add("minutely", "*/5 * * * *", policies=Policies(catch_up=CatchUp.SKIP))

    story.after_s(3 * 3600 + 90)

    assert story.statuses("minutely") == ["skipped:misfire"]
    assert story.bodies("minutely") == 0


def test_catch_up_all_runs_each_in_turn(story: Story) -> None:
    story.add("quarterly", "*/15 * * * *", lasts_s=5, policies=Policies(catch_up=CatchUp.ALL))

    story.after_s(3600 + 90)
    at_first = story.bodies("quarterly")
    for _ in range(4):
        story.after_s(5)

    assert at_first == 1
    assert story.statuses("quarterly") == ["success"] * 4
    assert [run.plan_at for run in story.runs("quarterly")] == sorted(
        run.plan_at for run in story.runs("quarterly")
    )


@pytest.mark.failure(4)
def test_a_clock_that_steps_back_runs_no_fixed_time_again(story: Story) -> None:
    fixed_at = from_ms(story.world.clock.now_ms() + 60_000)
    story.add("fixed", f"{fixed_at.minute} {fixed_at.hour} * * *")
    story.add("minutely", "* * * * *")
    story.after_s(60)

    story.world.clock.step_ms(-3600_000)
    story.after_s(60)
    story.world.clock.step_ms(3600_000 - 60_000)
    story.after_s(0)

    assert story.bodies("fixed") == 1
    assert story.bodies("minutely") == 2  # One for each minute that has passed.


def test_overlap_skip_leaves_one_growing_row(story: Story) -> None:
    story.add("slow", "* * * * *", lasts_s=200)

    for _ in range(4):
        story.after_s(60)

    first, skipped = story.runs("slow")[:2]
    assert first.status is Status.RUNNING or first.status is Status.SUCCESS
    assert (skipped.status, skipped.reason) == (Status.SKIPPED, Reason.OVERLAP)
    assert skipped.missed_count == 3
    assert skipped.missed_from_at != skipped.missed_to_at


def test_overlap_queue_lets_one_wait(story: Story) -> None:
    story.add("slow", "* * * * *", lasts_s=150, policies=Policies(overlap=Overlap.QUEUE))

    for _ in range(3):
        story.after_s(60)

    assert story.statuses("slow") == ["running", "queued", "skipped:overlap"]


def test_overlap_allow_runs_beside(story: Story) -> None:
    story.add("slow", "* * * * *", lasts_s=150, policies=Policies(overlap=Overlap.ALLOW))

    for _ in range(2):
        story.after_s(60)

    assert story.statuses("slow") == ["running", "running"]


@pytest.mark.failure(49)
def test_when_all_places_are_taken_priority_decides_and_then_due_time(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=1)
    story.add("low", "* * * * *", lasts_s=1, policies=Policies(priority=-10))
    story.add("late", "* * * * *", lasts_s=1, policies=Policies(priority=5, jitter_s=50))
    story.add("high", "* * * * *", lasts_s=1, policies=Policies(priority=10))
    story.add("early", "* * * * *", lasts_s=1, policies=Policies(priority=5))

    story.after_s(115)
    for _ in range(8):
        story.after_s(1)

    order = [body.schedule for body in story.world.bodies]
    assert order[:4] == ["high", "early", "late", "low"]


def test_every_due_time_is_decided_at_once_even_when_no_place_is_free(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=2)
    story.add_many(300, "s", "* * * * *", lasts_s=30)

    story.after_s(60)

    counts = story.client.active_counts()
    assert counts == {Status.RUNNING: 2, Status.QUEUED: 298}


def test_on_boot_fires_once_per_boot_and_not_when_made(story: Story) -> None:
    story.add("boot", "on boot")
    story.after_s(1)
    before = story.runs("boot")

    story.world.reboot()
    story.key = story.world.start_engine()
    story.after_s(1)
    story.world.kill_engine(story.key)
    story.key = story.world.start_engine()
    story.after_s(1)

    assert before == []
    [run] = story.runs("boot")
    assert run.cause is Cause.BOOT
    assert run.fire_key == "boot:boot-2"


def test_on_boot_keeps_to_its_bounds(story: Story) -> None:
    story.add("twice", "on boot", "@hourly", max_runs=2)
    story.add("later", "on boot", from_at=from_ms(START_MS + 50 * MINUTE_MS))
    story.add("before", "on boot", until_at=from_ms(START_MS + 20 * MINUTE_MS))

    for _ in range(4):
        story.world.reboot()
        story.key = story.world.start_engine()
        story.after_s(14 * 60)

    assert [run.cause for run in story.runs("twice")] == [Cause.BOOT, Cause.BOOT]
    assert story.client.schedule("twice").next_plan_at is None
    assert len(story.runs("later")) == 1
    assert len(story.runs("before")) == 1


def test_on_boot_is_not_lost_to_an_edit_at_the_same_moment(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.add("boot", "on boot")
    story.world.reboot()
    story.key = story.world.start_engine()
    edits = [lambda: story.client.edit("boot", lambda spec: _with_description(spec, "new"))]
    find = SqliteStore.find_boot_due

    def find_and_be_late(*args: Any, **named: Any) -> list[tuple[int, int]]:
        found = find(*args, **named)
        while edits:
            edits.pop()()
        return found

    monkeypatch.setattr(SqliteStore, "find_boot_due", find_and_be_late)

    story.after_s(1)
    story.after_s(1)

    assert story.statuses("boot") == ["success"]


def test_a_paused_schedule_holds_and_resumes_without_catching_up(story: Story) -> None:
    story.add("minutely", "* * * * *")
    story.after_s(60)
    story.client.pause("minutely")

    story.after_s(600)
    story.client.resume("minutely")
    story.after_s(60)

    assert story.statuses("minutely") == ["success", "skipped:paused", "success"]
    assert story.runs("minutely")[1].missed_count == 10


def test_a_pause_with_an_end_ends_by_itself(story: Story) -> None:
    story.add("minutely", "* * * * *")
    until = story.world.clock.now().replace(minute=5)
    story.client.pause("minutely", until=until)

    story.after_s(240)
    held = story.runs("minutely")
    story.after_s(60)

    assert held == []
    assert story.statuses("minutely") == ["skipped:paused", "success"]
    assert story.runs("minutely")[0].missed_count == 4
    assert story.runs("minutely")[1].plan_at == until


@pytest.mark.parametrize("way", ["pause", "edit"])
def test_a_pause_that_swallows_the_last_time_leaves_a_row(story: Story, way: str) -> None:
    last = f"at {format_ms(START_MS + 10 * MINUTE_MS)}"
    story.add("once", last if way == "pause" else "@yearly")
    story.client.pause("once", until=from_ms(START_MS + 20 * MINUTE_MS))
    if way == "edit":
        story.client.edit("once", lambda spec: _with_triggers(spec, last))

    shown = list(story.client.next_fires("once"))
    story.after_s(19 * 60)
    before = story.runs("once")
    story.after_s(60)

    assert (shown, before) == ([], [])
    [held] = story.runs("once")
    assert (held.status, held.reason) == (Status.SKIPPED, Reason.PAUSED)
    assert held.missed_from_at == held.missed_to_at == from_ms(START_MS + 10 * MINUTE_MS)
    schedule = story.client.schedule("once")
    assert (schedule.next_plan_at, schedule.paused_until) == (None, None)


@pytest.mark.failure(27)
def test_a_manual_run_at_a_due_time_is_an_execution_of_its_own(story: Story) -> None:
    story.add("minutely", "* * * * *", policies=Policies(overlap=Overlap.ALLOW))
    story.world.clock.advance_ms(60_000)

    [manual] = story.client.run_now("minutely")
    story.after_s(0)

    runs = story.runs("minutely")
    assert [run.cause for run in runs] == [Cause.MANUAL, Cause.SCHEDULE]
    assert [run.status for run in runs] == [Status.SUCCESS, Status.SUCCESS]
    assert runs[0].id == manual.id


@pytest.mark.failure(13)
def test_new_triggers_record_what_was_missed_and_compute_from_now(story: Story) -> None:
    story.add("job", "*/10 * * * *")
    story.world.clock.advance_ms(25 * MINUTE_MS)

    story.client.edit("job", lambda spec: _with_triggers(spec, "0 * * * *"))
    story.after_s(0)

    [missed] = story.runs("job")
    assert (missed.reason, missed.missed_count) == (Reason.EDITED, 2)
    assert story.client.schedule("job").next_plan_at == story.world.clock.now().replace(
        hour=21, minute=0, second=0
    )


def test_other_edits_keep_the_next_time_and_the_grid(story: Story) -> None:
    story.world.clock.advance_ms(17_000)
    story.add("grid", "every 10m")
    before = story.client.schedule("grid").next_plan_at
    story.world.clock.advance_ms(90_000)

    story.client.edit("grid", lambda spec: _with_description(spec, "tidy up"))
    story.after_s(600 - 90)

    assert story.runs("grid")[0].plan_at == before
    following = story.client.schedule("grid").next_plan_at
    assert following is not None
    assert before is not None
    assert (following - before).total_seconds() == 600


@pytest.mark.failure(9)
def test_a_trigger_that_can_not_be_read_stops_its_schedule_alone(story: Story) -> None:
    story.add("broken", "* * * * *", timezone="Europe/Berlin")
    story.add("well", "* * * * *")
    _vandalise(story, "Europe/Berlin", "Europe/Atlantis")

    story.after_s(60)

    broken = story.client.schedule("broken")
    assert broken.trigger_error is not None
    assert "Atlantis" in broken.trigger_error
    assert broken.next_plan_at is None
    assert story.statuses("well") == ["success"]
    assert EventKind.BROKEN in [event.kind for event in story.world.events]


def test_a_stored_specification_that_can_not_be_read_stops_its_schedule_alone(
    story: Story,
) -> None:
    story.add("broken", "* * * * *", timezone="Europe/Berlin")
    story.add("well", "* * * * *")
    story.client.run_now("broken")
    _vandalise(story, '"broken"', '"bro ken"')

    story.after_s(60)
    story.after_s(60)

    assert story.client.schedule("broken").trigger_error is not None
    [manual] = story.runs("broken")
    assert (manual.status, manual.reason) == (Status.FAILED, Reason.SPAWN)
    assert story.statuses("well") == ["success", "success"]


def test_a_schedule_without_its_revision_is_broken_and_not_looked_at_for_ever(
    story: Story,
) -> None:
    story.add("lost", "* * * * *")
    database = story.world.stores.open_reader()
    with database.transaction():
        database.change("DELETE FROM schedule_revisions")
    database.close()

    story.after_s(60)

    assert "not on record" in (story.client.schedule("lost").trigger_error or "")
    assert story.engine.step().wake_ms is None


def test_an_engine_leaves_the_jobs_of_other_queues_alone(story: Story) -> None:
    story.add("theirs", "* * * * *", queue="py:app")

    story.after_s(600)

    assert story.runs("theirs") == []
    assert story.engine.step().wake_ms is None


@pytest.mark.failure(14)
def test_an_interval_does_not_drift_over_days(story: Story) -> None:
    story.add("steady", "every 7h")

    for _ in range(100):
        story.after_s(7 * 3600 + 0.4)
        story.world.clock.step_ms(-400)

    plans = [run.plan_at for run in story.runs("steady")]
    gaps = {(later - earlier).total_seconds() for earlier, later in itertools.pairwise(plans)}
    assert gaps == {7 * 3600.0}


def _with_triggers(spec: ScheduleSpec, *triggers: str) -> ScheduleSpec:
    from dataclasses import replace

    return replace(spec, triggers=triggers)


def _with_description(spec: ScheduleSpec, description: str) -> ScheduleSpec:
    from dataclasses import replace

    return replace(spec, description=description)


def _vandalise(story: Story, what: str, instead: str) -> None:
    """Write what no edgecron writes, such as a zone that is no more."""
    database = story.world.stores.open_reader()
    with database.transaction():
        database.change(
            """UPDATE schedule_revisions SET snapshot = replace(snapshot, :what, :instead)""",
            {"what": what, "instead": instead},
        )
    database.close()


@pytest.mark.parametrize("delay_ms", range(1, 25))
def test_a_retry_that_comes_due_while_its_engine_looks_ahead_is_not_slept_through(
    story: Story, delay_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time goes on within a step, which looks at the clock again and again."""
    retry = Policies(retries=1, retry_delay_s=delay_ms / 1000, retry_factor=1.0)
    story.add("poll", "@yearly", code=1, policies=retry)
    story.client.run_now("poll")
    clock = story.world.clock
    still = clock.now_ms

    def tick() -> int:
        clock.advance_ms(1)
        return still()

    monkeypatch.setattr(clock, "now_ms", tick)

    for _ in range(20):
        wake_ms = story.engine.step().wake_ms
        if not story.engine.has_ends():
            if wake_ms is None or wake_ms > still() + 1000:
                break
            clock.advance_ms(max(0, wake_ms - still()))

    assert story.statuses("poll") == ["failed:exit", "failed:exit"]


def test_a_fast_schedule_whose_run_goes_on_leaves_one_skipped_row(story: Story) -> None:
    story.add("fast", "every 1ms", lasts_s=30)

    for _ in range(40):
        story.after_s(0.25)

    slow, run, skipped = story.runs("fast")
    assert (slow.reason, slow.missed_count) == (Reason.MISFIRE, 249)
    assert run.status is Status.RUNNING
    assert (skipped.reason, skipped.missed_count) == (Reason.OVERLAP, 10_000 - 250)
    assert skipped.missed_to_at == from_ms(START_MS + 10_000)


def test_between_two_runs_there_is_one_row_for_each_reason(story: Story) -> None:
    story.add("fast", "every 1s", lasts_s=3)

    for _ in range(12):
        story.after_s(2.5)

    rows = story.runs("fast")
    ran = [run.id for run in rows if run.missed_count is None]
    assert len(ran) > 4
    for first, second in itertools.pairwise(ran):
        reasons = [run.reason for run in rows if first < run.id < second]
        assert len(reasons) == len(set(reasons))
    assert sum(run.missed_count or 1 for run in rows) == 30


@pytest.mark.parametrize("step_s", [2, 59, 61, 150])
def test_however_late_an_engine_is_the_skipped_times_of_one_span_share_a_row(
    story: Story, step_s: int
) -> None:
    story.add("fast", "every 1s", lasts_s=36_000)
    story.after_s(1)

    for _ in range(6):
        story.after_s(step_s)
        story.after_s(step_s + 3)

    run, skipped = story.runs("fast")
    assert run.status is Status.RUNNING
    assert (skipped.reason, skipped.cause) == (Reason.OVERLAP, Cause.SCHEDULE)
    assert skipped.missed_count == 12 * step_s + 18


def test_a_step_ends_in_time_however_many_fires_are_due(tmp_path: Path) -> None:
    clock = PacedClock(START_MS)
    clock.pace_ms = 20
    story = Story(tmp_path / "story.db", max_running=2, clock=clock)
    story.add_many(300, "s", "* * * * *", lasts_s=30)
    for _ in range(5):  # An engine first checks stored times, 64 at least in a step.
        story.engine.step()
    clock.advance_to(START_MS + MINUTE_MS)

    began_ms = clock.now_ms()
    step = story.engine.step()
    took_ms = clock.now_ms() - began_ms
    later = [story.engine.step() for _ in range(300 // step.decided)]

    assert took_ms < 1_000
    assert 0 < step.decided < 300
    assert step.wake_ms is not None
    assert step.wake_ms <= clock.now_ms()
    assert step.decided + sum(one.decided for one in later) == 300


def test_after_a_long_step_other_fires_wait_for_a_second_at_most(tmp_path: Path) -> None:
    clock = PacedClock(START_MS)
    story = Story(tmp_path / "story.db", max_running=2, clock=clock)
    for number in range(40):
        story.add(f"s{number}", f"at {format_ms(START_MS + MINUTE_MS)}", lasts_s=30)
    story.engine.step()
    clock.advance_to(START_MS + MINUTE_MS)

    clock.pace_ms = 5_000
    long = story.engine.step()
    clock.pace_ms = 0
    clock.advance_ms(1_000)
    following = story.engine.step()

    assert long.decided < 40
    assert long.decided + following.decided == 40


def test_a_step_that_rests_forgets_that_another_engine_was_faster(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, clock = story.world, story.world.clock
    faster = world.start_engine(max_running=1000)
    story.add("waiting", "at 2030-01-01T00:00:00Z", lasts_s=3600)
    story.add("late", f"at {format_ms(START_MS + MINUTE_MS + 1_000)}")
    story.add_many(300, "s", "* * * * *", lasts_s=3600)
    for _ in range(6):
        story.engine.step()
        world.step(faster)
    clock.advance_to(START_MS + MINUTE_MS)
    before_claim: list[Callable[[], object]] = []
    usual = world.maybe_crash

    def act(where: str) -> None:
        if where == "before claim_due" and before_claim:
            before_claim.pop()()
        usual(where)

    monkeypatch.setattr(world, "maybe_crash", act)
    before_claim.append(lambda: clock.advance_ms(500))
    story.engine.step()  # It took long: now waiting runs go before due fires for a second.
    for run in story.client.history(choice=RunChoice(statuses=(Status.QUEUED,)), limit=1000):
        story.client.cancel(run.id)
    before_claim.append(lambda: world.step(faster))
    story.engine.step()  # The faster engine claims all of it.
    story.client.run_now("waiting")
    clock.advance_to(START_MS + MINUTE_MS + 1_000)
    resting = story.engine.step()

    assert before_claim == []
    assert resting.wake_ms == clock.now_ms() + 500  # the rest, and no look before its end


def test_a_step_decides_a_bounded_number_of_fires(story: Story) -> None:
    story.add_many(2_300, "s", "* * * * *", lasts_s=90)
    story.world.clock.advance_ms(MINUTE_MS)

    first, second = story.engine.step(), story.engine.step()

    assert 1_024 <= first.decided < 2_300
    assert first.decided + second.decided == 2_300


@pytest.mark.parametrize(("places", "decided"), [(300, 300), (16, 272)])
def test_ends_interrupt_a_step_only_if_runs_wait_for_their_places(
    tmp_path: Path, places: int, decided: int
) -> None:
    story = Story(tmp_path / "story.db", max_running=places)
    story.add_many(300, "s", "* * * * *", lasts_s=0)
    story.world.clock.advance_ms(MINUTE_MS)

    assert story.engine.step().decided == decided
    assert len(story.world.bodies) >= places


def test_a_schedule_that_is_always_due_is_decided_once_in_a_step(story: Story) -> None:
    story.add("fast", "every 1ms", policies=Policies(overlap=Overlap.ALLOW))
    story.world.clock.advance_ms(1_000)

    steps = [story.engine.step() for _ in range(2)]

    assert [step.decided for step in steps] == [2, 0]  # a range, and its latest time
    assert [run.missed_count for run in story.runs("fast")] == [999, None]


def step_when_due(story: Story, *, until_ms: int) -> list[tuple[int, int]]:
    """Step whenever the engine wants to: (when, in ms from now on; how many runs it claimed)."""
    begun_ms = story.world.clock.now_ms()
    claimed = []
    while (now_ms := story.world.clock.now_ms()) < begun_ms + until_ms:
        step = story.engine.step()
        if step.claimed:
            claimed.append((now_ms - begun_ms, step.claimed))
        assert step.wake_ms is not None
        story.world.clock.advance_ms(max(1, step.wake_ms - now_ms))
    return claimed


def test_fires_that_follow_each_other_closely_share_a_pass(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=100)
    for at_ms in (*range(0, 60, 5), 200, 205):
        story.add(f"job-{at_ms}", f"every 1h from 2026-03-08T20:00:01.{at_ms:03}Z")
    story.engine.step()
    story.world.clock.advance_ms(1000)

    claimed = step_when_due(story, until_ms=300)

    # The first two are on time; then a pass takes what came due within 20 ms.
    assert claimed == [(0, 1), (5, 1), (25, 4), (45, 4), (65, 2), (200, 1), (205, 1)]


def test_no_time_of_a_fast_schedule_is_lost_to_a_shared_pass(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=100)
    story.add("fast", "every 10ms", policies=Policies(overlap=Overlap.ALLOW))
    for at_ms in range(0, 1000, 5):
        story.add(f"job-{at_ms}", f"every 1h from 2026-03-08T20:00:00.{at_ms:03}Z")

    step_when_due(story, until_ms=300)

    assert len(story.runs("fast")) >= 29
    assert set(story.statuses("fast")) <= {"success", "running"}
