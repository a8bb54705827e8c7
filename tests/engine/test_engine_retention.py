"""Retention by an engine, told by hand: when it removes, how, and when it leaves it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from edgecron.base.errors import NotFound
from edgecron.base.units import from_ms
from edgecron.client import Client
from edgecron.engine import upkeep
from edgecron.engine.events import EventKind
from edgecron.model.choices import Status
from edgecron.model.options import Policies
from edgecron.planning.retention import Retention
from edgecron.store.sqlite.connection import Database
from tests.simulation.world import World
from tests.support.story import START_MS, Story

HOUR_S = 3600
FEW = Retention(history_count=5)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """One engine that keeps five runs of each schedule."""
    story = Story(tmp_path / "story.db")
    story.world.kill_engine(story.key)
    story.key = story.world.start_engine(retention=FEW)
    return story


def pruned(story: Story) -> list[dict[str, object]]:
    return [dict(event.details) for event in story.world.events if event.kind is EventKind.PRUNED]


def test_an_engine_removes_once_an_hour_what_is_too_much(story: Story) -> None:
    story.add("job", "* * * * *")

    for _ in range(125):
        story.after_s(60)
        while story.engine.step().wake_ms == story.world.clock.now_ms() + 2:
            pass

    # The first pass comes a minute after the start and finds nothing.
    passes = pruned(story)
    assert [one["runs"] for one in passes] == [56, 60]
    assert len(story.runs("job")) < 15


def test_after_many_ends_an_engine_does_not_wait_for_its_hour(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MANY_ENDS", 15)
    story.add("job", "* * * * *")

    for _ in range(40):
        story.after_s(60)
        while story.engine.step().wake_ms == story.world.clock.now_ms() + 2:
            pass

    assert [one["runs"] for one in pruned(story)] == [10, 15]
    assert len(story.runs("job")) < 20


def test_a_pass_goes_on_after_what_is_due_and_without_sleep(story: Story) -> None:
    story.add("job", "* * * * *")
    for _ in range(60):
        story.after_s(60)
    story.world.clock.advance_ms(60_000)

    first = story.engine.step()

    assert first.claimed == 1
    wakes = []
    while len(story.runs("job")) > 6:
        wakes.append(story.engine.step().wake_ms)
    assert set(wakes) <= {story.world.clock.now_ms() + 2}


def test_an_idle_engine_removes_nothing_and_is_not_woken_for_it(story: Story) -> None:
    story.add("job", "* * * * *")
    for _ in range(20):
        story.after_s(60)
    story.client.pause("job")
    story.engine.step()
    before = story.runs("job")

    wakes = []
    for _ in range(5):
        story.world.clock.advance_ms(HOUR_S * 1000)
        wakes.append(story.engine.step().wake_ms)

    assert wakes == [None] * 5
    assert story.runs("job") == before


def test_of_two_engines_one_removes(story: Story) -> None:
    other = story.world.start_engine(retention=FEW)
    story.add("job", "* * * * *")
    story.add("more", "* * * * *")

    for _ in range(70):
        story.world.clock.advance_ms(60_000)
        for _ in range(4):
            for key in (story.key, other):
                story.world.step(key)

    assert len(pruned(story)) == 1
    assert len(story.runs("job")) < 20


def test_an_engine_for_one_run_removes_nothing(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db")
    story.add("job", "* * * * *")

    for _ in range(70):
        story.after_s(60)

    # Nor does one without limits, which this is.
    assert len(story.runs("job")) == 70
    assert pruned(story) == []


def test_a_database_that_fails_during_a_pass_ends_it_and_nothing_else(story: Story) -> None:
    story.add("job", "* * * * *")
    for _ in range(61):
        story.after_s(60)
    blocker = Database(story.world.path)
    store = story.world.engines[story.key][1]
    store.wait_at_most(0.001)

    with blocker.transaction():
        story.world.step(story.key)
    for _ in range(65):
        story.after_s(60)
        for _ in range(6):
            story.engine.step()

    blocker.close()
    assert len(story.runs("job")) < 15
    assert story.bodies("job") == 126


@pytest.mark.failure(5)
def test_by_a_clock_that_can_not_be_trusted_no_history_is_too_old(tmp_path: Path) -> None:
    world = World(tmp_path / "story.db", random=Random(0), start_ms=START_MS)
    client = Client(world.path, clock=world.clock)
    story = Story(tmp_path / "story.db")
    story.add("job", "every 1m")
    for _ in range(5):
        story.after_s(60)
    clock = story.world.clock
    story.world.kill_engine(story.key)
    clock.synchronised = None
    clock.step_ms(3000 * 24 * HOUR_S * 1000)
    story.key = story.world.start_engine(
        retention=Retention(history_age_s=24 * HOUR_S), clock_wait_ms=0
    )

    for _ in range(5):
        story.after_s(60)
        for _ in range(4):
            story.engine.step()

    assert len(story.runs("job")) >= 5
    assert pruned(story) == []
    client.close()


@pytest.mark.failure(5)
@pytest.mark.parametrize(("synchronised", "left"), [(True, 1), (None, 5)])
def test_by_a_clock_that_nothing_keeps_right_history_is_as_old_as_has_surely_passed(
    tmp_path: Path, synchronised: bool | None, left: int
) -> None:
    story = Story(tmp_path / "story.db")
    story.add("past", "every 1m")
    story.add("job", "every 1m")
    for _ in range(5):
        story.after_s(60)
    story.client.pause("past")
    clock = story.world.clock
    story.world.kill_engine(story.key)
    clock.synchronised = synchronised
    clock.step_ms(365 * 24 * HOUR_S * 1000)
    story.key = story.world.start_engine(retention=Retention(history_age_s=100 * 24 * HOUR_S))

    for _ in range(5):
        story.after_s(60)
        for _ in range(4):
            story.engine.step()

    assert len([row for row in story.runs("past") if row.status is Status.SUCCESS]) == left


def test_what_went_is_not_backfilled(story: Story) -> None:
    story.add("job", "* * * * *")
    for _ in range(12):
        story.after_s(60)
    since, until = from_ms(START_MS), story.world.clock.now()
    story.client.prune(retention=FEW)

    plan = story.client.plan_backfill("job", since, until)
    ids = story.client.backfill("job", since, until)

    # The minute at which it was made is not one of its own, and never ran.
    assert (len(plan.succeeded), plan.forgotten_count) == (5, 8)
    assert (plan.wanted, ids) == ((), [])


def test_a_clock_that_was_ahead_runs_nothing_again_whose_row_went(story: Story) -> None:
    story.add("job", "*/10 * * * *")
    story.world.clock.step_ms(48 * HOUR_S * 1000)
    story.after_s(1)
    for _ in range(30):
        story.after_s(600)
    story.client.prune(retention=Retention(history_count=1))
    plans = {body.plan_ms for body in story.world.bodies}

    story.world.clock.step_ms(-4 * HOUR_S * 1000)
    for _ in range(60):
        story.after_s(600)

    again = [body.plan_ms for body in story.world.bodies]
    assert len(again) == len(set(again))
    assert set(again) > plans


def test_the_last_run_is_known_after_everything_else_went(story: Story) -> None:
    story.add("job", "* * * * *", policies=Policies(retries=0))
    for _ in range(10):
        story.after_s(60)
    newest = story.runs("job")[-1]

    story.client.prune(retention=Retention(history_count=1))

    assert story.client.last_run("job") == newest
    assert story.client.schedule("job").run_count == 10
    with pytest.raises(NotFound, match="run 1 was removed by retention"):
        story.client.execution(1)


def test_a_prune_of_one_that_is_not_there_is_refused(story: Story) -> None:
    with pytest.raises(NotFound):
        story.client.prune("nope")
