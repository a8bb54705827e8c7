"""cancel: a run that waits is withdrawn; one that has ended, or never was, is named."""

from __future__ import annotations

from support.cli import Edgecron


def test_a_queued_run_is_withdrawn(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup)

    said = edgecron("cancel", "1")

    assert (said.code, said.out) == (0, "withdrew run 1 of backup\n")
    [run] = edgecron("history", "--json").json
    assert (run["status"], run["reason"]) == ("cancelled", "request")
    assert edgecron("list", "--json").json[0]["run_count"] == 0


def test_a_run_that_has_ended_can_not_be_cancelled(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup)
    edgecron("cancel", "1")

    said = edgecron("cancel", "1")

    assert said.code == 1
    assert "run 1 has ended already: cancelled" in said.err


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


def test_the_name_of_a_schedule_is_answered_with_the_numbers_of_its_runs(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("edit", backup, "--overlap", "allow")
    edgecron("run", backup)
    edgecron("run", backup)

    said = edgecron("cancel", backup)

    assert said.code == 2
    assert "(edgecron cancel 2 1)" in said.err
    assert edgecron("cancel", "2", "1").code == 0


def test_a_number_is_asked_for(edgecron: Edgecron, backup: str) -> None:
    said = edgecron("cancel", backup)

    assert said.code == 2
    assert "RUN" in said.err
