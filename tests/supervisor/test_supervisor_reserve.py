"""What a supervisor has beyond its places: it starts each as soon as a place is free."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.base.clock import SystemClock
from edgecron.supervisor.control import Control
from edgecron.supervisor.journal import NeverStarted, judge, read_journal
from edgecron.supervisor.launch import StartBy
from edgecron.supervisor.link import Started, SupervisorLink
from edgecron.supervisor.protocol import EndCause, Phase
from edgecron.supervisor.runner import RESERVE_MS
from edgecron.supervisor.state_files import prepare_state_dir
from tests.supervisor.supervisor_bench import BOUND_MS, Bell, Bench, Gate, wait_gone

pytestmark = pytest.mark.real_starts


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Bench]:
    """A supervisor with one place."""
    made = Bench(tmp_path / "narrow", places=1)
    yield made
    made.close()


def test_a_free_place_is_filled_without_the_engine(narrow: Bench, tmp_path: Path) -> None:
    log = tmp_path / "log"
    line = f"echo in >> {log}; sleep 0.01; echo out >> {log}"
    requests = [narrow.request("/bin/sh", "-c", line) for _ in range(4)]

    narrow.link.start(requests)
    for request in requests:
        narrow.ended(request.token)

    assert log.read_text().split() == ["in", "out"] * 4
    started = [event.token for event in narrow.events if isinstance(event, Started)]
    assert started == [request.token for request in requests]


def test_a_place_is_filled_at_once_by_each_way_of_starting(tmp_path: Path, bell: Bell) -> None:
    for by in StartBy:
        bench = Bench(tmp_path / by, by=by, places=2)
        for _ in range(3):
            bench.shell(f"echo > {bell.path}; exec sleep 60")
        bell.wait(2)
        with Control(bench.state_dir, bench.link.supervisor_id) as control:
            state = control.status()
        assert (len(state.running), len(state.waiting)) == (2, 1)
        bench.close()


def test_what_waits_too_long_is_given_back_and_never_started(narrow: Bench, bell: Bell) -> None:
    long = narrow.shell("exec sleep 60")
    begun = time.monotonic()
    waits = narrow.shell(f"echo > {bell.path}")

    narrow.wait_given_back(waits)

    assert time.monotonic() - begun >= RESERVE_MS / 1000
    narrow.link.cancel([long])
    narrow.ended(long)
    assert narrow.run("/bin/true").exit_code == 0
    assert not bell.has_rung()
    assert waits not in narrow.journal().traces


def test_what_was_given_back_can_come_again(narrow: Bench) -> None:
    long = narrow.shell("exec sleep 60")
    request = narrow.request("/bin/true")
    narrow.link.start([request])
    narrow.wait_given_back(request.token)

    narrow.link.cancel([long])
    narrow.ended(long)
    narrow.link.start([request])

    assert narrow.ended(request.token).exit_code == 0


def test_what_waits_for_a_place_when_all_are_ended_is_given_back(narrow: Bench, bell: Bell) -> None:
    runs = narrow.shell(f"echo > {bell.path}; exec sleep 60")
    bell.wait()
    waits = narrow.start("/bin/true")

    narrow.link.stop_all()

    assert narrow.ended(runs).cause is EndCause.STOPPED
    narrow.wait_given_back(waits)


def test_what_waits_for_a_place_can_be_cancelled_and_revoked(narrow: Bench) -> None:
    narrow.shell("exec sleep 60")
    cancelled, revoked = narrow.start("/bin/true"), narrow.start("/bin/true")

    with Control(narrow.state_dir, narrow.link.supervisor_id) as control:
        assert control.cancel([cancelled]) == {cancelled: Phase.WAITING}
        assert control.revoke([revoked]) == {revoked: Phase.WAITING}

    record = narrow.ended(cancelled)
    assert (record.cause, record.started_ms) == (EndCause.CANCELLED, None)
    narrow.wait_for(lambda: revoked in narrow.not_started(), "what was revoked")
    assert narrow.not_started()[revoked].error_code == "ECANCELED"


def test_what_waits_for_a_place_was_never_started_if_all_die(narrow: Bench, bell: Bell) -> None:
    narrow.shell(f"echo > {bell.path}; exec sleep 60")
    bell.wait()
    waits = narrow.start("/bin/true")
    with Control(narrow.state_dir, narrow.link.supervisor_id) as control:
        assert control.status().waiting == (waits,)

    os.kill(narrow.link.pid, signal.SIGKILL)
    narrow.wait_for_death()

    verdict = judge(narrow.journal(), waits, boot_id=SystemClock().boot_id())
    assert verdict == NeverStarted()


def test_without_an_engine_what_waits_for_a_place_is_started(
    tmp_path: Path, gate: Gate, bell: Bell
) -> None:
    bench = Bench(tmp_path / "state", places=1)
    bench.shell(f"echo > {bell.path}; read go < {gate.path}")
    bell.wait()
    waits = bench.start("/bin/true")
    pid, key = bench.link.pid, bench.link.supervisor_id
    with Control(bench.state_dir, key) as control:
        assert control.status().waiting == (waits,)
    bench.link.close()

    gate.open()
    wait_gone(pid)

    trace = read_journal(bench.state_dir, key).traces[waits]
    assert trace.exit is not None
    assert trace.exit.exit_code == 0


def test_an_engine_from_before_an_upgrade_starts_a_supervisor_without_places(
    tmp_path: Path,
) -> None:
    folder = prepare_state_dir(tmp_path / "state")
    ours, theirs = socket.socketpair()
    key, fd = "0123456789abcdef", theirs.fileno()
    command = [sys.executable, "-m", "edgecron.supervisor", str(fd), key, str(folder)]
    subprocess.run(command, pass_fds=[fd], check=True)
    theirs.close()
    link = SupervisorLink(ours, folder, supervisor_id=key)

    link.wait_hello(BOUND_MS / 1000)

    link.close()
    wait_gone(link.pid)
