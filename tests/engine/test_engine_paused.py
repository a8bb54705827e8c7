"""What a pause holds, and what becomes of it at its end, as stories."""

from __future__ import annotations

from datetime import datetime

from edgecron.base.units import from_ms
from edgecron.model.choices import Overlap, Reason, Status
from edgecron.model.options import Policies
from tests.support.story import START_MS, Story

MINUTE_S = 60


def minute(number: float) -> datetime:
    """An instant of the story, in minutes from its start."""
    return from_ms(START_MS + round(number * 60_000))


def test_a_pause_with_an_end_records_what_it_held_and_goes_on_by_itself(story: Story) -> None:
    story.add("job", "* * * * *")
    story.after_s(MINUTE_S)

    paused = story.client.pause("job", until=minute(4.5))
    shown = next(iter(story.client.next_fires("job")))
    for _ in range(5):
        story.after_s(MINUTE_S)

    assert paused.next_plan_at == shown.plan_at == minute(5)
    assert story.statuses("job") == ["success", "skipped:paused", "success", "success"]
    held = story.runs("job")[1]
    assert (held.missed_from_at, held.missed_to_at, held.missed_count) == (
        minute(2), minute(4), 3,
    )  # fmt: skip


def test_a_pause_holds_what_is_queued_and_its_end_lets_it_start(story: Story) -> None:
    story.add("job", "* * * * *", lasts_s=90, policies=Policies(overlap=Overlap.QUEUE))
    story.after_s(MINUTE_S)
    story.after_s(MINUTE_S)
    waiting = story.statuses("job")

    story.client.pause("job", until=minute(5.5))
    story.after_s(MINUTE_S)
    story.after_s(MINUTE_S)
    held = story.statuses("job")
    story.after_s(1.5 * MINUTE_S)

    assert waiting == ["running", "queued"]
    assert held == ["success", "queued"]
    assert story.statuses("job")[:2] == ["success", "running"]


def test_a_pause_until_a_time_holds_what_comes_after_another(story: Story) -> None:
    story.add("first", "* * * * *")
    story.add("second", "after first")
    story.client.pause("second", until=minute(2.5))

    for _ in range(3):
        story.after_s(MINUTE_S)
    story.after_s(0)

    assert story.statuses("second") == ["skipped:paused", "success"]
    assert story.runs("second")[0].missed_count == 2


def test_an_interval_after_the_end_goes_on_when_a_pause_is_over(story: Story) -> None:
    story.add("poll", "every 2m after end", lasts_s=60)
    story.after_s(2 * MINUTE_S)

    story.client.pause("poll", until=minute(10))
    for _ in range(12):
        story.after_s(MINUTE_S)

    plans = [run.plan_at for run in story.runs("poll")]
    assert plans == [minute(2), minute(12)]


def test_what_runs_goes_on_and_a_run_by_hand_still_starts(story: Story) -> None:
    story.add("job", "* * * * *", lasts_s=30)
    story.after_s(MINUTE_S)
    story.client.pause("job")

    story.after_s(30)
    story.client.run_now("job")
    story.after_s(30)

    assert story.statuses("job") == ["success", "running"]


def test_each_end_that_a_paused_follower_leaves_out_is_on_record(story: Story) -> None:
    """Of several scopes they have the same plan time."""
    story.add("up", "every 10m", scopes=(("d", "x"), ("d", "y"), ("d", "z")))
    story.add("follower", "after up")
    story.client.pause("follower")

    for _ in range(3):
        story.after_s(600)
        story.after_s(1)

    held = story.runs("follower")
    assert {run.status for run in held} == {Status.SKIPPED}
    assert {run.reason for run in held} == {Reason.PAUSED}
    assert sum(run.missed_count or 0 for run in held) == len(story.runs("up")) == 9
    assert story.client.schedule("follower").counts[Status.SKIPPED] == 9
