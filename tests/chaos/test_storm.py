"""A minute of chaos with real processes, whenever the tests are run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.failure(18)
@pytest.mark.failure(19)
@pytest.mark.failure(23)
@pytest.mark.failure(24)
def test_a_minute_of_chaos_violates_nothing(tmp_path: Path) -> None:
    """By a plan that is always the same. It sleeps nearly all the time, beside the other tests."""
    told = tmp_path / "figures.json"
    options = ("--seed", "47", "--duration", "30", "--pace", "2", "--json", str(told))

    shown = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

    assert shown.returncode == 0, shown.stdout + shown.stderr
    found = json.loads(told.read_text())
    assert found["violations"] == []
    assert found["runs"] >= 30
    assert found["faults"] >= 8
    assert found["looks"] >= 3
