"""Schedules without a time: `on demand`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.cli import Edgecron


@pytest.fixture
def task(edgecron: Edgecron) -> str:
    edgecron("add", "load", "--on-demand", "--tz", "UTC", "--", "true")
    return "load"


def test_it_has_no_next_time_and_every_view_says_why(edgecron: Edgecron, task: str) -> None:
    [listed] = edgecron("list", "--json").json

    assert (listed["triggers"], listed["next_run_at"]) == (["on demand"], None)
    assert "on demand" in edgecron("list").out
    assert "on demand" in edgecron("next", task).err
    assert f"on demand: edgecron run {task}" in edgecron("show", task).out
    assert "on demand" in edgecron("why", task).out


def test_it_runs_when_a_person_asks(edgecron: Edgecron, task: str) -> None:
    assert edgecron("run", task, "--wait").code == 0

    [run] = edgecron("history", task, "--json").json
    assert (run["status"], run["cause"]) == ("success", "manual")


def test_doctor_misses_nothing(edgecron: Edgecron, task: str) -> None:
    assert [found for found in edgecron("doctor", "--json").json if task in found["message"]] == []
    assert edgecron("status").code == 0


def test_doctor_misses_an_engine_for_a_run_that_waits(edgecron: Edgecron, task: str) -> None:
    edgecron("run", task, "--at", "in 1h")

    [found] = [one for one in edgecron("doctor", "--json").json if one["check"] == "engines"]

    assert found["status"] == "warning"
    assert "no engine" in found["message"]


def test_a_file_keeps_it(edgecron: Edgecron, task: str, tmp_path: Path) -> None:
    text = edgecron("export").out
    (tmp_path / "all.toml").write_text(text)

    assert "on_demand = true" in text
    assert edgecron("apply", str(tmp_path / "all.toml")).code == 0
    assert edgecron("list", "--json").json[0]["revision"] == 1


def test_it_can_become_a_schedule_with_times_and_back(edgecron: Edgecron, task: str) -> None:
    edgecron("edit", task, "--every", "1h")
    assert edgecron("list", "--json").json[0]["triggers"] == ["every 1h"]

    edgecron("edit", task, "--on-demand")
    assert edgecron("list", "--json").json[0]["triggers"] == ["on demand"]


def test_check_says_that_it_has_no_times(edgecron: Edgecron) -> None:
    told = edgecron("check", "on demand")

    assert "only on demand" in told.out
    assert "it has no times" in told.out


def test_simulate_leaves_it_out(edgecron: Edgecron, task: str) -> None:
    assert "it runs only on demand" in edgecron("simulate").out


def test_a_run_can_be_asked_for_at_a_time(edgecron: Edgecron, task: str) -> None:
    told = edgecron("run", task, "--at", "in 5m", "--priority", "high")

    [run] = edgecron("history", task, "--json").json
    due_at = datetime.fromisoformat(run["due_at"])
    assert timedelta(minutes=4) < due_at - datetime.now(UTC) <= timedelta(minutes=5)
    assert (run["status"], run["cause"]) == ("queued", "manual")
    assert told.out.startswith(f"run {run['id']} of {task}: queued, due ")
    assert "waits" in edgecron("why", task).out
    [coming] = edgecron("next", "--json").json
    assert (coming["schedule"], coming["due_at"]) == (task, run["due_at"])
    assert "started manually" in edgecron("next", task).out
    assert task in edgecron("status").out
    assert "cancelled" in edgecron("cancel", str(run["id"])).out


def test_show_names_the_priority_and_the_timeout_of_a_run(edgecron: Edgecron, task: str) -> None:
    edgecron("run", task, "--at", "in 5m", "--priority", "high", "--timeout", "30s")
    edgecron("run", task, "--at", "in 5m")

    plain, own = edgecron("history", task, "--json").json
    lines = {tuple(line.split()) for line in edgecron("show", str(own["id"])).out.splitlines()}
    assert {("priority", "high"), ("timeout", "30s")} <= lines
    assert "priority" not in edgecron("show", str(plain["id"])).out


def test_a_key_runs_it_once(edgecron: Edgecron, task: str) -> None:
    ids = [edgecron("run", task, "--key", key, "--json").json[0]["id"] for key in ("a", "b", "a")]

    assert ids[0] == ids[2] != ids[1]
    reused = edgecron("run", task, "--key", "a", "--payload", "1")
    assert (reused.code, "another payload" in reused.err) == (2, True)


def test_a_timeout_of_a_run_ends_it(edgecron: Edgecron) -> None:
    edgecron("add", "slow", "--on-demand", "--timeout", "1h", "--", "sleep", "60")

    told = edgecron("run", "slow", "--timeout", "200ms", "--wait")

    assert "timeout" in told.err
    assert edgecron("history", "slow", "--json").json[0]["reason"] == "timeout"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--at", "yesterday"), "--at is"),
        (("--at", "soon"), "--at"),
        (("--priority", "urgent"), "--priority is 'urgent'"),
        (("--timeout", "5"), "--timeout: duration '5' has no unit"),
        (("--scope", "device"), "--scope is 'device', expected KIND:ID"),
        (("--scope", "device:a"), "'load' has no scope 'device:a'"),
        (("--key", ""), "key is ''"),
    ],
)
def test_a_wrong_option_of_a_run_is_said(
    edgecron: Edgecron, task: str, words: tuple[str, ...], said: str
) -> None:
    told = edgecron("run", task, *words)

    assert (told.code, said in told.err) == (2, True), told.err
    assert edgecron("history", task, "--json").json == []
