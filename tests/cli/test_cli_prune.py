"""Prune from the command line: what would go, what went, and what is said of it afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.planning.retention import Retention
from tests.support.cli import Edgecron
from tests.support.story import Story


@pytest.fixture
def runs(edgecron: Edgecron, backup: str) -> str:
    """A schedule with four runs that printed something."""
    for _ in range(4):
        assert edgecron("run", backup, "--wait").code == 0
    return backup


def test_a_dry_run_says_what_would_go_and_removes_nothing(edgecron: Edgecron, runs: str) -> None:
    said = edgecron("prune", "--dry-run", "--history-count", "2")

    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[1].split()[:2] == ["runs", "2"]
    assert lines[1].endswith("more than 2 of one schedule")
    assert lines[2:] == ["nothing was removed"]
    assert len(edgecron("history", "--json").json) == 4


def test_prune_removes_the_oldest_and_says_how_much(edgecron: Edgecron, runs: str) -> None:
    said = edgecron("prune", "--history-count", "2", "--output-bytes", "1")

    assert said.code == 0
    assert [line.split("  ")[0] for line in said.out.splitlines()[1:3]] == [
        "output of runs", "runs",
    ]  # fmt: skip
    assert "the database holds" in said.out
    assert [run["id"] for run in edgecron("history", "--json").json] == [4, 3]


def test_prune_as_json_gives_each_kind_and_reason(edgecron: Edgecron, runs: str) -> None:
    said = edgecron("prune", "--history-count", "2", "--json")
    again = edgecron("prune", "--history-count", "2", "--json")

    [one] = said.json
    assert (one["kind"], one["reason"], one["count"]) == ("run", "count", 2)
    assert one["bytes"] > 0
    assert again.json == []


def test_a_secret_that_was_removed_is_forgotten(edgecron: Edgecron, database: Path) -> None:
    edgecron("add", "upload", "--every", "1h", "--env", "TOKEN=hunter2-x", "--", "true")
    edgecron("run", "upload", "--wait")

    edited = edgecron("edit", "upload", "--env", "none")
    tried = edgecron("prune", "--forget", "upload", "--dry-run")
    is_there = b"hunter2-x" in database.read_bytes()
    forgotten = edgecron("prune", "--forget", "upload")

    assert "to remove it: edgecron prune --forget upload" in edited.err
    assert (tried.out, is_there) == ("would remove 1 former definition of upload\n", True)
    assert forgotten.out == "removed 1 former definition of upload\n"
    assert b"hunter2-x" not in database.read_bytes()
    assert edgecron("prune", "--forget", "upload").out == "upload has no former definitions\n"


def test_forget_of_a_removed_schedule_removes_what_it_said(
    edgecron: Edgecron, database: Path
) -> None:
    edgecron("add", "upload", "--every", "1h", "--env", "TOKEN=hunter2-x", "--", "true")
    edgecron("rm", "upload")

    said = edgecron("prune", "--forget", "upload", "--json")

    assert said.json == [{"schedule": "upload", "removed": 1, "kept": 0}]
    assert b"hunter2-x" not in database.read_bytes()


@pytest.mark.parametrize("words", [("--forget",), ("--forget", "upload", "--history-age", "1d")])
def test_forget_says_what_it_needs(edgecron: Edgecron, words: tuple[str, ...]) -> None:
    assert edgecron("prune", *words).code == 2


def test_forget_of_no_schedule_says_so(edgecron: Edgecron, backup: str) -> None:
    said = edgecron("prune", "--forget", "nightly")

    assert (said.code, "there is no schedule 'nightly'" in said.err) == (3, True)


def test_by_default_nothing_of_today_goes(edgecron: Edgecron, runs: str) -> None:
    said = edgecron("prune")

    assert said.out.splitlines()[0] == "nothing to remove"
    assert len(edgecron("history", "--json").json) == 4


def test_logs_of_output_that_went_say_so(edgecron: Edgecron, runs: str) -> None:
    edgecron("prune", "--output-bytes", "1")

    said = edgecron("logs", "2")
    as_json = edgecron("logs", "2", "--json")

    assert said.out == ""
    assert "run 2 of backup printed 9 bytes, which retention removed at" in said.err
    assert as_json.json == []


def test_logs_of_a_run_that_went_say_so(edgecron: Edgecron, runs: str) -> None:
    edgecron("prune", "--history-count", "1")

    went, never = edgecron("logs", "2"), edgecron("logs", "99")

    assert (went.code, never.code) == (3, 3)
    assert "run 2 was removed by retention" in went.err
    assert "there is no run 99" in never.err


def test_list_and_show_count_what_went(edgecron: Edgecron, runs: str) -> None:
    edgecron("prune", "--history-count", "1")

    [listed] = edgecron("list", "--json").json
    shown = edgecron("show", runs)

    assert (listed["run_count"], listed["last_status"]) == (4, "success")
    assert "4 runs, 4 success" in shown.out


def test_one_schedule_alone(edgecron: Edgecron, runs: str) -> None:
    edgecron("add", "other", "--every", "1h", "--", "true")
    for _ in range(3):
        edgecron("run", "other", "--wait")

    edgecron("prune", "other", "--history-count", "1")

    assert len(edgecron("history", runs, "--json").json) == 4
    assert len(edgecron("history", "other", "--json").json) == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("x", "--database-bytes", "1GB"), "--database-bytes limits all schedules together"),
        (("--history-age", "5x"), "--history-age: duration '5x' is not understood"),
        (("--output-bytes", "0"), "--output-bytes is '0', expected a size of at least one byte"),
        (("--history-count", "0"), "--history-count"),
        (("--database-bytes", "10"), "--database-bytes is '10', expected 1048576 to"),
        (("--dry-run", "--compact"), "--compact changes the file, and --dry-run changes nothing"),
    ],
)
def test_what_can_not_be_meant_is_refused(
    edgecron: Edgecron, runs: str, words: tuple[str, ...], expected: str
) -> None:
    said = edgecron("prune", *words)

    assert said.code == 2
    assert expected in said.err


def test_no_limit_at_all(edgecron: Edgecron, runs: str) -> None:
    none = [
        word
        for name in ("output-age", "output-bytes", "history-age", "history-count", "database-bytes")
        for word in (f"--{name}", "none")
    ]

    assert edgecron("prune", *none).out.splitlines()[0] == "nothing to remove"


def test_compact_gives_back_what_is_free(edgecron: Edgecron, runs: str, database: Path) -> None:
    edgecron("edit", runs, "--shell", "head -c 70000 /dev/urandom | od -An -tx1")
    for _ in range(4):
        edgecron("run", runs, "--wait")
    before = database.stat().st_size

    said = edgecron("prune", "--output-bytes", "1", "--compact")

    assert said.code == 0, said.err
    assert database.stat().st_size < before / 4
    assert len(edgecron("history", "--json").json) == 8


def test_of_a_database_that_is_not_there_nothing_is_made(
    edgecron: Edgecron, database: Path
) -> None:
    said = edgecron("prune")

    assert said.code == 3
    assert not database.exists()


def test_history_and_show_say_what_went_of_its_own_times(
    edgecron: Edgecron, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGECRON_DB", str(story.world.path))
    story.add("job", "* * * * *")
    for _ in range(10):
        story.after_s(60)
    story.client.prune(retention=Retention(history_count=4))

    listed, shown = edgecron("history", "job"), edgecron("show", "job")

    words = "retention removed the runs up to 2026-03-08 20:06:00"
    assert len(listed.out.splitlines()) == 5
    assert words in listed.err
    assert words in shown.out


def test_why_says_of_a_time_that_its_run_was_removed(
    edgecron: Edgecron, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGECRON_DB", str(story.world.path))
    story.add("job", "* * * * *")
    for _ in range(10):
        story.after_s(60)
    story.client.prune(retention=Retention(history_count=4))

    said = edgecron("why", "job", "2026-03-08T20:03:00Z")

    assert "Retention removed the record of" in said.out


def test_what_is_configured_holds_unless_an_option_says_otherwise(
    edgecron: Edgecron, runs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGECRON_RETENTION_HISTORY_COUNT", "3")

    other = edgecron("prune", "--history-count", "none", "--json")
    said = edgecron("prune", "--json")

    assert other.json == []
    assert [one["count"] for one in said.json] == [1]
