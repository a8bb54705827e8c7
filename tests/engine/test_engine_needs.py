"""Needs, told as stories: what waits for another schedule's success, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgecron.base.errors import InvalidInput
from edgecron.base.units import to_ms
from edgecron.engine.events import EventKind
from edgecron.model.choices import CatchUp, Cause, Overlap
from edgecron.model.options import Policies
from edgecron.model.run import Execution
from tests.support.engines import Place
from tests.support.story import START_MS, Story

HOUR_S = 3600
NEEDS = Policies(needs=("success:backup:1h",), needs_deadline_s=2 * HOUR_S)


def shown(run: Execution) -> str:
    if run.waiting_for is not None:
        return f"waits for {run.waiting_for}"
    return f"{run.status}:{run.reason}" if run.reason else str(run.status)


def history(story: Story, name: str) -> list[str]:
    return [shown(run) for run in story.runs(name)]


def test_a_report_waits_for_the_backup_and_runs_when_it_has_succeeded(story: Story) -> None:
    story.add("backup", "@hourly", lasts_s=600)
    story.add("report", "@hourly", policies=NEEDS)

    story.after_s(HOUR_S)
    waiting = history(story, "report")
    story.after_s(600)

    assert waiting == ["waits for success:backup:1h"]
    assert history(story, "report") == ["success"]
    [run] = story.runs("report")
    assert run.started_at is not None
    assert to_ms(run.started_at) == START_MS + (HOUR_S + 600) * 1000


def test_nothing_is_done_while_a_run_waits(story: Story) -> None:
    """It is woken and not polled: the engine sleeps until the deadline."""
    story.add("backup", "@yearly")
    story.add("report", "@daily", policies=NEEDS)
    story.after_s(4 * HOUR_S)  # midnight

    step = story.engine.step()

    assert history(story, "report") == ["waits for success:backup:1h"]
    assert step.wake_ms == START_MS + 6 * HOUR_S * 1000


def test_at_the_deadline_it_is_skipped_and_the_log_says_why(story: Story) -> None:
    story.add("backup", "@yearly")
    story.add("report", "@daily", policies=NEEDS)
    story.after_s(4 * HOUR_S)

    story.after_s(2 * HOUR_S)

    assert history(story, "report") == ["skipped:condition"]
    queued, skipped = [event for event in story.world.events if event.schedule == "report"][-2:]
    assert (queued.kind, skipped.kind) == (EventKind.QUEUED, EventKind.SKIPPED)
    assert queued.details["waiting_for"] == "success:backup:1h"
    assert skipped.details["error_msg"] == (
        "needed a success of backup within 1h, which was not true within 2h"
    )


def test_an_engine_that_was_away_at_the_deadline_decides_at_once(story: Story) -> None:
    story.add("backup", "@yearly")
    story.add("report", "@yearly", policies=NEEDS)
    story.add("late", "at 2026-03-08T21:00:00Z", policies=NEEDS)
    story.after_s(HOUR_S)

    story.world.kill_engine(story.key)
    story.world.clock.advance_ms(12 * HOUR_S * 1000)
    story.key = story.world.start_engine()
    story.after_s(0)

    assert history(story, "late") == ["skipped:condition"]


def test_what_it_missed_needs_it_too_and_its_deadline_counts_from_due(story: Story) -> None:
    story.add("backup", "@yearly")
    story.add("report", "@daily", policies=NEEDS)

    story.after_s(4 * HOUR_S + 30 * 60)
    soon = [(run.cause, shown(run)) for run in story.runs("report")]
    story.after_s(90 * 60)

    assert soon == [(Cause.CATCH_UP, "waits for success:backup:1h")]
    assert history(story, "report") == ["skipped:condition"]


def test_what_comes_after_needs_it_as_well(story: Story) -> None:
    story.add("backup", "@yearly")
    story.add("first", "@hourly")
    story.add("second", "after first", policies=NEEDS)

    story.after_s(HOUR_S)
    story.after_s(0)
    waiting = history(story, "second")
    story.client.run_now("backup")
    story.after_s(0)
    story.after_s(0)

    assert waiting == ["waits for success:backup:1h"]
    assert history(story, "second") == ["success"]


def test_a_success_that_comes_by_hand_or_as_a_retry_counts(story: Story) -> None:
    story.add("backup", "@yearly", code=1, policies=Policies(retries=1, retry_delay_s=60))
    story.add("report", "@hourly", policies=NEEDS)
    story.after_s(HOUR_S)

    story.client.run_now("backup")
    story.after_s(0)
    failed = history(story, "report")
    story.world.mend("backup")
    story.after_s(70)
    story.after_s(0)

    assert failed == ["waits for success:backup:1h"]
    assert history(story, "report") == ["success"]


def test_a_run_by_hand_goes_at_once(story: Story) -> None:
    story.add("backup", "@yearly")
    story.add("report", "@yearly", policies=NEEDS)

    story.client.run_now("report")
    story.after_s(0)

    assert history(story, "report") == ["success"]


def test_jitter_comes_before_needs(story: Story) -> None:
    story.add("backup", "@yearly")
    policies = Policies(needs=("success:backup",), needs_deadline_s=3600, jitter_s=1800)
    story.add("report", "@daily", policies=policies)

    story.after_s(4 * HOUR_S + 1800)

    [run] = story.runs("report")
    assert run.wait_until is not None
    assert run.due_at > run.plan_at
    assert (run.wait_until - run.due_at).total_seconds() == 3600


def test_two_that_wait_for_each_other_are_given_up_in_the_end(story: Story) -> None:
    story.add("one", "@daily")
    story.add("two", "@daily", policies=Policies(needs=("success:one",), needs_deadline_s=60))
    needing = Policies(needs=("success:two",), needs_deadline_s=60)
    story.client.edit("one", lambda spec: replace(spec, policies=needing))

    story.after_s(4 * HOUR_S)
    story.after_s(60)

    assert history(story, "one") == history(story, "two") == ["skipped:condition"]


@pytest.mark.parametrize(
    ("overlap", "then"),
    [
        (Overlap.SKIP, ["waits for success:backup:1h", "skipped:overlap"]),
        (Overlap.QUEUE, ["waits for success:backup:1h", "skipped:overlap"]),
        (Overlap.ALLOW, ["waits for success:backup:1h"] * 2),
        (Overlap.REPLACE, ["cancelled:replaced", "waits for success:backup:1h"]),
    ],
)
def test_what_waits_is_active(story: Story, overlap: Overlap, then: list[str]) -> None:
    story.add("backup", "@yearly")
    policies = Policies(needs=NEEDS.needs, needs_deadline_s=6 * HOUR_S, overlap=overlap)
    story.add("report", "@hourly", policies=policies)

    story.after_s(HOUR_S)
    story.after_s(HOUR_S)

    assert history(story, "report") == then


def test_an_interval_after_the_end_goes_on_when_its_fire_was_given_up(story: Story) -> None:
    story.add("backup", "@yearly")
    policies = Policies(needs=("success:backup",), needs_deadline_s=600)
    story.add("probe", "every 1h after end", policies=policies)

    story.after_s(HOUR_S)
    story.after_s(600)

    assert history(story, "probe") == ["skipped:condition"]
    following = story.client.schedule("probe").next_plan_at
    assert following is not None
    assert to_ms(following) == START_MS + (2 * HOUR_S + 600) * 1000


def test_a_sequence_of_catch_ups_waits_as_one(story: Story) -> None:
    story.add("backup", "@yearly")
    policies = Policies(
        needs=("success:backup",), catch_up=CatchUp.ALL, needs_deadline_s=10 * HOUR_S
    )
    story.add("report", "@hourly", policies=policies)
    story.after_s(3 * HOUR_S + 90)
    waiting = history(story, "report")

    story.client.run_now("backup")
    for _ in range(6):
        story.after_s(0)

    assert waiting == ["waits for success:backup"] * 3
    assert history(story, "report") == ["success"] * 3


def test_a_schedule_that_needs_a_success_can_be_told_to_need_it_no_more(story: Story) -> None:
    story.add("backup", "@yearly")
    story.add("report", "@daily", policies=NEEDS)
    story.after_s(4 * HOUR_S)

    story.client.edit(
        "report", lambda spec: replace(spec, policies=replace(spec.policies, needs=()))
    )
    story.after_s(0)

    assert history(story, "report") == ["success"]


@pytest.mark.parametrize(("trigger", "runs"), [("any", 1), ("failure", 0), ("success", 0)])
def test_what_follows_any_end_follows_a_fire_that_was_given_up(
    story: Story, trigger: str, runs: int
) -> None:
    story.add("backup", "@yearly")
    story.add("report", "@daily", policies=NEEDS)
    story.add("tell", f"after report:{trigger}")
    story.after_s(4 * HOUR_S)

    story.after_s(2 * HOUR_S)

    assert history(story, "tell") == ["success"] * runs


def test_a_sleeping_engine_is_woken_for_what_waits(place: Place) -> None:
    place.add("backup", "@yearly", "exit 0")
    place.add("report", "every 1s", "echo done")
    place.client.edit("report", lambda spec: replace(spec, policies=NEEDS))
    daemon = place.daemon()
    queued = daemon.wait_for("queued", schedule="report")

    place.client.run_now("backup")
    ended = daemon.wait_for("ended", schedule="report")

    assert (queued["waits_for"], queued["waiting_for"]) == ("condition", "success:backup:1h")
    assert ended["status"] == "success"


def store_needs(story: Story, name: str, needs: str) -> None:
    """As a later version may have written it, or somebody's hand."""
    database = story.client.store
    with database.transaction():
        database.change(
            "UPDATE schedules SET needs = :needs WHERE name = :name", {"name": name, "needs": needs}
        )
        database.change(
            """UPDATE schedule_revisions SET snapshot = json_set(snapshot, '$.needs', :needs)
               WHERE schedule_id = (SELECT id FROM schedules WHERE name = :name)""",
            {"name": name, "needs": needs},
        )


