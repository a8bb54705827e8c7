"""Schedules without a time: `on demand`."""

from __future__ import annotations

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
