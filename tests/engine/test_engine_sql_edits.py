"""Edits that a person makes with SQL, and what an engine does with them."""

from __future__ import annotations

import select
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from edgecron.base.service_manager import FindNext, NoWatchdog
from edgecron.engine.sleep import WalWatch
from edgecron.model.options import Policies
from edgecron.store.sql.rows import SPEC_COLUMNS
from tests.support.engines import Place
from tests.support.sleepy import START_MS, Sleepy
from tests.support.story import Story

MINUTE_S = 60


def sql(story: Story, statement: str) -> list[Any]:
    """Run one statement as a person does."""
    return story.world.stores.run_sql(statement)


@pytest.fixture
def sleepy(tmp_path: Path) -> Sleepy:
    return Sleepy(tmp_path)


def write(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(10_000)  # The daemon writes, too.
    connection.execute(statement)
    connection.close()


def is_written(watch: WalWatch) -> bool:
    return bool(select.select(watch.arm(), [], [], 0)[0])


def test_a_watch_hears_each_write_of_another_program(sleepy: Sleepy) -> None:
    watch = WalWatch(sleepy.world.path)
    heard = [is_written(watch)]

    for priority in (1, 2):
        write(sleepy.world.path, f"UPDATE schedules SET priority = {priority}")
        sleepy.add(f"job-{priority}", "every 1h")
        heard.append(is_written(watch))
        watch.clear()
        heard.append(is_written(watch))
    watch.close()

    assert heard == [False, True, False, True, False]


def test_a_write_that_rings_nobody_is_looked_at_two_seconds_later(sleepy: Sleepy) -> None:
    sleepy.add("job", "every 1h")
    watch = WalWatch(sleepy.world.path)
    due_ms = START_MS + 600_000

    def somebody_writes() -> set[int]:
        write(sleepy.world.path, f"UPDATE schedules SET next_run_at = {due_ms}")
        return set(select.select(watch.arm(), [], [], 0)[0])

    def two_seconds() -> set[int]:
        sleepy.world.clock.advance_ms(2_000)
        return set()

    sleeper = sleepy.run(somebody_writes, two_seconds, write_watch=watch)

    assert sleeper.waits == [START_MS + 3_600_000, START_MS + 2_000, due_ms]


def test_an_edit_between_the_first_step_and_the_first_sleep_is_seen(sleepy: Sleepy) -> None:
    sleepy.add("job", "every 1h")
    watch = WalWatch(sleepy.world.path)
    due_ms = START_MS + 600_000

    class Editor(NoWatchdog):
        """Edits the schedule after the first step, before the engine sleeps."""

        has_edited = False

        def note_alive(self, *, running: int, find_next: FindNext) -> None:
            if not self.has_edited:
                write(sleepy.world.path, f"UPDATE schedules SET next_run_at = {due_ms}")
            self.has_edited = True

    def a_hint() -> set[int]:
        return set(select.select(watch.arm(), [], [], 0)[0])

    def two_seconds() -> set[int]:
        sleepy.world.clock.advance_ms(2_000)
        return set()

    sleepy.doorbell.clear()  # of the added schedule: it would cause a second step

    sleeper = sleepy.run(a_hint, two_seconds, write_watch=watch, watchdog=Editor())

    assert sleeper.waits == [START_MS + 3_600_000, START_MS + 2_000, due_ms]


def test_a_hint_without_a_change_makes_no_step(sleepy: Sleepy) -> None:
    sleepy.add("job", "every 1h")
    watch = WalWatch(sleepy.world.path)

    def a_hint() -> set[int]:
        calls.append(sleepy.world.calls)
        return set(watch.arm())

    def two_seconds() -> set[int]:
        sleepy.world.clock.advance_ms(2_000)
        return set()

    def the_end() -> set[int]:
        calls.append(sleepy.world.calls)
        return set()

    calls: list[object] = []
    sleeper = sleepy.run(a_hint, two_seconds, the_end, write_watch=watch)

    assert calls[0] == calls[1]
    assert sleeper.waits == [START_MS + 3_600_000, START_MS + 2_000, *[START_MS + 3_600_000] * 2]


def test_a_running_daemon_acts_on_an_edit_by_sql_within_seconds(place: Place) -> None:
    place.add("job", "every 1d", "true")
    daemon = place.daemon()
    daemon.wait_for("engine_started")

    write(place.database, "UPDATE schedules SET next_run_at = updated_at")

    daemon.wait_for("started", schedule="job", bound_s=15)


def test_enabled_0_pauses_a_schedule(story: Story) -> None:
    story.add("job", "* * * * *")
    story.after_s(MINUTE_S)

    sql(story, "UPDATE schedules SET enabled = 0 WHERE name = 'job'")
    paused = story.client.schedule("job")
    story.after_s(10 * MINUTE_S)

    assert not paused.enabled
    assert (paused.next_plan_at, paused.next_run_at) == (None, None)
    assert story.statuses("job") == ["success"]


def test_a_schedule_that_sql_paused_resumes_like_any_other(story: Story) -> None:
    story.add("job", "* * * * *")
    sql(story, "UPDATE schedules SET enabled = 0")
    story.after_s(5 * MINUTE_S)

    resumed = story.client.resume("job")
    story.after_s(MINUTE_S)

    assert resumed.next_plan_at is not None
    assert story.statuses("job") == ["skipped:paused", "success"]


def test_a_next_time_given_to_a_paused_schedule_neither_fires_nor_wakes(story: Story) -> None:
    story.add("job", "* * * * *")
    sql(story, "UPDATE schedules SET enabled = 0")
    sql(story, "UPDATE schedules SET next_plan_at = 1000, next_run_at = 1000")

    step = story.engine.step()

    assert (step.claimed, step.wake_ms) == (0, None)
    assert story.runs("job") == []


def test_an_earlier_next_run_at_fires_the_next_time_early(story: Story) -> None:
    story.add("job", "0 0 1 1 *")
    planned = story.client.schedule("job").next_plan_at

    sql(story, f"UPDATE schedules SET next_run_at = {story.world.clock.now_ms() + 60_000}")
    story.after_s(MINUTE_S)

    [run] = story.runs("job")
    assert run.plan_at == planned


def test_a_policy_that_sql_changes_holds_for_the_next_run(story: Story) -> None:
    story.add("job", "* * * * *", policies=Policies(priority=0))
    story.after_s(MINUTE_S)

    sql(story, "UPDATE schedules SET priority = 7 WHERE name = 'job'")
    story.after_s(MINUTE_S)

    assert [run.priority for run in story.runs("job")] == [0, 7]


def test_a_cancel_that_sql_asks_for_ends_the_run(story: Story) -> None:
    story.add("job", "* * * * *", lasts_s=600)
    story.after_s(MINUTE_S)

    sql(story, f"UPDATE executions SET cancel_requested_at = {story.world.clock.now_ms()}")
    story.after_s(1)
    story.after_s(30)

    assert story.statuses("job")[0] == "cancelled:request"


@pytest.mark.of_file
def test_an_edit_by_sql_makes_one_revision_that_keeps_every_column(story: Story) -> None:
    story.add("job", "* * * * *", lasts_s=0)
    before = story.client.schedule("job")

    sql(story, "UPDATE schedules SET timeout_s = 90.5, description = 'it''s \"new\"'")
    after = story.client.schedule("job")
    kept = sql(story, "SELECT json(snapshot) FROM schedule_revisions ORDER BY revision")
    stored = sql(
        story,
        f"SELECT json_object({', '.join(f'{c!r}, {c}' for c in SPEC_COLUMNS)}) FROM schedules",
    )

    assert after.revision == before.revision + 1
    assert after.updated_at - before.updated_at != timedelta(0)
    assert len(kept) == 2
    assert kept[-1] == stored[0]


@pytest.mark.parametrize("act", ["pause", "resume", "remove"])
def test_an_act_of_edgecron_makes_no_second_revision(story: Story, act: str) -> None:
    story.add("job", "* * * * *")
    if act == "resume":
        story.client.pause("job")
    before = sql(story, "SELECT revision FROM schedules")

    getattr(story.client, act)("job")

    assert sql(story, "SELECT revision FROM schedules") == [(before[0][0] + 1,)]
    assert sql(story, "SELECT count(*) FROM schedule_revisions WHERE origin = 'sql'") == [(0,)]


def test_the_view_of_runs_shows_what_a_run_was_and_why(story: Story) -> None:
    story.add("job", "* * * * *", policies=Policies(priority=5))
    story.after_s(MINUTE_S)

    found = sql(
        story,
        "SELECT schedule, trigger_text, cause, queue, priority, status, result, error_code"
        " FROM executions_view",
    )

    assert found == [("job", "* * * * *", "schedule", "command", 5, "success", None, None)]


def test_the_view_of_schedules_shows_queue_priority_and_trouble(story: Story) -> None:
    story.add("job", "* * * * *", policies=Policies(priority=5))

    found = sql(
        story,
        "SELECT name, triggers, queue, priority, trigger_error, revision FROM schedules_view",
    )

    assert found == [("job", '["* * * * *"]', "command", 5, None, 1)]


def test_a_pause_by_sql_keeps_who_made_the_schedule(story: Story) -> None:
    story.add("job", "* * * * *")
    origins = "SELECT origin FROM schedule_revisions ORDER BY revision"
    [made_by] = sql(story, origins)

    sql(story, "UPDATE schedules SET enabled = 0")
    after_the_pause = sql(story, origins)
    sql(story, "UPDATE schedules SET priority = 3")

    assert after_the_pause == [made_by]
    assert sql(story, origins) == [made_by, ("sql",)]


def test_enabled_1_resumes_from_now_without_firing_for_the_past(story: Story) -> None:
    story.add("job", "* * * * *")
    sql(story, "UPDATE schedules SET enabled = 0")
    story.after_s(10 * MINUTE_S)

    sql(story, "UPDATE schedules SET enabled = 1")
    story.after_s(1)
    resumed = story.client.schedule("job")
    ran = [run for run in story.runs("job") if str(run.status) == "success"]
    story.after_s(MINUTE_S)

    assert resumed.next_run_at is not None
    assert resumed.next_run_at > story.client.now() - timedelta(seconds=MINUTE_S)
    assert ran == []
    assert story.statuses("job")[-1] == "success"