@pytest.mark.of_file
@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ('["moon:full"]', "moon:full"),
        ('["success:backup:soon"]', "success:backup:soon"),
        ('[{"kind": "moon:full"}]', '{"kind":"moon:full"}'),
        ('"moon:full"', '"moon:full"'),
        ("5", "5"),
    ],
)
def test_a_need_that_can_not_be_read_is_not_met_and_the_others_run(
    story: Story, needs: str, said: str
) -> None:
    story.add("odd", "every 10m", policies=replace(NEEDS, needs=()))
    story.add("other", "every 10m")
    store_needs(story, "odd", needs)
    story.world.kill_engine(story.key)
    story.key = story.world.start_engine()

    story.after_s(600)
    waiting = history(story, "odd")
    story.after_s(2 * HOUR_S)

    assert waiting == [f"waits for {said}"]
    assert story.runs("odd")[0].error_msg == (
        f"needed {said!a}, a condition that this edgecron can't read, which was not true within 2h"
    )
    assert history(story, "other")[0] == "success"
    assert [one.name for one in story.client.schedules()] == ["odd", "other"]


@pytest.mark.of_file
def test_a_need_that_can_not_be_read_is_mended_by_an_edit(story: Story) -> None:
    story.add("backup", "@hourly")
    story.add("odd", "every 10m", policies=NEEDS)
    store_needs(story, "odd", '["moon:full"]')
    story.after_s(600)

    shown_again = story.client.edit("odd", lambda spec: replace(spec, description="shown"))
    with pytest.raises(InvalidInput, match="is unknown"):
        story.client.edit(
            "odd", lambda spec: replace(spec, policies=replace(NEEDS, needs=("offline",)))
        )
    story.client.edit("odd", lambda spec: replace(spec, policies=replace(NEEDS, needs=())))
    story.after_s(1)

    assert shown_again.spec.policies.needs == ("moon:full",)
    assert history(story, "odd") == ["success"]


