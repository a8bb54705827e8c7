"""Drain a real engine, and let it take runs again."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.engine.state_folder import engine_lock_path
from tests.support.cli import Edgecron
from tests.support.processes import Daemon

HERE = os.uname().nodename


@pytest.fixture
def daemon(edgecron: Edgecron, database: Path, backup: str) -> Iterator[Daemon]:
    """A real engine that has run `backup` once."""
    daemon = Daemon(database)
    edgecron("run", backup)
    daemon.wait_for("ended", schedule=backup)
    yield daemon
    daemon.kill()


def test_a_drained_engine_takes_nothing_until_it_is_resumed(
    edgecron: Edgecron, daemon: Daemon, backup: str
) -> None:
    drained = edgecron("engine", "drain", HERE)
    again = edgecron("engine", "drain", HERE)
    [engine] = edgecron("engine", "list", "--json").json
    edgecron("run", backup)
    [queued] = edgecron("history", backup, "-n", "1", "--json").json
    why = edgecron("why", backup)
    resumed = edgecron("engine", "resume", HERE)
    edgecron("logs", str(queued["id"]), "-f")
    [ran] = edgecron("history", backup, "-n", "1", "--json").json

    assert drained.err.startswith(f"drained 1 engine of {HERE}; to undo: ")
    assert again.err.startswith(f"1 engine of {HERE} is drained already; to undo: ")
    assert (engine["state"], engine["machine"], engine["pid"]) == (
        "drained",
        HERE,
        daemon.process.pid,
    )
    assert queued["status"] == "queued"
    assert f"engine of {HERE} is drained" in why.out
    assert ran["status"] == "success"
    assert resumed.err == f"resumed 1 engine of {HERE}\n"


def test_what_waits_for_a_drained_engine_says_so_and_how_to_undo_it(
    edgecron: Edgecron, daemon: Daemon, backup: str
) -> None:
    resume = f"engine of {HERE} is drained; to undo: edgecron engine resume {HERE}"
    edgecron("engine", "drain", HERE)

    added = edgecron("add", "other", "--every", "1h", "--", "true")
    fired = edgecron("run", backup)
    behind = edgecron("run", backup, "--wait")
    scheduled = edgecron("run", "other", "--wait", "--as-scheduled")
    status = edgecron("status")
    findings = [one for one in edgecron("doctor", "--json").json if one["check"] == "engines"]

    assert resume in added.err
    assert resume in fired.err
    assert f"run 2 is queued, and the {resume}" in behind.err
    assert f"the engine of {HERE} is drained, and --as-scheduled" in scheduled.err
    assert f"hint: to undo: edgecron engine resume {HERE}" in scheduled.err
    assert f"to undo: edgecron engine resume {HERE}" in status.out
    assert "start an engine" not in status.out + status.err
    assert findings[1]["message"] == f"the engine of {HERE} is drained, and 2 schedules wait"
    assert findings[1]["hint"] == f"to undo: edgecron engine resume {HERE}"


def test_a_schedule_of_another_machine_names_it_while_an_engine_runs_here(
    edgecron: Edgecron, daemon: Daemon
) -> None:
    missing = "no engine of web1 is running"

    added = edgecron("add", "far", "--every", "1h", "--on", "web1", "--", "true")
    fired = edgecron("run", "far")
    shown, why = edgecron("show", "far"), edgecron("why", "far")

    start = f"warning: {missing}; start one on web1: edgecron daemon\n"
    assert added.err == fired.err == start
    assert f"run 2 is queued, manual: {missing}\n" in shown.out
    assert f"run 2 is queued, manual: {missing}." in why.out


def test_json_of_a_drain_shows_the_engines_as_they_are_then(
    edgecron: Edgecron, daemon: Daemon
) -> None:
    drained = edgecron("engine", "drain", str(daemon.process.pid), "--json").json
    again = edgecron("engine", "drain", HERE, "--json").json
    resumed = edgecron("engine", "resume", HERE, "--json").json
    more = edgecron("engine", "resume", HERE)

    assert [one["state"] for one in (*drained, *again, *resumed)] == [
        "drained",
        "drained",
        "running",
    ]
    assert more.err == f"1 engine of {HERE} is not drained\n"


def test_without_an_engine_the_hint_starts_one(edgecron: Edgecron, backup: str) -> None:
    said = edgecron("engine", "drain", "web1")

    assert said.err == "error: no engine of 'web1' is running\nhint: start one: edgecron daemon\n"


def test_a_process_id_of_two_machines_is_refused_with_their_names(
    edgecron: Edgecron, daemon: Daemon, database: Path
) -> None:
    pid, key = daemon.process.pid, "f" * 16
    lock = os.open(engine_lock_path(state_dir(database), key), os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with Client(database) as client, client.store.transaction():
        # As engines of another machine are in a database on a server.
        client.store.change(
            """INSERT INTO engines (key, pid, boot_id, queues, version, started_at)
               VALUES (:key, :pid, 'b', '["command", "command on web9"]', '1', 0)""",
            {"pid": pid, "key": key},
        )

    said = edgecron("engine", "drain", str(pid))
    resumed = edgecron("engine", "resume", str(pid))
    os.close(lock)

    assert said.code == 1
    assert f"2 engines have the process id {pid}: on " in said.err
    assert "web9" in said.err
    assert "hint: name the machine: edgecron engine drain " in said.err
    assert "hint: name the machine: edgecron engine resume " in resumed.err


def test_files_and_undo_name_the_machines_that_their_schedules_miss(
    edgecron: Edgecron, daemon: Daemon, tmp_path: Path
) -> None:
    document = tmp_path / "schedules.toml"
    document.write_text(
        "".join(
            f'[schedules.{name}]\nevery = "1h"\ncommand = ["true"]\non = "{on}"\n'
            for name, on in (
                ("far", "web1"),
                ("too", "web1"),
                ("here", "any"),
                ("ssd", "label:ssd"),
            )
        )
    )

    applied = edgecron("apply", str(document))
    again = edgecron("apply", str(document))
    edgecron("rm", "far", "--yes")
    undone = edgecron("undo", "--yes")

    web1 = "warning: no engine of web1 is running; start one on web1: edgecron daemon\n"
    assert applied.err.count("warning: no engine") == 2
    assert web1 in applied.err
    assert "no engine with the label ssd is running" in applied.err
    assert "warning" not in again.err
    assert undone.err.endswith(web1)


def test_a_name_without_an_engine_is_refused_with_the_known_ones(
    edgecron: Edgecron, daemon: Daemon
) -> None:
    said = edgecron("engine", "drain", "nowhere")

    assert said.code == 3
    assert f"machines with engines: {HERE}" in said.err


def test_a_machine_that_is_gone_is_forgotten_and_one_with_an_engine_is_not(
    edgecron: Edgecron, daemon: Daemon
) -> None:
    edgecron("add", "scan", "--every", "1h", "--on", "each", "--", "true")
    ran = edgecron("run", "scan", "--wait")
    refused = edgecron("engine", "forget", HERE)
    unknown = edgecron("engine", "forget", "gone")
    [schedule] = edgecron("list", "--json").json[1:]
    daemon.process.kill()
    daemon.process.wait()
    edgecron("run", "scan")
    forgotten = edgecron("engine", "forget", HERE)
    [last] = edgecron("history", "scan", "-n", "1", "--json").json

    assert ran.code == 0
    assert refused.code == 1
    assert f"{HERE} can't be forgotten: an engine of {HERE} is running" in refused.err
    assert "no schedule with --on each runs on 'gone'" in unknown.err
    assert schedule["scopes"] == [{"kind": "machine", "id": HERE}]
    assert f"1 schedule with --on each no longer runs on {HERE}" in forgotten.err
    assert (last["status"], last["scope_id"]) == ("cancelled", HERE)
