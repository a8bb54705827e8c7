"""Policies, told as stories: what follows an end, and what a new fire does to an old one."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from edgecron.base.units import from_ms, to_ms
from edgecron.model.choices import CatchUp, Cause, OnInterrupt, Overlap, Reason, Status
from edgecron.model.options import Policies
from edgecron.model.run import Execution
from tests.support.story import START_MS, Story

HOUR_S = 3600


def shown(run: Execution) -> str:
    """`success`, or `failed:exit`, with the attempt where it is not the first."""
    words = f"{run.status}:{run.reason}" if run.reason else str(run.status)
    return words if run.attempt == 1 else f"{words} #{run.attempt}"


def history(story: Story, name: str) -> list[str]:
    return [shown(run) for run in story.runs(name)]


# Retries.


def test_a_failure_is_tried_again_with_a_delay_that_grows(story: Story) -> None:
    policies = Policies(retries=3, retry_delay_s=10, retry_factor=3, retry_max_delay_s=60)
    story.add("flaky", "@hourly", code=1, policies=policies)

    story.after_s(HOUR_S)
    for _ in range(20):
        story.after_s(10)

    runs = story.runs("flaky")
    assert history(story, "flaky") == ["failed:exit", *(f"failed:exit #{n}" for n in (2, 3, 4))]
    assert {run.plan_at for run in runs} == {from_ms(START_MS + HOUR_S * 1000)}
    assert [run.cause for run in runs] == [Cause.SCHEDULE, *[Cause.RETRY] * 3]
    ends = [to_ms(run.finished_at) for run in runs if run.finished_at]
    delays = [
        (to_ms(run.due_at) - before) / 1000 for run, before in zip(runs[1:], ends, strict=False)
    ]
    # Each by up to a tenth later, so that a thousand do not come back at once; none after its most.
    for delay, wanted in zip(delays, (10, 30, 60 / 1.1), strict=True):
        assert wanted <= delay <= wanted * 1.1
    assert {(run.max_attempts, run.revision) for run in runs} == {(4, 1)}


def test_a_success_ends_the_attempts(story: Story) -> None:
    story.add("flaky", "@hourly", code=1, policies=Policies(retries=5, retry_delay_s=10))
    story.after_s(HOUR_S)

    story.world.mend("flaky")
    for _ in range(5):
        story.after_s(60)

    assert history(story, "flaky") == ["failed:exit", "success #2"]


def test_a_fire_that_will_be_tried_again_is_active(story: Story) -> None:
    policies = Policies(retries=1, retry_delay_s=120)
    story.add("flaky", "* * * * *", code=1, policies=policies)

    story.after_s(60)
    story.after_s(60)
    while_waiting = history(story, "flaky")
    story.after_s(60)
    story.after_s(60)

    assert while_waiting == ["failed:exit", "queued #2", "skipped:overlap"]
    assert history(story, "flaky")[:3] == ["failed:exit", "failed:exit #2", "skipped:overlap"]


def test_overlap_queue_lets_one_wait_beside_a_retry(story: Story) -> None:
    policies = Policies(retries=1, retry_delay_s=90, overlap=Overlap.QUEUE)
    story.add("flaky", "* * * * *", code=1, policies=policies)

    story.after_s(60)
    story.after_s(60)
    waiting = history(story, "flaky")
    story.after_s(45)
    story.after_s(0)

    assert waiting == ["failed:exit", "queued #2", "queued"]
    assert history(story, "flaky")[:3] == ["failed:exit", "failed:exit #2", "failed:exit"]


def test_a_retry_keeps_the_revision_that_its_fire_began_with(story: Story) -> None:
    story.add("flaky", "@hourly", code=1, policies=Policies(retries=1, retry_delay_s=60))
    story.after_s(HOUR_S)

    story.client.edit("flaky", lambda spec: replace(spec, description="new"))
    story.after_s(70)

    assert [run.revision for run in story.runs("flaky")] == [1, 1]


def test_a_removed_schedule_is_not_tried_again(story: Story) -> None:
    story.add("flaky", "@hourly", lasts_s=30, code=1, policies=Policies(retries=3))
    story.after_s(HOUR_S)

    story.client.remove("flaky")
    story.after_s(30)
    story.after_s(60)

    assert history(story, "flaky") == ["failed:exit"]


def test_a_pause_holds_a_retry(story: Story) -> None:
    story.add("flaky", "@yearly", code=1, policies=Policies(retries=1, retry_delay_s=60))
    story.client.run_now("flaky")
    story.after_s(0)

    story.client.pause("flaky")
    story.after_s(600)
    held = history(story, "flaky")
    story.client.resume("flaky")
    story.after_s(0)

    assert held == ["failed:exit", "queued #2"]
    assert history(story, "flaky") == ["failed:exit", "failed:exit #2"]


@pytest.mark.failure(18)
@pytest.mark.parametrize(
    ("on_interrupt", "wanted"),
    [
        (OnInterrupt.LEAVE, ["interrupted:lost"]),
        (OnInterrupt.RETRY, ["interrupted:lost", "success #2"]),
    ],
)
def test_an_interrupted_run_is_run_again_only_where_that_is_asked_for(
    story: Story, on_interrupt: OnInterrupt, wanted: list[str]
) -> None:
    story.add("long", "@hourly", lasts_s=30, policies=Policies(on_interrupt=on_interrupt))
    story.after_s(HOUR_S)

    story.world.kill_supervisor(story.engine.runners.own.id)
    story.after_s(1)
    story.after_s(31)

    assert history(story, "long") == wanted


def test_an_interruption_costs_no_retry(story: Story) -> None:
    policies = Policies(retries=1, retry_delay_s=1, on_interrupt=OnInterrupt.RETRY)
    story.add("long", "@hourly", lasts_s=30, code=1, policies=policies)
    story.after_s(HOUR_S)

    story.world.kill_supervisor(story.engine.runners.own.id)
    for _ in range(5):
        story.after_s(31)

    assert history(story, "long") == ["interrupted:lost", "failed:exit #2", "failed:exit #3"]


# Replace.


def test_a_newer_fire_replaces_the_one_that_runs(story: Story) -> None:
    story.add("feed", "* * * * *", lasts_s=90, policies=Policies(overlap=Overlap.REPLACE))

    story.after_s(60)
    story.after_s(60)
    story.after_s(0)
    story.after_s(60)
    story.after_s(0)

    assert history(story, "feed") == ["cancelled:replaced", "cancelled:replaced", "running"]
    lives = [(body.started_ms, body.ends_ms) for body in story.world.bodies]
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(lives))


def test_what_waits_to_replace_is_replaced_itself(story: Story) -> None:
    story.add("feed", "@yearly", lasts_s=90, policies=Policies(overlap=Overlap.REPLACE))
    for _ in range(3):
        story.client.run_now("feed")

    story.after_s(0)
    story.after_s(90)

    assert history(story, "feed") == ["cancelled:replaced", "cancelled:replaced", "success"]
    assert story.bodies("feed") == 1


def test_a_fire_replaces_one_that_would_be_tried_again(story: Story) -> None:
    policies = Policies(overlap=Overlap.REPLACE, retries=1, retry_delay_s=600)
    story.add("feed", "* * * * *", code=1, policies=policies)

    story.after_s(60)
    story.after_s(60)

    assert history(story, "feed") == [
        "failed:exit",
        "cancelled:replaced #2",
        "failed:exit",
        "queued #2",
    ]


def test_replace_makes_room_for_one_where_several_may_run(story: Story) -> None:
    policies = Policies(overlap=Overlap.REPLACE, max_running=2)
    story.add("feed", "* * * * *", lasts_s=200, policies=policies)

    for _ in range(3):
        story.after_s(60)
        story.after_s(0)

    assert history(story, "feed") == ["cancelled:replaced", "running", "running"]


def test_an_engine_ends_what_another_replaces(story: Story) -> None:
    story.add("feed", "* * * * *", lasts_s=90, policies=Policies(overlap=Overlap.REPLACE))
    story.after_s(60)
    owner = story.engine

    story.key = story.world.start_engine()
    story.after_s(60)
    owner.step()
    owner.step()
    story.after_s(0)

    assert history(story, "feed") == ["cancelled:replaced", "running"]


# After.


@pytest.mark.parametrize(
    ("code", "trigger", "runs"),
    [
        (0, "after first", 1),
        (1, "after first", 0),
        (1, "after first:failure", 1),
        (0, "after first:failure", 0),
        (0, "after first:any", 1),
        (1, "after first:any", 1),
    ],
)
def test_a_schedule_runs_when_a_run_of_another_has_ended(
    story: Story, code: int, trigger: str, runs: int
) -> None:
    story.add("first", "@hourly", code=code)
    story.add("second", trigger)

    story.after_s(HOUR_S)
    story.after_s(0)

    [upstream] = story.runs("first")
    downstream = story.runs("second")
    assert [run.status for run in downstream] == [Status.SUCCESS] * runs
    for run in downstream:
        assert run.plan_at == upstream.plan_at
        assert (run.cause, run.fire_key) == (Cause.AFTER, f"after:{upstream.id}")
        assert run.trigger_text == trigger


def test_a_range_that_overlap_skips_names_the_trigger_of_its_first_time(story: Story) -> None:
    story.add("long", "20 * * * *", "21 * * * *", "22 * * * *", lasts_s=600)
    while not story.runs("long"):
        story.after_s(60)
    story.world.clock.advance_ms(120_000)
    story.after_s(0)

    [_, skipped] = story.runs("long")
    assert skipped.missed_from_at == skipped.plan_at
    assert (skipped.missed_count, skipped.trigger_text) == (2, "21 * * * *")


def test_a_range_that_was_missed_or_paused_names_the_trigger_of_its_first_time(
    story: Story,
) -> None:
    policies = Policies(catch_up=CatchUp.SKIP)
    for name in ("missed", "paused"):
        story.add(name, "20 * * * *", "21 * * * *", policies=policies)
    story.client.pause("paused", until=from_ms(START_MS + HOUR_S * 1000))

    story.after_s(HOUR_S)  # The engine looks only then.
    story.after_s(30 * 60)

    for name, reason in (("missed", Reason.MISFIRE), ("paused", Reason.PAUSED)):
        skipped = story.runs(name)[0]
        assert (skipped.reason, skipped.missed_count) == (reason, 2)
        assert skipped.trigger_text == "20 * * * *"


def test_what_comes_after_waits_for_the_last_attempt(story: Story) -> None:
    story.add("first", "@hourly", code=1, policies=Policies(retries=1, retry_delay_s=60))
    story.add("second", "after first:any")

    story.after_s(HOUR_S)
    early = story.runs("second")
    story.after_s(70)

    assert early == []
    assert len(story.runs("second")) == 1


def test_a_chain_runs_in_turn(story: Story) -> None:
    story.add("one", "@hourly", lasts_s=10)
    story.add("two", "after one", lasts_s=10)
    story.add("three", "after two")

    story.after_s(HOUR_S)
    story.after_s(10)
    story.after_s(10)

    started = [body.schedule for body in story.world.bodies]
    assert started == ["one", "two", "three"]
    assert len({run.plan_at for name in started for run in story.runs(name)}) == 1


def test_a_paused_schedule_records_what_it_would_have_followed(story: Story) -> None:
    story.add("first", "@hourly")
    story.add("second", "after first")
    story.client.pause("second")

    story.after_s(HOUR_S)
    story.after_s(HOUR_S)
    story.client.resume("second")
    story.after_s(HOUR_S)
    story.after_s(0)

    skipped, run = story.runs("second")
    assert (skipped.status, skipped.reason, skipped.missed_count) == ("skipped", "paused", 2)
    assert run.status is Status.SUCCESS


def test_overlap_holds_for_what_comes_after(story: Story) -> None:
    story.add("first", "* * * * *")
    story.add("second", "after first", lasts_s=90)

    story.after_s(60)
    story.after_s(60)

    assert history(story, "second") == ["running", "skipped:overlap"]


def test_a_run_by_hand_is_followed_too_and_max_runs_bounds_it(story: Story) -> None:
    story.add("first", "@yearly")
    story.add("second", "after first", max_runs=1)

    for _ in range(2):
        story.client.run_now("first")
        story.after_s(0)
        story.after_s(0)

    assert history(story, "second") == ["success"]


# Intervals after the end.


def test_an_interval_after_the_end_counts_from_there(story: Story) -> None:
    story.add("poll", "every 10m after end", lasts_s=90)

    for _ in range(60):
        story.after_s(30)

    plans = [to_ms(run.plan_at) - START_MS for run in story.runs("poll")]
    assert plans[0] == 600_000
    assert {later - earlier for earlier, later in itertools.pairwise(plans)} == {690_000}


def test_an_interval_after_the_end_counts_from_the_last_attempt(story: Story) -> None:
    policies = Policies(retries=1, retry_delay_s=60, retry_factor=1)
    story.add("poll", "every 10m after end", code=1, policies=policies)

    story.after_s(600)
    between = story.client.schedule("poll").next_plan_at
    story.after_s(70)

    assert between is None
    last = story.runs("poll")[-1]
    following = story.client.schedule("poll").next_plan_at
    assert last.finished_at is not None
    assert following is not None
    assert to_ms(following) == to_ms(last.finished_at) + 600_000


def test_a_time_of_the_calendar_comes_before_the_interval_after_the_end(story: Story) -> None:
    story.add("poll", "every 90m after end", "@hourly")

    for _ in range(6):
        story.after_s(1800)

    plans = [to_ms(run.plan_at) - START_MS for run in story.runs("poll")]
    assert plans == [3_600_000, 7_200_000, 10_800_000]


def test_an_interval_after_the_end_that_was_missed_is_caught_up_once(story: Story) -> None:
    story.add("poll", "every 10m after end")
    story.add("never", "every 10m after end", policies=Policies(catch_up=CatchUp.SKIP))

    story.after_s(5 * HOUR_S)
    later = story.client.schedule("never").next_plan_at

    assert history(story, "poll") == ["success"]
    assert story.runs("poll")[0].cause is Cause.CATCH_UP
    assert history(story, "never") == ["skipped:misfire"]
    assert later == from_ms(story.world.clock.now_ms() + 600_000)


def test_the_interval_goes_on_after_an_interruption(story: Story) -> None:
    story.add("poll", "every 10m after end", lasts_s=60)
    story.after_s(600)

    story.world.kill_supervisor(story.engine.runners.own.id)
    story.after_s(1)

    assert history(story, "poll") == ["interrupted:lost"]
    assert story.client.schedule("poll").next_plan_at is not None
    assert story.runs("poll")[0].reason == Reason.LOST


def test_retries_that_are_due_together_run_beside_one_another(story: Story) -> None:
    """What waited for its next attempt, and has begun it, takes one place, and not two."""
    policies = Policies(overlap=Overlap.ALLOW, max_running=2, retries=1, retry_delay_s=0)
    story.add("feed", "@yearly", lasts_s=60, code=3, policies=policies)
    story.client.run_now("feed")
    story.client.run_now("feed")
    story.engine.step()

    story.world.clock.advance_ms(60_000)
    story.engine.step()

    assert story.statuses("feed") == ["failed:exit", "failed:exit", "running", "running"]
