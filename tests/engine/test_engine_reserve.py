"""What an engine claims beyond its places, for a runner that starts it as soon as one is free."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.engine.fire import FIRST_CHUNK
from edgecron.model.choices import Overlap, Status
from edgecron.model.listing import RunChoice
from edgecron.model.options import Policies
from edgecron.model.run import Execution
from edgecron.supervisor.runner import RESERVE_MS
from tests.support.story import Story

HOUR_MS = 3_600_000
MANY = Policies(overlap=Overlap.ALLOW)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "story.db", max_running=2)


def queue(story: Story, name: str, count: int, *, lasts_s: int = 0) -> None:
    story.add(name, "@yearly", lasts_s=lasts_s, policies=MANY)
    for _ in range(count):
        story.client.run_now(name)


def running(story: Story) -> list[Execution]:
    return story.client.history(choice=RunChoice(statuses=(Status.RUNNING,)), limit=1000)


def test_short_runs_are_claimed_beyond_the_places(story: Story) -> None:
    queue(story, "short", 40)

    claimed = []
    while any(run.status is Status.QUEUED for run in story.runs("short")):
        claimed.append(story.engine.step().claimed)

    assert claimed[:2] == [2, 2]
    assert max(claimed) > 8  # The more end within a tenth of a second, the more are claimed.
    story.after_s(0)
    assert story.statuses("short") == ["success"] * 40
    assert story.bodies("short") == 40


def test_long_runs_are_not(story: Story) -> None:
    queue(story, "long", 12, lasts_s=1)

    for _ in range(4):
        story.after_s(1)
        assert len(running(story)) == 2


def test_what_waits_for_a_place_in_vain_is_queued_again(story: Story) -> None:
    queue(story, "short", 12)
    queue(story, "long", 12, lasts_s=60)
    while story.runs("short")[-1].status is not Status.SUCCESS:
        story.engine.step()
    story.engine.step()
    beyond = len(running(story)) - 2
    assert beyond > 0
    assert story.bodies("long") == 2

    story.after_s(RESERVE_MS / 1000)

    assert len(running(story)) == 2
    story.after_s(RESERVE_MS / 1000)
    # The log does not show it: these runs have waited all the time.
    assert not [event for event in story.world.events if event.kind == "requeued"]
    started = [event.schedule for event in story.world.events if event.kind == "started"]
    assert started.count("long") == story.bodies("long")
    other = story.world.start_engine(max_running=4)
    story.world.step(other)
    assert len(running(story)) == 6
    assert story.bodies("long") == 6
    for _ in range(5):
        story.after_s(60)
        story.world.step(other)
    assert story.statuses("long") == ["success"] * 12
    assert story.bodies("long") == 12


def test_a_fire_that_waits_for_a_place_in_vain_is_reported_as_queued(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=8)
    make_due(story, 400, long_from=40)
    story.engine.step()
    story.engine.step()

    for _ in range(10):
        story.after_s(RESERVE_MS / 1000)

    kinds = {event.kind for event in story.world.events if event.execution_id is not None}
    assert kinds == {"queued", "started", "ended"}
    started = [event.execution_id for event in story.world.events if event.kind == "started"]
    assert len(started) == len(set(started)) == len(story.world.bodies)


def test_a_reserved_run_that_lasts_is_reported_once_it_has_started(story: Story) -> None:
    queue(story, "short", 12)
    queue(story, "long", 12, lasts_s=1)
    while story.runs("short")[-1].status is not Status.SUCCESS:
        story.engine.step()
    for _ in range(100):
        story.engine.step()
        story.world.clock.advance_ms(100)
        started = [event.schedule for event in story.world.events if event.kind == "started"]
        assert started.count("long") <= story.bodies("long")
    assert started.count("long") == 12


def test_all_that_is_queued_again_shares_one_transaction(story: Story) -> None:
    queue(story, "short", 12)
    queue(story, "long", 12, lasts_s=60)
    while story.runs("short")[-1].status is not Status.SUCCESS:
        story.engine.step()
    story.engine.step()
    assert len(running(story)) > 4
    connection = story.world.engines[story.key][1].connection
    begun: list[str] = []
    connection.exec_trace = lambda cursor, sql, bindings: (
        begun.append(sql) if sql == "BEGIN IMMEDIATE" else None,
        True,
    )[1]

    story.world.clock.advance_ms(RESERVE_MS)
    story.engine.step()

    connection.exec_trace = None
    assert len(running(story)) == 2
    assert len(begun) == 1


def test_a_burst_limit_allows_none(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=2, burst=1000)
    queue(story, "short", 30)

    while story.runs("short")[-1].status is Status.QUEUED:
        assert story.engine.step().claimed <= 2


def test_a_group_s_limit_holds_for_the_reserve_too(story: Story) -> None:
    story.client.limit_group("disk", 3)
    story.add("short", "@yearly", policies=MANY, group="disk")
    for _ in range(30):
        story.client.run_now("short")

    while story.runs("short")[-1].status is Status.QUEUED:
        story.engine.step()
        assert len(running(story)) <= 3


def make_due(story: Story, count: int, *, long_from: int | None = None) -> None:
    """So many schedules that are due now; those from a number on run for a minute."""
    for number in range(count):
        is_long = long_from is not None and number >= long_from
        story.add(f"job-{number:03}", "every 1h", lasts_s=60 if is_long else 0)
    story.engine.step()
    story.world.clock.advance_ms(HOUR_MS)


def count_decided(story: Story) -> int:
    return len(story.client.history(limit=1000))


def test_what_is_due_while_short_runs_have_all_places_starts_without_a_queue(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path / "story.db", max_running=8)
    make_due(story, 400)

    queued = []
    while count_decided(story) < 400:
        step = story.engine.step()
        queued.append(story.client.active_counts().get(Status.QUEUED, 0))
        left = 400 - count_decided(story)
        if left and story.engine.runners.unended_count > 8:
            assert step.wake_ms == story.world.clock.now_ms() + 100

    assert queued[0] == FIRST_CHUNK - 8
    assert queued[1:] == [0] * (len(queued) - 1)
    story.after_s(0)
    assert sum(story.bodies(f"job-{number:03}") for number in range(400)) == 400


def test_what_is_left_undecided_is_queued_as_soon_as_the_runs_turn_out_long(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path / "story.db", max_running=8)
    make_due(story, 400, long_from=40)
    story.engine.step()
    story.engine.step()
    assert count_decided(story) < 200

    story.after_s(0.1)  # The last short ones end.
    story.after_s(0.1)

    assert count_decided(story) == 400


def test_a_due_schedule_of_high_priority_starts_before_what_was_due_earlier(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path / "story.db", max_running=8)
    story.add("urgent", "every 1h", policies=Policies(priority=5))
    make_due(story, 400)
    story.world.clock.advance_ms(1)

    story.engine.step()
    story.engine.step()

    assert story.statuses("urgent") == ["success"]
