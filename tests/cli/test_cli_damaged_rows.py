"""A row that holds what no edgecron writes: named with the way out, and the rest can be used."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.support.cli import Edgecron

pytestmark = pytest.mark.failure(52)

HUGE = 2**62
NOT_UTF_8 = "CAST(x'5bc328ff5d' AS TEXT)"
# The rest of the row is well, and so is its name.
NONSENSE = [
    *(f"triggers = '{text}'" for text in ("[1, {}]", "{", "null")),
    *(f"kind = 'command', job = '{text}'" for text in ("[1]", "[]", "{}")),
    *(f"env = '{text}'" for text in ("[1]", '{"A": null}')),
    "triggers = printf('%.*c', 50000, '[')",
    *(f"{name} = 'rocket'" for name in ("kind", "overlap", "last_status")),
    *(f"next_run_at = {instant}, next_plan_at = 1" for instant in (HUGE, 253402300800000)),
    *(f"next_run_at = {instant}, next_plan_at = {instant}" for instant in (-HUGE, -(2**63))),
    *(f"{name} = {HUGE}" for name in ("decided_until", "last_run_at", "created_at", "until_at")),
    "max_late_s = 9e999",
    "description = printf('%.*c', 5000000, 'x')",
    f"description = {NOT_UTF_8}",
]


def change(database: Path, sql: str) -> None:
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF")
    connection.execute(sql)
    connection.close()


@pytest.fixture
def both(edgecron: Edgecron, backup: str) -> tuple[str, str]:
    """Two schedules; the first is about to be damaged."""
    edgecron("add", "other", "--every", "1h", "--", "true")
    return backup, "other"


@pytest.mark.parametrize("columns", NONSENSE, ids=lambda columns: columns[:40])
def test_a_schedule_that_can_not_be_read_is_named_and_can_be_removed(
    edgecron: Edgecron, database: Path, both: tuple[str, str], columns: str
) -> None:
    bad, good = both
    change(database, f"UPDATE schedules SET {columns} WHERE name = '{bad}'")

    said = {command: edgecron(command, bad) for command in ("show", "run")}
    said["list"] = edgecron("list")
    of_other = edgecron("run", good)
    doctor = edgecron("doctor", "--json")
    removed = edgecron("rm", bad)
    after = edgecron("list", "--json"), edgecron("doctor", "--json")

    assert (said["show"].code, said["run"].code) == (5, 5)
    assert said["list"].code in (0, 5)
    for one in said.values():
        assert one.code == 0 or (one.is_plain_error and "edgecron restore FILE" in one.err)
    assert f"to remove it: edgecron rm {bad};" in said["show"].err or NOT_UTF_8 in columns
    assert of_other.code == 0
    [finding] = [one for one in doctor.json if one["check"] == "schedules"]
    assert (doctor.code, finding["status"]) == (1, "problem")
    assert finding["message"].startswith("number 1: ")
    assert "engines" in {one["check"] for one in doctor.json}, "the other checks are made too"
    assert removed.code == 0
    assert "not readable" in removed.err
    assert [one["name"] for one in after[0].json] == [good]
    assert {one["status"] for one in after[1].json if one["check"] == "schedules"} == {"ok"}


@pytest.mark.parametrize(
    "columns", ["kind = 'command', job = '[1]'", "triggers = '[1]'", f"stdin = {NOT_UTF_8}"]
)
def test_no_verb_fails_of_a_schedule_in_other_words(
    edgecron: Edgecron, database: Path, both: tuple[str, str], columns: str
) -> None:
    bad, _ = both
    change(database, f"UPDATE schedules SET {columns} WHERE name = '{bad}'")

    for words in (
        *((command,) for command in ("next", "stats", "export", "status", "history", "prune")),
        *((command, bad) for command in ("pause", "resume", "next", "why", "logs", "history")),
        ("edit", bad, "--every", "2h"), ("reschedule", bad, "in 2h"), ("run", bad, "--wait"),
        ("backfill", bad, "2026-11-19", "2026-11-20"), ("list", "--json"),
    ):  # fmt: skip
        said = edgecron(*words)
        assert said.code in (0, 3, 5, 125), words
        assert said.code == 0 or said.is_plain_error or words[0] == "history"
        assert "Traceback" not in said.err


@pytest.mark.parametrize("name", ["a\x1b[2Jb\u202ec", "n" * 2_000_000, "a\0b", ""])
def test_a_name_that_none_may_have_reaches_no_terminal(
    edgecron: Edgecron, database: Path, both: tuple[str, str], name: str
) -> None:
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("UPDATE schedules SET name = ? WHERE name = ?", (name, both[0]))
    connection.close()

    for command in ("list", "show", "next", "stats", "export", "status", "doctor", "history"):
        said = edgecron(command) if command != "show" else edgecron(command, both[1])
        text = said.out + said.err
        assert said.code in (0, 1, 5), command
        assert "\x1b[2J" not in text
        assert "\u202e" not in text
        assert command in ("list", "next", "history", "status") or len(text) < 4000


@pytest.mark.parametrize(
    "columns",
    [
        *(f"{name} = 'rocket'" for name in ("status", "reason", "cause")),
        *(f"plan_at = {instant}" for instant in (HUGE, -HUGE, -(2**63))),
        *(f"finished_at = {instant}" for instant in (HUGE, -(2**63))),
        "flags = '{'",
        f"error_msg = {NOT_UTF_8}",
    ],
)
def test_a_run_that_can_not_be_read_is_named_and_hides_no_other(
    edgecron: Edgecron, database: Path, backup: str, columns: str
) -> None:
    for number in "123":
        edgecron("run", backup)
        edgecron("cancel", number)
    change(database, "DROP TRIGGER executions_final")
    change(database, f"UPDATE executions SET {columns} WHERE id = 2")

    for words in (["history"], ["history", backup], ["history", "--status", "cancelled"]):
        page = edgecron(*words, "--json")
        assert page.code == 0, words
        assert [run["id"] for run in page.json] == [3, 1]
        assert "run 2 can't be read" in page.err or words[-1] == "cancelled"
    for command in ("show", "logs", "why"):
        said = edgecron(command, "2")
        assert said.code == 5, command
        assert "the stored values of run 2 can't be read" in said.err
        assert "restore" in said.err
    for command in ("run", "show", "why", "list", "stats", "status"):
        assert edgecron(command, *[backup] * (command in ("run", "show", "why"))).code == 0, command


def test_a_page_of_nothing_but_unreadable_runs_names_them(
    edgecron: Edgecron, database: Path, backup: str
) -> None:
    for number in range(1, 13):
        edgecron("run", backup)
        edgecron("cancel", str(number))
    change(database, "DROP TRIGGER executions_final")
    change(database, f"UPDATE executions SET error_msg = {NOT_UTF_8}")

    said = edgecron("history")

    assert (said.code, said.out) == (0, "")
    assert "runs 12, 11, 10, 9, 8, 7, 6, 5, 4, 3 and 2 more can't be read" in said.err


def test_a_schedule_that_can_not_be_read_hides_no_other(
    edgecron: Edgecron, database: Path, both: tuple[str, str]
) -> None:
    bad, good = both
    edgecron("run", bad)
    edgecron("cancel", "1")
    change(database, f"UPDATE schedules SET group_name = 'g', last_error = {NOT_UTF_8}")
    change(database, f"UPDATE schedules SET last_error = NULL WHERE name = '{good}'")

    listed, as_json = edgecron("list"), edgecron("list", "--json")
    groups, coming, past = edgecron("list", "--groups"), edgecron("next"), edgecron("history", bad)
    stats, status = edgecron("stats"), edgecron("status")

    assert all(name in listed.out for name in both)
    assert [one["name"] for one in as_json.json] == [good]
    assert f"schedule {bad} can't be read" in as_json.err
    assert "g      -            1          0" in groups.out
    assert f"schedule {bad} can't be read" in groups.err
    assert good in coming.out
    assert (past.code, "cancelled" in past.out) == (0, True)
    assert bad in stats.out
    assert status.code == 0
    # A document says nothing of errors, but a schedule's definition has to be readable.
    assert all(f"[schedules.{name}]" in edgecron("export").out for name in both)
    change(database, f"UPDATE schedules SET description = {NOT_UTF_8} WHERE name = '{bad}'")
    exported = edgecron("export")
    assert (exported.code, exported.out) == (5, "")
    assert exported.err.startswith(f"error: the stored values of schedule '{bad}'")


@pytest.mark.parametrize("chunks", ["encoding = 'zlib', chunks = x'00'", "chunks = x'ff01'"])
def test_a_run_whose_output_can_not_be_read_is_still_explained(
    edgecron: Edgecron, database: Path, backup: str, chunks: str
) -> None:
    edgecron("add", "copy", "--every", "1h", "--shell", "echo no disk; exit 7")
    edgecron("run", "copy", "--wait")
    change(database, f"UPDATE outputs SET {chunks} WHERE execution_id = 1")

    explained, printed = edgecron("why", "1"), edgecron("logs", "1")

    assert explained.code == 0
    assert "exit code 7" in " ".join(explained.out.split())
    assert printed.code == 5
    assert "the output of run 1" in printed.err
