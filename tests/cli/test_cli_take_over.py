"""doctor --take-over: a stalled engine is ended on request, and its runs go on."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgecron.base.errors import EdgecronError
from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.client.takeover import get_stalled
from edgecron.store.contract import Claimant
from edgecron.supervisor.journal import Journal
from tests.support.accounts import as_root
from tests.support.cli import Edgecron
from tests.support.engines import Place
from tests.support.processes import BOUND_S, Daemon
from tests.support.stuck import FORKS, KEY, LOCKS, SLEEPS, StuckEngine, resume, stop, stop_at_rest
from tests.support.terminal import on_terminal, read_until


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def place(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch, database: Path
) -> Place:
    """Real engines, and the command line on their database."""
    monkeypatch.setenv("EDGECRON_DB", str(tmp_path / "edge.db"))
    return Place(tmp_path, stack)


@pytest.fixture
def daemon(place: Place, stack: ExitStack) -> Daemon:
    """An engine with a run that waits at the gate; stopped engines are ended with the test."""
    line = f'echo began >>"$LOG"; {place.gate.line}; echo went >>"$LOG"; exit 7'
    place.add("long", "@yearly", line)
    daemon = place.daemon()
    stack.callback(lambda: daemon.process.poll() is None and daemon.kill())
    place.client.run_now("long")
    daemon.wait_for("started", schedule="long")
    place.gate.wait_arrival()
    return daemon


@pytest.mark.failure(23)
def test_a_stalled_engine_is_shown_left_alone_and_ended_on_request(
    place: Place, daemon: Daemon, edgecron: Edgecron
) -> None:
    pid = daemon.process.pid
    stop_at_rest(daemon.process)
    shown = edgecron("status").out

    # Another engine fires what is due, and leaves the run to the one that holds its lock.
    second = place.daemon()
    place.add("other", "every 1s", "true")
    second.wait_for("ended", schedule="other")
    [finding] = [one for one in edgecron("doctor", "--json").json if one["status"] == "problem"]
    [while_stalled] = place.runs("long")

    words = shlex.split(finding["hint"].partition("or end it: ")[2])
    said = edgecron(*words[1:], "--yes")
    code = daemon.wait_end()
    place.gate.open()
    ended = second.wait_for("ended", schedule="long")

    assert f"pid {pid} is stalled" in shown
    assert (while_stalled.status, while_stalled.engine_id) == ("running", 1)
    assert words == ["edgecron", "doctor", "--take-over", str(pid)]
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        f"ended process {pid}: the engine, and any program that embeds it\n"
        "1 run continues under its supervisor;"
        f" engine pid {second.process.pid} takes over\n"
    )
    assert code == -signal.SIGKILL
    assert (ended["status"], ended["exit_code"]) == ("failed", 7)
    assert place.effects() == ["began", "went"]
    assert len(place.runs("long")) == 1
    [engine] = edgecron("status", "--json").json[0]["engines"]
    assert (engine["pid"], engine["stalled"]) == (second.process.pid, False)


@pytest.mark.failure(23)
def test_without_another_engine_the_next_one_takes_over(
    place: Place, daemon: Daemon, edgecron: Edgecron
) -> None:
    stop_at_rest(daemon.process)

    said = edgecron("doctor", "--take-over", str(daemon.process.pid), "--yes", "--json")
    daemon.wait_end()
    next_engine = place.daemon()
    place.gate.open()
    ended = next_engine.wait_for("ended", schedule="long")

    assert said.code == 0
    assert said.json == [
        {
            "pid": daemon.process.pid,
            "engine_id": 1,
            "ended": True,
            "runs_going_on": [1],
            "runs_queued_again": [],
            "runs_settled": [],
            "engines_alive": [],
        }
    ]
    assert (ended["exit_code"], place.effects()) == (7, ["began", "went"])


def test_an_end_that_the_stalled_engine_had_not_written_is_put_on_record(
    place: Place, daemon: Daemon, edgecron: Edgecron
) -> None:
    pid = daemon.process.pid
    stop_at_rest(daemon.process)
    journal = next(state_dir(place.database).glob("supervisor-*.journal"))
    place.gate.open()
    wait_for_exit(journal)

    said = edgecron("doctor", "--take-over", str(pid), "--yes")
    daemon.wait_end()

    assert said.out.splitlines()[1:] == ["recorded the end of 1 run"]
    assert said.err == "no engine is running; start one: edgecron daemon\n"
    [run] = place.runs("long")
    assert (run.status, run.exit_code) == ("failed", 7)


def test_a_run_that_was_claimed_and_never_started_is_queued_again(
    place: Place, edgecron: Edgecron, stack: ExitStack
) -> None:
    stuck = StuckEngine(place.client, SLEEPS)
    stack.callback(stuck.end)
    place.add("never", "@yearly", "true")
    place.client.run_now("never")
    # The supervisor is dead, and its journal knows nothing of a start.
    Journal(stuck.state_dir, "deadbeef", boot_id=place.client.clock.boot_id())
    claimant = Claimant(
        engine_id=stuck.engine_id,
        supervisor_id="deadbeef",
        queues=("command",),
        max_running=1,
    )
    place.client.store.claim_queued(claimant=claimant, now_ms=place.client.clock.now_ms())

    said = edgecron("doctor", "--take-over", str(stuck.process.pid), "--yes")

    assert said.out.splitlines()[1:] == ["queued 1 run again that never started"]
    assert [run.status for run in place.runs("never")] == ["queued"]


def test_a_process_that_is_no_engine_of_the_database_is_refused(
    place: Place, daemon: Daemon, edgecron: Edgecron
) -> None:
    stop_at_rest(daemon.process)

    said = edgecron("doctor", "--take-over", str(os.getpid()), "--yes")

    assert said.code == 3
    assert f"pid {os.getpid()} is not an engine of database" in said.err
    assert f"its engines: {daemon.process.pid} (stalled)" in said.err
    resume(daemon.process)


def test_an_engine_that_is_well_is_refused(
    place: Place, daemon: Daemon, edgecron: Edgecron
) -> None:
    pid = daemon.process.pid

    said = edgecron("doctor", "--take-over", str(pid), "--yes")

    assert said.code == 1
    assert f"engine pid {pid} is running and not stalled" in said.err
    assert f"kill -TERM {pid}" in said.err
    assert daemon.process.poll() is None


def test_a_process_that_only_claims_to_be_the_engine_is_refused(
    place: Place, edgecron: Edgecron, stack: ExitStack
) -> None:
    bystander = StuckEngine.start_bystander()
    stack.callback(bystander.communicate)
    stack.callback(bystander.kill)
    stuck = StuckEngine(place.client, SLEEPS, pid=bystander.pid)
    stack.callback(stuck.end)
    stop(bystander)
    place.add("rings", "@yearly", "true")

    said = edgecron("doctor", "--take-over", str(bystander.pid), "--yes")

    assert said.code == 1
    assert "not stalled; it does not answer, and its process can't be seen" in said.err
    assert bystander.poll() is None


def test_an_engine_that_sleeps_on_is_ended(
    place: Place, edgecron: Edgecron, stack: ExitStack
) -> None:
    stuck = StuckEngine(place.client, SLEEPS)
    stack.callback(stuck.end)
    place.add("rings", "@yearly", "true")

    said = edgecron("doctor", "--take-over", str(stuck.process.pid), "--yes")

    assert said.code == 0
    assert stuck.process.wait(BOUND_S) == -signal.SIGKILL
    assert list(state_dir(place.database).glob("engine-*")) == []


@pytest.mark.failure(23)
@pytest.mark.failure(24)
def test_an_engine_that_was_stopped_while_it_wrote_is_found_and_ended(
    place: Place, edgecron: Edgecron, stack: ExitStack
) -> None:
    stuck = StuckEngine(place.client, LOCKS)
    stack.callback(stuck.end)
    stuck.take_write_lock()
    stop(stuck.process)

    before = edgecron("doctor", "--json")
    said = edgecron("doctor", "--take-over", str(stuck.process.pid), "--yes")
    after = edgecron("doctor", "--json")

    found = [(one["check"], one["status"]) for one in before.json if one["status"] != "ok"]
    assert found == [("database", "warning"), ("engines", "problem")]
    [locked] = [one for one in before.json if one["check"] == "database"]
    assert "locked for writing" in locked["message"]
    assert said.code == 0
    assert {one["status"] for one in after.json} == {"ok"}


def test_without_a_terminal_it_must_be_told_yes(
    place: Place, daemon: Daemon, edgecron: Edgecron
) -> None:
    stop_at_rest(daemon.process)

    said = edgecron("doctor", "--take-over", str(daemon.process.pid))

    assert said.code == 2
    assert "repeat with --yes" in said.err
    resume(daemon.process)
    place.gate.open()
    assert daemon.wait_for("ended", schedule="long")["exit_code"] == 7


@pytest.mark.parametrize(("answer", "is_ended"), [("y", True), ("", False), ("nay", False)])
def test_on_a_terminal_it_asks(place: Place, daemon: Daemon, answer: str, is_ended: bool) -> None:
    pid = daemon.process.pid
    stop_at_rest(daemon.process)

    with on_terminal(dict(os.environ), "doctor", "--take-over", str(pid)) as outer:
        asked = read_until(outer, "[y/N] ")
        os.write(outer, f"{answer}\n".encode())
        rest = read_until(outer, None)

    assert "If a program embeds the engine, the whole program ends" in asked
    assert "1 active run continues under its supervisor" in asked
    if is_ended:
        assert f"ended process {pid}" in rest
        assert daemon.wait_end() == -signal.SIGKILL
    else:
        assert "nothing was changed" in rest
        resume(daemon.process)
        place.gate.open()
        assert daemon.wait_for("ended", schedule="long")["exit_code"] == 7


def test_an_engine_that_goes_on_while_the_question_stands_is_left_alone(
    place: Place, daemon: Daemon
) -> None:
    pid = daemon.process.pid
    stop_at_rest(daemon.process)

    with on_terminal(dict(os.environ), "doctor", "--take-over", str(pid)) as outer:
        read_until(outer, "[y/N] ")
        resume(daemon.process)
        os.write(outer, b"y\n")
        rest = read_until(outer, None)

    assert f"engine pid {pid} makes progress again, and was not ended" in rest
    place.gate.open()
    assert daemon.wait_for("ended", schedule="long")["exit_code"] == 7


def test_a_lock_that_a_child_of_the_engine_holds_on_is_told(
    place: Place, edgecron: Edgecron, stack: ExitStack
) -> None:
    stuck = StuckEngine(place.client, FORKS)
    stack.callback(stuck.end)
    stop(stuck.process)

    said = edgecron("doctor", "--take-over", str(stuck.process.pid), "--yes")

    assert said.code == 1
    [child] = re.findall(r"its child, process (\d+), still holds its lock", said.err)
    assert int(child) != stuck.process.pid
    assert f"engine-{KEY}.lock" in said.err
    assert stuck.process.wait(BOUND_S) == -signal.SIGKILL


def test_a_system_that_can_not_name_a_process_for_good_is_refused(
    place: Place, daemon: Daemon, edgecron: Edgecron, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = daemon.process.pid
    stop_at_rest(daemon.process)
    monkeypatch.delattr(os, "pidfd_open")

    said = edgecron("doctor", "--take-over", str(pid), "--yes")

    assert said.code == 1
    assert f"then end it: kill -KILL {pid}" in said.err
    resume(daemon.process)


@as_root
def test_the_process_of_another_user_is_refused(stack: ExitStack) -> None:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgecron-test-")))
    client = stack.enter_context(Client(folder / "edge.db"))
    stuck = StuckEngine(client, SLEEPS)
    stack.callback(stuck.end)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)
    stack.callback(os.seteuid, 0)
    os.seteuid(65534)

    with pytest.raises(EdgecronError, match="belongs to user 0, and you are user 65534"):
        get_stalled(client, stuck.process.pid)


def wait_for_exit(journal: Path) -> None:
    """Wait, bounded, until a supervisor has put an end on record."""
    for _ in range(round(BOUND_S / 0.01)):
        if b'["exit"' in journal.read_bytes():
            return
        select.select([], [], [], 0.01)
    raise AssertionError("no end was put on record")
