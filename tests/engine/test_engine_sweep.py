"""A clock that was wrong for very many schedules: they are put right beside other work."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.base.units import from_ms
from edgecron.model.choices import JobKind, Status
from edgecron.model.options import Job
from edgecron.model.schedule import ScheduleSpec
from tests.support.story import Story

DAY_MS = 86_400_000
MANY = 1_500


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
    now = from_ms(story.world.clock.now_ms())
    return sum(one.decided_until > now for one in story.client.schedules())


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
