"""What the commands say and do while an engine is stopped."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.client.notice_rules import load_recorded
from edgecron.client.notice_sending import NoticeSender
from tests.support.cli import Edgecron
from tests.support.processes import BOUND_S, Daemon, Gate
from tests.support.program import PROGRAM
from tests.support.stuck import SLEEPS, StuckEngine, resume, stop_at_rest


@pytest.fixture
def stopped(edgecron: Edgecron, database: Path, backup: str) -> Iterator[Daemon]:
    """A real engine that has run `backup` once, and was then stopped."""
    daemon = Daemon(database)
    edgecron("run", backup)
    daemon.wait_for("ended", schedule=backup)
    stop_at_rest(daemon.process)
    yield daemon
    if daemon.process.poll() is None:
        daemon.kill()


@pytest.mark.failure(23)
def test_status_says_that_an_engine_is_stalled(edgecron: Edgecron, stopped: Daemon) -> None:
    pid = stopped.process.pid

    said, coloured = edgecron("status"), edgecron("status", "--color", "always")
    [status] = edgecron("status", "--json").json

    line = (
        f"engines      pid {pid} is stalled: it is stopped (SIGSTOP or Ctrl-Z);"
        " its runs continue; see edgecron doctor"
    )
    assert line in said.out.splitlines()
    assert said.err == ""
    assert f"\x1b[33mpid {pid} is stalled" in coloured.out
    [engine] = status["engines"]
    assert (engine["pid"], engine["alive"], engine["stalled"]) == (pid, True, True)


def test_status_says_nothing_of_the_kind_when_it_goes_on(
    edgecron: Edgecron, stopped: Daemon
) -> None:
    resume(stopped.process)

    [status] = edgecron("status", "--json").json
    said = edgecron("status").out

    # Where it fails, what was said tells by what sign the engine was judged.
    assert [(one["alive"], one["stalled"]) for one in status["engines"]] == [(True, False)], said
    assert "stalled" not in said


@pytest.mark.parametrize(
    "words", [("run", "backup"), ("add", "new", "--every", "1h", "--", "true")]
)
def test_who_counts_on_a_stalled_engine_is_warned(
    edgecron: Edgecron, stopped: Daemon, words: tuple[str, ...]
) -> None:
    said = edgecron(*words)

    assert said.code == 0
    assert said.err == (
        f"warning: the only engine, pid {stopped.process.pid}, is stalled: it is"
        " stopped (SIGSTOP or Ctrl-Z); see: edgecron doctor\n"
    )


def test_several_stalled_engines_are_all_named(
    edgecron: Edgecron, stopped: Daemon, database: Path
) -> None:
    with Client(database) as client:
        stuck = StuckEngine(client, SLEEPS)
    said = edgecron("run", "backup")
    stuck.end()

    pids = f"{stopped.process.pid}, {stuck.process.pid}"
    assert f"all 2 engines are stalled (pids {pids})" in said.err


@pytest.mark.failure(23)
def test_a_run_is_run_here_where_all_engines_are_stalled_and_once(
    edgecron: Edgecron, stopped: Daemon, tmp_path: Path
) -> None:
    log = tmp_path / "effects"
    edgecron("add", "x", "--every", "1h", "--shell", f"echo ran >>{log}; exit 7")

    said = edgecron("run", "x", "--wait")
    resume(stopped.process)
    edgecron("run", "backup")
    stopped.wait_for("ended", schedule="backup")

    assert said.code == 7
    assert log.read_text() == "ran\n"
    [run] = edgecron("history", "x", "--json").json
    assert (run["status"], run["exit_code"]) == ("failed", 7)


def test_a_run_that_a_stalled_engine_has_claimed_is_left_to_it(
    edgecron: Edgecron, stopped: Daemon, tmp_path: Path
) -> None:
    resume(stopped.process)
    edgecron("add", "long", "--every", "1h", "--overlap", "skip", "--shell", "exec sleep 600")
    [queued] = edgecron("run", "long", "--json").json
    stopped.wait_for("started", schedule="long")
    stop_at_rest(stopped.process)

    skipped = edgecron("run", "long", "--wait")
    status = edgecron("status").out
    logs = subprocess.Popen([*PROGRAM, "logs", "-f", str(queued["id"])], stderr=subprocess.PIPE)
    assert logs.stderr is not None
    warning = logs.stderr.readline().decode()
    [_, first] = edgecron("history", "long", "--json").json
    cancelled = edgecron("cancel", str(first["id"]))

    assert skipped.code == 125
    assert "is still running, and the only engine, pid" in skipped.err
    assert first["status"] == "running"
    assert "; its engine is stalled" in status
    assert cancelled.code == 0
    assert f"its engine, pid {stopped.process.pid}, is stalled" in warning
    resume(stopped.process)
    assert logs.wait(BOUND_S) == 0
    logs.stderr.close()


def test_who_waits_for_a_run_of_a_stalled_engine_is_told(
    edgecron: Edgecron, stopped: Daemon, database: Path, tmp_path: Path
) -> None:
    resume(stopped.process)
    gate = Gate(tmp_path)
    edgecron("add", "long", "--every", "1h", "--shell", f"{gate.line}; exit 5")
    command = [*PROGRAM, "run", "long", "--wait"]
    waiting = subprocess.Popen(command, stderr=subprocess.PIPE, bufsize=0)
    assert waiting.stderr is not None
    gate.wait_arrival()

    stop_at_rest(stopped.process)
    assert select.select([waiting.stderr], [], [], BOUND_S)[0]
    line = waiting.stderr.readline().decode()
    resume(stopped.process)
    gate.open()

    assert waiting.wait(BOUND_S) == 5
    waiting.stderr.close()
    gate.close()
    assert "the end is recorded when the engine continues; see: edgecron doctor" in line
    assert f"its engine, pid {stopped.process.pid}, is stalled" in line


def test_a_stalled_engine_is_told_to_rules_once_a_day(
    edgecron: Edgecron,
    database: Path,
    stopped: Daemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[notify.ops]\ncommand = ["true"]\n')
    config.chmod(0o600)
    monkeypatch.setenv("EDGECRON_CONFIG", str(config))
    edgecron("notify", "list")

    for _ in range(2):  # As the process does that another engine starts.
        with Client(database) as client:
            NoticeSender(client, load_recorded(client)).run()

    [notice] = edgecron("notices", "--json").json
    assert (notice["event"], notice["status"]) == ("engine_stalled", "sent")
    assert f"The engine (pid {stopped.process.pid}) made no progress at" in notice["sentence"]
