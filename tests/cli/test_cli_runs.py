"""Upcoming runs, past runs and their output, and a manual run."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from edgecron.base.units import parse_instant
from edgecron.cli import run
from edgecron.model.options import Policies
from tests.support.cli import Edgecron
from tests.support.story import Story

HISTORY_FIELDS = [
    "id", "schedule", "scope_kind", "scope_id", "plan_at", "due_at", "fire_key", "cause",
    "attempt", "max_attempts", "status", "reason", "exit_code", "started_at", "finished_at",
    "duration_ms", "engine_id", "missed_from_at", "missed_to_at", "missed_count", "error_msg",
]  # fmt: skip


def add(edgecron: Edgecron, name: str, line: str, *options: str) -> None:
    said = edgecron("add", name, "--every", "1h", *options, "--shell", line)
    assert said.code == 0, said.err


def test_next_merges_all_schedules_in_order(edgecron: Edgecron) -> None:
    edgecron("add", "often", "--every", "10m", "--", "true")
    edgecron("add", "rare", "--every", "25m", "--", "true")

    fires = edgecron("next", "-n", "7", "--json").json

    assert list(fires[0]) == ["schedule", "plan_at", "due_at", "source", "is_moved"]
    assert [fire["schedule"] for fire in fires] == [
        "often", "often", "rare", "often", "often", "often", "rare",
    ]  # fmt: skip
    assert [fire["due_at"] for fire in fires] == sorted(fire["due_at"] for fire in fires)


def test_next_of_one_schedule_shows_its_own_times(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "often", "--every", "10m", "--", "true")

    fires = edgecron("next", backup, "-n", "3", "--json").json
    lines = edgecron("next", "-n", "3", backup).out.splitlines()

    assert [fire["schedule"] for fire in fires] == [backup] * 3
    assert len(lines) == 4


def test_upcoming_runs_can_be_put_into_a_calendar(edgecron: Edgecron, backup: str) -> None:
    calendar = edgecron("next", backup, "-n", "3", "--ics").out
    refused = edgecron("next", "--ics", "--json")

    assert calendar.startswith("BEGIN:VCALENDAR")
    assert calendar.count(f"SUMMARY:{backup}") == 3
    assert refused.code == 2
    assert "--ics and --json exclude each other" in refused.err


def test_runs_of_two_machines_are_different_events(edgecron: Edgecron, tmp_path: Path) -> None:
    uids = []
    for name in ("a.db", "b.db"):
        db = ("--db", str(tmp_path / name))
        edgecron(*db, "add", "nightly", "--cron", "30 2 * * *", "--", "true")
        lines = [edgecron(*db, "next", "-n", "1", "--ics").out for _ in range(2)]
        uids.append({line for text in lines for line in text.splitlines() if "UID" in line})

    assert [len(each) for each in uids] == [1, 1]
    assert uids[0] != uids[1]


def test_next_tells_how_far_jitter_moved_a_time(edgecron: Edgecron) -> None:
    edgecron("add", "x", "--every", "1h", "--jitter", "30m", "--", "true")

    fires = edgecron("next", "-n", "5", "--json").json

    moved = [
        (parse_instant(fire["due_at"]) - parse_instant(fire["plan_at"])).total_seconds()
        for fire in fires
    ]
    assert all(0 <= seconds <= 1800 for seconds in moved)
    assert len(set(moved)) > 1
    assert "of jitter" in edgecron("next").out


def test_run_queues_a_run_and_leaves_the_next_time(edgecron: Edgecron, backup: str) -> None:
    [before] = edgecron("list", "--json").json

    [queued] = edgecron("run", backup, "--json").json

    assert (queued["cause"], queued["status"]) == ("manual", "queued")
    assert edgecron("list", "--json").json[0]["next_plan_at"] == before["next_plan_at"]


def test_run_with_wait_runs_it_here_and_prints_what_it_printed(
    edgecron: Edgecron, backup: str
) -> None:
    said = edgecron("run", backup, "--wait")

    assert (said.code, said.out, said.err) == (0, "good\n", "bad\n")
    [execution] = edgecron("history", "--json").json
    assert (execution["status"], execution["cause"]) == ("success", "manual")


@pytest.mark.parametrize(
    ("line", "code"), [("exit 7", 7), ("kill -TERM $$", 143), ("exit 125", 125), ("true", 0)]
)
def test_run_with_wait_exits_as_the_job_did(edgecron: Edgecron, line: str, code: int) -> None:
    add(edgecron, "x", line)

    assert edgecron("run", "x", "--wait").code == code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("run", "x", "--badoption"), 2),
        (("run",), 2),
        (("run", "x", "--wait", "--badoption"), 125),
        (("run", "--wait"), 125),
    ],
)
def test_a_line_that_is_not_understood_is_told_from_a_job_that_exits_with_2(
    edgecron: Edgecron, words: tuple[str, ...], code: int
) -> None:
    add(edgecron, "x", "exit 2")

    assert edgecron(*words).code == code


@pytest.mark.parametrize(
    ("options", "line", "word"),
    [((), "kill -TERM $$", "SIGTERM"), (("--timeout", "100ms"), "sleep 60", "timeout")],
)
def test_run_with_wait_says_when_the_job_did_not_end_by_itself(
    edgecron: Edgecron, options: tuple[str, ...], line: str, word: str
) -> None:
    add(edgecron, "x", line, *options)

    said = edgecron("run", "x", "--wait")

    assert said.code == 143
    assert said.err.startswith("edgecron: run 1 of x ended early: failed")
    assert word in said.err
    assert said.err.count("\n") == 1


def test_run_with_wait_is_silent_about_an_exit_code(edgecron: Edgecron) -> None:
    add(edgecron, "x", "echo no; exit 7")

    assert edgecron("run", "x", "--wait").err == ""


def test_run_with_wait_exits_with_125_for_errors_of_our_own(edgecron: Edgecron) -> None:
    edgecron("add", "gone", "--every", "1h", "--", "/no/such/command")

    missing = edgecron("run", "gone", "--wait")

    assert missing.code == 125
    assert "/no/such/command" in missing.err
    assert edgecron("run", "nope", "--wait").code == 125
    assert edgecron("run", "--wait", "gone", "--wat").code == 125
    assert edgecron("run", "nope").code == 3


def test_run_with_wait_takes_nothing_else_that_is_due(
    edgecron: Edgecron, backup: str, tmp_path: Path
) -> None:
    add(edgecron, "other", f"touch {tmp_path}/ran")
    edgecron("run", "other")

    edgecron("run", backup, "--wait")

    assert not (tmp_path / "ran").exists()
    statuses = {one["schedule"]: one["status"] for one in edgecron("history", "--json").json}
    assert statuses == {"other": "queued", backup: "success"}


def test_a_second_run_is_skipped_by_overlap_and_says_so(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup)

    said = edgecron("run", backup)
    waited = edgecron("run", backup, "--wait")

    assert said.code == 1
    assert "skipped: overlap" in said.out
    assert "run 2 was skipped: run 1 is queued, and no engine is running" in said.err
    assert waited.code == 125
    assert "overlap: run 1 is queued" in waited.err
    assert "edgecron daemon" in waited.err


def test_history_has_the_fields_of_the_contract_in_order(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup, "--wait")

    [execution] = edgecron("history", backup, "--json").json

    assert list(execution)[: len(HISTORY_FIELDS)] == HISTORY_FIELDS
    assert execution["exit_code"] == 0
    assert execution["plan_at"].endswith("Z")
    assert execution["fire_key"].startswith("manual:")


def test_history_is_filtered_by_status_and_paged(edgecron: Edgecron) -> None:
    add(edgecron, "good", "true")
    add(edgecron, "bad", "exit 1")
    for name in ("good", "bad", "good", "bad"):
        edgecron("run", name, "--wait")

    failed = edgecron("history", "--status", "failed", "--json").json
    page = edgecron("history", "-n", "2", "--json").json
    rest = edgecron("history", "--before", str(page[-1]["id"]), "--json").json

    assert [one["schedule"] for one in failed] == ["bad", "bad"]
    assert [one["id"] for one in page + rest] == sorted(
        (one["id"] for one in page + rest), reverse=True
    )
    assert len(page + rest) == 4
    both = edgecron("history", "--status", "failed", "--status", "success", "--json").json
    assert len(both) == 4


def test_history_names_the_next_page_only_if_there_is_one(edgecron: Edgecron, backup: str) -> None:
    for _ in range(2):
        edgecron("run", backup)

    full = edgecron("history", "-n", "2")
    first = edgecron("history", "-n", "1")

    assert "older runs" not in full.err
    assert "older runs: --before 2" in first.err
    assert len(edgecron("history", "-n", "1", "--json").json) == 1


def test_history_as_a_table_says_why(edgecron: Edgecron) -> None:
    add(edgecron, "bad", "exit 3")
    edgecron("run", "bad", "--wait")

    line = edgecron("history").out.splitlines()[1]

    assert "failed" in line
    assert "exit code 3" in line
    assert "manual" in line


@pytest.mark.failure(34)
def test_history_as_a_table_says_once_that_a_run_left_processes_running(
    edgecron: Edgecron,
) -> None:
    add(edgecron, "leaves", "sleep 60 & echo $!")
    add(edgecron, "clean", "true")
    left = int(edgecron("run", "leaves", "--wait").out)
    edgecron("run", "clean", "--wait")

    clean, leaves = edgecron("history").out.splitlines()[1:]
    os.kill(left, signal.SIGKILL)

    assert len(edgecron("history", "leaves", "--json").json[0]["flags"]) > 1
    assert leaves.count("left processes running") == 1
    assert "left" not in clean


def test_logs_of_a_run_or_of_the_newest_of_a_schedule(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup, "--wait")

    assert sorted(edgecron("logs", backup).out.splitlines()) == ["bad", "good"]
    assert edgecron("logs", "1", "--stream", "stderr").out == "bad\n"
    assert edgecron("logs", backup, "--stream", "stdout").out == "good\n"
    chunks = edgecron("logs", backup, "--json").json
    assert {(chunk["run"], chunk["stream"], chunk["text"]) for chunk in chunks} == {
        (1, "stdout", "good\n"),
        (1, "stderr", "bad\n"),
    }


def test_the_runs_of_a_removed_schedule_are_found_by_its_name(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("run", backup, "--wait")

    removed = edgecron("rm", backup)

    history, logs = edgecron("history", backup), edgecron("logs", backup)
    assert "restore it: edgecron undo backup" in removed.out
    assert (history.code, logs.code) == (0, 0)
    assert "success" in history.out
    assert sorted(logs.out.splitlines()) == ["bad", "good"]
    assert "backup was removed" in history.err
    assert "backup was removed" in logs.err
    assert edgecron("run", backup).code == 3


def test_a_schedule_that_was_removed_before_it_ran_has_no_output(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("rm", backup)

    said = edgecron("logs", backup)

    assert said.code == 3
    assert "was removed before it ran\nhint: see: edgecron history backup\n" in said.err
    assert "edgecron run" not in said.err


def test_a_new_schedule_of_a_removed_one_s_name_shows_the_earlier_history_apart(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("run", backup, "--wait")
    edgecron("rm", backup)

    add(edgecron, backup, "true")

    said = edgecron("history", backup)
    assert said.code == 0
    assert said.out.startswith(f"an earlier schedule {backup}, removed at ")
    assert edgecron("list", "--json").json[0]["run_count"] == 0


def test_logs_of_a_run_that_failed_to_start_say_why(edgecron: Edgecron) -> None:
    edgecron("add", "gone", "--every", "1h", "--", "/no/such/command")
    edgecron("run", "gone", "--wait")

    said = edgecron("logs", "gone")

    assert "printed nothing (failed: spawn; " in said.err
    assert "/no/such/command" in said.err


def test_logs_of_a_run_that_waits_say_so(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup)

    said = edgecron("logs", "1")

    assert (said.code, said.out) == (0, "")
    assert "has not started yet" in said.err


def test_logs_say_how_much_was_not_kept(edgecron: Edgecron) -> None:
    add(edgecron, "much", "yes edgecron | head -c 2000000; echo; echo end")
    edgecron("run", "much", "--wait")

    said = edgecron("logs", "much")

    assert said.out.startswith("edgecron\n")
    assert said.out.endswith("end\n")
    assert len(said.out) < 300_000
    assert "bytes were not kept" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.failure(45)
@pytest.mark.usefixtures("database")
def test_logs_off_a_terminal_are_the_very_bytes(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    line = r"printf 'a\000b\377\033[2Jc'"
    run(["add", "x", "--every", "1h", "--shell", line])
    run(["run", "x", "--wait"])
    capfdbinary.readouterr()

    run(["logs", "x"])

    assert capfdbinary.readouterr().out == b"a\0b\xff\x1b[2Jc"


def test_status_tells_of_schedules_runs_and_the_missing_engine(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    add(edgecron, "bad", "exit 3")
    edgecron("run", "bad", "--wait")
    edgecron("run", backup)

    said = edgecron("status")
    [found] = edgecron("status", "--json").json

    assert said.code == 0
    assert str(database) in said.out
    assert "0 running, 1 queued" in said.out
    assert "edgecron daemon" in said.err
    assert found["engines"] == []
    assert found["queued"] == 1
    assert found["schedules"] == 2
    assert found["last_failure"]["schedule"] == "bad"
    assert found["next"]["schedule"] in ("bad", backup)
    assert found["size_bytes"] > 0
    json.dumps(found)


def _make_overdue(database: Path, name: str) -> None:
    connection = sqlite3.connect(database)
    connection.execute(
        "UPDATE schedules SET next_plan_at = created_at - 9000000,"
        " next_run_at = created_at - 9000000 WHERE name = ?",
        (name,),
    )
    connection.commit()
    connection.close()


def test_a_time_that_has_passed_is_not_called_the_next(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    _make_overdue(database, backup)

    shown = edgecron("show", backup).out
    changed = edgecron("edit", backup, "--description", "x").out
    status = edgecron("status").out

    labels = [line.split("  ")[1] for line in shown.splitlines() if " ago" in line]
    assert labels[0] == "overdue"
    assert "\n  next" in shown
    assert "overdue since" in changed
    assert "backup overdue since" in status


def test_history_is_filtered_by_cause(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup, "--wait")

    assert [run["cause"] for run in edgecron("history", "--cause", "manual", "--json").json] == [
        "manual"
    ]
    assert edgecron("history", "--cause", "retry", "--json").json == []
    assert edgecron("history", "--cause", "sudden").code == 2


def test_history_shows_the_plan_time_of_late_and_retried_runs(
    story: Story, edgecron: Edgecron, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    story.add("fine", "0 * * * *")
    story.after_s(3600)
    first = edgecron("history", "--db", str(story.client.path)).out
    story.add("flaky", "0 * * * *", code=1, policies=Policies(retries=1, retry_delay_s=10))
    story.after_s(3600)
    story.after_s(15)
    story.add("late", "0 * * * *")
    story.after_s(2 * 3600 + 600)
    story.after_s(1)

    heading, *lines = edgecron("history", "--db", str(story.client.path)).out.splitlines()

    assert "PLAN" not in first
    at, end = heading.index("PLAN"), heading.index("DURATION")
    shown = [(line.split()[1], line.split()[2], line[at:end].strip()[-5:]) for line in lines]
    assert ("late", "success", "00:00") in shown
    retried = [line[at:end].strip()[-5:] for line in lines if "attempt 2" in line]
    assert retried[-1] == "22:00"


def test_a_run_is_shown_and_explained_by_its_number(edgecron: Edgecron) -> None:
    edgecron("add", "bad", "--every", "1h", "--shell", "exit 3")
    edgecron("run", "bad", "--wait")
    number = str(edgecron("history", "--json").json[0]["id"])

    shown, why = edgecron("show", number), edgecron("why", number)

    assert f"run {number} of bad" in shown.out
    assert "exit code    3" in shown.out
    assert edgecron("show", number, "--json").json == edgecron("history", "--json").json
    assert why.out == edgecron("why", "bad", number).out
    assert why.out.startswith(f"Run {number} ")
    assert edgecron("show", "4711").code == edgecron("why", "4711").code == 3


def test_a_newline_in_a_command_begins_no_line_of_its_own(edgecron: Edgecron) -> None:
    edgecron("add", "odd", "--every", "1h", "--", "/nowhere/x\nedgecron: run 7 of backup succeeded")

    waited = edgecron("run", "odd", "--wait")
    logs = edgecron("logs", "odd")
    status = edgecron("status")

    assert waited.code == 125
    for said in (waited, logs, status):
        assert not any(
            line.startswith("edgecron: run 7") for line in (said.out + said.err).splitlines()
        )
    assert "/nowhere/x\\x0aedgecron: run 7" in waited.err


def test_a_run_of_many_scopes_says_of_a_few_why_they_were_skipped(edgecron: Edgecron) -> None:
    scopes = [word for number in range(40) for word in ("--scope", f"device:d{number}")]
    add(edgecron, "many", "true", *scopes)
    edgecron("run", "many")

    said = edgecron("run", "many")

    assert said.code == 1
    assert len([line for line in said.err.splitlines() if "was skipped: run " in line]) == 10
    assert "30 more runs of other scopes were skipped" in said.err
    assert len(said.out.splitlines()) == 40
