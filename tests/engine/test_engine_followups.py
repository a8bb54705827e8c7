"""What follows an end, where the end is not like others: told as stories."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from edgecron.base.errors import DatabaseBusy
from edgecron.base.units import from_ms, to_ms
from edgecron.model.choices import OnInterrupt, Overlap, Status
from edgecron.model.options import Policies
from tests.support.story import START_MS, Story

HOUR_S = 3600


def times(story: Story, name: str) -> list[int]:
    return [to_ms(run.due_at) - START_MS for run in story.runs(name)]


@pytest.mark.failure(4)
def test_what_follows_an_end_by_a_clock_that_was_ahead_is_due_by_the_right_one(
    story: Story,
) -> None:
    story.add("flaky", "@yearly", lasts_s=30, code=1, policies=Policies(retries=1))
    story.add("poll", "every 10m after end", lasts_s=30)
    story.after_s(600)
    story.client.run_now("flaky")
    story.after_s(0)

    story.world.clock.advance_ms(40_000)
    story.world.clock.step_ms(-2 * HOUR_S * 1000)
    now_ms = story.world.clock.now_ms()
    for body in story.world.bodies:
        # They had to run for some time, not until some time.
        body.started_ms, body.ends_ms = now_ms - 30_000, now_ms
    story.after_s(0)

    _, retry = story.runs("flaky")
    following = story.client.schedule("poll").next_run_at
    assert to_ms(retry.due_at) - now_ms <= 11_000
    assert following is not None
    assert to_ms(following) - now_ms <= 600_000


@pytest.mark.parametrize("on_interrupt", list(OnInterrupt))
def test_what_was_to_be_ended_is_not_tried_again_although_it_died_by_itself(
    story: Story, on_interrupt: OnInterrupt
) -> None:
    policies = Policies(retries=3, on_interrupt=on_interrupt)
    story.add("long", "@yearly", lasts_s=60, policies=policies)
    [run] = story.client.run_now("long")
    story.after_s(0)
    story.world.supervisors[story.engine.runners.own.id].is_stopped = True

    story.client.store.request_cancel(run.id, now_ms=story.world.clock.now_ms())
    story.world.kill_supervisor(story.engine.runners.own.id)
    story.after_s(1)
    story.after_s(60)

    assert story.statuses("long") == ["interrupted:lost"]


@pytest.mark.parametrize("trigger", ["after up:failure", "after up:any"])
def test_a_fire_that_is_replaced_while_it_waits_to_be_tried_again_is_followed(
    story: Story, trigger: str
) -> None:
    policies = Policies(overlap=Overlap.REPLACE, retries=1, retry_delay_s=600)
    story.add("up", "@yearly", code=1, policies=policies)
    story.add("down", trigger)

    for _ in range(2):
        story.client.run_now("up")
        story.after_s(0)
        story.after_s(0)

    assert story.statuses("down") == ["success"]


def test_runs_after_others_and_planned_ones_are_counted_together(story: Story) -> None:
    story.add("up", "@yearly")
    story.add("both", "after up", "@hourly", max_runs=2)

    story.after_s(HOUR_S)
    story.client.run_now("up")
    story.after_s(0)
    story.after_s(0)
    story.after_s(HOUR_S)

    assert story.statuses("both") == ["success", "success"]
    assert story.client.schedule("both").next_plan_at is None


def test_the_last_run_after_another_ends_a_schedule_and_decides_no_time(story: Story) -> None:
    story.add("up", "@yearly")
    story.add("both", "after up", "@hourly", max_runs=1)
    decided_until = story.client.schedule("both").decided_until

    for _ in range(3):
        story.client.run_now("up")
        story.after_s(60)

    both = story.client.schedule("both")
    assert story.statuses("both") == ["success"]
    assert (both.next_plan_at, both.decided_until) == (None, decided_until)


def test_a_fire_that_was_moved_before_its_time_is_followed_by_the_interval(story: Story) -> None:
    start = from_ms(START_MS + 48 * HOUR_S * 1000)
    story.add("poll", "every 1h after end", from_at=start)
    story.client.reschedule("poll", from_ms(START_MS + 60_000))

    story.after_s(60)
    story.after_s(HOUR_S)

    assert times(story, "poll") == [60_000, 60_000 + HOUR_S * 1000]


def test_each_time_after_an_end_has_its_jitter(story: Story) -> None:
    story.add("poll", "every 10m after end", policies=Policies(jitter_s=300))

    for _ in range(400):
        story.after_s(15)

    moved = {to_ms(run.due_at) - to_ms(run.plan_at) for run in story.runs("poll")}
    assert len(moved) > 2
    assert all(0 <= milliseconds <= 300_000 for milliseconds in moved)


def test_an_edit_while_it_runs_does_not_shorten_the_interval_after_its_end(story: Story) -> None:
    story.add("poll", "every 1h after end", lasts_s=3000)
    story.after_s(HOUR_S)

    story.after_s(60)
    story.client.edit("poll", lambda spec: replace(spec, until_at=from_ms(START_MS * 2)))
    story.after_s(2940)
    ended = story.runs("poll")[0].finished_at
    following = story.client.schedule("poll").next_plan_at

    assert ended is not None
    assert following is not None
    assert to_ms(following) - to_ms(ended) == HOUR_S * 1000


@pytest.mark.parametrize("where", ["claim_due", "finish_and_fill"])
def test_what_was_replaced_by_a_commit_that_raised_is_ended_all_the_same(
    story: Story, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = Policies(overlap=Overlap.REPLACE)
    trigger = "@hourly" if where == "claim_due" else "after up"
    story.add("up", "every 30m")
    story.add("feed", trigger, lasts_s=5000, policies=policies)
    story.client.run_now("feed")
    story.after_s(0)
    store = story.world.engines[story.key][1]
    real, failures = getattr(store, where), [1]

    def commit_and_raise(*arguments: object, **named: object) -> object:
        answer = real(*arguments, **named)
        if any(status == "queued" for status in story.statuses("feed")) and failures:
            failures.pop()
            raise DatabaseBusy("the commit took effect, and raised")
        return answer

    monkeypatch.setattr(store, where, commit_and_raise)
    story.world.clock.advance_ms(HOUR_S * 1000 if where == "claim_due" else 1800_000)
    for _ in range(6):
        with suppress(DatabaseBusy):
            story.engine.step()
    assert failures == []

    assert story.statuses("feed")[:2] == ["cancelled:replaced", "running"]


def test_a_fire_that_replaces_one_that_waits_takes_its_turn(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    story = Story(tmp_path_factory.mktemp("full") / "story.db", max_running=1)
    story.add("hog", "every 1s", lasts_s=2, policies=Policies(overlap=Overlap.QUEUE))
    story.add("hog2", "every 1s", lasts_s=2, policies=Policies(overlap=Overlap.QUEUE))
    story.add("feed", "every 2s", policies=Policies(overlap=Overlap.REPLACE))

    for _ in range(120):
        story.after_s(0.5)

    ended = [run for run in story.runs("feed") if run.status is Status.SUCCESS]
    assert len(ended) > 3


@pytest.mark.of_file
def test_what_follows_the_run_of_a_dead_engine_starts_though_ends_of_ours_came_with_it(
    story: Story,
) -> None:
    """Ends give their places to what is queued; what a look at the dead queues comes after that."""
    story.add("first", "@yearly", lasts_s=600)
    story.add("second", "after first:any")
    story.add("ours", "@yearly", lasts_s=30)
    story.client.run_now("first")
    story.after_s(0)
    dead, story.key = story.key, story.world.start_engine()
    story.after_s(0)
    story.client.run_now("ours")
    story.after_s(0)

    [first_supervisor] = {run.supervisor_id for run in story.runs("first")}
    story.world.kill_engine(dead)
    story.world.kill_supervisor(str(first_supervisor))
    story.world.clock.advance_ms(40_000)
    step = story.engine.step()

    assert story.statuses("ours") == ["success"]
    assert story.statuses("first") == ["interrupted:lost"]
    assert step.claimed == 1
    assert story.statuses("second") == ["running"]
