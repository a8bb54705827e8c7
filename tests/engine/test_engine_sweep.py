"""A clock that was wrong for very many schedules: they are put right beside other work."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from edgecron.engine.events import Event, EventKind
from edgecron.model.choices import JobKind, Overlap, Status
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from tests.support.clock import PacedClock
from tests.support.story import START_MS, Story

DAY_MS = 86_400_000
MANY = 1_100


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """An engine beside many schedules, by a clock that is ten days ahead."""
    found = Story(tmp_path / "story.db")
    found.world.clock.step_ms(10 * DAY_MS)
    found.after_s(0)
    job = Job(kind=JobKind.COMMAND, argv=("job", "0", "0"))
    found.client.add_all(
        [
            ScheduleSpec(name=f"many{number}", triggers=("0 9 * * *",), job=job)
            for number in range(MANY)
        ]
    )
    found.after_s(0)
    return found


def count_wrong(story: Story) -> int:
    """How many schedules are decided further than the clock says."""
    [(count,)] = story.world.look(
        "SELECT count(*) FROM schedules WHERE decided_until > :now",
        {"now": story.world.clock.now_ms()},
    )
    return int(count)


def test_an_engine_serves_runs_while_it_puts_many_schedules_right(story: Story) -> None:
    story.add("asked", "at 2100-01-01T00:00:00Z")

    story.world.clock.step_ms(-10 * DAY_MS)
    story.client.run_now("asked")
    first = story.engine.step()
    wrong = [count_wrong(story)]
    story.engine.step()
    asked = story.statuses("asked")
    steps = 2
    while count_wrong(story):
        wrong.append(count_wrong(story))
        story.engine.step()
        steps += 1
    last = story.engine.step()

    now_ms = story.world.clock.now_ms()
    assert MANY > wrong[0] > wrong[-1] > 0
    assert steps <= 6
    assert first.wake_ms == now_ms
    assert asked == [Status.SUCCESS]
    assert last.wake_ms is None or last.wake_ms > now_ms
    assert story.client.history("many7") == []


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    """A slow engine in Berlin beside many local schedules, which then moves to Tokyo."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    clock = PacedClock(START_MS)
    found = Story(tmp_path / "slow.db", clock=clock)
    job = Job(kind=JobKind.COMMAND, argv=("job", "0", "0"))
    found.client.add_all(
        [
            ScheduleSpec(name=f"many{number}", triggers=("0 9 * * *",), timezone="local", job=job)
            for number in range(MANY)
        ]
    )
    found.after_s(0)
    clock.pace_ms = 20
    clock.advance_ms(31_000)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    return found


def count_at(story: Story, hour: int) -> int:
    """How many schedules run next at this hour of UTC."""
    [(count,)] = story.world.look(
        "SELECT count(*) FROM schedules WHERE next_plan_at / 3600000 % 24 = :hour", {"hour": hour}
    )
    return int(count)


def told(story: Story, kind: EventKind) -> list[Event]:
    return [event for event in story.world.events if event.kind is kind]


def test_many_schedules_get_another_zone_in_short_steps_between_which_others_run(
    slow: Story,
) -> None:
    slow.add("asked", "at 2100-01-01T00:00:00Z", policies=Policies(overlap=Overlap.ALLOW))
    counts = [0]
    while counts[-1] < MANY:
        slow.client.run_now("asked")
        slow.engine.step()
        counts.append(count_at(slow, 0))
    slow.engine.step()

    assert max(after - before for before, after in pairwise(counts)) <= 4 * 64
    assert slow.statuses("asked") == [Status.SUCCESS] * (len(counts) - 1)
    assert len(told(slow, EventKind.RETIMED)) == MANY


def test_what_takes_long_is_logged_twice(slow: Story) -> None:
    while count_at(slow, 0) < MANY:
        slow.engine.step()

    assert len(told(slow, EventKind.CHECKING_TIMES)) == 1
    [ended] = told(slow, EventKind.TIMES_CHECKED)
    took_s = ended.details["took_s"]
    assert ended.details["changed"] == MANY
    assert isinstance(took_s, float)
    assert 1 < took_s < 60


def test_a_restart_changes_no_schedule_again(slow: Story) -> None:
    for _ in range(5):
        slow.engine.step()
    halfway = count_at(slow, 0)

    slow.world.kill_engine(slow.key)
    slow.key = slow.world.start_engine()
    while count_at(slow, 0) < MANY:
        slow.engine.step()
    slow.engine.step()

    assert 0 < halfway < MANY
    assert len(told(slow, EventKind.RETIMED)) == MANY


def test_a_zone_that_changes_again_before_all_schedules_have_it(
    slow: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        slow.engine.step()
    halfway = count_at(slow, 0)

    monkeypatch.setenv("TZ", "America/New_York")
    for _ in range(200):
        slow.engine.step()

    assert 0 < halfway < MANY
    assert count_at(slow, 13) == MANY
