"""Windows, told as stories: what runs in them, what waits for them, and what is recorded."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgecron.base.errors import Conflict
from edgecron.base.units import from_ms
from edgecron.base.values import replace
from edgecron.model.choices import Overlap, Reason, Status, WaitsFor
from edgecron.model.listing import Idle
from edgecron.model.options import Policies
from edgecron.views.changes import closed_words
from edgecron.views.phrases import next_words
from tests.support.clock import FakeClock
from tests.support.fakemachine import FakeMachine, FakeReports
from tests.support.story import START_MS, Story

HOUR_S = 3600
DAY_MS = 86_400_000
NIGHT = ("21:00-05:00",)  # The story begins at 20:00.


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "story.db")


def until(story: Story, time: str) -> None:
    """Let time pass until the next such time of day, as the engine sleeps and wakes."""
    clock = story.world.clock
    hour, minute = (int(part) for part in time.split(":"))
    today_ms = clock.now_ms() // DAY_MS * DAY_MS
    at_ms = today_ms + (hour * 60 + minute) * 60_000
    at_ms += DAY_MS if at_ms <= clock.now_ms() else 0
    while clock.now_ms() < at_ms:
        story.engine.step()
        wake_ms = story.engine.step().wake_ms  # What starts in one step can end in the next.
        next_ms = at_ms if wake_ms is None else min(at_ms, max(wake_ms, clock.now_ms() + 1))
        clock.advance_ms(next_ms - clock.now_ms())
    story.after_s(0)


def shown(at: datetime | None) -> str:
    return "" if at is None else at.strftime("%H:%M")


def test_closed_hours_leave_one_row_and_do_not_wake_the_engine(story: Story) -> None:
    story.add("poll", "* * * * *", policies=Policies(between=NIGHT))

    wakes_ms = story.engine.step().wake_ms
    assert wakes_ms == START_MS + HOUR_S * 1000

    until(story, "21:00")
    skipped, first = story.runs("poll")
    assert (skipped.status, skipped.reason, skipped.missed_count) == ("skipped", "excluded", 59)
    assert skipped.trigger_text == "* * * * *"
    assert (shown(skipped.missed_from_at), shown(skipped.missed_to_at)) == ("20:01", "20:59")
    assert shown(first.started_at) == "21:00"


def test_a_run_missed_at_night_does_not_start_by_day(story: Story) -> None:
    story.add("backup", "0 22 * * *", policies=Policies(between=NIGHT))
    story.world.clock.advance_ms(13 * HOUR_S * 1000)  # until 09:00: the machine is asleep
    story.engine.step()
    story.engine.step()

    [waiting] = story.runs("backup")
    assert (waiting.status, shown(waiting.due_at)) == (Status.QUEUED, "21:00")
    [active] = story.client.outlook("backup").active
    assert active.waits_for is WaitsFor.WINDOW
    assert story.engine.step().wake_ms == START_MS + 25 * HOUR_S * 1000

    until(story, "21:00")
    [late] = story.runs("backup")
    assert (shown(late.started_at), late.cause) == ("21:00", "catch_up")


def test_a_retry_after_the_window_waits_for_the_next(story: Story) -> None:
    policies = Policies(between=NIGHT, retries=1, retry_delay_s=7200, retry_max_delay_s=14400)
    story.add("backup", "0 4 * * *", code=1, policies=policies)
    until(story, "07:00")

    first, retry = story.runs("backup")
    assert first.status is Status.FAILED
    assert (retry.status, shown(retry.due_at)) == (Status.QUEUED, "21:00")
    until(story, "21:01")
    assert story.bodies("backup") == 2


def test_a_condition_met_by_day_starts_nothing(tmp_path: Path) -> None:
    clock = FakeClock(START_MS)
    machine = FakeMachine(tmp_path / "root", clock)
    story = Story(tmp_path / "story.db", clock=clock, hosting=machine.hosting(FakeReports()))
    machine.set_on_mains(False)
    story.add("backup", "0 22 * * *", policies=Policies(between=NIGHT, needs=("ac-power",)))
    until(story, "09:00")
    machine.set_on_mains(True)
    story.engine.conditions.hear()
    story.after_s(60)
    assert story.bodies("backup") == 0

    until(story, "21:00")
    assert story.bodies("backup") == 1


def test_a_run_that_can_not_start_in_the_next_window_is_skipped(tmp_path: Path) -> None:
    clock = FakeClock(START_MS)
    machine = FakeMachine(tmp_path / "root", clock)
    story = Story(tmp_path / "story.db", clock=clock, hosting=machine.hosting(FakeReports()))
    machine.set_on_mains(False)
    policies = Policies(between=NIGHT, needs=("ac-power",), needs_deadline_s=72 * HOUR_S)
    story.add("backup", "30 21 8 3 *", policies=policies)
    for time in ("21:40", "09:00", "09:30", "22:00", "09:00"):
        until(story, time)
        machine.set_on_mains(time == "09:00")
        story.engine.conditions.hear()
        story.after_s(60)

    assert story.statuses("backup") == ["skipped:excluded"]


def test_a_manual_run_needs_no_window(story: Story) -> None:
    story.add("backup", "0 22 * * *", policies=Policies(between=NIGHT))
    story.client.run_now("backup")
    story.after_s(1)
    assert story.bodies("backup") == 1


def test_a_run_on_the_last_minute_starts_although_it_is_a_little_late(story: Story) -> None:
    story.add("poll", "59 4 * * *", policies=Policies(between=NIGHT))
    until(story, "04:58")
    story.world.clock.advance_ms(90_000)  # 04:59:30
    story.engine.step()
    assert story.bodies("poll") == 1


def test_an_event_outside_of_the_window_waits_for_it(story: Story) -> None:
    story.add("first", "30 20 * * *")
    story.add("second", "after first", policies=Policies(between=NIGHT))
    until(story, "20:45")
    assert [shown(run.due_at) for run in story.runs("second")] == ["21:00"]
    until(story, "21:00")
    assert story.bodies("second") == 1


def test_an_interval_after_the_end_continues_when_the_window_opens(story: Story) -> None:
    story.add("poll", "every 3h after end", policies=Policies(between=NIGHT))
    until(story, "09:00")
    assert [shown(run.started_at) for run in story.runs("poll")] == ["23:00", "02:00"]
    assert shown(story.client.schedule("poll").next_plan_at) == "21:00"


def test_wider_windows_let_a_waiting_run_start(story: Story) -> None:
    story.add("backup", "0 22 * * *", policies=Policies(between=NIGHT))
    story.world.clock.advance_ms(13 * HOUR_S * 1000)
    story.engine.step()
    story.client.edit("backup", lambda spec: replace(spec, policies=Policies()))
    story.after_s(1)
    assert story.bodies("backup") == 1


def test_an_edit_records_closed_hours_as_such(story: Story) -> None:
    story.add("poll", "*/10 * * * *", policies=Policies(between=NIGHT))
    story.world.clock.advance_ms(30 * 60 * 1000)
    story.client.edit("poll", lambda spec: replace(spec, policies=Policies()))
    [skipped] = story.runs("poll")
    assert (skipped.reason, skipped.missed_count) == (Reason.EXCLUDED, 3)


def test_a_run_held_until_its_window_replaces_no_run_before(story: Story) -> None:
    policies = Policies(between=NIGHT, overlap=Overlap.REPLACE)
    story.add("feed", "0 4 * * *", lasts_s=24 * HOUR_S, policies=policies)
    story.add("other", "after feed:any")
    until(story, "04:30")
    assert story.statuses("feed") == ["running"]


def test_a_schedule_with_only_excluded_times_left_shows_no_next_run(story: Story) -> None:
    ends_at = from_ms(START_MS + 12 * HOUR_S * 1000)
    policies = Policies(between=("21:00-23:00",))
    story.add("poll", "0 4,22 * * *", policies=policies, until_at=ends_at)
    now = story.client.now()
    [before] = story.client.standings()
    until(story, "22:30")

    [standing] = story.client.standings()
    words = next_words(standing, zone=UTC, now=now, is_clock_trusted=True)
    assert next_words(before, zone=UTC, now=now, is_clock_trusted=True) == "22:00:00, in 2h"
    assert words == "done: no more times within its windows"
    assert story.client.outlook("poll").idle is Idle.EXCLUDED
    assert story.client.outlook("poll").upcoming == ()
    with pytest.raises(Conflict, match="no more times within its windows"):
        story.client.reschedule("poll", from_ms(START_MS + 11 * HOUR_S * 1000))

    until(story, "04:30")
    assert story.statuses("poll") == ["success", "skipped:excluded"]


def test_a_run_that_is_moved_to_a_closed_hour_waits_and_a_warning_says_so(story: Story) -> None:
    story.add("backup", "0 22 * * *", policies=Policies(between=NIGHT))
    assert closed_words(story.client.schedule("backup"), zone=UTC) is None

    moved = story.client.reschedule("backup", from_ms(START_MS + 30 * 60_000))

    assert closed_words(moved, zone=UTC) == (
        "2026-03-08 20:30:00 is outside the windows of backup (between 21:00-05:00):"
        " the run waits until 2026-03-08 21:00:00"
    )
    until(story, "20:45")
    assert story.bodies("backup") == 0
    until(story, "21:00")
    assert story.bodies("backup") == 1


def test_an_explanation_of_a_closed_hour_names_the_window(story: Story) -> None:
    story.add("poll", "* * * * *", policies=Policies(between=NIGHT))
    noon = from_ms(START_MS + 16 * HOUR_S * 1000)
    assert story.client.explain("poll", noon).verdict == "excluded"
    until(story, "21:00")
    found = story.client.explain("poll", from_ms(START_MS + 30 * 60 * 1000))
    assert [run.reason for run in found.runs] == ["excluded"]


def test_the_outlook_lists_excluded_times_between_the_next_runs(story: Story) -> None:
    story.add("poll", "0 * * * *", policies=Policies(between=("21:00-23:00",)))
    outlook = story.client.outlook("poll", upcoming=4)

    spans = [(shown(from_ms(one.from_ms)), one.count) for one in outlook.excluded]
    assert [shown(fire.plan_at) for fire in outlook.upcoming] == ["21:00", "22:00"] * 2
    assert spans == [("23:00", 22)]


def crowd(tmp_path: Path, *, hours: int) -> Story:
    """A story whose only place a run of another schedule takes from 20:59."""
    clock = FakeClock(START_MS)
    machine = FakeMachine(tmp_path / "root", clock)
    hosting = machine.hosting(FakeReports())
    story = Story(tmp_path / "crowd.db", clock=clock, hosting=hosting, max_running=1)
    story.add("long", "59 20 8 3 *", lasts_s=hours * HOUR_S)
    return story


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE])
def test_a_run_without_a_place_in_its_window_skips_no_later_fire(
    tmp_path: Path, overlap: Overlap
) -> None:
    story = crowd(tmp_path, hours=48)
    policies = Policies(overlap=overlap)
    story.add("backup", "once in 21:00-05:00 when ac-power", policies=policies)
    story.add("report", "after backup:any")
    until(story, "22:00")
    assert story.statuses("backup") == ["queued"]

    story.world.clock.advance_ms(24 * HOUR_S * 1000)  # until 22:00: the machine is asleep
    story.after_s(1)

    first, second = story.runs("backup")
    assert (first.status, first.reason) == ("skipped", "excluded")
    assert first.error_msg == "it could not start before its window closed"
    assert (second.status, shown(second.plan_at)) == ("queued", "21:00")
    assert [run.plan_at for run in story.runs("report")] == [first.plan_at]


def test_a_run_that_waits_for_a_place_beyond_its_next_window_skips_no_fire(tmp_path: Path) -> None:
    story = crowd(tmp_path, hours=9)
    story.add("backup", "0 22 * * *", policies=Policies(between=NIGHT))
    until(story, "09:00")  # The first window has closed: it waits for the next.
    assert [shown(run.due_at) for run in story.runs("backup")] == ["21:00"]

    story.world.clock.advance_ms(24 * HOUR_S * 1000)  # until 09:00: the machine is asleep
    story.after_s(1)

    first, second = story.runs("backup")
    assert (first.status, first.reason) == ("skipped", "excluded")
    assert first.error_msg == "it could not start in the window for which it waited"
    assert (second.status, shown(second.due_at)) == ("queued", "21:00")
    until(story, "21:01")
    assert story.bodies("backup") == 1


def test_a_retry_that_is_due_after_its_window_skips_no_fire(tmp_path: Path) -> None:
    story = crowd(tmp_path, hours=9)
    policies = Policies(retries=1, retry_delay_s=30 * HOUR_S, retry_max_delay_s=30 * HOUR_S)
    story.add("backup", "once in 06:00-07:00 when ac-power", code=1, policies=policies)
    until(story, "06:30")
    assert story.statuses("backup") == ["failed:exit", "queued"]

    story.world.clock.advance_ms(24 * HOUR_S * 1000)
    story.after_s(1)
    assert story.statuses("backup")[1:3] == ["skipped:excluded", "failed:exit"]


def test_a_manual_run_starts_although_a_run_waits_whose_window_has_closed(tmp_path: Path) -> None:
    story = crowd(tmp_path, hours=48)
    story.add("backup", "once in 21:00-05:00 when ac-power")
    until(story, "22:00")
    story.world.clock.advance_ms(8 * HOUR_S * 1000)

    [run] = story.client.run_now("backup")

    assert (run.cause, run.status) == ("manual", "queued")
    assert story.statuses("backup") == ["skipped:excluded", "queued"]
