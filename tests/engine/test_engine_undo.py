"""An undo decides no time again: nothing runs twice, and nothing is forgotten."""

from __future__ import annotations

from edgecron.base.values import replace
from tests.support.story import Story

MINUTE_S = 60.0


def test_nothing_runs_twice_because_of_an_undo(story: Story) -> None:
    story.add("hourly", "0 * * * *")
    story.after_s(60 * MINUTE_S)
    story.client.edit("hourly", lambda spec: replace(spec, triggers=("0,30 * * * *",)))
    story.after_s(30 * MINUTE_S)
    story.client.undo("hourly")
    story.after_s(1)
    story.client.undo("hourly")
    story.after_s(1)
    story.after_s(30 * MINUTE_S)

    plans = [run.plan_at for run in story.runs("hourly")]

    assert len(plans) == len(set(plans)) == story.bodies("hourly") == 3


def test_times_that_passed_before_an_undo_are_recorded_once(story: Story) -> None:
    story.add("hourly", "0 * * * *")
    story.client.pause("hourly")
    story.after_s(150 * MINUTE_S)

    story.client.undo("hourly")
    story.client.undo("hourly")
    story.client.undo("hourly")
    story.after_s(60 * MINUTE_S)

    [skipped, ran] = story.runs("hourly")
    assert (skipped.reason, skipped.missed_count) == ("paused", 2)
    assert ran.status == "success"
