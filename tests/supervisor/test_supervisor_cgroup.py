"""Runs in cgroups of their own: what escapes from a run's session is flagged, and ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgecron.base.clock import SystemClock
from edgecron.engine.other_engines import LocalEngines
from edgecron.model.choices import Reason
from edgecron.supervisor import (
    EndCause,
    Flag,
    Interrupted,
    LeftGroup,
    StartBy,
    end_left_cgroup,
    forget,
    lock_is_held,
    lock_path,
)
from edgecron.supervisor.cgroups import list_folders, run_folder, supervisor_folder
from edgecron.supervisor.files import journal_path
from tests.supervisor.supervisor_bench import (
    Bell,
    Bench,
    Gate,
    escaping,
    is_running,
    read_pids,
    wait_empty,
    wait_gone,
)

# Forked, so that what a test changes here is changed there; test runners have threads of their own.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

KEY = "0123456789abcdef"


@pytest.fixture
def root(delegated: Path, bench: Bench) -> Path:
    """What holds the cgroups of the runs of the bench's supervisor."""
    return supervisor_folder(delegated, bench.link.supervisor_id)


def stubborn(bell: Bell) -> str:
    """A daemon that ignores TERM, and rings with its process id."""
    return escaping(f'trap "" TERM; echo $$ > {bell.path}; exec sleep 60')


def own_cgroup(pid: int | str) -> str:
    text = Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii")
    return next(line for line in text.splitlines() if line.startswith("0::"))


@pytest.mark.parametrize("by", list(StartBy))
def test_a_run_is_born_in_its_cgroup_and_the_supervisor_is_not_in_it(
    delegated: Path, tmp_path: Path, by: StartBy
) -> None:
    bench = Bench(tmp_path / "state", by=by)
    home = own_cgroup("self")

    records = [bench.run_shell("cat /proc/self/cgroup") for _ in range(3)]
    bench.link.start([bench.request("/bin/true") for _ in range(30)])
    bench.wait_for(lambda: len(bench.exits()) == 33, "the batch")

    root = supervisor_folder(delegated, bench.link.supervisor_id)
    for record in records:
        assert bench.printed(record).decode().strip().endswith(f"/{root.name}/run-{record.token}")
        assert record.flags == ()
    assert own_cgroup(bench.link.pid) == own_cgroup(bench.guardian()) == home
    assert list_folders(root) == []
    bench.close()
    assert list_folders(delegated) == []


@pytest.mark.failure(34)
def test_a_daemon_that_a_job_leaves_is_flagged_lives_on_and_keeps_its_cgroup_until_it_ends(
    root: Path, bench: Bench, gate: Gate
) -> None:
    record = bench.run_shell(
        f"{escaping(f'echo $$ > {gate.path}; exec sleep 60')} read pid < {gate.path}; echo $pid"
    )
    left = int(bench.printed(record))

    assert (record.exit_code, record.flags) == (0, (Flag.ESCAPED,))
    assert is_running(left)
    assert list_folders(root) == [run_folder(root, record.token)]

    os.kill(left, signal.SIGKILL)
    wait_empty(run_folder(root, record.token))
    bench.run("/bin/true")
    assert list_folders(root) == []


@pytest.mark.failure(33)
@pytest.mark.failure(34)
def test_what_stays_in_the_session_is_left_behind_and_what_leaves_it_has_escaped(
    root: Path, bench: Bench, bell: Bell, gate: Gate
) -> None:
    line = f"sleep 60 & {stubborn(bell)} read go < {gate.path}"
    token = bench.shell(line)
    [left] = read_pids(bell, 1)

    gate.open()
    record = bench.ended(token)

    assert record.flags == (Flag.PIPE_HELD, Flag.ESCAPED, Flag.LEFT_BEHIND)
    assert is_running(left)


@pytest.mark.failure(34)
def test_a_cancelled_run_is_ended_with_all_that_escaped_from_it(
    root: Path, bench: Bench, bell: Bell
) -> None:
    twice = escaping(
        f'setsid -f sh -c "trap : TERM; echo \\$\\$ > {bell.path}; sleep 60; sleep 60"'
    )
    token = bench.shell(f"{stubborn(bell)} {twice} sleep 60")
    daemons = read_pids(bell, 2)

    bench.link.cancel([token])
    record = bench.ended(token)

    assert (record.cause, record.flags) == (EndCause.CANCELLED, ())
    for pid in daemons:
        wait_gone(pid)
    wait_empty(run_folder(root, token))
    bench.run("/bin/true")
    assert list_folders(root) == []


