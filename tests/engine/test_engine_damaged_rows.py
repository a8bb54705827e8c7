"""A schedule whose row holds what no edgecron writes: it says so, and the others run."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from edgecron.engine.events import EventKind
from edgecron.model.options import Policies
from tests.support.story import Story

pytestmark = [pytest.mark.failure(52), pytest.mark.failure(66)]

HUGE, DEEP = 2**62, "[" * 50_000 + "]" * 50_000
AT = '[{"kind":"at","text":"at","timezone":null,"at_ms":4611686018427387904}]'
EVERY = '[{"kind":"every","text":"every 1m","timezone":null,"interval_ms":1e400,"anchor_ms":1e400}]'
NOT_UTF_8 = "CAST(x'5bc328ff5d' AS TEXT)"

# What lies in the snapshot that engines read, by its column.
WORDS: list[tuple[str, object]] = [
    *(("triggers", text) for text in ("[1, {}]", "{", "null")),
    *(("compiled", text) for text in ("{", DEEP, "[null]", AT, EVERY, '[{"kind":"cron"}]')),
    *(("job", text) for text in ("[1]", "[]", "{}", DEEP)),
    *(("env", text) for text in ("[1]", '{"A": null}', DEEP)),
    *(("ok_codes", text) for text in ("{", "[1e999]", '["a"]')),
    *((name, "rocket") for name in ("kind", "overlap", "catch_up", "on_interrupt")),
    *(("name", text) for text in ("", "a\0b", "n" * 1_000_000)),
    *(("timezone", text) for text in ("No/Where", "../../etc/passwd")),
    *((name, 9e999) for name in ("max_late_s", "jitter_s", "retry_delay_s", "timeout_s")),
    *(("from_at", instant) for instant in (HUGE, -HUGE, -(2**63))),
    ("until_at", HUGE),
    ("max_runs", -1),
    ("group_name", "\x1b[2J"),
]
# What lies in its row, as SQL.
COLUMNS = [
    *(f"next_plan_at = {instant}" for instant in (HUGE, -HUGE)),
    *(f"next_run_at = {instant}, next_plan_at = {instant}" for instant in (-HUGE, 253402300800000)),
    *(f"decided_until = {instant}" for instant in (HUGE, -HUGE)),
    f"paused_until = {-HUGE}",
    f"planned_count = {2**63 - 1}",
    "planned_count = -9",
    f"revision = {HUGE}",
    f"max_running = {-HUGE}",
    f"after_end_ms = {2**63 - 1}",
    "overlap = 'rocket'",
    "needs = '{'",
    "trigger_error = 'is set', boot_decided = ''",
    *(
        f"{name} = {NOT_UTF_8}"
        for name in ("name", "next_source", "overlap", "queue", "triggers", "trigger_error")
    ),
]


def change(story: Story, sql: str, *params: object) -> None:
    """As somebody does who switches the checks off."""
    connection = apsw.Connection(str(story.world.path))
    connection.execute("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF")
    connection.execute(sql, params)
    connection.close()


@pytest.fixture
def damaged(story: Story) -> Story:
    """A world in which one schedule is about to be damaged."""
    story.add("bad", "every 1m")
    story.add("good", "every 1m")
    story.add("follower", "after good")
    story.add("beside", "after good")
    story.after_s(1)
    return story


def assert_others_run(story: Story) -> None:
    for _ in range(3):
        story.after_s(60)
        story.after_s(1)
    assert story.bodies("good") == 3
    assert story.bodies("follower") == 3
    kinds = [event.kind for event in story.world.events]
    assert EventKind.DATABASE_TROUBLE not in kinds


@pytest.mark.parametrize(("column", "value"), WORDS, ids=lambda value: f"{value!s:.20}")
def test_what_a_schedule_says_can_be_nonsense(damaged: Story, column: str, value: object) -> None:
    change(
        damaged,
        f"UPDATE schedule_revisions SET snapshot = json_set(snapshot, '$.{column}', ?)"
        " WHERE schedule_id = 1",
        value,
    )

    assert_others_run(damaged)


@pytest.mark.parametrize("columns", COLUMNS)
def test_what_is_kept_of_a_schedule_can_be_nonsense(damaged: Story, columns: str) -> None:
    change(damaged, f"UPDATE schedules SET {columns} WHERE id = 1")

    assert_others_run(damaged)


@pytest.mark.parametrize("snapshot", ["'[]'", "'{'", "'{}'", "'null'", NOT_UTF_8])
def test_a_schedule_without_its_words_says_so(damaged: Story, snapshot: str) -> None:
    change(damaged, f"UPDATE schedule_revisions SET snapshot = {snapshot} WHERE schedule_id = 1")

    assert_others_run(damaged)
    told = [one for one in damaged.world.events if one.kind is EventKind.BROKEN]
    assert len(told) == 1, "once, and not at each of its times"
    assert damaged.client.schedule("bad").trigger_error == told[0].details["error_msg"]
    assert damaged.client.schedule("bad").next_run_at is None


@pytest.mark.parametrize("snapshot", ["'{'", "'{}'", NOT_UTF_8])
def test_a_follower_without_its_words_does_not_hold_up_the_others(
    damaged: Story, snapshot: str
) -> None:
    change(damaged, f"UPDATE schedule_revisions SET snapshot = {snapshot} WHERE schedule_id = 4")

    assert_others_run(damaged)
    assert damaged.client.schedule("beside").trigger_error is not None


@pytest.mark.parametrize("columns", ["overlap = 'rocket'", "needs = '{'", "ok_codes = '{'"])
def test_a_run_of_a_damaged_schedule_does_not_hold_up_the_others(
    damaged: Story, columns: str
) -> None:
    damaged.client.run_now("bad")
    change(damaged, f"UPDATE schedules SET {columns} WHERE id = 1")

    assert_others_run(damaged)
    assert [str(run.status) for run in damaged.runs("good")[:1]] == ["success"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("retries", "many"),
        ("retry_delay_s", "soon"),
        ("retry_delay_s", 9e999),
        ("retry_delay_s", 1e200),
        ("retry_factor", "[]"),
        ("retry_max_delay_s", None),
        ("on_interrupt", "rocket"),
        ("on_interrupt", None),
    ],
)
def test_a_failure_whose_retries_make_no_sense_holds_up_no_other_end(
    story: Story, column: str, value: object
) -> None:
    policies = Policies(retries=2, retry_delay_s=10, retry_max_delay_s=1e6)
    story.add("bad", "every 1m", lasts_s=30, code=1, policies=policies)
    story.add("good", "every 1m", lasts_s=30)
    story.after_s(60)
    change(
        story,
        "UPDATE schedule_revisions SET snapshot = json_set(snapshot, ?1, ?2) WHERE schedule_id = 1",
        f"$.{column}",
        value,
    )

    story.after_s(30)

    assert story.statuses("good") == ["success"]
    # As the schedule itself has it.
    assert story.statuses("bad") == ["failed:exit", "queued"]


@pytest.mark.parametrize("snapshot", ["'{'", "'{}'", NOT_UTF_8])
def test_a_failure_whose_schedule_has_no_words_holds_up_no_other_end(
    story: Story, snapshot: str
) -> None:
    story.add("bad", "every 1m", lasts_s=30, code=1, policies=Policies(retries=2))
    story.add("good", "every 1m", lasts_s=30)
    story.after_s(60)
    change(story, f"UPDATE schedule_revisions SET snapshot = {snapshot} WHERE schedule_id = 1")

    story.after_s(30)

    assert story.statuses("good") == ["success"]
    assert story.statuses("bad") == ["failed:exit", "queued"]


@pytest.mark.parametrize(
    "damage",
    [
        *(f"UPDATE schedule_revisions SET snapshot = {one}" for one in ("'{'", "'{}'", NOT_UTF_8)),
        "UPDATE schedule_revisions SET snapshot = json_set(snapshot, '$.compiled', '{')",
        "DELETE FROM schedule_revisions",
        "UPDATE schedules SET needs = '{'",
        "UPDATE schedules SET needs = '[\"rocket\"]'",
        "UPDATE schedules SET needs_deadline_s = 9e999",
        f"UPDATE schedules SET decided_until = {-HUGE}",
    ],
)
def test_a_damaged_schedule_that_waits_in_vain_does_not_hold_up_the_others(
    story: Story, damage: str
) -> None:
    policies = Policies(needs=("success:never",), needs_deadline_s=90)
    story.add("never", "@yearly")
    story.add("bad", "every 1m", max_runs=1, policies=policies)
    story.add("good", "every 1m")
    story.add("follower", "after good")
    story.after_s(60)
    story.after_s(1)
    where = "schedule_id" if "schedule_revisions" in damage else "id"
    change(story, f"{damage} WHERE {where} = 2")

    for _ in range(4):
        story.after_s(60)
        story.after_s(1)

    assert story.bodies("good") == 5
    assert story.bodies("follower") == 5
    assert story.bodies("bad") == 0


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_schedule_found_broken_after_a_run_that_never_was_is_reported(
    story: Story, is_waiting: bool
) -> None:
    story.add("never", "@yearly")
    if is_waiting:  # in vain
        needed = Policies(needs=("success:never",), needs_deadline_s=90)
        story.add("bad", "every 1m", max_runs=1, policies=needed)
    else:  # its only run is skipped for overlap
        story.add("bad", "every 1m", max_runs=1, lasts_s=600)
        story.client.run_now("bad")
    story.after_s(60 if is_waiting else 1)
    # Its next time is wanted once that run did not count, and can no longer be computed.
    change(
        story,
        """UPDATE schedule_revisions SET snapshot = json_set(snapshot, '$.ok_codes', '{')
           WHERE schedule_id = 2""",
    )

    for _ in range(4):
        story.after_s(60)

    error = story.client.schedule("bad").trigger_error
    told = [one for one in story.world.events if one.kind is EventKind.BROKEN]
    assert error is not None
    assert [(one.schedule, one.details["error_msg"]) for one in told] == [("bad", error)]


def test_what_ran_of_a_damaged_schedule_is_taken_over_like_the_rest(story: Story) -> None:
    story.add("bad", "every 1m", lasts_s=90)
    story.add("good", "every 1m", lasts_s=90)
    story.after_s(60)

    change(story, "UPDATE schedules SET ok_codes = '{', needs = '{', overlap = 'x' WHERE id = 1")
    story.world.kill_engine(story.key)
    story.key = story.world.start_engine()
    story.after_s(100)

    [first, *_] = story.runs("good")
    connection = apsw.Connection(str(story.world.path))
    [(ended,)] = connection.execute("SELECT status FROM executions WHERE id = 1").fetchall()
    connection.close()
    assert (str(first.status), ended) == ("success", "success")


def test_a_run_that_can_not_be_read_once_it_has_a_place_is_told_in_order(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=1)
    story.add("good", "every 1m", lasts_s=30)
    story.after_s(60)
    story.add("bad", "@yearly")
    story.client.run_now("bad")
    change(
        story,
        "UPDATE schedule_revisions SET snapshot = json_set(snapshot, '$.job', '{')"
        " WHERE schedule_id = 2",
    )

    story.after_s(30)

    told = [event.kind for event in story.world.events if event.execution_id == 2]
    assert told == [EventKind.STARTED, EventKind.ENDED]
    assert story.statuses("good") == ["success"]
