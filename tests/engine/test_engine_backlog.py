"""Backlogs after a downtime: what is late waits for its few places, and keeps nothing else back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import product
from pathlib import Path

import apsw
import pytest

from edgecron.base.units import format_ms, from_ms
from edgecron.engine.state_folder import EngineFiles, engine_lock_path
from edgecron.model.choices import CatchUp, Cause, Overlap, Reason, Status
from edgecron.model.options import Policies
from edgecron.supervisor.state_files import prepare_state_dir
from edgecron.views.phrases import late_words
from edgecron.views.schedule_words import behind_words
from tests.support.forms import some_of
from tests.support.story import START_MS, Story


def _after_a_stop_of_70_s(path: Path, **policies: object) -> Story:
    """Thirty late one-shots of 20 s each, and a job of every 5 s."""
    story = Story(path)
    story.add("often", "every 5s", lasts_s=1, policies=Policies(**policies))  # type: ignore[arg-type]
    for number in range(30):
        story.add(f"once{number}", f"at {format_ms(START_MS + 8_000)}", lasts_s=20)
    story.after_s(5)
    story.after_s(1)
    story.world.clock.advance_ms(70_000)
    return story


@contextmanager
def _seen(story: Story) -> Iterator[None]:
    """Others see that the engine of a story is alive."""
    folder = prepare_state_dir(story.client.state_dir)
    engine_lock_path(folder, story.key).unlink()  # which nobody holds
    place = EngineFiles(folder, story.key)
    try:
        yield
    finally:
        place.close()


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE])
def test_the_backlog_of_one_schedule_keeps_no_other_from_its_live_fires(
    tmp_path: Path, overlap: Overlap
) -> None:
    story = _after_a_stop_of_70_s(tmp_path / "story.db", overlap=overlap)

    for _ in range(30):
        story.after_s(5)

    live = [run for run in story.runs("often") if run.plan_at > from_ms(START_MS + 81_000)]
    assert [run.status for run in live if run.reason is not None] == []
    assert len(live) == 29
    assert max(run.started_at - run.due_at for run in live if run.started_at).total_seconds() <= 5


def test_a_live_fire_takes_over_the_catch_up_that_waits_and_says_so(story: Story) -> None:
    for number in range(4):
        story.add(f"once{number}", f"at {format_ms(START_MS + 30_000)}", lasts_s=9_000)
    story.add("often", "*/5 * * * *", lasts_s=1)
    story.after_s(120)
    story.world.clock.advance_ms(2 * 3_600_000)
    for _ in range(2):
        story.engine.step()
    waiting = story.runs("often")[-1]

    story.after_s(180)

    missed, taken, run = story.runs("often")
    assert (waiting.status, waiting.cause) == (Status.QUEUED, Cause.CATCH_UP)
    assert (missed.reason, missed.missed_count) == (Reason.MISFIRE, 23)
    assert (taken.id, taken.status, taken.reason) == (waiting.id, Status.SKIPPED, Reason.MISFIRE)
    assert (taken.missed_from_at, taken.missed_count) == (waiting.plan_at, 1)
    assert (run.cause, run.started_at) == (Cause.SCHEDULE, run.plan_at)
    assert run.flags == (f"covers:24:{START_MS + 300_000}",)
    story.after_s(1)
    ended = story.runs("often")[-1]
    assert (ended.status, ended.flags) == (Status.SUCCESS, run.flags)


def test_a_catch_up_that_was_taken_over_costs_none_of_max_runs(story: Story) -> None:
    for number in range(4):
        story.add(f"once{number}", f"at {format_ms(START_MS + 30_000)}", lasts_s=9_000)
    story.add("often", "*/5 * * * *", max_runs=2)
    story.after_s(120)
    story.world.clock.advance_ms(2 * 3_600_000)

    for _ in range(20):
        story.after_s(60)

    statuses = [run.status for run in story.runs("often") if run.missed_count is None]
    assert statuses == [Status.SUCCESS, Status.SUCCESS]


def test_a_catch_up_taken_over_in_two_scopes_gives_one_run_back(story: Story) -> None:
    for number in range(4):
        story.add(f"once{number}", f"at {format_ms(START_MS + 30_000)}", lasts_s=9_000)
    story.add("often", "*/5 * * * *", max_runs=2, scopes=(("device", "a"), ("device", "b")))
    story.after_s(120)
    story.world.clock.advance_ms(2 * 3_600_000)

    for _ in range(30):
        story.after_s(60)

    ran = [run for run in story.runs("often") if run.missed_count is None]
    assert [run.status for run in ran] == [Status.SUCCESS] * 4


def test_a_backfill_that_waits_keeps_no_live_fire_from_taking_over(story: Story) -> None:
    for number in range(4):
        story.add(f"once{number}", f"at {format_ms(START_MS + 330_000)}", lasts_s=90_000)
    story.add("often", "*/5 * * * *", lasts_s=1)
    story.after_s(302)
    story.after_s(120)
    story.world.clock.advance_ms(2 * 3_600_000)
    for _ in range(2):
        story.engine.step()
    now = story.client.now()
    story.client.backfill("often", now - timedelta(hours=2), now - timedelta(hours=1))

    for _ in range(15):
        story.after_s(60)

    live = [run for run in story.runs("often") if run.cause is Cause.SCHEDULE]
    assert [run.status for run in live[-3:]] == [Status.SUCCESS] * 3


@pytest.mark.of_file
def test_a_time_that_is_decided_already_takes_no_catch_up_over(story: Story) -> None:
    for number in range(4):
        story.add(f"once{number}", f"at {format_ms(START_MS + 30_000)}", lasts_s=9_000)
    story.add("often", "*/5 * * * *", lasts_s=1)
    story.after_s(120)
    story.world.clock.advance_ms(2 * 3_600_000)
    for _ in range(2):
        story.engine.step()
    waiting = story.runs("often")[-1]
    due_ms = story.world.clock.now_ms() + 180_000
    connection = apsw.Connection(str(story.world.path))
    connection.execute(  # as a clock that was hours ahead leaves it
        """INSERT INTO executions (schedule_id, revision, plan_at, cause, due_at, queue, status,
               reason, finished_at)
           SELECT schedule_id, revision, :due, 'schedule', :due, queue, 'cancelled', 'request', :due
           FROM executions WHERE id = :id""",
        {"id": waiting.id, "due": due_ms},
    )
    connection.close()

    story.after_s(180)

    found = story.client.execution(waiting.id)
    assert (found.status, found.cause) == (Status.QUEUED, Cause.CATCH_UP)


def test_short_backlogs_go_before_long_ones(story: Story) -> None:
    story.add("long", "*/30 * * * *", lasts_s=400)
    story.add("short", "*/30 * * * *", lasts_s=2)
    story.add("medium", "*/30 * * * *", lasts_s=60)
    for _ in range(10):
        story.after_s(200)
    for number in range(2):
        story.add(
            f"now{number}", f"at {format_ms(story.world.clock.now_ms() + 1_000)}", lasts_s=200
        )
    story.world.clock.advance_ms(2 * 3_600_000 + 600_000)
    before = len(story.world.bodies)

    for _ in range(30):
        story.after_s(20)

    names = [body.schedule for body in story.world.bodies[before:]]
    assert names[:3] == ["short", "medium", "long"]


def test_a_late_run_that_can_not_start_costs_no_other_its_place(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=2)
    story.add("busy", "*/5 * * * *", lasts_s=90_000, policies=Policies(overlap=Overlap.QUEUE))
    story.add("once", f"at {format_ms(START_MS + 600_000)}", lasts_s=60)
    story.add("low", "@yearly", lasts_s=60, policies=Policies(priority=-10))
    story.client.run_now("busy")
    story.after_s(0)
    story.world.clock.advance_ms(2 * 3_600_000)
    story.client.run_now("low")

    story.engine.step()

    assert story.statuses("busy")[0] == story.statuses("once")[-1] == "running"
    assert story.statuses("low") == ["queued"]


def test_of_the_late_runs_of_one_schedule_the_newest_goes_first(story: Story) -> None:
    for number in range(2):
        story.add(f"once{number}", f"at {format_ms(START_MS + 30_000)}", lasts_s=11_000)
    story.add("many", "@hourly", lasts_s=2, policies=Policies(overlap=Overlap.ALLOW))
    story.after_s(300)
    for _ in range(3):
        story.after_s(3_600)

    for _ in range(100):
        story.after_s(5)

    order = [body.plan_ms for body in story.world.bodies if body.schedule == "many"]
    assert order == [START_MS + hour * 3_600_000 for hour in (3, 2, 1)]


@pytest.mark.of_file
def test_a_long_backlog_behind_a_run_of_its_schedule_costs_a_step_few_looks(story: Story) -> None:
    story.add("many", "*/5 * * * *", lasts_s=90_000, policies=Policies(catch_up=CatchUp.ALL))
    story.after_s(300)
    story.world.clock.advance_ms(8 * 3_600_000)
    story.engine.step()
    database = story.world.engines[story.key][1]
    looks: list[str] = []

    with database.in_use:
        database.connection.trace_v2(
            apsw.SQLITE_TRACE_STMT, lambda event: looks.append(event["sql"])
        )
    story.engine.step()
    with database.in_use:
        database.connection.trace_v2(0, None)

    assert story.statuses("many").count("queued") == 96
    assert 1 <= len([sql for sql in looks if "AS backlog" in sql]) <= 3


@pytest.mark.parametrize(
    ("overlap", "retries"), some_of(product((Overlap.SKIP, Overlap.QUEUE), (0, 1)), 3)
)
def test_live_times_that_come_while_all_is_caught_up_run_in_their_turn(
    story: Story, overlap: Overlap, retries: int
) -> None:
    policies = Policies(catch_up=CatchUp.ALL, overlap=overlap, retries=retries, retry_delay_s=20)
    story.add("often", "every 30s", lasts_s=20, code=retries, policies=policies)
    story.after_s(31)
    story.world.clock.advance_ms(300_000)

    for _ in range(150):
        story.after_s(5)

    runs = story.runs("often")
    assert [run.missed_count for run in runs if run.status is Status.SKIPPED] == []
    firsts = [run for run in runs if run.attempt == 1]
    assert [run.plan_at for run in firsts] == [
        from_ms(START_MS + 30_000 * number) for number in range(1, len(firsts) + 1)
    ]
    starts = [run.started_at for run in firsts if run.started_at]
    assert starts == sorted(starts)
    assert len(firsts) == 36


def test_a_job_that_is_too_slow_joins_no_more_than_a_hundred_and_none_without_a_downtime(
    story: Story,
) -> None:
    story.add("slow", "every 30s", lasts_s=100, policies=Policies(catch_up=CatchUp.ALL))
    for _ in range(10):
        story.after_s(30)
    skipped = [run.reason for run in story.runs("slow") if run.missed_count]
    story.world.clock.advance_ms(3_600_000)

    for _ in range(40):
        story.after_s(30)

    active = [run for run in story.runs("slow") if run.status in (Status.QUEUED, Status.RUNNING)]
    assert skipped == [Reason.OVERLAP] * 3
    assert len(active) == 100


def test_what_holds_the_late_places_is_named(tmp_path: Path) -> None:
    story = _after_a_stop_of_70_s(tmp_path / "story.db", overlap=Overlap.SKIP)
    with _seen(story):
        before = story.client.late_places()
        story.after_s(0)
        late = story.client.late_places()
        waiting = story.client.outlook("once29").late

    assert (before.held_by, before.waiting) == ((), 0)
    assert late.places == 2
    assert len(late.held_by) == 2
    assert [schedule for _, schedule in late.held_by] == ["once0", "often"]
    assert late.waiting == 29
    assert waiting == late
    assert late_words(late) == "2 running, at most 2 (once0, often); 29 more wait"


def test_a_schedule_that_engines_can_not_keep_up_with_is_named(story: Story) -> None:
    story.add("typo", "every 1ms", lasts_s=1)
    story.add("slow", "every 1s", lasts_s=30)  # Overlap is what it was given.
    story.add("daily", "@daily")
    for _ in range(20):
        story.after_s(3)

    with _seen(story):
        [behind] = story.client.behind()
        named = {name: story.client.outlook(name).behind for name in ("typo", "slow", "daily")}

    assert (behind.schedule, behind.due_per_minute, behind.places) == ("typo", 60_000, 8)
    assert behind.skipped > 50_000
    words = behind_words(behind, now=story.client.now())
    assert words.startswith("due 1,000 times a second, places for 8; 5")
    assert words.endswith(" times skipped, the first 57s ago")
    assert named == {"typo": behind, "slow": None, "daily": None}


def test_a_schedule_that_an_engine_got_to_late_every_time_is_named(story: Story) -> None:
    story.add("often", "every 1s")
    story.engine.step()
    for _ in range(20):
        story.after_s(5)
    with _seen(story):
        behind = story.client.behind()
        story.client.pause("often")
        paused = story.client.behind()
        story.client.resume("often")
        story.world.clock.advance_ms(3_600_000)
        later = story.client.behind()
    gone = story.client.behind()

    assert [(one.schedule, one.skipped, one.due_per_minute) for one in behind] == [
        ("often", 80, 60)
    ]
    assert (paused, later, gone) == ([], [], [])