@pytest.mark.of_file
def test_what_is_queued_outlives_a_need_that_can_not_be_read(story: Story) -> None:
    story.add("odd", "every 10m", lasts_s=1000, policies=Policies(overlap=Overlap.QUEUE))
    story.add("other", "every 10m")
    story.after_s(600)
    story.after_s(600)
    store_needs(story, "odd", '["moon:full"]')

    story.after_s(600)

    assert history(story, "odd")[1] == "waits for moon:full"
    assert history(story, "other") == ["success"] * 3


@pytest.mark.of_file
def test_an_end_is_written_whoever_of_its_followers_can_not_be_read(story: Story) -> None:
    story.add("up", "every 10m")
    story.add("odd", "after up")
    story.add("next", "after up")
    database = story.client.store
    with database.transaction():
        database.change(
            """UPDATE schedule_revisions SET snapshot = json_set(snapshot, '$.kind', 'container')
               WHERE schedule_id = (SELECT id FROM schedules WHERE name = 'odd')""",
            {},
        )

    story.after_s(600)
    story.after_s(1)

    assert history(story, "up") == history(story, "next") == ["success"]
    assert "'container'" in (story.client.schedule("odd").trigger_error or "")
    [told] = [event for event in story.world.events if event.kind is EventKind.BROKEN]
    assert told.schedule == "odd"
