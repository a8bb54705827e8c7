"""How fast, and in which order, what is due together starts."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecron.model.choices import CatchUp, Cause, Overlap
from edgecron.model.options import Policies
from edgecron.planning.admission import Burst
from tests.support.clock import FakeClock
from tests.support.engines import Place
from tests.support.story import START_MS, Story

HOUR_S = 3600


# The bucket.


def test_without_a_bound_everything_may_start() -> None:
    burst = Burst(None)

    burst.take(1_000_000, 0)

    assert burst.free(0) is None
    assert burst.wait_ms(0) is None


def test_a_token_comes_back_a_second_after_it_was_taken() -> None:
    burst = Burst(3)

    burst.take(2, 1_000)
    burst.take(1, 1_400)

    assert [burst.free(ms) for ms in (1_400, 1_999, 2_000, 2_399, 2_400)] == [0, 0, 2, 2, 3]
    assert Burst(3).wait_ms(0) is None


def test_it_says_how_long_to_wait() -> None:
    burst = Burst(2)
    burst.take(2, 1_000)

    assert burst.wait_ms(1_250) == 750
    assert burst.wait_ms(2_000) is None


@given(
    most=st.integers(1, 5),
    asks=st.lists(st.tuples(st.integers(0, 700), st.integers(0, 8)), max_size=60),
)
def test_no_second_holds_more_starts_than_there_are_tokens(
    most: int, asks: list[tuple[int, int]]
) -> None:
    burst = Burst(most)
    now_ms, starts = 0, []
    for wait_ms, wanted in asks:
        now_ms += wait_ms
        free = burst.free(now_ms)
        assert free is not None
        assert (burst.wait_ms(now_ms) is None) == (free > 0)
        taken = min(wanted, free)
        burst.take(taken, now_ms)
        starts += [now_ms] * taken

    for at in starts:
        assert sum(at <= other < at + 1000 for other in starts) <= most


# The engine.


@pytest.mark.failure(49)
def test_what_is_due_together_starts_a_few_a_second(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=100, burst=5)
    for number in range(18):
        story.add(f"s{number}", "@hourly")
    story.add("urgent", "@hourly", policies=Policies(priority=10))

    story.after_s(HOUR_S)
    decided = sum(len(story.runs(f"s{number}")) for number in range(18))
    wakes = []
    for _ in range(3):
        step = story.engine.step()
        assert step.wake_ms is not None
        wakes.append(step.wake_ms - story.world.clock.now_ms())
        story.world.clock.advance_ms(wakes[-1])
        story.engine.step()
    last = story.engine.step()

    starts = Counter(body.started_ms for body in story.world.bodies)
    assert decided == 18  # at once, as ever
    assert wakes == [1000] * 3
    assert [starts[START_MS + (HOUR_S + second) * 1000] for second in range(4)] == [5, 5, 5, 4]
    assert story.world.bodies[0].schedule == "urgent"
    assert last.wake_ms == START_MS + 2 * HOUR_S * 1000  # nothing is kept back any more


def test_runs_by_hand_count_as_well(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", burst=1)
    for name in ("a", "b"):
        story.add(name, "@yearly")
        story.client.run_now(name)

    story.after_s(0)
    first = len(story.world.bodies)
    story.after_s(1)

    assert (first, len(story.world.bodies)) == (1, 2)


def test_a_bound_on_starts_is_no_reason_to_wake_where_nothing_waits(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", burst=1)
    story.add("a", "@hourly")

    story.after_s(HOUR_S)

    assert story.engine.step().wake_ms == START_MS + 2 * HOUR_S * 1000


class Ticking(FakeClock):
    """A clock that goes on by a millisecond whenever it is read."""

    def monotonic_ms(self) -> int:
        self.advance_ms(1)
        return super().monotonic_ms()


@pytest.mark.parametrize("early_ms", range(12))
def test_a_start_that_is_allowed_while_a_step_goes_on_is_not_forgotten(
    tmp_path: Path, early_ms: int
) -> None:
    story = Story(tmp_path / "story.db")
    for name in ("a", "b", "c", "d"):
        story.add(name, "@yearly")
        story.client.run_now(name)
    story.world.clock = Ticking(START_MS)
    story.world.kill_engine(story.key)
    story.key = story.world.start_engine(burst=1)

    for _ in range(200):
        step = story.engine.step()
        if len(story.world.bodies) == 4:
            break
        assert step.wake_ms is not None
        wait_ms = step.wake_ms - story.world.clock.now_ms()
        assert wait_ms < 2000, "nothing wakes it for what is queued"
        # Somewhat too early, as a timer of another clock may be.
        story.world.clock.advance_ms(max(0, wait_ms - early_ms))

    assert len(story.world.bodies) == 4


# What came late.


@pytest.mark.failure(50)
def test_a_resume_with_hundreds_of_catch_ups_leaves_places_to_what_is_on_time(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path / "story.db", max_running=8)
    for number in range(300):
        policies = Policies(priority=10 if number == 299 else 0)
        story.add(f"late{number}", "@daily", lasts_s=600, policies=policies)
    for number in range(6):
        story.add(f"now{number}", "at 2026-03-09T02:00:00Z", lasts_s=600)

    story.after_s(6 * HOUR_S - 1800)  # asleep until half past one
    late = [body.schedule for body in story.world.bodies]
    story.after_s(1200)
    story.after_s(600)

    running = [body.schedule for body in story.world.bodies if body.started_ms + 600_000
               > story.world.clock.now_ms()]  # fmt: skip
    assert late[0] == "late299"  # by priority
    assert len(late) == 2  # a quarter of eight
    assert sum(name.startswith("now") for name in running) == 6  # all, and at once
    assert sum(name.startswith("late") for name in running) == 2
    started = {body.schedule: body.started_ms for body in story.world.bodies}
    assert all(started[f"now{number}"] == START_MS + 6 * HOUR_S * 1000 for number in range(6))


@pytest.mark.failure(50)
def test_catch_ups_run_a_few_at_a_time_until_all_have_run(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=12)
    for number in range(30):
        story.add(f"late{number}", "@daily", lasts_s=60)

    story.after_s(5 * HOUR_S)
    most = 0
    for _ in range(12):
        now_ms = story.world.clock.now_ms()
        running = [body for body in story.world.bodies if body.started_ms <= now_ms < body.ends_ms]
        most = max(most, len(running))
        story.after_s(60)

    assert most == 3
    assert len(story.world.bodies) == 30
    assert {run.cause for run in story.client.history(limit=100)} == {Cause.CATCH_UP}


@pytest.mark.failure(28)
def test_catch_up_meets_overlap_queue_within_its_share_of_places(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=8)
    for number in range(5):
        policies = Policies(overlap=Overlap.QUEUE, catch_up=CatchUp.ALL)
        story.add(f"late{number}", "*/15 * * * *", lasts_s=30, policies=policies)

    story.after_s(HOUR_S + 90)

    late = [run for run in story.client.history(limit=100) if run.cause is Cause.CATCH_UP]
    assert Counter(str(run.status) for run in late) == {"running": 2, "queued": 18}


def test_one_place_is_enough_to_catch_up(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=1)
    for number in range(3):
        story.add(f"late{number}", "@daily")

    story.after_s(5 * HOUR_S)
    for _ in range(4):
        story.after_s(0)

    assert len(story.world.bodies) == 3


# A real engine.


def test_a_daemon_starts_no_more_in_a_second_than_it_was_told(place: Place) -> None:
    for name in ("a", "b", "c"):
        place.add(name, "@yearly", "true")
        place.client.run_now(name)

    daemon = place.daemon("--burst", "1")
    for _ in range(3):
        daemon.wait_for("ended")

    # What is claimed starts at once, or a moment later on a busy machine.
    starts = sorted(run.claimed_at for name in "abc" for run in place.runs(name) if run.claimed_at)
    gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(starts)]
    assert len(gaps) == 2
    assert all(gap >= 0.99 for gap in gaps)  # wall time, which may be slewed, in milliseconds
