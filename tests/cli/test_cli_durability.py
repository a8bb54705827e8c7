"""--durability volatile: what is stored of a run, and what the command line says of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Edgecron
from tests.support.processes import Daemon

LINE = "echo it printed"


@pytest.fixture
def daemon(database: Path, edgecron: Edgecron) -> Iterator[Daemon]:
    edgecron("add", "other", "--every", "1h", "--", "true")
    running = Daemon(database)
    running.wait_for("engine_started")
    yield running
    running.close()


def test_volatile_stores_no_output_of_scheduled_successes_and_says_so(
    edgecron: Edgecron, daemon: Daemon
) -> None:
    for name, line in (("quiet", LINE), ("fails", f"{LINE}; exit 3")):
        edgecron("add", name, "--at", "in 1s", "--durability", "volatile", "--shell", line)
        daemon.wait_for("ended", schedule=name)

    said = edgecron("logs", "quiet")
    failed = edgecron("logs", "fails")
    manual = edgecron("run", "quiet", "--wait")

    assert "with durability volatile, the output of such a run is not stored" in said.err
    assert said.out == ""
    assert failed.out == manual.out == "it printed\n"
    assert "its output is not stored" in edgecron("history", "quiet").out
