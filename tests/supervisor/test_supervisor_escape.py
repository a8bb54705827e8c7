"""What gets out of a run's process group or of its session: ended, or flagged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgecron.supervisor.protocol import EndCause, Flag, Identity
from edgecron.supervisor.run_session import (
    REST_FACTOR,
    LeftGroup,
    Orphan,
    Process,
    Snapshot,
    Snapshots,
    end_left_group,
    find_mark,
    list_processes,
    read_start_time,
    signal_session,
)
from tests.supervisor.supervisor_bench import (
    Bell,
    Bench,
    Gate,
    Starting,
    escaping,
    is_running,
    read_pids,
    wait_gone,
)
from tests.support.accounts import as_root
from tests.support.clock import FakeClock

# As a shell's background jobs after `set -m`: a group of its own in the session of the run.
OWN_GROUP = """
import os, signal, sys
os.setpgid(0, 0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in sys.argv else signal.SIG_DFL)
os.write(os.open(sys.argv[1], os.O_WRONLY), b"%d\\n" % os.getpid())
signal.pause()
"""


@pytest.fixture
def own_group(tmp_path: Path, bell: Bell) -> str:
    """Shell text for a process in a group of its own, which rings with its process id."""
    script = tmp_path / "own_group.py"
    script.write_text(OWN_GROUP, encoding="ascii")
    return f"{sys.executable} {script} {bell.path}"


@pytest.mark.failure(34)
def test_another_group_of_the_session_that_lives_on_is_left_behind(
    bench: Bench, bell: Bell, gate: Gate, own_group: str
) -> None:
    token = bench.shell(f"{own_group} > /dev/null 2>&1 & read go < {gate.path}")
    [left] = read_pids(bell, 1)

    gate.open()
    record = bench.ended(token)

    assert record.flags == (Flag.LEFT_BEHIND,)
    assert is_running(left)
    os.kill(left, signal.SIGKILL)


@pytest.mark.failure(34)
def test_another_group_that_came_after_a_look_at_the_session_is_ended_as_well(
    tmp_path: Path, bench: Bench, bell: Bell, gate: Gate, own_group: str
) -> None:
    starting = Starting(tmp_path)
    until_told = f"read go <{gate.path}"
    line = f"{own_group} & {until_told}; {own_group} & {until_told}; exit 3"
    starting.start(bench.request("/bin/sh", "-c", line))
    [run] = starting.started
    read_pids(bell, 1)
    starting.snapshots.take()  # as another run has it done in this turn
    gate.open()
    [late] = read_pids(bell, 1)
    gate.open()
    os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOWAIT)

    run.end_cause = EndCause.CANCELLED
    records = []
    for is_new_turn in (False, False, True, True):  # It may be asked more than once in a turn.
        if is_new_turn:
            starting.snapshots.begin_turn()
        records.append(run.reap())
    wait_gone(late)
    starting.close()

    assert [record is None for record in records] == [True, True, True, False]
    assert records[-1] is not None
    assert (records[-1].exit_code, records[-1].flags) == (3, ())


@pytest.mark.failure(34)
def test_another_group_of_the_session_is_asked_to_end_with_the_run(
    bench: Bench, bell: Bell, gate: Gate, own_group: str
) -> None:
    token = bench.shell(f"{own_group} & trap '' TERM; read go < {gate.path}; exit 3")
    [left] = read_pids(bell, 1)

    bench.link.cancel([token])
    wait_gone(left)
    gate.open()
    record = bench.ended(token)

    assert (record.cause, record.exit_code, record.flags) == (EndCause.CANCELLED, 3, ())


@pytest.mark.failure(32)
@pytest.mark.failure(34)
def test_another_group_of_the_session_that_ignores_term_is_killed_with_the_run(
    bench: Bench, bell: Bell, own_group: str
) -> None:
    line = f"{own_group} stubborn & exec sleep 60"
    tokens = [bench.shell(line, kill_grace_ms=300) for _ in range(3)]
    left = read_pids(bell, 3)

    bench.link.cancel(tokens)
    causes = {bench.ended(token).cause for token in tokens}

    assert causes == {EndCause.CANCELLED}
    for pid in left:
        wait_gone(pid)


@pytest.mark.failure(18)
@pytest.mark.failure(34)
def test_another_group_of_the_session_is_ended_by_the_next_recovery(
    tmp_path: Path, bell: Bell, own_group: str
) -> None:
    bench = Bench(tmp_path / "state")
    token = bench.shell(f"{own_group} stubborn & wait")
    [left] = read_pids(bell, 1)
    pid = bench.started(token).pid
    bench.kill_guardian()
    os.kill(bench.link.pid, signal.SIGKILL)
    bench.wait_for_death()

    assert end_left_group(pid, read_start_time(pid)) is LeftGroup.ENDED

    wait_gone(left)
    wait_gone(pid)


@pytest.mark.failure(34)
def test_a_daemon_with_a_session_of_its_own_is_flagged_and_lives_on(
    bench: Bench, bell: Bell, gate: Gate
) -> None:
    daemon = escaping(f"echo $$ > {bell.path}; exec sleep 60")
    token = bench.shell(f"{daemon} read go < {gate.path}")
    [left] = read_pids(bell, 1)

    gate.open()
    record = bench.ended(token)

    assert (record.exit_code, record.flags) == (0, (Flag.ESCAPED,))
    assert is_running(left)
    os.kill(left, signal.SIGKILL)


@pytest.mark.failure(34)
def test_a_daemon_of_a_cancelled_run_is_flagged_however_lately_was_looked(
    bench: Bench, bell: Bell
) -> None:
    bench.run("/bin/true")
    token = bench.shell(f"{escaping(f'echo $$ > {bell.path}; exec sleep 60')} exec sleep 60")
    [left] = read_pids(bell, 1)

    bench.link.cancel([token])
    record = bench.ended(token)

    assert (record.cause, record.flags) == (EndCause.CANCELLED, (Flag.ESCAPED,))
    assert is_running(left)
    os.kill(left, signal.SIGKILL)


@as_root
def test_a_daemon_of_another_user_is_flagged_too(bench: Bench) -> None:
    nobody = Identity(name="nobody", uid=65534, gid=65534, groups=(65534,))
    daemon = 'setsid -f sh -c "echo \\$\\$; exec sleep 60 >/dev/null 2>&1"'

    record = bench.run_shell(f"left=$({daemon}); echo $left", identity=nobody)

    os.kill(int(bench.printed(record)), signal.SIGKILL)
    assert record.flags == (Flag.ESCAPED,)


@pytest.mark.failure(20)
def test_a_number_that_is_somebody_elses_since_it_was_seen_is_not_signalled() -> None:
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as run,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as stranger,
    ):
        # Just as numbers that were of the run's session a moment ago, and are of another one now.
        signal_session([stranger.pid, run.pid], signal.SIGKILL, leader=run.pid)
        stranger.communicate()
        run.communicate()

    assert (stranger.returncode, run.returncode) == (0, 0)


def test_a_run_is_known_by_the_file_of_its_result_or_by_its_id() -> None:
    both = {"EDGECRON_RUN_ID": "41", "EDGECRON_RESULT": "/state/run-é.result"}

    assert find_mark(both) == "EDGECRON_RESULT=/state/run-é.result".encode()
    assert find_mark({"EDGECRON_RUN_ID": "41"}) == b"EDGECRON_RUN_ID=41"
    assert find_mark({"PATH": "/bin"}) is None


def test_what_escaped_is_told_by_the_session_and_the_mark() -> None:
    snapshot = Snapshot(
        processes=(process(10, session=10), process(11, session=10), process(20, session=20)),
        orphans=(
            Orphan(session=10, variables=frozenset({b"EDGECRON_RUN_ID=1"})),
            Orphan(session=20, variables=frozenset({b"EDGECRON_RUN_ID=2"})),
        ),
    )

    assert snapshot.session(10) == [11]
    assert not snapshot.has_escaped(10, b"EDGECRON_RUN_ID=1")
    assert snapshot.has_escaped(10, b"EDGECRON_RUN_ID=2")
    assert not snapshot.has_escaped(10, b"EDGECRON_RUN_ID=22")


def process(pid: int, *, session: int) -> Process:
    return Process(pid=pid, parent=1, session=session, start_time=1, is_zombie=False)


def test_a_snapshot_is_shared_within_a_turn_and_rests_after_it() -> None:
    clock = FakeClock()
    snapshots = Snapshots(clock)

    first = snapshots.take_if_rested()
    assert first is not None
    assert snapshots.take() is first
    assert snapshots.take_if_rested() is first

    snapshots.begin_turn()
    assert snapshots.take_if_rested() is None
    clock.advance_ms(REST_FACTOR)
    third = snapshots.take_if_rested()
    assert third is not None
    assert third is not first

    snapshots.begin_turn()
    assert snapshots.take_if_rested() is None
    assert snapshots.take() is not third


def test_a_snapshot_has_what_lives_and_no_zombies() -> None:
    ended = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)

    seen = {found.pid for found in Snapshots(FakeClock()).take().processes}

    assert os.getpid() in seen
    assert ended.pid not in seen
    assert ended.pid in {found.pid for found in list_processes()}
    ended.wait()
