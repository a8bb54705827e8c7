"""What a program declares while engines run it: two versions that take turns keep nothing back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from edgecron.base.units import from_ms, to_ms
from edgecron.client import declaring
from edgecron.formats.document_tables import Wanted
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from tests.support.specs import make_spec
from tests.support.story import START_MS, Story

MINUTE_S = 60
MINUTE = 60_000
HOUR = 60 * MINUTE
START = from_ms(START_MS)
JOB = Job(kind=JobKind.COMMAND, argv=("job", "0", "0"))


def declare(story: Story, trigger: str, *, jitter_s: float = 0, job: Job = JOB) -> None:
    """A version of the program starts."""
    spec = replace(make_spec("poll", trigger, jitter_s=jitter_s), job=job)
    declaring.declare(
        story.client,
        [Wanted(spec=spec, is_declared=True)],
        queue="py:plant",
        origin="program plant",
        places={"poll": "plant.py:1"},
    )


def take_turns(story: Story, *triggers: str, jitter_s: float = 0) -> None:
    """Half a day, in which either version starts every 25 minutes."""
    for minute in range(0, 12 * 60, 5):
        if minute % 25 == 0:
            declare(story, triggers[minute // 25 % 2], jitter_s=jitter_s)
        story.after_s(5 * MINUTE_S)


def next_plan(story: Story) -> datetime | None:
    return story.client.schedule("poll").next_plan_at


@pytest.mark.failure(14)
def test_two_versions_that_take_turns_fire_on_the_grids_of_both(story: Story) -> None:
    take_turns(story, "every 2h", "every 1h")

    offsets = [to_ms(run.plan_at) - START_MS for run in story.runs("poll")]
    assert set(story.statuses("poll")) == {"success"}
    assert {one % HOUR for one in offsets} == {0}
    assert {2 * HOUR * one for one in range(1, 7)} <= set(offsets)


def test_an_interval_after_the_end_comes_while_two_versions_take_turns(story: Story) -> None:
    take_turns(story, "every 2h after end", "every 1h after end")

    starts = [run.started_at for run in story.runs("poll") if run.started_at is not None]
    waits = [to_ms(two) - to_ms(one) for one, two in zip([START, *starts], starts, strict=False)]
    assert len(waits) >= 5
    assert min(waits) >= HOUR
    assert max(waits) <= 2 * HOUR + 2 * MINUTE


def test_an_interval_after_the_end_does_not_come_within_the_run_that_it_follows(
    story: Story,
) -> None:
    long = replace(JOB, argv=("job", str(65 * MINUTE_S), "0"))
    declare(story, "every 2h after end", job=long)
    for minute in range(0, 4 * 60, 5):
        if minute == 130:
            declare(story, "every 1h after end", job=long)
        story.after_s(5 * MINUTE_S)

    [run] = story.runs("poll")
    assert run.finished_at is not None
    assert next_plan(story) == from_ms(to_ms(run.finished_at) + HOUR)


def test_what_waits_for_its_jitter_is_run_while_two_versions_take_turns(story: Story) -> None:
    take_turns(story, "every 2h", "every 1h", jitter_s=3000)

    ran = [run for run in story.runs("poll") if run.status == "success"]
    offsets = {to_ms(run.plan_at) - START_MS for run in ran}
    assert {2 * HOUR * one for one in range(1, 6)} <= offsets
    assert max(to_ms(run.due_at) - to_ms(run.plan_at) for run in ran) > 25 * MINUTE


def test_a_declared_change_fires_for_nothing_of_the_past(story: Story) -> None:
    declare(story, "every 3h")
    story.world.clock.advance_ms(7 * HOUR + 20 * MINUTE)

    declare(story, "every 2h")
    story.after_s(0)

    [skipped] = story.runs("poll")
    assert (skipped.status, skipped.reason, skipped.missed_count) == ("skipped", "edited", 2)
    assert next_plan(story) == from_ms(START_MS + 8 * HOUR)


def test_a_grid_that_is_anchored_by_its_text_keeps_its_own_anchor(story: Story) -> None:
    declare(story, "every 3h")

    declare(story, "every 2h from 2026-03-08T20:10:00Z")

    assert next_plan(story) == from_ms(START_MS + 10 * MINUTE)


def test_what_a_person_changes_begins_anew_and_the_program_brings_back_its_own_times(
    story: Story,
) -> None:
    declare(story, "every 3h")
    story.after_s(20 * MINUTE_S)

    story.client.edit("poll", lambda spec: replace(spec, triggers=("every 1h",)))
    edited = next_plan(story)
    declare(story, "every 3h")

    assert edited == from_ms(START_MS + HOUR + 20 * MINUTE)
    assert next_plan(story) == from_ms(START_MS + 3 * HOUR)
