"""cancel: a run that waits is withdrawn; one that has ended, or never was, is named."""

from __future__ import annotations

from tests.support.cli import Edgecron


def test_a_queued_run_is_withdrawn(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup)

    said = edgecron("cancel", "1")

    assert (said.code, said.out) == (0, "cancelled run 1 of backup before it started\n")
    [run] = edgecron("history", "--json").json
    assert (run["status"], run["reason"]) == ("cancelled", "request")
    assert edgecron("list", "--json").json[0]["run_count"] == 0


def test_a_run_that_has_ended_can_not_be_cancelled(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup)
    edgecron("cancel", "1")

    said = edgecron("cancel", "1")

    assert said.code == 1
    assert "run 1 has ended already: cancelled" in said.err
    assert (
        "hint: see the active runs: edgecron history --status queued --status running" in said.err
    )


def test_a_run_that_is_not_there_is_named_and_nothing_is_cancelled(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("run", backup)

    said = edgecron("cancel", "1", "99")

    assert said.code == 3
    assert "there is no run 99" in said.err
    assert edgecron("history", "--json").json[0]["status"] == "queued"


def test_what_was_cancelled_comes_as_json(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup)

    said = edgecron("cancel", "1", "--json")

    assert [run["status"] for run in said.json] == ["cancelled"]


def test_the_name_of_a_schedule_cancels_every_active_run_of_it(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("add", "other", "--every", "1h", "--", "true")
    edgecron("edit", backup, "--overlap", "allow")
    for name in (backup, backup, "other"):
        edgecron("run", name)

    said = edgecron("cancel", backup)

    assert said.code == 0
    assert said.out == (
        "cancelled run 2 of backup before it started\ncancelled run 1 of backup before it started\n"
    )
    statuses = {run["id"]: run["status"] for run in edgecron("history", "--json").json}
    assert statuses == {1: "cancelled", 2: "cancelled", 3: "queued"}


def test_a_run_and_its_schedule_are_cancelled_once(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup)

    said = edgecron("cancel", "1", backup, "--json")

    assert (said.code, [run["id"] for run in said.json]) == (0, [1])


def test_a_schedule_without_active_runs_has_nothing_to_cancel(
    edgecron: Edgecron, backup: str
) -> None:
    said = edgecron("cancel", backup)

    assert (said.code, said.out) == (3, "")
    assert said.err == (
        f"error: schedule '{backup}' has no active run\n"
        f"hint: see its past runs: edgecron history {backup}\n"
    )
    assert edgecron("cancel", backup, "--json").error["code"] == "not_found"


def test_the_other_runs_are_cancelled_although_a_schedule_has_none(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("add", "idle", "--every", "1h", "--", "true")
    edgecron("run", backup)

    said = edgecron("cancel", "idle", backup)

    assert (said.code, said.out) == (3, "cancelled run 1 of backup before it started\n")
    assert "schedule 'idle' has no active run" in said.err


def test_a_schedule_that_does_not_exist_can_not_be_cancelled(
    edgecron: Edgecron, backup: str
) -> None:
    said = edgecron("cancel", "bakcup")

    assert said.code == 3
    assert "bakcup" in said.err
