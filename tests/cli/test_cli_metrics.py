"""`metrics`: the text that Prometheus reads, on stdout or in a file for a textfile collector."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_plain

from tests.support.cli import Edgecron, Said


def test_metrics_are_text_that_prometheus_reads(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup, "--wait")

    said = edgecron("metrics")

    assert said.code == 0
    assert said.err == ""
    assert 'scheduler_runs_total{schedule_id="backup",status="success"} 1.0\n' in said.out
    assert "\n\n" not in said.out
    assert said.out.endswith("\n")
    assert len(list(read_plain(said.out))) == 17


def test_the_same_as_json(edgecron: Edgecron, backup: str) -> None:
    found = edgecron("metrics", "--json").json

    assert {
        "name": "scheduler_runs_total",
        "labels": {"schedule_id": "backup", "status": "failed"},
        "value": 0,
        "type": "counter",
    } in found


def test_a_file_is_replaced_at_once_and_everybody_may_read_it(
    edgecron: Edgecron, backup: str, tmp_path: Path
) -> None:
    file = tmp_path / "collector" / "edgecron.prom"
    file.parent.mkdir()
    file.write_text("old")
    file.chmod(0o600)
    before = file.stat().st_ino
    umask = os.umask(0o077)
    try:
        said = edgecron("metrics", "--output", str(file))
    finally:
        os.umask(umask)

    assert said == Said(0, "", "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert file.stat().st_ino != before
    assert 'schedule_id="backup"' in file.read_text()
    assert os.listdir(file.parent) == ["edgecron.prom"]


def test_a_file_that_can_t_be_written_is_told_and_leaves_nothing(
    edgecron: Edgecron, backup: str, tmp_path: Path
) -> None:
    said = edgecron("metrics", "-o", str(tmp_path / "nowhere" / "x.prom"))

    assert said.code == 2
    assert "can't be written: its folder does not exist" in said.err


def test_without_a_database_the_file_stays_as_it_was(edgecron: Edgecron, tmp_path: Path) -> None:
    file = tmp_path / "edgecron.prom"
    file.write_text("old")

    said = edgecron("metrics", "-o", str(file))

    assert said.code == 3
    assert file.read_text() == "old"


def test_without_the_library_it_says_what_to_install(
    edgecron: Edgecron, backup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    said = edgecron("metrics")

    assert said.code == 1
    assert "[metrics]'" in said.err


def test_a_file_and_json_are_not_both(edgecron: Edgecron, backup: str) -> None:
    assert edgecron("metrics", "--json", "-o", "x").code == 2
