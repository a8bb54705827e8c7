"""Runs whose processes are stopped for a while: their time-outs, their ends, and a lost engine."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from edgecron.supervisor import loop
from edgecron.supervisor.launch import StartBy
from edgecron.supervisor.protocol import EndCause, Flag
from tests.supervisor.supervisor_bench import Bell, Bench
from tests.support.servers import wait_until

# Forked, so that what a test changes here is changed there; test runners have threads of their own.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def is_stopped(pid: int) -> bool:
    """Whether the kernel shows a process as stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def start(bench: Bench, bell: Bell, **more: int) -> tuple[str, list[int]]:
    """A run with a child in a group of its own; its token, and both processes."""
    child = (
        "import os, sys, time; os.setpgid(0, 0);"
        " print(os.getppid(), os.getpid(), file=open(sys.argv[1], 'w'), flush=True);"
        " time.sleep(300)"
    )
    token = bench.shell(f'{sys.executable} -c "{child}" {bell.path} & wait', **more)
    return token, [int(pid) for pid in bell.wait().split()]


def suspend(bench: Bench, token: str, pids: list[int]) -> None:
    bench.link.suspend(token)
    wait_until(lambda: all(map(is_stopped, pids)), lambda: "that all processes stop")


def test_all_processes_of_a_run_stop_and_continue(bench: Bench, bell: Bell) -> None:
    token, pids = start(bench, bell)
    suspend(bench, token, pids)

    bench.link.resume(token)
    wait_until(lambda: not any(map(is_stopped, pids)), lambda: "that all continue")
    bench.link.cancel([token])

    assert Flag.SUSPENDED in bench.ended(token).flags


def test_a_timeout_does_not_count_the_time_of_a_suspension(bench: Bench, bell: Bell) -> None:
    token, pids = start(bench, bell, timeout_ms=2_000)
    suspend(bench, token, pids)
    # Another run shows that more than the timeout has passed.
    bench.ended(bench.shell("sleep 2.5"))
    still = [is_stopped(pid) for pid in pids]

    bench.link.resume(token)
    record = bench.ended(token)

    assert still == [True, True]
    assert record.cause is EndCause.TIMEOUT
    assert (record.duration_ms or 0) >= 4_000


@pytest.mark.parametrize("cause", ["cancelled", "stopped", "condition"])
def test_a_suspended_run_ends_on_request(bench: Bench, bell: Bell, cause: str) -> None:
    token, pids = start(bench, bell)
    suspend(bench, token, pids)

    if cause == "cancelled":
        bench.link.cancel([token])
    elif cause == "stopped":
        bench.link.stop_all()
    else:
        bench.link.end(token, EndCause.CONDITION, "its condition was lost")
    record = bench.ended(token)

    assert (record.cause, record.exit_code) == (EndCause(cause), 143)
    assert record.error_msg == ("its condition was lost" if cause == "condition" else None)


def test_no_run_stays_suspended_without_an_engine(
    tmp_path: Path, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SUSPENDED_LIMIT_MS", 300)
    bench = Bench(tmp_path / "alone", by=StartBy.FORK)
    token, pids = start(bench, bell)
    suspend(bench, token, pids)

    bench.link.close()

    wait_until(lambda: not any(map(is_stopped, pids)), lambda: "that all continue")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    bench.close()


def test_no_run_stays_suspended_if_its_engine_is_stalled(
    tmp_path: Path, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SUSPENDED_LIMIT_MS", 300)
    bench = Bench(tmp_path / "silent", by=StartBy.FORK)
    token, pids = start(bench, bell)
    suspend(bench, token, pids)

    wait_until(lambda: not any(map(is_stopped, pids)), lambda: "that all continue")
    suspend(bench, token, pids)  # as an engine does that continues
    bench.link.cancel([token])

    assert Flag.SUSPENDED in bench.ended(token).flags
    bench.close()