def test_a_daemon_of_a_cancelled_run_is_asked_to_end_first(
    root: Path, bench: Bench, bell: Bell, gate: Gate
) -> None:
    inner = f'trap "echo bye > {bell.path}; exit" TERM; echo up > {bell.path}'
    daemon = escaping(f"{inner}; while :; do sleep 0.01; done")
    # Started before TERM is ignored: nobody can trap what was ignored at its start.
    token = bench.shell(f"{daemon} trap '' TERM; read go < {gate.path}; exit 3")
    assert bell.wait() == b"up\n"

    bench.link.cancel([token])
    assert bell.wait() == b"bye\n"
    gate.open()
    record = bench.ended(token)

    assert (record.cause, record.exit_code, record.flags) == (EndCause.CANCELLED, 3, ())


@pytest.mark.failure(32)
@pytest.mark.failure(34)
def test_a_daemon_of_a_run_that_takes_too_long_is_killed_with_it(
    root: Path, bench: Bench, bell: Bell
) -> None:
    line = f"trap '' TERM; {stubborn(bell)} while :; do sleep 1; done"
    token = bench.shell(line, timeout_ms=300, kill_grace_ms=50)
    [daemon] = read_pids(bell, 1)

    record = bench.ended(token)

    assert (record.cause, record.flags) == (EndCause.TIMEOUT, (Flag.KILLED,))
    wait_gone(daemon)


def test_a_run_that_divides_its_cgroup_is_ended_and_cleared_away_too(
    root: Path, bench: Bench, bell: Bell
) -> None:
    token = "divides"
    inner = run_folder(root, token) / "inner"
    bench.shell(
        f"mkdir {inner}; echo $$ > {inner}/cgroup.procs; {stubborn(bell)} wait", token=token
    )
    [daemon] = read_pids(bell, 1)
    assert own_cgroup(daemon).endswith("/inner")

    bench.link.cancel([token])
    bench.ended(token)

    wait_gone(daemon)
    wait_empty(run_folder(root, token))
    bench.run("/bin/true")
    assert list_folders(root) == []


@pytest.mark.failure(18)
def test_the_guardian_ends_what_escaped_from_the_runs_of_a_killed_supervisor(
    delegated: Path, tmp_path: Path, bell: Bell, gate: Gate
) -> None:
    bench = Bench(tmp_path / "state")
    guardian, root = bench.guardian(), supervisor_folder(delegated, bench.link.supervisor_id)
    # A run that has ended, which was acknowledged and then dropped from the journal.
    ended = bench.shell(f"{stubborn(bell)} head -c 16000 /dev/zero; read go < {gate.path}")
    [daemon] = read_pids(bell, 1)
    gate.open()
    bench.ended(ended)
    bench.link.acknowledge([ended])
    bench.shell(f"{stubborn(bell)} sleep 60")
    [escaped] = read_pids(bell, 1)
    assert ended not in bench.journal().traces

    os.kill(bench.link.pid, signal.SIGKILL)
    wait_gone(guardian)

    assert not Path(f"/proc/{escaped}").exists()
    assert is_running(daemon)
    assert list_folders(root) == [run_folder(root, ended)]
    bench.link.close()


@pytest.mark.failure(18)
def test_the_guardian_ends_all_that_escaped_where_the_journal_is_lost(
    delegated: Path, tmp_path: Path, bell: Bell
) -> None:
    bench = Bench(tmp_path / "state")
    guardian, key = bench.guardian(), bench.link.supervisor_id
    bench.shell(f"{stubborn(bell)} sleep 60")
    [escaped] = read_pids(bell, 1)
    journal_path(bench.state_dir, key).unlink()

    os.kill(bench.link.pid, signal.SIGKILL)
    wait_gone(guardian)

    assert not Path(f"/proc/{escaped}").exists()
    assert not supervisor_folder(delegated, key).exists()
    bench.link.close()


