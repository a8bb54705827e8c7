"""A next run that is moved by hand, as stories."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import islice

import pytest

from edgecron.base.errors import Conflict, InvalidInput
from edgecron.base.units import from_ms, to_ms
from edgecron.model.choices import CatchUp, Cause, Reason
from edgecron.model.options import Policies
from tests.support.story import START_MS, Story

HOUR_S = 3600


def hour(number: float) -> datetime:
    """An instant of the story, in hours from its start."""
    return from_ms(START_MS + round(number * HOUR_S * 1000))


def hours(story: Story, name: str) -> list[tuple[float, float]]:
    """(plan, start) of each run, in hours from the story's start."""
    return [
        (at_hour(run.plan_at), at_hour(run.started_at))
        for run in story.runs(name)
        if run.started_at is not None
    ]


def at_hour(instant: datetime) -> float:
    return (to_ms(instant) - START_MS) / 1000 / HOUR_S


def test_an_engine_that_has_it_loaded_runs_it_at_its_new_time_and_the_next_by_its_trigger(
    story: Story,
) -> None:
    story.add("job", "@hourly")
    story.after_s(HOUR_S)
    story.engine.prepare()

    moved = story.client.reschedule("job", hour(1.5))
    for _ in range(8):
        story.after_s(HOUR_S / 4)

    assert (moved.next_plan_at, moved.next_run_at, moved.revision) == (hour(2), hour(1.5), 2)
    assert hours(story, "job") == [(1, 1), (2, 1.5), (3, 3)]
    assert {run.cause for run in story.runs("job")} == {Cause.SCHEDULE}


def test_a_run_that_is_moved_past_others_is_the_last_of_them(story: Story) -> None:
    story.add("job", "@hourly")
    story.client.reschedule("job", hour(3.5))

    shown = list(islice(story.client.next_fires("job"), 2))
    for _ in range(8):
        story.after_s(HOUR_S / 2)

    assert [(fire.plan_at, fire.due_at) for fire in shown] == [
        (hour(3), hour(3.5)),
        (hour(4), hour(4)),
    ]
    assert [fire.is_moved for fire in shown] == [True, False]
    skipped, *_ = story.runs("job")
    assert (skipped.missed_from_at, skipped.missed_to_at) == (hour(1), hour(2))
    assert skipped.reason is Reason.RESCHEDULED
    assert hours(story, "job") == [(3, 3.5), (4, 4)]


def test_those_that_it_is_moved_past_run_in_turn_where_all_are_asked_for(story: Story) -> None:
    story.add("job", "@hourly", policies=Policies(catch_up=CatchUp.ALL))
    story.client.reschedule("job", hour(3.5))

    shown = list(islice(story.client.next_fires("job"), 4))
    story.after_s(3.5 * HOUR_S)
    for _ in range(3):
        story.after_s(0)

    assert [at_hour(fire.due_at) for fire in shown] == [3.5, 3.5, 3.5, 4]
    assert [at_hour(fire.plan_at) for fire in shown] == [1, 2, 3, 4]
    assert [plan for plan, _ in hours(story, "job")] == [1, 2, 3]


def test_a_change_of_times_forgets_the_move_and_other_changes_keep_it(story: Story) -> None:
    story.add("job", "@hourly")
    story.client.reschedule("job", hour(0.5))

    kept = story.client.edit("job", lambda spec: replace(spec, description="new"))
    forgotten = story.client.edit("job", lambda spec: replace(spec, triggers=("30 * * * *",)))
    story.client.reschedule("job", hour(0.25))
    story.client.pause("job")
    resumed = story.client.resume("job")

    assert kept.next_run_at == hour(0.5)
    assert forgotten.next_run_at == hour(0.5)
    assert forgotten.next_plan_at == hour(0.5)
    assert resumed.next_run_at == hour(0.5)


def test_new_times_count_from_now_after_a_fire_that_was_moved_to_be_early(story: Story) -> None:
    story.add("job", "@daily", "@yearly")
    story.client.reschedule("job", hour(0.25))
    story.after_s(HOUR_S // 2)

    kept = story.client.edit("job", lambda spec: replace(spec, max_runs=100))
    resumed = (story.client.pause("job"), story.client.resume("job"))[1]
    edited = story.client.edit("job", lambda spec: replace(spec, triggers=("0 * * * *",)))
    for _ in range(6):
        story.after_s(HOUR_S)

    # Midnight was run early: it comes once.
    assert kept.next_plan_at == resumed.next_plan_at == hour(28)
    assert edited.next_plan_at == hour(1)
    assert [plan for plan, _ in hours(story, "job")] == [4, 1, 2, 3, 5, 6]


def test_what_was_moved_and_missed_is_caught_up_as_ever(story: Story) -> None:
    story.add("job", "@daily")
    story.client.reschedule("job", hour(1))

    story.after_s(2 * HOUR_S)

    [run] = story.runs("job")
    assert run.cause is Cause.CATCH_UP
    assert run.due_at == hour(1)


def test_what_has_no_next_time_is_not_moved(story: Story) -> None:
    story.add("paused", "@hourly")
    story.add("once", "@hourly", max_runs=1)
    story.add("after", "after paused")
    story.client.pause("paused")
    story.after_s(HOUR_S)

    with pytest.raises(Conflict, match="no next time to move: paused"):
        story.client.reschedule("paused", hour(5))
    with pytest.raises(Conflict, match="done: --max-runs 1 is reached"):
        story.client.reschedule("once", hour(5))
    with pytest.raises(Conflict, match="after paused"):
        story.client.reschedule("after", hour(5))


def test_a_run_is_not_moved_into_the_past_or_into_a_pause(story: Story) -> None:
    story.add("job", "@hourly")

    with pytest.raises(InvalidInput, match="past"):
        story.client.reschedule("job", hour(0))
    story.client.pause("job", until=hour(2.5))
    with pytest.raises(InvalidInput, match="is paused until"):
        story.client.reschedule("job", hour(2))
    moved = story.client.reschedule("job", hour(2.75))
    for _ in range(12):
        story.after_s(HOUR_S / 4)

    assert moved.next_plan_at == hour(3)
    assert hours(story, "job") == [(3, 2.75)]
    assert story.statuses("job") == ["skipped:paused", "success"]


def test_a_pause_with_nothing_after_it_has_no_time_to_move(story: Story) -> None:
    story.add("once", f"at {hour(1).isoformat()}")
    story.client.pause("once", until=hour(2))

    with pytest.raises(Conflict, match="it has no times after its pause"):
        story.client.reschedule("once", hour(3))
