"""Moving the next run, and resuming with a run at once."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest

from edgecron.base.units import parse_instant
from edgecron.model.options import Policies
from edgecron.views.run_words import run_sentence
from tests.support.cli import Edgecron
from tests.support.story import Story


def test_reschedule_says_the_new_time_and_the_old_one(edgecron: Edgecron) -> None:
    edgecron("add", "backup", "--cron", "0 2 * * *", "--tz", "UTC", "--", "true")
    [before] = edgecron("list", "--json").json

    said = edgecron("reschedule", "backup", "2040-01-01 09:00")

    assert said.code == 0
    assert "rescheduled backup; next 2040-01-01 09:00:00" in said.out
    assert "instead of 20" in said.out
    [after] = edgecron("list", "--json").json
    assert after["next_plan_at"] == before["next_plan_at"]
    assert after["next_run_at"] == "2040-01-01T09:00:00Z"
    assert after["revision"] == before["revision"] + 1
    assert "no engine is running" in said.err


def test_reschedule_reads_times_as_people_write_them(edgecron: Edgecron, backup: str) -> None:
    [moved] = edgecron("reschedule", backup, "in 20m", "--json").json

    wait = parse_instant(moved["next_run_at"]) - parse_instant(moved["updated_at"])
    assert abs(wait - timedelta(minutes=20)) < timedelta(seconds=2)
    assert moved["next_plan_at"] != moved["next_run_at"]
    assert "rescheduled from" in edgecron("next", backup).out


def test_a_move_to_a_time_of_its_own_is_not_said_to_come_from_there(edgecron: Edgecron) -> None:
    edgecron("add", "tick", "--cron", "* * * * *", "--", "true")

    edgecron("reschedule", "tick", "2040-01-01T09:00:00Z")

    assert edgecron("next", "tick", "-n", "1").out.rstrip().endswith("* * * * *  rescheduled")
    assert "rescheduled from" not in edgecron("show", "tick").out
    assert edgecron("why", "tick").out.splitlines()[1].endswith(", rescheduled.")


def test_reschedule_refuses_what_can_not_be(edgecron: Edgecron, backup: str) -> None:
    past = edgecron("reschedule", backup, "2020-01-01", "--json")
    nobody = edgecron("reschedule", "bakup", "in 1h")
    edgecron("pause", backup)
    paused = edgecron("reschedule", backup, "in 1h")

    assert (past.code, past.error["code"]) == (2, "invalid_time")
    assert nobody.code == 3
    assert "did you mean 'backup'" in nobody.err
    assert paused.code == 1
    assert "no next time to move: paused" in paused.err
    assert "edgecron resume backup" in paused.err


@pytest.mark.parametrize("until", [(), ("--until", "in 2h")])
def test_a_pause_says_that_it_cancels_a_move(
    edgecron: Edgecron, backup: str, until: tuple[str, ...]
) -> None:
    edgecron("reschedule", backup, "2040-01-01T09:00:00Z")

    said = edgecron("pause", backup, *until)
    again = edgecron("pause", backup, *until)
    edgecron("resume", backup)

    assert "the move of its next run to 2040-01-01 09:00:00 is cancelled" in said.out
    assert "move" not in again.out
    assert edgecron("list", "--json").json[0]["next_run_at"] < "2040"


def test_resume_now_resumes_and_runs_it_once(edgecron: Edgecron, backup: str) -> None:
    edgecron("pause", backup)

    said = edgecron("resume", backup, "--now")

    assert said.code == 0
    assert said.out.startswith("resumed backup; next ")
    assert "run 1 of backup: queued" in said.out
    assert "no engine is running" in said.err
    [run] = edgecron("history", "--json").json
    assert (run["cause"], run["status"]) == ("manual", "queued")


def test_resume_now_runs_also_what_was_not_paused(edgecron: Edgecron, backup: str) -> None:
    [shown] = edgecron("resume", backup, "--now", "--json").json
    again = edgecron("resume", backup, "--now")

    assert [run["status"] for run in shown["runs"]] == ["queued"]
    assert again.code == 1  # nothing was run: the first one is still active
    assert "backup was not paused" in again.out
    assert "run 2 of backup: skipped: overlap" in again.out
    assert "run 1 is queued" in again.err


def test_why_names_the_plan_time_of_a_moved_run_and_the_time_it_was_moved_to(
    story: Story,
) -> None:
    story.add("job", "@hourly")
    planned = story.client.schedule("job").next_plan_at
    assert planned is not None
    moved = planned + timedelta(minutes=10)
    story.client.reschedule("job", moved)
    story.after_s(4200)

    [run] = story.runs("job")
    said = run_sentence(
        run, zone=UTC, now=story.client.now(), spec=story.client.schedule("job").spec
    )

    was, at = (one.strftime("%H:%M:%S") for one in (planned, moved))
    assert f"because it was planned for {was} by '@hourly' (rescheduled to {at})" in said


def test_jitter_is_not_taken_for_a_move(story: Story) -> None:
    story.add("job", "@hourly", policies=Policies(jitter_s=600))
    story.after_s(4200)

    [run] = story.runs("job")
    said = run_sentence(
        run, zone=UTC, now=story.client.now(), spec=story.client.schedule("job").spec
    )

    assert " (delayed to " in said
    assert "rescheduled" not in said


def test_a_jitter_longer_than_the_interval_is_warned_of(edgecron: Edgecron) -> None:
    added = edgecron("add", "poll", "--every", "1m", "--jitter", "10m", "--", "true")
    edited = edgecron("edit", "poll", "--jitter", "2m")
    fine = edgecron("edit", "poll", "--jitter", "30s")

    assert "jitter 10m is longer than the interval 1m" in added.err
    assert "jitter 2m is longer than the interval 1m" in edited.err
    assert "jitter" not in fine.err