@pytest.mark.failure(18)
def test_the_next_recovery_ends_what_escaped_where_the_guardian_was_killed_too(
    delegated: Path, tmp_path: Path, bell: Bell
) -> None:
    bench = Bench(tmp_path / "state")
    key, boot_id = bench.link.supervisor_id, SystemClock().boot_id()
    token = bench.shell(f"{stubborn(bell)} sleep 60")
    [escaped] = read_pids(bell, 1)
    main = bench.started(token).pid
    bench.kill_guardian()
    os.kill(bench.link.pid, signal.SIGKILL)
    bench.wait_for_death()
    assert not lock_is_held(lock_path(bench.state_dir, key))
    assert is_running(escaped)

    [after_boot] = LocalEngines(bench.state_dir, boot_id="other").judge(key, [token]).values()
    others = LocalEngines(bench.state_dir, boot_id=boot_id)
    [verdict] = others.judge(key, [token]).values()
    assert isinstance(verdict, Interrupted)
    others.end_what_is_left(verdict, token)

    assert after_boot == Interrupted(reason=Reason.REBOOT)
    wait_gone(escaped)
    wait_gone(main)
    root = supervisor_folder(delegated, key)
    wait_empty(root)
    others.forget_supervisor(key)
    assert not root.exists()
    assert others.dead_supervisors() == []


def test_a_dead_supervisor_is_not_forgotten_while_a_daemon_keeps_its_cgroup(
    delegated: Path, tmp_path: Path, gate: Gate
) -> None:
    bench = Bench(tmp_path / "state")
    key = bench.link.supervisor_id
    record = bench.run_shell(
        f"{escaping(f'echo $$ > {gate.path}; exec sleep 60')} read pid < {gate.path}; echo $pid"
    )
    daemon = int(bench.printed(record))
    bench.close()

    is_forgotten = forget(bench.state_dir, key)
    os.kill(daemon, signal.SIGKILL)
    wait_empty(delegated)

    assert not is_forgotten
    assert forget(bench.state_dir, key)
    assert os.listdir(bench.state_dir) == []
    assert list_folders(delegated) == []


def test_a_run_whose_cgroup_can_not_be_made_starts_without(
    root: Path, bench: Bench, delegated: Path
) -> None:
    home = own_cgroup("self")
    (delegated / "cgroup.max.descendants").write_text("1", encoding="ascii")

    record = bench.run_shell("cat /proc/self/cgroup; sleep 60 > /dev/null 2>&1 & echo $!")
    token = bench.shell("exec sleep 60", timeout_ms=50)

    *_, own, pid = bench.printed(record).decode().splitlines()
    assert own == home
    assert Flag.LEFT_BEHIND in record.flags
    assert bench.ended(token).cause is EndCause.TIMEOUT
    os.kill(int(pid), signal.SIGKILL)


def test_a_command_that_can_not_be_started_leaves_no_cgroup(root: Path, bench: Bench) -> None:
    missing = bench.run("/no/such/command")
    folders = list_folders(root)
    record = bench.run_shell("cat /proc/self/cgroup")

    assert missing.cause is EndCause.SPAWN
    assert folders == []
    assert bench.printed(record).decode().strip().endswith(f"/run-{record.token}")


def test_nothing_is_killed_in_what_is_no_cgroup_of_a_run(free_cgroup: Path, tmp_path: Path) -> None:
    innocent = subprocess.Popen(["/bin/sleep", "60"])
    plain = run_folder(supervisor_folder(tmp_path, KEY), "token")
    strange = free_cgroup / "edgecron-of-somebody" / "run-token"
    for folder in (plain, strange):
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text(f"{innocent.pid}\n", encoding="ascii")

    found = [end_left_cgroup(plain), end_left_cgroup(strange)]

    assert found == [LeftGroup.GONE, LeftGroup.UNKNOWN]
    assert is_running(innocent.pid)
    innocent.kill()
    innocent.wait()


INSIDE = """
import os, subprocess, sys
from pathlib import Path
from edgecron.supervisor import cgroups
folder = Path(sys.argv[1])
(folder / "cgroup.procs").write_text("0")
child = subprocess.Popen(["/bin/sleep", "60"])
print(cgroups.end_left_cgroup(folder), child.poll())
cgroups.kill(folder)
print(child.wait())
"""


def test_nobody_kills_the_cgroup_that_it_is_in_itself(free_cgroup: Path) -> None:
    folder = run_folder(supervisor_folder(free_cgroup, KEY), "token")
    folder.mkdir(parents=True)

    shown = subprocess.run(
        [sys.executable, "-c", INSIDE, str(folder)], capture_output=True, text=True, check=True
    )

    assert shown.stdout.splitlines() == [f"{LeftGroup.UNKNOWN} None", f"-{signal.SIGKILL:d}"]
