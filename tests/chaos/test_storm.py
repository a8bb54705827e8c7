"""A minute of chaos with real processes, whenever the tests are run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.program import blow_storm


@pytest.mark.failure(18)
@pytest.mark.failure(19)
@pytest.mark.failure(23)
@pytest.mark.failure(24)
def test_a_minute_of_chaos_violates_nothing(tmp_path: Path) -> None:
    """By a plan that is always the same. It sleeps nearly all the time, beside the other tests."""
    options = ("--seed", "47", "--duration", "30", "--pace", "2")

    found = blow_storm("tests.chaos", *options, told=tmp_path / "figures.json")

    assert found["violations"] == []
    assert found["runs"] >= 30
    assert found["faults"] >= 8
    assert found["looks"] >= 3
