"""What a run is told beside its schedule: its fence, and the run that it follows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import apsw
import pytest

from edgecron.model.choices import Overlap
from edgecron.model.options import Policies
from tests.support.engines import Place
from tests.support.story import Story

MINUTE_S = 60


def sql(story: Story, statement: str) -> list[Any]:
    connection = apsw.Connection(str(story.world.path))
    found = connection.execute(statement).fetchall()
    connection.close()
    return found


def fences(story: Story, name: str) -> list[int]:
    return [run.fence or 0 for run in story.runs(name)]


def test_each_run_of_a_schedule_has_a_larger_fence(story: Story) -> None:
    story.add("job", "* * * * *")
    for _ in range(3):
        story.after_s(MINUTE_S)
    for _ in range(2):
        story.client.run_now("job")
        story.after_s(1)

    found = fences(story, "job")
    assert len(found) == 5
    assert all(earlier < later for earlier, later in pairwise(found)), found


def test_scopes_that_start_together_have_fences_of_their_own(story: Story) -> None:
    story.add("job", "* * * * *", scopes=(("plc", "1"), ("plc", "2"), ("plc", "3")))
    story.after_s(MINUTE_S)

    assert len(set(fences(story, "job"))) == 3


def test_a_fence_grows_although_the_clock_was_set_back(story: Story) -> None:
    story.add("job", "every 1m")
    story.after_s(MINUTE_S)
    [before] = fences(story, "job")

    story.world.clock.step_ms(-3_000_000)
    story.client.run_now("job")
    story.after_s(1)

    assert fences(story, "job")[-1] > before


def test_a_schedule_made_again_under_its_name_goes_on_with_larger_fences(story: Story) -> None:
    story.add("job", "every 1m")
    story.after_s(MINUTE_S)
    [before] = fences(story, "job")
    story.client.remove("job")

    story.add("job", "every 1m")
    story.after_s(MINUTE_S)

    assert fences(story, "job")[-1] > before


def test_a_run_that_waited_for_a_place_has_a_fence_of_its_start(story: Story) -> None:
    story.add("job", "* * * * *", lasts_s=90, policies=Policies(overlap=Overlap.QUEUE))
    story.after_s(MINUTE_S)
    story.after_s(MINUTE_S)
    waiting = story.runs("job")[1]
    story.after_s(MINUTE_S)

    running = story.runs("job")[1]

    assert waiting.fence is None
    assert running.fence == story.world.clock.now_ms()


@pytest.mark.parametrize(
    ("line", "expected"),
    [("true", None), ("exit 3", "exit_3"), ("kill -9 $$", "signal_9"), ("sleep 60", "timeout")],
)
def test_an_end_has_a_code(place: Place, line: str, expected: str | None) -> None:
    place.add("job", "@yearly", line)
    place.client.edit("job", lambda spec: replace(spec, policies=Policies(timeout_s=2)))
    daemon = place.daemon()
    place.client.run_now("job")
    daemon.wait_for("ended", schedule="job")

    [run] = place.runs("job")
    assert run.error_code == expected


@pytest.mark.of_file
def test_a_running_run_says_when_it_counts_as_stale(story: Story) -> None:
    story.add("job", "* * * * *", lasts_s=3600)
    story.after_s(MINUTE_S)
    started = sql(story, "SELECT stale_after - heartbeat_at FROM executions")

    story.after_s(11 * MINUTE_S)
    later = sql(
        story,
        "SELECT stale_after - heartbeat_at, heartbeat_at - claimed_at > 0"
        " FROM executions WHERE status = 'running'",
    )

    assert started == [(1_800_000,)]
    assert later == [(1_800_000, 1)]


def test_a_job_says_in_its_result_how_many_rows_it_changed(place: Place) -> None:
    place.add("job", "@yearly", """echo '{"rows_affected": 12}' > "$EDGECRON_RESULT" """)
    place.add("other", "@yearly", """echo '{"rows_affected": "many"}' > "$EDGECRON_RESULT" """)
    daemon = place.daemon()
    for name in ("job", "other"):
        place.client.run_now(name)
        daemon.wait_for("ended", schedule=name)

    connection = apsw.Connection(str(place.database))
    found = connection.execute(
        "SELECT schedule, rows_affected FROM executions_view ORDER BY id"
    ).fetchall()
    connection.close()

    assert found == [("job", 12), ("other", None)]


def test_a_follow_up_is_told_what_failed(place: Place) -> None:
    place.add("backup", "@yearly", "exit 3")
    place.add(
        "report",
        "after backup:failure",
        'printf "%s|" "$EDGECRON_UPSTREAM_NAME" "$EDGECRON_UPSTREAM_RUN_ID"'
        ' "$EDGECRON_UPSTREAM_STATUS" "$EDGECRON_UPSTREAM_REASON"'
        ' "$EDGECRON_UPSTREAM_EXIT_CODE" "$EDGECRON_UPSTREAM_ERROR" > "$LOG"',
    )
    daemon = place.daemon()
    [run] = place.client.run_now("backup")
    daemon.wait_for("ended", schedule="report")

    [told] = place.effects()
    failed = place.client.execution(run.id)
    assert told == f"backup|{run.id}|failed|exit|3|{failed.error_msg}|"


def test_a_run_that_follows_nothing_is_told_of_no_upstream(place: Place) -> None:
    place.add("job", "@yearly", 'env > "$LOG"')
    daemon = place.daemon()
    place.client.run_now("job")
    daemon.wait_for("ended", schedule="job")

    assert not [line for line in place.effects() if line.startswith("EDGECRON_UPSTREAM")]
    assert [line for line in place.effects() if line.startswith("EDGECRON_FENCE=")]
