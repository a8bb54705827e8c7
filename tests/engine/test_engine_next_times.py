"""Next times that are missing: an engine computes them, and fires nothing for the past."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from edgecron.client.doctor_machine import Finding
from edgecron.client.doctor_schedules import check_schedules
from edgecron.engine.events import EventKind
from edgecron.model.choices import Reason
from edgecron.model.listing import Idle, idle_words, standing_of
from tests.support.clock import PacedClock
from tests.support.story import START_MS, Story

HOUR_S = 3600
LOSE = "UPDATE schedules SET next_plan_at = NULL, next_run_at = NULL, next_source = NULL"


def write(story: Story, sql: str) -> None:
    """Change the database as a person with a SQLite shell does."""
    database = story.world.stores.open_reader()
    with database.transaction():
        database.change(sql)
    database.close()


def warnings(story: Story) -> list[str]:
    schedules, unreadable = story.client.store.find_each_schedule()
    found: list[Finding] = check_schedules(
        story.client, schedules, unreadable, command=lambda words: words
    )
    return [one.message for one in found if one.status != "ok"]


@pytest.mark.parametrize("trigger", ["0 * * * *", "every 1h", "every 1h after end"])
def test_a_next_time_that_is_missing_is_computed_without_a_fire(story: Story, trigger: str) -> None:
    story.add("job", trigger)
    story.after_s(2 * HOUR_S + 60)
    ran = story.bodies("job")
    write(story, LOSE)
    lost = story.client.schedule("job")

    story.after_s(2 * HOUR_S)

    found = story.client.schedule("job")
    assert lost.next_run_at is None
    assert story.bodies("job") == ran
    assert found.next_run_at is not None
    assert story.client.now() < found.next_run_at <= story.client.now() + timedelta(hours=1)
    story.after_s(HOUR_S)
    assert story.bodies("job") == ran + 1


def test_what_came_due_while_the_next_time_was_missing_leaves_one_row(story: Story) -> None:
    story.add("job", "0 * * * *")
    write(story, LOSE)

    story.after_s(3 * HOUR_S + 60)
    story.after_s(60)

    [row] = story.runs("job")
    assert (row.reason, row.missed_count) == (Reason.EDITED, 3)


@pytest.mark.of_file
def test_a_schedule_that_is_done_is_looked_at_once(story: Story) -> None:
    story.add("once", "at 2026-03-08T20:10:00Z")
    story.add("event", "after once")
    story.add("few", "0 * * * *", max_runs=1)
    story.after_s(2 * HOUR_S)
    story.after_s(60)
    before = story.world.path.with_name(story.world.path.name + "-wal").read_bytes()

    for _ in range(3):
        story.after_s(60)

    after = story.world.path.with_name(story.world.path.name + "-wal").read_bytes()
    assert after == before, "a schedule that is done is written again and again"
    assert all(story.client.schedule(name).is_done for name in ("once", "event", "few"))
    assert not [one for one in story.world.events if one.kind is EventKind.RETIMED]


def test_a_paused_schedule_keeps_no_next_time(story: Story) -> None:
    story.add("paused", "0 * * * *")
    story.client.pause("paused")
    story.after_s(HOUR_S)

    assert story.client.schedule("paused").next_run_at is None


def test_doctor_names_a_schedule_whose_next_time_is_missing_until_an_engine_has_computed_it(
    story: Story,
) -> None:
    story.add("job", "0 * * * *")
    story.add("over", "at 2026-03-08T20:10:00Z")
    story.after_s(HOUR_S)
    write(story, LOSE)

    lost = warnings(story)
    standing = standing_of(story.client.schedule("job"))
    story.after_s(60)

    assert [words.partition(" ")[0] for words in lost] == ["job"]
    assert "next_run_at is NULL" in lost[0]
    assert idle_words(standing, now=story.client.now()) == ("missing; an engine will compute it")
    assert warnings(story) == []


def test_done_is_said_only_of_what_is_done(story: Story) -> None:
    story.add("once", "at 2026-03-08T20:10:00Z", lasts_s=600)
    until = datetime(2026, 3, 8, 22, 30, tzinfo=UTC)
    story.add("bounded", "0 * * * *", until_at=until)

    def said(name: str) -> str | None:
        return idle_words(standing_of(story.client.schedule(name)), now=story.client.now())

    story.after_s(900)
    while_active = said("once")
    story.after_s(2 * HOUR_S - 600)
    before_end = said("bounded")
    story.after_s(HOUR_S)

    assert while_active == "its last run is active: no more times"
    assert said("once") == "done: no more times"
    assert before_end == "done: no more times before its --until"
    assert said("bounded") == "done: its --until has passed"


def test_a_follow_up_whose_upstream_is_gone_says_so(story: Story) -> None:
    story.add("load", "0 * * * *")
    story.add("clean", "0 * * * *")
    story.add("report", "after load")
    story.add("either", "after load", "after clean")
    story.client.remove("load")

    by_name = {one.name: one for one in story.client.standings()}

    now = story.client.now()
    assert idle_words(by_name["report"], now=now) == "never: load is gone"
    assert idle_words(by_name["either"], now=now) == "after clean; load is gone"
    assert sorted(warnings(story)) == [
        "either comes after load, which is gone",
        "report comes after load, which is gone: nothing starts it",
    ]
    assert story.client.outlook("report").idle is Idle.UPSTREAM


def test_a_schedule_that_sql_resumes_gets_its_next_time(story: Story) -> None:
    story.add("job", "0 * * * *")
    write(story, "UPDATE schedules SET enabled = 0")
    story.after_s(2 * HOUR_S)
    write(story, "UPDATE schedules SET enabled = 1")
    story.after_s(60)

    found = story.client.schedule("job")

    assert story.bodies("job") == 0
    assert found.next_run_at is not None
    assert found.next_run_at > story.client.now()


def test_what_passed_while_sql_had_paused_a_schedule_is_skipped_as_paused(story: Story) -> None:
    story.add("job", "0 * * * *")
    write(story, "UPDATE schedules SET enabled = 0")
    story.after_s(2 * HOUR_S)
    write(story, "UPDATE schedules SET enabled = 1")
    story.after_s(60)

    [row] = story.runs("job")

    assert (row.reason, row.missed_count) == (Reason.PAUSED, 2)


@pytest.mark.parametrize("is_booted_again", [False, True])
def test_a_boot_that_passed_while_sql_had_paused_a_schedule_is_not_caught_up(
    story: Story, is_booted_again: bool
) -> None:
    story.add("job", "on boot")
    write(story, "UPDATE schedules SET enabled = 0")
    story.world.reboot()
    story.key = story.world.start_engine()
    story.after_s(60)
    now_ms = story.world.clock.now_ms()
    write(story, f"UPDATE schedules SET enabled = 1; UPDATE schedules SET updated_at = {now_ms}")
    if is_booted_again:
        story.world.clock.advance_ms(60_000)
        story.world.reboot()
    else:
        story.world.kill_engine(story.key)

    story.key = story.world.start_engine()
    story.after_s(1)

    assert story.bodies("job") == is_booted_again


def test_a_schedule_that_sql_resumes_before_the_clock_is_trusted_gets_its_next_time(
    story: Story,
) -> None:
    story.add("job", "0 * * * *")
    story.after_s(0)
    story.world.clock.synchronised = False
    story.world.clock.step_ms(500 * 24 * HOUR_S * 1000)
    story.after_s(0)
    write(story, "UPDATE schedules SET enabled = 0")
    write(story, "UPDATE schedules SET enabled = 1")
    story.after_s(0)
    while_held = story.client.schedule("job").next_run_at

    story.world.clock.synchronised = True
    story.world.clock.step_ms(-500 * 24 * HOUR_S * 1000)
    story.after_s(1)

    assert while_held is None
    assert story.client.schedule("job").next_run_at is not None
    story.after_s(HOUR_S)
    assert story.bodies("job") == 1


def test_many_schedules_that_sql_resumes_get_their_next_times_within_seconds(story: Story) -> None:
    story.add_many(600, "job", "0 3 * * *")
    write(story, "UPDATE schedules SET enabled = 0")
    story.after_s(0)
    write(story, "UPDATE schedules SET enabled = 1")

    for _ in range(4):
        wake_ms = story.engine.step().wake_ms
        assert wake_ms is not None
        story.world.clock.advance_ms(min(1_000, wake_ms - story.world.clock.now_ms()))

    assert not [one for one in story.client.schedules() if one.next_run_at is None]


def test_a_done_schedule_that_sql_gives_more_runs_goes_on(story: Story) -> None:
    story.add("few", "0 * * * *", max_runs=1)
    story.after_s(HOUR_S)
    was_done = story.client.schedule("few").is_done
    write(story, "UPDATE schedules SET max_runs = 2")
    for _ in range(3):
        story.after_s(HOUR_S)

    assert was_done
    assert story.bodies("few") == 2


def test_many_missing_next_times_are_computed_in_short_steps(tmp_path: Path) -> None:
    clock = PacedClock(START_MS)
    story = Story(tmp_path / "story.db", clock=clock)
    story.add_many(100, "job", "0 9 * * *")
    story.after_s(60)
    write(story, LOSE)
    clock.pace_ms = 20

    took_ms, left = [], [100]
    while left[-1]:
        began_ms = clock.now_ms()
        story.engine.step()
        took_ms.append(clock.now_ms() - began_ms)
        left.append(sum(one.next_run_at is None for one in story.client.schedules()))

    assert len(took_ms) > 2
    assert all(before > after for before, after in pairwise(left))
    assert max(took_ms) < 500
