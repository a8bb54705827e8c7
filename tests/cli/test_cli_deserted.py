"""Verbs about runs whose engine has gone, as real processes."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from edgecron.base.paths import state_dir
from edgecron.model.choices import Reason, Status
from edgecron.model.run import Execution
from edgecron.tui.status import read_engines
from tests.support.engines import Place
from tests.support.processes import BOUND_S, ends, parent_of
from tests.support.program import PROGRAM
from tests.support.servers import wait_until


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


def program(place: Place, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, "--db", str(place.database), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def desert(place: Place) -> tuple[Execution, int]:
    """A run at the gate whose engine was killed, and a descriptor of its supervisor."""
    place.add("long", "@yearly", f"echo one; {place.gate.line}; echo two; exit 7")
    daemon = place.daemon()
    [run] = place.client.run_now("long")
    daemon.wait_for("started", schedule="long")
    supervisor = os.pidfd_open(parent_of(place.gate.wait_arrival()))
    daemon.kill()
    return run, supervisor


def test_logs_show_what_a_run_printed_that_ended_without_an_engine(place: Place) -> None:
    run, supervisor = desert(place)
    place.gate.open()
    assert ends(supervisor)

    out, err = program(place, "logs", str(run.id)).communicate(timeout=BOUND_S)

    assert (out, err) == ("one\ntwo\n", "")
    assert place.client.execution(run.id).exit_code == 7


@pytest.mark.failure(18)
def test_a_run_keeps_what_it_printed_until_its_supervisor_was_killed(place: Place) -> None:
    run, supervisor = desert(place)
    folder = state_dir(place.database)
    wait_until(lambda: any(folder.glob("run-*.out")), lambda: "no output in the state folder")
    signal.pidfd_send_signal(supervisor, signal.SIGKILL)
    assert ends(supervisor)

    place.daemon().wait_for("ended", schedule="long")
    out, _ = program(place, "logs", str(run.id)).communicate(timeout=BOUND_S)

    ended = place.client.execution(run.id)
    assert (ended.status, ended.reason) == (Status.INTERRUPTED, Reason.LOST)
    assert out == "one\n"


@pytest.mark.parametrize("command", ["status", "list", "history", "next", "show long", "why long"])
def test_every_command_says_how_a_run_without_an_engine_has_ended(
    place: Place, command: str
) -> None:
    run, supervisor = desert(place)
    place.gate.open()
    assert ends(supervisor)

    out, _ = program(place, *command.split()).communicate(timeout=BOUND_S)

    assert place.client.execution(run.id).exit_code == 7
    assert "running" not in out.replace("0 running", "").replace("engine is running", "")


def test_the_dashboard_says_how_a_run_without_an_engine_has_ended(place: Place) -> None:
    run, supervisor = desert(place)
    place.gate.open()
    assert ends(supervisor)

    read_engines(place.client)

    assert place.client.execution(run.id).exit_code == 7


def test_logs_that_follow_end_with_a_run_that_ends_without_an_engine(place: Place) -> None:
    run, _ = desert(place)
    follower = program(place, "logs", "-f", str(run.id))

    place.gate.open()
    out, _ = follower.communicate(timeout=BOUND_S)

    assert (follower.returncode, out) == (0, "one\ntwo\n")


def test_who_waits_for_a_run_gets_its_end_without_an_engine(place: Place) -> None:
    place.add("long", "@yearly", f"{place.gate.line}; echo two; exit 7")
    daemon = place.daemon()
    daemon.wait_for("engine_started")
    waiting = program(place, "run", "long", "--wait")
    place.gate.wait_arrival()

    daemon.kill()
    place.gate.open()
    out, _ = waiting.communicate(timeout=BOUND_S)

    assert (waiting.returncode, out) == (7, "two\n")


def test_who_stops_waiting_is_told_that_the_run_goes_on(place: Place) -> None:
    place.add("long", "@yearly", f"echo one; {place.gate.line}")
    daemon = place.daemon()
    daemon.wait_for("engine_started")
    waiting = program(place, "run", "long", "--wait")
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "one\n"

    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=BOUND_S)

    assert "run 1 continues; to end it: edgecron --db" in err
    assert "cancel 1" in err
    assert place.client.execution(1).status is Status.RUNNING


def test_a_run_that_can_not_be_made_here_is_not_left_for_later(place: Place) -> None:
    place.add("long", "@yearly", "true")
    state_dir(place.database).symlink_to("elsewhere")

    waiting = program(place, "run", "long", "--wait")
    waiting.communicate(timeout=BOUND_S)

    assert waiting.returncode == 125
    assert place.client.execution(1).status is Status.CANCELLED


def test_status_tells_what_becomes_of_a_run_without_engine_and_supervisor(place: Place) -> None:
    _, supervisor = desert(place)
    out, _ = program(place, "status").communicate(timeout=BOUND_S)
    signal.pidfd_send_signal(supervisor, signal.SIGKILL)
    assert ends(supervisor)
    after, _ = program(place, "status").communicate(timeout=BOUND_S)

    assert "no engine is running\n" in out, "the job continues"
    assert "the next one adopts it" in out
    assert "0 running" in after
    assert "interrupted: lost" in after


def test_of_several_runs_those_that_go_on_are_ended(place: Place) -> None:
    place.add("short", "@yearly", "true")
    place.add("long", "@yearly", place.gate.line)
    daemon = place.daemon()
    place.client.run_now("short")
    daemon.wait_for("ended", schedule="short")
    place.client.run_now("long")
    daemon.wait_for("started", schedule="long")
    place.gate.wait_arrival()

    cancel = program(place, "cancel", "1", "2")
    out, err = cancel.communicate(timeout=BOUND_S)
    ended = daemon.wait_for("ended", schedule="long")

    assert cancel.returncode == 1
    assert "cancelling run 2" in out
    assert "run 1 has ended already" in err
    assert ended["status"] == "cancelled"


def test_a_run_whose_supervisor_goes_as_it_is_cancelled_is_no_error(place: Place) -> None:
    _, supervisor = desert(place)
    cancel = program(place, "cancel", "1")
    cancel.communicate(timeout=BOUND_S)
    assert ends(supervisor)

    # Nobody has written its end, and whoever asks now finds its supervisor gone.
    ended = place.client.cancel(1)

    assert ended.status is Status.CANCELLED


def test_an_engine_that_waits_for_its_runs_to_end_is_not_counted_on(place: Place) -> None:
    place.add("long", "@yearly", place.gate.line)
    place.add("short", "@yearly", "echo short")
    daemon = place.daemon("--on-shutdown", "wait")
    place.client.run_now("long")
    place.gate.wait_arrival()
    daemon.process.send_signal(signal.SIGTERM)
    daemon.wait_for("engine_stopping")

    status, _ = program(place, "status").communicate(timeout=BOUND_S)
    doctor, _ = program(place, "doctor").communicate(timeout=BOUND_S)
    waiting = program(place, "run", "short", "--wait")
    out, _ = waiting.communicate(timeout=BOUND_S)
    place.gate.open()

    assert "all engines are stopping" in status
    assert f"pid {daemon.process.pid}, version " in status
    assert ", takes no new runs, and stops when its runs end" in status
    assert "it takes no new runs, and stops when its runs end" in doctor
    assert (waiting.returncode, out) == (0, "short\n")
    assert daemon.wait_end() == 0


@pytest.mark.failure(37)
def test_a_hang_up_that_comes_twice_is_one(place: Place) -> None:
    place.add("long", "@yearly", f"{place.gate.line}; exit 7")
    daemon = place.daemon("--on-shutdown", "wait")
    place.client.run_now("long")
    daemon.wait_for("started", schedule="long")
    place.gate.wait_arrival()

    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for("engine_stopping")
    daemon.process.send_signal(signal.SIGHUP)
    place.gate.open()
    code = daemon.wait_end()

    assert code == 0
    assert place.client.execution(1).exit_code == 7


def test_who_interrupts_a_run_that_is_being_queued_is_told_to_look(place: Place) -> None:
    place.add("job", "@yearly", "true")
    other = apsw.Connection(str(place.database))
    other.execute("BEGIN IMMEDIATE")

    running = program(place, "run", "job")
    assert running.stderr is not None
    running.stderr.readline()  # It waits for the lock.
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=BOUND_S)
    other.close()

    look = f"edgecron --db {place.database} history job -n 1"
    assert err == f"edgecron: interrupted; the run might be queued; to look: {look}\n"
    assert running.returncode == 130


def test_a_command_that_waits_for_a_lock_says_so(place: Place) -> None:
    place.add("job", "@yearly", "true")
    other = apsw.Connection(str(place.database))
    other.execute("BEGIN IMMEDIATE")

    waiting = program(place, "pause", "job")
    assert waiting.stderr is not None
    assert select.select([waiting.stderr], [], [], BOUND_S)[0]
    said = waiting.stderr.readline()
    other.execute("ROLLBACK")
    other.close()
    _, more = waiting.communicate(timeout=BOUND_S)

    assert said == f"edgecron: waiting for another program's lock on {place.database}\n"
    assert (waiting.returncode, more) == (0, "")
    assert not place.client.schedule("job").enabled
