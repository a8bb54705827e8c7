"""Half a minute of the storm over a server; `python -m tests.storm_on_server` blows for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.program import blow_storm
from tests.support.tools import need_postgres, need_tools


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
    options = ("--seed", "3", "--duration", "30", "--engines", "3")

    [found] = blow_storm("tests.storm_on_server", *options, told=tmp_path / "figures.json")

    assert found["violations"] == []
    assert found["runs"] >= 30
    assert sum(found["faults"].values()) >= 5
