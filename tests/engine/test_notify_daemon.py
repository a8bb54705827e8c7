"""The real daemon under something that listens as systemd does."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from edgecron.client import Client
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from tests.support.edits import Edit
from tests.support.processes import Daemon
from tests.support.program import copied_program
from tests.support.servicemanager import NotifySocket
from tests.support.stuck import stop

# The process that execs the daemon is the one that the watchdog means, as systemd has it.
MEANT = ("sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh")
Start = Callable[..., Daemon]


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NotifySocket]:
    notify = NotifySocket(tmp_path / "n")
    monkeypatch.setenv("NOTIFY_SOCKET", notify.address)
    yield notify
    notify.close()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "e.db"


@pytest.fixture
def start(database: Path) -> Iterator[Start]:
    daemons = []

    def start(**through: Any) -> Daemon:
        daemons.append(Daemon(database, **through))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.close()


def test_it_is_ready_when_its_engine_has_done_a_step(
    listening: NotifySocket, database: Path, start: Start
) -> None:
    daemon = start()

    told = listening.wait()

    assert told == {
        "READY": "1",
        "MAINPID": str(daemon.process.pid),
        "STATUS": "0 running; nothing to come",
    }
    (engine,) = Client(database).engines()
    assert engine.is_alive
    assert daemon.stop() == 0
    assert "STOPPING" in listening.wait()


def test_it_finds_a_socket_that_has_no_file(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    abstract = NotifySocket(f"@edgecron/{uuid4()}")
    monkeypatch.setenv("NOTIFY_SOCKET", abstract.address)

    start()

    assert "READY" in abstract.wait()
    abstract.close()


def test_it_is_not_ready_where_its_database_can_not_be_used(
    listening: NotifySocket, database: Path, start: Start
) -> None:
    database.write_bytes(b"no database" * 1000)

    assert start().wait_end() == 5

    assert listening.take_all() == []


@pytest.mark.failure(23)
def test_an_engine_that_hangs_feeds_no_more_and_says_where_it_hung(
    listening: NotifySocket, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    daemon = start(through=MEANT)
    for _ in range(3):
        listening.wait_until(lambda told: "WATCHDOG" in told, bound_s=10)

    stop(daemon.process)
    listening.take_all()
    assert listening.is_silent(bound_s=2)

    assert daemon.process.stderr is not None
    daemon.process.send_signal(signal.SIGABRT)  # as systemd does
    daemon.process.send_signal(signal.SIGCONT)
    said = daemon.process.stderr.read().decode()
    assert daemon.wait_end() == -signal.SIGABRT
    assert "loop.py" in said


def test_an_engine_that_hangs_in_a_step_feeds_no_more_whatever_else_lives(
    listening: NotifySocket, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    # Once a schedule is due, a step never ends.
    hang = Edit(
        function="plan_fire",
        old="plan = _plan_all(timing, due, now_ms=now_ms)",
        new="__import__('threading').Event().wait()\n    plan = None",
    )
    program = copied_program(tmp_path, hang)
    daemon = Daemon(database, program=program, through=MEANT)
    listening.wait_until(lambda told: "WATCHDOG" in told, bound_s=10)

    job = Job(kind=JobKind.COMMAND, argv=("true",))
    Client(database).add(ScheduleSpec(name="x", triggers=("every 1s",), job=job))
    while not listening.is_silent(bound_s=2):
        pass

    assert daemon.process.poll() is None
    daemon.kill()


def test_an_idle_engine_feeds_a_patient_watchdog_at_its_own_looks_alone(
    listening: NotifySocket, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "300000000")
    start(through=MEANT)

    assert "READY" in listening.wait()

    assert listening.is_silent(bound_s=2)


def test_a_job_sees_nothing_of_it(
    listening: NotifySocket, database: Path, start: Start, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    job = Job(kind=JobKind.SHELL, argv=(f"env > {seen}.new; mv {seen}.new {seen}",))
    Client(database).add(ScheduleSpec(name="look", triggers=("every 1h",), job=job))
    daemon = start()
    listening.wait()

    Client(database).run_now("look")
    daemon.wait_for("ended")

    assert "EDGECRON_SCHEDULE=look" in seen.read_text()
    assert "NOTIFY" not in seen.read_text()
    assert "WATCHDOG" not in seen.read_text()


def test_a_program_in_the_foreground_says_so_too(
    listening: NotifySocket, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    program = f"from edgecron import Scheduler; Scheduler({str(database)!r}).run_forever()"
    process = subprocess.Popen([sys.executable, "-c", program])

    try:
        # Which process is to be watched is the program's own business. On a busy machine the first
        # step takes so long that the watchdog is fed with it.
        first = listening.wait()
        first.pop("WATCHDOG", None)
        assert first == {"READY": "1", "STATUS": "0 running; nothing to come"}
        listening.wait_until(lambda told: "WATCHDOG" in told, bound_s=10)
        process.terminate()

        assert "STOPPING" in listening.wait_until(lambda told: "STOPPING" in told)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
