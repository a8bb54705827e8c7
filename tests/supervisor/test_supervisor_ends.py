"""How runs end: by themselves, in time, on request, and what they leave behind.

What gets out of their group is in test_supervisor_escape.py.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from edgecron.supervisor.launch import StartBy
from edgecron.supervisor.protocol import EndCause, Flag
from tests.supervisor.supervisor_bench import Bell, Bench, Gate, wait_gone

# Forked, so that what a test changes here is changed there; test runners have threads of their own.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.mark.failure(32)
def test_a_job_that_ignores_term_is_killed_after_its_grace(bench: Bench, bell: Bell) -> None:
    token = bench.shell(
        f"trap '' TERM; echo > {bell.path}; while :; do sleep 1; done",
        timeout_ms=300,
        kill_grace_ms=50,
    )
    bell.wait()

    record = bench.ended(token)

    assert (record.cause, record.exit_code) == (EndCause.TIMEOUT, 128 + signal.SIGKILL)
    assert record.flags == (Flag.KILLED,)
    assert record.error_msg == "ran longer than 300ms, and was ended"
    assert record.duration_ms is not None
    assert record.duration_ms >= 350


def test_a_job_that_ends_on_term_keeps_its_own_exit_code(bench: Bench, bell: Bell) -> None:
    token = bench.shell(
        f"trap 'echo bye; exit 9' TERM; echo > {bell.path}; while :; do sleep 0.01; done",
        timeout_ms=300,
    )
    bell.wait()

    record = bench.ended(token)

    assert (record.cause, record.exit_code, record.flags) == (EndCause.TIMEOUT, 9, ())
    assert bench.printed(record) == b"bye\n"


def test_a_stopped_job_is_continued_so_that_it_can_end(bench: Bench) -> None:
    token = bench.shell("kill -STOP $$; sleep 60", timeout_ms=200)

    record = bench.ended(token)

    assert (record.cause, record.exit_code) == (EndCause.TIMEOUT, 128 + signal.SIGTERM)


def test_a_cancelled_job_is_ended_with_its_whole_group(bench: Bench, bell: Bell) -> None:
    line = f"sh -c 'trap \"\" TERM; echo $$ > {bell.path}; sleep 60' & wait"
    token = bench.shell(line, kill_grace_ms=100)
    grandchild = int(bell.wait())

    bench.link.cancel([token])
    record = bench.ended(token)

    assert record.cause is EndCause.CANCELLED
    wait_gone(grandchild)


def test_what_a_shell_has_started_keeps_its_grace_when_the_shell_is_gone(
    bench: Bench, bell: Bell, gate: Gate
) -> None:
    inner = (
        f"trap 'sleep 0.1; echo cleaned up; exit' TERM; echo > {bell.path}; read go < {gate.path}"
    )
    token = bench.shell(f'sh -c "{inner}"; echo never')
    bell.wait()

    bench.link.cancel([token])
    record = bench.ended(token)

    assert (record.exit_code, record.flags) == (128 + signal.SIGTERM, ())
    assert bench.printed(record) == b"cleaned up\n"
    assert record.duration_ms is not None


@pytest.mark.failure(33)
@pytest.mark.failure(34)
def test_a_cancelled_run_does_not_wait_for_what_has_escaped_and_holds_its_pipe(
    bench: Bench, bell: Bell, gate: Gate
) -> None:
    # The gate is open for it before the bell rings: what is written there then waits for it.
    escaped = f"exec 3< {gate.path}; echo $$ > {bell.path}; read go <&3"
    token = bench.shell(f"setsid sh -c '{escaped}' & exec sleep 60", kill_grace_ms=600_000)
    bell.wait()

    bench.link.cancel([token])
    record = bench.ended(token)  # Far sooner than the grace.
    gate.open()

    assert record.cause is EndCause.CANCELLED
    assert record.exit_code == 128 + signal.SIGTERM
    assert Flag.KILLED not in record.flags


def test_the_end_of_a_cancelled_run_costs_no_processor_while_it_lingers(
    bench: Bench, bell: Bell
) -> None:
    inner = f"trap '' TERM; echo > {bell.path}; exec sleep 60"
    token = bench.shell(f'sh -c "{inner}"; echo never', kill_grace_ms=1000)
    bell.wait()
    before = processor_ticks(bench.link.pid)

    bench.link.cancel([token])
    record = bench.ended(token)

    assert record.flags == (Flag.KILLED,)
    assert processor_ticks(bench.link.pid) - before < 20


def processor_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_a_job_cancelled_before_its_start_never_runs(bench: Bench) -> None:
    blockers = [bench.request("/bin/sh", "-c", "exit 0") for _ in range(200)]
    last = bench.request("/bin/sh", "-c", "exit 0")

    bench.link.start([*blockers, last])
    bench.link.cancel([last.token])
    record = bench.ended(last.token)
    for request in blockers:
        bench.ended(request.token)

    # It may have been faster than the cancel: then its own end is the truth.
    assert (record.cause, record.started_ms) == (EndCause.CANCELLED, None) or (
        record.cause is EndCause.EXIT
    )


def test_a_cancel_of_a_run_that_has_ended_changes_nothing(bench: Bench) -> None:
    token = bench.shell("exit 4")
    bench.ended(token)

    bench.link.cancel([token, "never-heard-of"])
    record = bench.run_shell("exit 5")

    assert record.exit_code == 5
    assert bench.exits()[token].exit_code == 4
    assert len(bench.exits()) == 2


def test_stop_all_ends_every_run(bench: Bench) -> None:
    tokens = [bench.shell("exec sleep 60") for _ in range(5)]
    for token in tokens:
        bench.started(token)

    bench.link.stop_all()

    assert {bench.ended(token).cause for token in tokens} == {EndCause.STOPPED}


@pytest.mark.failure(33)
def test_a_grandchild_that_keeps_the_pipe_does_not_hold_the_run(bench: Bench, bell: Bell) -> None:
    record = bench.run_shell(f"(echo $$ > /dev/null; sleep 60; echo > {bell.path}) & echo done")

    assert (record.exit_code, bench.printed(record)) == (0, b"done\n")
    assert Flag.PIPE_HELD in record.flags
    assert record.pid is not None
    os.killpg(record.pid, signal.SIGKILL)


@pytest.mark.failure(33)
def test_who_keeps_the_pipe_can_go_on_writing_to_it(bench: Bench, bell: Bell) -> None:
    line = f"(read go < {bell.path}.go; yes | head -c 1000000 && echo alive > {bell.path}) & true"
    os.mkfifo(f"{bell.path}.go")

    record = bench.run_shell(line)
    with open(f"{bell.path}.go", "w", encoding="ascii") as go:
        go.write("go\n")

    assert Flag.PIPE_HELD in record.flags
    assert bell.wait() == b"alive\n"


@pytest.mark.failure(34)
def test_a_job_that_leaves_a_process_behind_is_flagged_and_it_lives_on(
    bench: Bench, gate: Gate
) -> None:
    line = (
        f"(echo go > {gate.path}; exec sleep 60) > /dev/null 2>&1 & read go < {gate.path}; echo $!"
    )
    record = bench.run_shell(line)
    left = int(bench.printed(record))

    assert record.flags == (Flag.LEFT_BEHIND,)
    os.kill(left, 0)
    os.kill(left, signal.SIGKILL)
    wait_gone(left)


def test_a_command_that_is_to_leave_nothing_takes_its_processes_with_it(
    bench: Bench, gate: Gate
) -> None:
    line = (
        f"(echo go > {gate.path}; exec sleep 60) > /dev/null 2>&1 &"
        f" read go < {gate.path}; echo $!; exit 3"
    )
    token = bench.shell(line, leaves_nothing=True)

    record = bench.ended(token)

    assert (record.cause, record.exit_code, record.flags) == (EndCause.EXIT, 3, ())
    wait_gone(int(bench.printed(record)))


@pytest.mark.failure(34)
def test_what_a_timed_out_job_left_in_its_group_ends_with_it(bench: Bench, bell: Bell) -> None:
    token = bench.shell(
        f"(trap '' TERM; echo > {bell.path}; exec sleep 60) > /dev/null 2>&1 & echo $!; wait",
        timeout_ms=300,
    )
    bell.wait()

    record = bench.ended(token)

    assert record.cause is EndCause.TIMEOUT
    wait_gone(int(bench.printed(record)))


@pytest.mark.failure(21)
def test_a_job_that_is_killed_leaves_the_others_alone(bench: Bench) -> None:
    victim = bench.shell("exec sleep 60")
    other = bench.shell("read line; exit 3", stdin="go\n")

    os.kill(bench.started(victim).pid, signal.SIGKILL)

    assert bench.ended(victim).cause is EndCause.SIGNAL
    assert bench.ended(victim).exit_code == 128 + signal.SIGKILL
    assert bench.ended(other).exit_code == 3


def test_a_run_without_a_pidfd_is_reaped_on_its_signal(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on macOS, where none of them is there. The supervisor is forked with them gone.
    monkeypatch.setattr("edgecron.supervisor.launch.become_subreaper", lambda: False)
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.delattr(os, "waitid")
    bench = Bench(tmp_path_factory.mktemp("signal") / "state", by=StartBy.FORK)
    monkeypatch.undo()
    try:
        records = [bench.run_shell("exit 3"), bench.run("/bin/true")]
        timed_out = bench.run_shell("exec sleep 60", timeout_ms=50)
        many = [bench.start("/bin/true") for _ in range(50)]

        assert [record.exit_code for record in records] == [3, 0]
        assert timed_out.cause is EndCause.TIMEOUT
        assert {bench.ended(token).exit_code for token in many} == {0}
    finally:
        bench.close()
