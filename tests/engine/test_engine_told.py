"""One line for each decision: what an engine does is told once, with its reason."""

from __future__ import annotations

from collections import Counter

from edgecron.base.units import to_ms
from edgecron.engine.events import Event, EventKind
from edgecron.model.choices import OnInterrupt, Overlap, Status
from edgecron.model.options import Policies
from tests.support.story import Story

HOUR_S = 3600
TERMINAL = frozenset(Status) - {Status.QUEUED, Status.RUNNING, Status.SKIPPED}


def told(story: Story, name: str) -> list[str]:
    """What was told of a schedule, in a word or two each."""
    return [words(event) for event in story.world.events if event.schedule == name]


def words(event: Event) -> str:
    parts = [event.details.get("status", event.kind.value), event.details.get("reason")]
    attempt = event.details.get("attempt")
    return ":".join(str(part) for part in parts if part) + (f" #{attempt}" if attempt else "")


def test_a_failure_its_retry_and_what_follows_it_are_told(story: Story) -> None:
    policies = Policies(retries=1, retry_delay_s=60)
    story.add("first", "@hourly", code=1, policies=policies)
    story.add("second", "after first:any")

    story.after_s(HOUR_S)
    story.after_s(70)
    story.after_s(0)

    assert told(story, "first") == [
        "started", "failed:exit", "queued #2", "started #2", "failed:exit",
    ]  # fmt: skip
    assert told(story, "second") == ["queued", "started", "success"]
    [retry] = [event for event in story.world.events if event.kind is EventKind.QUEUED
               and event.schedule == "first"]  # fmt: skip
    [_, second] = story.runs("first")
    assert retry.details == {
        "plan_ms": to_ms(second.plan_at),
        "due_ms": to_ms(second.due_at),
        "cause": "retry",
        "attempt": 2,
    }


def test_what_a_pause_or_overlap_keeps_from_following_is_told(story: Story) -> None:
    story.add("first", "* * * * *")
    story.add("held", "after first")
    story.add("slow", "after first", lasts_s=90)
    story.client.pause("held")

    story.after_s(60)
    story.after_s(60)

    assert told(story, "held") == ["skipped:paused"] * 2
    assert told(story, "slow") == ["queued", "started", "skipped:overlap"]


def test_the_places_of_what_is_replaced_are_told(story: Story) -> None:
    story.add("feed", "@yearly", lasts_s=90, policies=Policies(overlap=Overlap.REPLACE))
    story.add("first", "* * * * *")
    story.add("after", "after first", lasts_s=200, policies=Policies(overlap=Overlap.REPLACE))

    for _ in range(3):
        story.after_s(60)
        story.after_s(0)

    # What runs is ended at once for what comes after another schedule, too.
    assert story.statuses("after") == ["cancelled:replaced", "cancelled:replaced", "running"]
    assert told(story, "after")[:5] == [
        "queued", "started", "queued", "cancelled:replaced", "started",
    ]  # fmt: skip
    waiting = [event.details.get("waits_for") for event in story.world.events
               if event.schedule == "after" and event.kind is EventKind.QUEUED]  # fmt: skip
    assert waiting == ["place", "replaced_run", "replaced_run"]


def test_what_may_run_beside_others_is_told_to_wait_for_a_place(story: Story) -> None:
    story.add("first", "* * * * *")
    beside = Policies(overlap=Overlap.ALLOW)
    story.add("after", "after first", lasts_s=200, policies=beside)

    for _ in range(2):
        story.after_s(60)
        story.after_s(0)

    assert story.statuses("after") == ["running", "running"]
    waiting = [event.details.get("waits_for") for event in story.world.events
               if event.schedule == "after" and event.kind is EventKind.QUEUED]  # fmt: skip
    assert waiting == ["place", "place"]


def test_a_queued_run_that_is_replaced_is_told(story: Story) -> None:
    policies = Policies(overlap=Overlap.REPLACE, retries=1, retry_delay_s=600)
    story.add("feed", "* * * * *", code=1, policies=policies)

    story.after_s(60)
    story.after_s(60)

    assert told(story, "feed") == [
        "started", "failed:exit", "queued #2",
        "cancelled:replaced #2", "queued", "started", "failed:exit", "queued #2",
    ]  # fmt: skip


def test_a_range_that_was_missed_is_told_with_its_bounds(story: Story) -> None:
    story.add("job", "@hourly")

    story.after_s(5 * HOUR_S)

    [event] = [one for one in story.world.events if one.kind is EventKind.SKIPPED]
    row = story.runs("job")[0]
    assert row.missed_from_at is not None
    assert row.missed_to_at is not None
    assert event.details == {
        "plan_ms": to_ms(row.plan_at),
        "reason": "misfire",
        "missed_count": 4,
        "missed_from_ms": to_ms(row.missed_from_at),
        "missed_to_ms": to_ms(row.missed_to_at),
    }


def test_a_run_that_was_taken_back_is_told(story: Story) -> None:
    story.add("long", "@hourly", lasts_s=30, policies=Policies(on_interrupt=OnInterrupt.RETRY))
    story.world.wait_chance = 1.0
    story.after_s(HOUR_S)

    story.world.kill_engine(story.key)
    story.key = story.world.start_engine()
    story.world.wait_chance = 0.0
    story.after_s(1)

    assert told(story, "long") == ["started", "requeued:never_started", "started"]


def test_what_follows_a_run_that_was_cancelled_before_its_start_is_told(story: Story) -> None:
    story.add("long", "@hourly", lasts_s=30)
    story.add("then", "after long:any")
    story.add("held", "after long:any")
    story.client.pause("held")
    story.world.wait_chance = 1.0
    story.after_s(HOUR_S)
    [claimed] = story.runs("long")
    story.world.kill_engine(story.key)
    story.client.store.request_cancel(claimed.id, now_ms=story.world.clock.now_ms())

    story.key = story.world.start_engine()
    story.world.wait_chance = 0.0
    story.after_s(1)

    assert told(story, "long") == ["started", "cancelled:request"]
    assert told(story, "then")[:2] == ["queued", "started"]
    assert told(story, "held") == ["skipped:paused"]


def test_every_row_has_its_lines(story: Story) -> None:
    """Of a long story with all policies: one line for each row that ended, one for each start."""
    story.add("flaky", "*/2 * * * *", code=1, policies=Policies(retries=2, retry_delay_s=20))
    story.add("slow", "* * * * *", lasts_s=100, policies=Policies(overlap=Overlap.QUEUE))
    story.add("feed", "* * * * *", lasts_s=100, policies=Policies(overlap=Overlap.REPLACE))
    story.add("next", "after flaky:any", lasts_s=130)
    story.add("poll", "every 90s after end", lasts_s=10)

    for turn in range(80):
        story.after_s(10)
        if turn == 40:
            story.world.kill_supervisor(story.engine.runners.own.id)

    rows = story.client.history(limit=1000)
    lines = Counter((event.execution_id, event.kind) for event in story.world.events)
    assert len(rows) > 30
    for row in rows:
        has_run = row.claimed_at is not None
        assert lines[row.id, EventKind.STARTED] == has_run
        assert lines[row.id, EventKind.ENDED] == (has_run and row.status in TERMINAL)
        assert lines[row.id, EventKind.CANCELLED] == (not has_run and row.status in TERMINAL)
        assert lines[row.id, EventKind.QUEUED] <= 1
        if row.status is Status.SKIPPED:
            assert lines[row.id, EventKind.SKIPPED] == row.missed_count
