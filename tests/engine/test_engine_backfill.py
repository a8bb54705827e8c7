"""Backfills that run beside what is on time, as stories."""

from __future__ import annotations

import itertools

from edgecron.base.units import from_ms
from edgecron.model.choices import CatchUp, Cause, Overlap, Status
from edgecron.model.listing import RunChoice
from edgecron.model.options import Policies
from tests.support.story import START_MS, Story

HOUR_S = 3600
MINUTE_MS = 60_000


def fill(story: Story, name: str, *, hours: int) -> list[int]:
    """Backfill the hours before the story's start."""
    since = from_ms(START_MS - hours * 60 * MINUTE_MS)
    return story.client.backfill(name, since, from_ms(START_MS))


def are_apart(story: Story, name: str) -> bool:
    lives = sorted(
        (body.started_ms, body.ends_ms) for body in story.world.bodies if body.schedule == name
    )
    return all(end <= start for (_, end), (start, _) in itertools.pairwise(lives))


def test_the_runs_of_a_backfill_come_one_after_the_other(story: Story) -> None:
    for overlap in Overlap:
        story.add(overlap.value, "@hourly", lasts_s=10, policies=Policies(overlap=overlap))
        fill(story, overlap.value, hours=3)

    for _ in range(30):
        story.after_s(10)

    for overlap in Overlap:
        runs = story.runs(overlap.value)
        assert [run.status for run in runs] == [Status.SUCCESS] * 4, overlap
        starts = [run.started_at for run in runs if run.started_at]
        assert starts == sorted(starts)
        assert [run.plan_at for run in runs] == sorted(run.plan_at for run in runs)
        assert are_apart(story, overlap.value)


def test_what_is_on_time_waits_for_a_backfill_s_run_and_is_not_left_out(story: Story) -> None:
    story.add("job", "* * * * *", lasts_s=25)
    story.client.backfill("job", from_ms(START_MS - 9 * MINUTE_MS), from_ms(START_MS))

    for _ in range(69):
        story.after_s(5)

    on_time = [run for run in story.runs("job") if run.cause is Cause.SCHEDULE]
    assert [run.status for run in on_time] == [Status.SUCCESS] * 5
    for run in on_time:
        assert run.started_at is not None
        assert (run.started_at - run.plan_at).total_seconds() <= 25
    assert are_apart(story, "job")


def test_a_newer_fire_replaces_no_run_of_a_backfill(story: Story) -> None:
    story.add("job", "* * * * *", lasts_s=70, policies=Policies(overlap=Overlap.REPLACE))
    fill_ids = story.client.backfill("job", from_ms(START_MS - MINUTE_MS), from_ms(START_MS))

    for _ in range(50):
        story.after_s(10)

    backfilled = [story.client.execution(id_) for id_ in fill_ids]
    assert backfilled[0].status is Status.SUCCESS
    assert {run.status for run in backfilled} <= {Status.SUCCESS, Status.QUEUED}


def test_other_schedules_start_on_time_while_a_backfill_goes_on(story: Story) -> None:
    story.add("filled", "@hourly", lasts_s=30)
    story.add("other", "* * * * *")
    fill(story, "filled", hours=20)

    for _ in range(30):
        story.after_s(10)

    others = story.runs("other")
    assert len(others) == 5
    assert all(run.started_at == run.plan_at for run in others)


def test_a_backfill_takes_part_in_retries_and_the_next_run_waits_for_the_last_attempt(
    story: Story,
) -> None:
    policies = Policies(retries=1, retry_delay_s=60)
    story.add("job", "@yearly", code=1, policies=policies)
    story.add("other", "@hourly")
    times = ("2024-01-01T00:00:00+00:00", "2025-01-01T00:00:00+00:00")
    story.client.backfill("job", *(type(from_ms(0)).fromisoformat(text) for text in times))

    for _ in range(20):
        story.after_s(10)

    found = [(run.plan_at.year, run.attempt, run.fire_key) for run in story.runs("job")]
    assert sorted(found) == [
        (2024, 1, "backfill:1"), (2024, 2, "backfill:1"),
        (2025, 1, "backfill:1"), (2025, 2, "backfill:1"),
    ]  # fmt: skip
    bodies = [(body.plan_ms, body.attempt) for body in story.world.bodies]
    assert bodies == sorted(bodies)


