"""What others do to a database: a copy of it that is run as well, a host that drops its locks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest

from edgecron.client.doctor_machine import check_host
from edgecron.store.sqlite.store import open_store
from tests.support.cli import Edgecron, Said
from tests.support.processes import Daemon

# Hosts an engine's connection, then does what it was told beside it, and waits to be let go.
HOST = """
import sys
from pathlib import Path
from edgecron.store.sqlite.store import open_store

store = open_store(Path(sys.argv[1]), now_ms=0)
if sys.argv[2] == "closes":
    open(sys.argv[1]).close()
elif sys.argv[2] == "loads":
    import sqlite3
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(database: Path, stack: ExitStack) -> Daemon:
    daemon = Daemon(database)
    stack.callback(daemon.close)
    daemon.wait_for("engine_started")
    return daemon


def others(said: Said) -> list[dict[str, Any]]:
    return [finding for finding in said.json if finding["check"] == "others"]


@pytest.mark.failure(30)
def test_a_copy_that_is_run_as_well_is_noticed_by_the_second_and_told_by_both(
    edgecron: Edgecron, backup: str, database: Path, stack: ExitStack
) -> None:
    copy = database.with_name("copy.db")
    subprocess.run(["cp", str(database), str(copy)], check=True)

    first, second = start(database, stack), start(copy, stack)

    told = second.wait_for("database_copied")
    assert (told["pid"], told["copy"]) == (first.process.pid, str(database))
    for path, other, pid in (
        (database, copy, second.process.pid),
        (copy, database, first.process.pid),
    ):
        said = edgecron("--db", str(path), "doctor", "--json")
        [finding] = others(said)
        assert (said.code, finding["status"]) == (1, "problem")
        assert finding["message"].startswith(f"pid {pid} runs a copy of this database, {other}: ")
        [status] = edgecron("--db", str(path), "status", "--json").json
        assert status["copies"] == [{"pid": pid, "database": str(other)}]
    assert f"pid {second.process.pid} runs a copy" in edgecron("status").out


@pytest.mark.failure(30)
def test_two_engines_of_one_database_and_a_restored_copy_are_no_copies(
    edgecron: Edgecron, backup: str, database: Path, stack: ExitStack
) -> None:
    own = database.with_name("own.db")
    edgecron("backup", str(database.with_name("b.db")))
    assert edgecron("--db", str(own), "restore", str(database.with_name("b.db"))).code == 0

    start(database, stack)
    second, third = start(database, stack), start(own, stack)

    assert edgecron("status", "--json").json[0]["copies"] == []
    assert [finding["status"] for finding in others(edgecron("doctor", "--json"))] == ["ok"]
    for daemon in (second, third):
        daemon.stop()
        assert "database_copied" not in [line["event"] for line in daemon.lines]


def test_an_engine_that_has_gone_runs_no_copy(
    edgecron: Edgecron, backup: str, database: Path, stack: ExitStack
) -> None:
    copy = database.with_name("copy.db")
    subprocess.run(["cp", str(database), str(copy)], check=True)
    start(copy, stack).kill()

    assert edgecron("status", "--json").json[0]["copies"] == []


@pytest.mark.failure(78)
@pytest.mark.parametrize(
    ("does", "status", "words"),
    [
        ("nothing", None, ""),
        ("closes", "problem", "has lost its locks on the database"),
        ("loads", "warning", "has an engine and has loaded Python's sqlite3"),
    ],
)
def test_a_host_that_opens_the_file_beside_its_engine_is_told_of(
    database: Path, does: str, status: str | None, words: str
) -> None:
    if "_sqlite3" in sys.builtin_module_names and does == "loads":
        pytest.skip("this interpreter has sqlite3 built in, where it can't be seen")
    store = open_store(database, now_ms=0)  # As doctor has it open, too.
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(database), does],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ),
        text=True,
    )
    try:
        assert host.stdout is not None
        assert host.stdout.readline() == "ready\n"

        found = check_host(database, host.pid)

        assert [finding.status.value for finding in found] == ([] if status is None else [status])
        assert all(words in finding.message for finding in found)
        assert all(f"pid {host.pid}" in finding.message for finding in found)
    finally:
        host.communicate("")
        store.close()


@pytest.mark.failure(52)
def test_a_schedule_that_can_not_be_read_is_a_finding_and_no_crash(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("UPDATE schedules SET kind = 'riddle'")
    connection.close()

    said = edgecron("doctor", "--json")

    assert said.code == 1
    [found] = [one for one in said.json if one["check"] == "schedules"]
    assert found["status"] == "problem"
    assert "'riddle' is not a valid JobKind" in found["message"]


def test_a_deep_look_holds_indexes_against_their_tables(edgecron: Edgecron, backup: str) -> None:
    said = edgecron("doctor", "--deep", "--json")

    assert said.code == 0
    assert [one["message"] for one in said.json if one["check"] == "integrity"] == [
        "no damage found"
    ]
    assert edgecron("doctor", "--deep", "--trust-clock").code == 2
