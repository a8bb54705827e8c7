"""An engine that is run from the dashboard: it ends with it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from time import monotonic

import pytest

from edgecron.base.bundle import Start
from edgecron.client import Client
from edgecron.tui.own_engine import OwnEngine, engine_command, engine_environment, find_refusal
from tests.support.accounts import as_root
from tests.support.processes import BOUND_S, Gate, ends
from tests.support.program import PROGRAM

# What holds an engine and can be killed, as the dashboard does.
_HOLDER = """
import sys
from pathlib import Path
from edgecron.tui.own_engine import OwnEngine, engine_command, engine_environment
engine = OwnEngine(
    engine_command(Path(sys.argv[1]), config_path=None),
    environment=engine_environment(),
    ended=print,
)
while not any("starting" in line for line in engine.lines):
    pass
print(engine.pid, flush=True)
sys.stdin.read()
"""


class Ended:
    """What was told of an engine's end."""

    def __init__(self) -> None:
        self._told: Queue[str | None] = Queue()

    def __call__(self, last: str | None) -> None:
        self._told.put(last)

    def wait(self) -> str | None:
        return self._told.get(timeout=BOUND_S)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "edgecron.db"


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path)
    yield gate
    gate.close()


def add(database: Path, *words: str) -> None:
    subprocess.run(
        [*PROGRAM, "--db", str(database), "add", *words], capture_output=True, check=True
    )


def start(database: Path, ended: Ended) -> OwnEngine:
    return OwnEngine(
        engine_command(database, config_path=None),
        environment=engine_environment(),
        ended=ended,
    )


def wait_start(engine: OwnEngine) -> None:
    until = monotonic() + BOUND_S
    while not engine.lines:
        assert monotonic() < until


def test_it_runs_what_is_due_and_ends_when_it_is_told_to_leaving_its_runs(
    database: Path, gate: Gate
) -> None:
    add(database, "long", "--at", "in 1s", "--shell", gate.line)
    ended = Ended()

    engine = start(database, ended)
    job = os.pidfd_open(gate.wait_arrival())
    engine.close()

    assert ended.wait() is None
    assert any("event=engine_stopped" in line for line in engine.lines)
    assert not ends(job, bound_s=0)
    gate.open()
    assert ends(job)
    os.close(job)


def test_it_ends_in_good_order_when_its_holder_is_killed(database: Path, gate: Gate) -> None:
    add(database, "long", "--at", "in 1s", "--shell", gate.line)
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        engine = os.pidfd_open(int(holder.stdout.readline()))
        job = os.pidfd_open(gate.wait_arrival())
        holder.kill()

    assert ends(engine)
    assert not ends(job, bound_s=0)
    with Client(database, must_exist=True) as client:
        assert client.engines() == []  # it has said goodbye
    gate.open()
    assert ends(job)
    os.close(engine)
    os.close(job)


def test_an_early_failure_is_told_with_the_last_that_it_said(database: Path) -> None:
    database.write_bytes(b"no database of ours, but long enough to be looked at" * 20)
    database.chmod(0o600)
    ended = Ended()

    engine = start(database, ended)
    told = ended.wait()
    engine.close()

    assert told is not None
    assert "edgecron.db" in told
    assert told.startswith("database ")


def test_an_engine_that_is_ended_by_others_is_told_of(database: Path) -> None:
    add(database, "x", "--every", "1h", "--", "true")
    ended = Ended()

    engine = start(database, ended)
    wait_start(engine)
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)
    told = ended.wait()
    engine.close()

    assert told == "killed by signal 9"


def test_what_can_t_be_started_is_told(tmp_path: Path) -> None:
    ended = Ended()

    engine = OwnEngine(Start([str(tmp_path / "missing")], ()), environment={}, ended=ended)
    told = ended.wait()
    engine.close()

    assert told == "can't start an engine: No such file or directory"


def test_no_engine_is_held_up_by_a_log_that_nobody_reads(tmp_path: Path) -> None:
    line = "x" * 1000
    script = f"""
import sys
for number in range(1000):
    try:
        print({line!r}, flush=True)
    except BlockingIOError:
        pass
open({str(tmp_path / "done")!r}, "w").close()
sys.stdin.read()
"""
    ended = Ended()
    engine = OwnEngine(
        Start([sys.executable, "-c", script], ()), environment=os.environ, ended=ended
    )
    engine.close()

    assert ended.wait() is None
    assert (tmp_path / "done").exists()
    assert len(engine.lines) <= 200


@as_root
def test_another_user_s_database_is_refused_kindly(database: Path) -> None:
    add(database, "x", "--every", "1h", "--", "true")
    os.chown(database, 12_345, 12_345)

    refusal = find_refusal(database)

    assert refusal is not None
    assert "belongs to user 12345" in refusal.message
    assert find_refusal(database.with_name("missing.db")) is None
