"""Half a minute of the storm over a server; `python -m tests.storm_on_server` blows for longer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tools import need_postgres, need_tools

ROOT = Path(__file__).parents[2]


@pytest.mark.root
@pytest.mark.failure(82)
@pytest.mark.failure(84)
@pytest.mark.failure(86)
@pytest.mark.failure(87)
@pytest.mark.failure(88)
def test_a_storm_over_a_server_violates_nothing(tmp_path: Path) -> None:
    """By a plan that is always the same. It sleeps nearly all the time, beside the other tests."""
    need_postgres()
    need_tools("ip", "pgbouncer", "faketime")
    told = tmp_path / "figures.json"
    options = ("--seed", "3", "--duration", "30", "--engines", "3", "--json", str(told))

    shown = subprocess.run(
        [sys.executable, "-m", "tests.storm_on_server", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

    assert shown.returncode == 0, shown.stdout + shown.stderr
    [found] = json.loads(told.read_text())
    assert found["violations"] == []
    assert found["runs"] >= 30
    assert sum(found["faults"].values()) >= 5