def test_a_retry_of_a_backfill_keeps_nothing_waiting_that_is_on_time(story: Story) -> None:
    policies = Policies(retries=1, retry_delay_s=3000)
    story.add("job", "* * * * *", code=1, policies=policies)
    story.client.backfill("job", from_ms(START_MS), from_ms(START_MS))
    story.after_s(0)
    story.world.mend("job")

    story.after_s(60)
    story.after_s(60)

    on_time = [run for run in story.runs("job") if run.cause is Cause.SCHEDULE]
    assert [run.status for run in on_time] == [Status.SUCCESS] * 2


def test_a_pause_holds_a_backfill_and_resume_lets_it_go_on(story: Story) -> None:
    story.add("job", "@hourly", lasts_s=10)
    fill(story, "job", hours=2)
    story.after_s(0)
    story.client.pause("job")

    for _ in range(6):
        story.after_s(10)
    held = [run.status for run in story.runs("job")]
    story.client.resume("job")
    for _ in range(6):
        story.after_s(10)

    assert held == [Status.SUCCESS, Status.QUEUED, Status.QUEUED]
    assert [run.status for run in story.runs("job")] == [Status.SUCCESS] * 3


def test_what_was_missed_is_filled_and_what_succeeded_is_left_out(story: Story) -> None:
    story.add("job", "@hourly", policies=Policies(catch_up=CatchUp.SKIP))
    story.after_s(HOUR_S)
    story.after_s(4 * HOUR_S)

    since, until = from_ms(START_MS), from_ms(START_MS + 5 * HOUR_S * 1000)
    plan = story.client.plan_backfill("job", since, until)
    ids = story.client.backfill("job", since, until)
    for _ in range(8):
        story.after_s(1)

    assert [fire.plan_at for fire in plan.succeeded] == [from_ms(START_MS + HOUR_S * 1000)]
    assert len(ids) == 5
    assert {story.client.execution(id_).status for id_ in ids} == {Status.SUCCESS}
    assert story.client.backfill("job", since, until) == []


def test_an_interval_after_the_end_is_set_while_a_backfill_waits(story: Story) -> None:
    story.add("job", "every 5m after end", "@hourly", lasts_s=30)
    fill(story, "job", hours=30)
    story.client.pause("job")
    story.client.resume("job")

    for _ in range(60):
        story.after_s(10)

    sources = [run.trigger_text for run in story.runs("job") if run.cause is Cause.SCHEDULE]
    assert "every 5m after end" in sources


def test_every_end_of_a_backfill_is_followed(story: Story) -> None:
    story.add("job", "@hourly", lasts_s=10)
    story.add("report", "after job")
    fill(story, "job", hours=2)

    for _ in range(8):
        story.after_s(10)

    plans = [run.plan_at for run in story.runs("report")]
    assert plans == [run.plan_at for run in story.runs("job")]
    assert len(plans) == 3


def test_a_thousand_runs_of_a_backfill_are_walked_past_by_few_looks(story: Story) -> None:
    """What is on time is found at once behind a backfill that can't go on."""
    story.add("job", "* * * * *", lasts_s=600, policies=Policies(overlap=Overlap.ALLOW))
    story.add("low", "* * * * *", policies=Policies(priority=-100))
    story.client.backfill("job", from_ms(START_MS - 999 * MINUTE_MS), from_ms(START_MS))
    story.after_s(30)
    story.client.run_now("low")

    story.after_s(1)

    assert [run.status for run in story.runs("low")] == [Status.SUCCESS]
    filled = story.client.history("job", choice=RunChoice(statuses=(Status.RUNNING,)), limit=10)
    assert len(filled) == 1
