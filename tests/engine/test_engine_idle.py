"""What an engine with nothing to do looks after now and then, and what makes it step."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edgecron.engine.events import EventKind
from edgecron.engine.recovery import Recovery
from edgecron.engine.sleep import SAFETY_MS
from edgecron.store.sqlite.store import open_store
from tests.simulation.world import SimEngines
from tests.support.story import Story

HOUR_MS = 3_600_000


@pytest.fixture
def story(tmp_path: Path) -> Story:
    story = Story(tmp_path / "story.db")
    # By an earlier clock than that of its release each step would write the trusted mark.
    story.world.clock.set_to(datetime(2026, 11, 20, 8, 0, tzinfo=UTC))
    return story


def settle(story: Story) -> None:
    """Have the engine look at everything, and sleep until it is time to look again."""
    story.world.clock.advance_ms(SAFETY_MS)
    story.engine.step()
    story.engine.prepare()
    story.world.clock.advance_ms(SAFETY_MS)


def traced(story: Story) -> list[str]:
    """The statements of the engine from here on, as they come."""
    asked: list[str] = []

    def trace(_cursor: object, sql: str, _bindings: object) -> bool:
        asked.append(" ".join(sql.split()))
        return True

    _, store = story.world.engines[story.key]
    store.connection.exec_trace = trace
    return asked


def test_an_idle_engine_looks_around_without_a_step(story: Story) -> None:
    story.add("later", "@yearly")
    settle(story)
    asked = traced(story)

    found = []
    for _ in range(5):
        found.append(story.engine.has_changed())
        story.world.clock.advance_ms(SAFETY_MS)

    assert found == [False] * 5
    assert len(asked) == 5 * 3  # the change mark, the engines, what runs
    assert not [sql for sql in asked if not sql.startswith(("PRAGMA data_version", "SELECT"))]


def test_having_looked_it_does_not_look_again_at_once(story: Story) -> None:
    settle(story)
    story.engine.has_changed()
    asked = traced(story)

    is_found = story.engine.has_changed()

    assert not is_found
    assert asked == ["PRAGMA data_version"]


@pytest.mark.failure(19)
def test_a_peer_that_died_while_nobody_wrote_is_found_by_the_look(story: Story) -> None:
    peer = story.world.start_engine()
    story.world.step(peer)
    settle(story)
    before = story.engine.has_changed()

    story.world.kill_engine(peer)
    story.world.clock.advance_ms(SAFETY_MS)
    is_found = story.engine.has_changed()
    story.engine.step()

    assert (before, is_found) == (False, True)
    assert story.engine.recovery.live_engines == ()


def test_a_peer_that_came_between_a_look_and_the_end_of_its_step_is_watched(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(story)
    look = Recovery.look
    came: list[Any] = []

    def look_and_meet(recovery: Recovery, engine_id: int) -> object:
        found = look(recovery, engine_id)
        if not came:
            came.append(story.world.start_engine())
            story.world.step(came[0])
        return found

    with monkeypatch.context() as meeting:
        meeting.setattr(Recovery, "look", look_and_meet)
        story.engine.step()
    unwatched = story.engine.recovery.live_engines
    story.world.clock.advance_ms(SAFETY_MS)
    is_found = story.engine.has_changed()
    story.engine.step()

    assert unwatched == ()
    assert is_found
    assert [one.key for one in story.engine.recovery.live_engines] == came


@pytest.mark.failure(19)
def test_what_an_engine_that_stopped_left_running_is_found_by_the_look(story: Story) -> None:
    peer = story.world.start_engine()
    story.add("slow", "every 1h", lasts_s=7200)
    story.world.clock.advance_ms(3_600_000)
    story.world.step(peer)
    settle(story)
    before = story.engine.has_changed()

    # It leaves the database in order, and only then its process ends: nothing is written then.
    story.world.engines[peer][0].retire()
    story.engine.step()
    story.world.kill_engine(peer)
    story.world.clock.advance_ms(SAFETY_MS)
    is_found = story.engine.has_changed()
    story.engine.step()

    assert (before, is_found) == (False, True)
    assert [event.kind for event in story.world.events].count(EventKind.ADOPTED) == 1


@pytest.mark.failure(18)
def test_a_dead_supervisor_whose_files_are_left_is_found_by_the_look(story: Story) -> None:
    settle(story)
    left = story.world.start_runner("gone", places=1).supervisor_id
    story.world.kill_supervisor(left)

    is_found = story.engine.has_changed()
    story.engine.step()

    assert is_found
    assert left not in story.world.supervisors


def test_files_of_engines_that_nobody_knows_are_cleared_away_without_a_step(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[set[str]] = []
    monkeypatch.setattr(
        SimEngines, "remove_dead_files", lambda _self, known, now_ms: cleared.append(set(known))
    )
    settle(story)
    del cleared[:]

    is_found = story.engine.has_changed()

    assert not is_found
    assert cleared == [{story.key}]


def test_an_engine_that_runs_something_steps_now_and_then(story: Story) -> None:
    story.add("slow", "every 1h", lasts_s=7200)
    story.after_s(3600)
    story.world.clock.advance_ms(SAFETY_MS)

    assert story.engine.has_changed()


def test_another_local_zone_makes_an_idle_engine_step(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(story)
    before = story.engine.has_changed()
    story.world.clock.advance_ms(SAFETY_MS)

    monkeypatch.setenv("TZ", "Asia/Tokyo")

    assert not before
    assert os.environ["TZ"] == "Asia/Tokyo"
    assert story.engine.has_changed()


@pytest.mark.parametrize("is_synchronised", [True, None])
def test_a_trusted_mark_that_has_grown_old_makes_an_idle_engine_step(
    story: Story, is_synchronised: bool | None
) -> None:
    settle(story)
    before = stored_mark(story.world.path)
    story.world.clock.synchronised = is_synchronised

    hours = 0
    while not story.engine.has_changed():
        story.world.clock.advance_ms(HOUR_MS)
        hours += 1
    story.engine.step()

    assert hours == 24
    after = stored_mark(story.world.path)
    assert before is not None
    assert after is not None
    assert after - before >= 24 * HOUR_MS


def test_a_clock_that_is_slewed_is_never_taken_for_one_that_was_set(story: Story) -> None:
    settle(story)

    found = []
    for _ in range(5):
        story.world.clock.step_ms(400)
        found.append(story.engine.has_changed())
        story.world.clock.advance_ms(SAFETY_MS)
    story.engine.step()

    assert found == [False] * 5
    assert EventKind.CLOCK_SET not in [event.kind for event in story.world.events]


def test_a_kernel_that_calls_its_clock_right_makes_an_idle_engine_step(story: Story) -> None:
    story.world.clock.synchronised = False
    story.world.clock.advance_ms(30 * 24 * HOUR_MS)  # plausible still, and beyond the mark
    settle(story)
    before = story.engine.has_changed()
    story.world.clock.advance_ms(SAFETY_MS)

    story.world.clock.synchronised = True

    assert not before
    assert story.engine.has_changed()


def stored_mark(path: Path) -> int | None:
    store = open_store(path, now_ms=0)
    try:
        return store.find_clock_marks().trusted_high_ms
    finally:
        store.close()


def test_what_is_due_at_one_instant_is_loaded_a_part_at_a_time(story: Story) -> None:
    for number in range(130):
        story.add(f"s{number}", "@yearly")
    story.engine.step()
    asked = traced(story)

    story.engine.prepare()

    loads = [sql for sql in asked if "FROM schedule_revisions" in sql or "snapshot" in sql]
    assert len(loads) == 3


def test_a_step_asks_once_for_a_few_due_schedules(story: Story) -> None:
    for number in range(3):
        story.add(f"s{number}", "0 * * * *")
    settle(story)
    story.world.clock.advance_ms(HOUR_MS - 2 * SAFETY_MS)
    asked = traced(story)

    step = story.engine.step()

    assert step.claimed == 3
    assert len([sql for sql in asked if "next_source, repeats_since FROM schedules" in sql]) == 1
