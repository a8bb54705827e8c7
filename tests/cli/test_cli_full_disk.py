"""A full disk under the database, without an engine: commands that only read still work."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Edgecron
from tests.support.places import fill, small_disk
from tests.support.processes import BOUND_S
from tests.support.program import PROGRAM

pytestmark = pytest.mark.failure(51)

_READS = (
    *(
        ["list"],
        ["status"],
        ["export"],
        ["show", "tidy"],
        ["show", "1"],
        ["show", "tidy", "--changes"],
    ),
    *(["why", "tidy"], ["why", "1"], ["next"], ["next", "tidy"], ["history"], ["logs", "tidy"]),
    *(["stats"], ["simulate"], ["notices"], ["metrics"], ["env", "show", "tidy"]),
    ["engine", "list"],
)
_CALLS = (
    {
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"method": "tools/call", "params": {"name": "list"}},
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", kib=1024) as folder:
        yield folder


@pytest.fixture
def database(disk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = disk / "jobs.db"
    monkeypatch.setenv("EDGECRON_DB", str(path))
    return path


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_command_that_only_reads_works_on_a_full_disk(
    edgecron: Edgecron, disk: Path, tmp_path: Path, *, is_waiting: bool
) -> None:
    edgecron("add", "tidy", "--every", "1h", "--", "echo", "swept")
    edgecron("run", "tidy", "--wait")
    if is_waiting:  # Then `list` loads what also writes.
        edgecron("run", "tidy")
    copy = tmp_path / "copy.db"
    filler = fill(disk)

    found = {" ".join(words): edgecron(*words) for words in _READS}
    kept = edgecron("backup", str(copy))
    checked = edgecron("doctor")
    refused = edgecron("pause", "tidy")
    filler.unlink()
    paused = edgecron("pause", "tidy")

    assert {words: one.err for words, one in found.items() if one.code} == {}
    assert "tidy" in found["list"].out
    assert "1 schedule" in found["status"].out
    assert "[schedules.tidy]" in found["export"].out
    assert found["logs tidy"].out == "swept\n"
    assert (kept.code, copy.exists()) == (0, True)
    assert "0 MiB free" in checked.out
    assert "no space left" not in checked.out
    assert refused.code == 5
    assert "no space left" in refused.err
    assert paused.code == 0


def test_a_database_without_schedules_can_be_read_on_a_full_disk(
    edgecron: Edgecron, disk: Path
) -> None:
    edgecron("add", "tidy", "--every", "1h", "--", "true")
    edgecron("rm", "tidy")
    fill(disk)

    for words in (["list"], ["next"], ["history"]):
        said = edgecron(*words)

        assert (said.code, "no schedules yet" in said.err) == (0, True), said.err


def test_a_session_of_an_assistant_keeps_no_engine_out_of_a_full_disk(
    database: Path, edgecron: Edgecron, disk: Path
) -> None:
    edgecron("add", "tidy", "--every", "1h", "--", "true")
    fill(disk)
    calls = [{"jsonrpc": "2.0", "id": id_, **one} for id_, one in enumerate(_CALLS)]

    done = subprocess.run(
        [*PROGRAM, "--db", str(database), "mcp"],
        input="".join(f"{json.dumps(one)}\n" for one in calls),
        capture_output=True,
        text=True,
        check=True,
        timeout=BOUND_S,
    )

    assert "no space left" in done.stdout
