"""The guardian: what it ends when the supervisor dies, and what it leaves alone."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgecron.base.clock import SystemClock
from edgecron.model.choices import Reason
from edgecron.supervisor.journal import Interrupted, JournalState, Trace, forget
from edgecron.supervisor.launch import StartBy, find_doomed
from edgecron.supervisor.protocol import EndCause, ExitRecord
from edgecron.supervisor.run_session import Process
from edgecron.supervisor.state_files import journal_path, lock_is_held, lock_path
from tests.supervisor.supervisor_bench import (
    Bell,
    Bench,
    Unanswering,
    children_of,
    is_running,
    read_pids,
    wait_all_gone,
    wait_gone,
)
from tests.support.accounts import as_root, identity
from tests.support.verdicts import verdict

# Forked, so that what a test changes here is changed there; test runners have threads of their own.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.real_starts,
]

OWN_GROUP = """
import os, sys, time
os.setpgid(0, 0)
os.write(os.open(sys.argv[1], os.O_WRONLY), b"%d\\n" % os.getpid())
time.sleep(60)
"""


@pytest.mark.failure(18)
@pytest.mark.failure(35)
@pytest.mark.parametrize("by", list(StartBy))
def test_all_runs_of_a_killed_supervisor_are_ended_and_reaped(
    tmp_path: Path, bell: Bell, by: StartBy
) -> None:
    bench = Bench(tmp_path / "state", by=by)
    line = f"trap '' TERM HUP; sh -c 'echo $$ > {bell.path}; exec sleep 60' & wait"
    tokens = [bench.shell(line) for _ in range(20)]
    script = tmp_path / "own_group.py"
    script.write_text(OWN_GROUP, encoding="ascii")
    tokens.append(bench.shell(f"{sys.executable} {script} {bell.path} & wait"))
    pids = [bench.started(token).pid for token in tokens]
    pids += read_pids(bell, len(tokens))
    guardian = bench.guardian()
    pidfds = [os.pidfd_open(pid) for pid in {*pids, guardian}]

    os.kill(bench.link.pid, signal.SIGKILL)
    bench.wait_for_death()
    key = bench.link.supervisor_id
    # The guardian is no reason to take the supervisor for alive.
    assert not lock_is_held(lock_path(bench.state_dir, key))
    wait_all_gone(pidfds)

    # It waited for all of them before it ended: none is left as a zombie.
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    boot_id = SystemClock().boot_id()
    verdicts = [verdict(bench.state_dir, key, token, boot_id=boot_id) for token in tokens]
    assert all(isinstance(found, Interrupted) for found in verdicts)
    assert {found.reason for found in verdicts if isinstance(found, Interrupted)} == {Reason.LOST}


@pytest.mark.parametrize("is_replaced", [False, True])
def test_runs_are_ended_without_a_journal_too(tmp_path: Path, is_replaced: bool) -> None:
    bench = Bench(tmp_path / "state")
    guardian = bench.guardian()
    pid = bench.started(bench.start("/bin/sleep", "60")).pid
    journal = journal_path(bench.state_dir, bench.link.supervisor_id)
    journal.unlink()
    if is_replaced:
        journal.symlink_to(journal)

    os.kill(bench.link.pid, signal.SIGKILL)
    wait_gone(guardian)

    assert not Path(f"/proc/{pid}").exists()
    bench.link.close()


@pytest.mark.failure(17)
def test_no_start_escapes_that_is_not_on_record_yet(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "state")
    guardian = bench.guardian()
    mark = f"{tmp_path}/mark"
    requests = [
        bench.request("/bin/sleep", "60", env={"PATH": "/usr/bin:/bin", "MARK": mark})
        for _ in range(200)
    ]
    watch = os.pidfd_open(guardian)

    bench.link.start(requests)
    bench.wait_for(lambda: bool(bench.events), "the first start")
    os.kill(bench.link.pid, signal.SIGKILL)
    wait_all_gone([watch])

    assert alive_with(mark) == []
    bench.link.close()


def test_what_a_run_left_on_purpose_outlives_a_clean_end(tmp_path: Path, bell: Bell) -> None:
    bench = Bench(tmp_path / "state")
    guardian = bench.guardian()
    record = bench.run_shell(daemonise(bell))
    [left] = read_pids(bell, 1)

    bench.link.close()
    wait_gone(guardian)

    assert record.exit_code == 0
    assert is_running(left)
    os.kill(left, signal.SIGKILL)


def test_what_an_ended_run_left_on_purpose_outlives_a_killed_supervisor(
    tmp_path: Path, bell: Bell
) -> None:
    bench = Bench(tmp_path / "state")
    guardian = bench.guardian()
    bench.run_shell(daemonise(bell))
    [left] = read_pids(bell, 1)
    live = bench.started(bench.start("/bin/sleep", "60")).pid

    os.kill(bench.link.pid, signal.SIGKILL)
    wait_gone(guardian)

    assert not Path(f"/proc/{live}").exists()
    assert is_running(left)
    os.kill(left, signal.SIGKILL)
    bench.link.close()


@as_root
def test_what_an_ended_run_left_on_purpose_outlives_a_supervisor_that_held_a_start(
    tmp_path: Path, bell: Bell, unanswering: Unanswering
) -> None:
    bench = Bench(tmp_path / "state")
    guardian = bench.guardian()
    bench.run_shell(daemonise(bell))
    [left] = read_pids(bell, 1)
    bench.start(unanswering.path, identity=identity())
    bench.run("/bin/true")  # The one before it has begun by then.
    [held] = children_of(bench.link.pid)

    os.kill(bench.link.pid, signal.SIGKILL)
    wait_gone(guardian)

    assert not Path(f"/proc/{held}").exists()
    assert is_running(left)
    os.kill(left, signal.SIGKILL)
    bench.link.close()
    assert forget(bench.state_dir, bench.link.supervisor_id)


def test_a_supervisor_goes_on_without_its_guardian(bench: Bench) -> None:
    token = bench.shell("read go; exit 4", stdin="go\n")

    bench.kill_guardian()

    assert bench.ended(token).exit_code == 4
    assert bench.run_shell("exit 5").exit_code == 5


@pytest.mark.failure(36)
def test_term_to_the_guardian_ends_its_supervisor(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "state")
    guardian = bench.guardian()
    token = bench.start("/bin/sleep", "60")
    bench.started(token)

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1):
        os.kill(guardian, number)
    assert bench.run_shell("exit 3").exit_code == 3
    os.kill(guardian, signal.SIGTERM)
    record = bench.ended(token)
    bench.wait_for_death()
    wait_gone(guardian)

    assert record.cause is EndCause.STOPPED


@pytest.mark.failure(35)
def test_orphans_of_runs_leave_no_zombie(bench: Bench, bell: Bell) -> None:
    bench.run_shell(f"(echo > {bell.path}; exec sleep 0.05) >/dev/null 2>&1 & exit 0")
    bell.wait()

    settle(lambda: children_of(bench.guardian()) == [bench.link.pid])


@pytest.mark.parametrize("by", list(StartBy))
def test_a_guardian_holds_nothing_and_never_wakes(tmp_path: Path, by: StartBy) -> None:
    bench = Bench(tmp_path / "state", by=by)
    guardian = bench.guardian()

    def switches() -> str:
        return Path(f"/proc/{guardian}/status").read_text(encoding="ascii").split("switches:")[1]

    def wchan() -> str:
        return Path(f"/proc/{guardian}/syscall").read_text(encoding="ascii").split()[0]

    settle(lambda: wchan() != "running")
    bench.run("/bin/true")
    before = switches()
    bench.run("/bin/true")
    opened = {os.readlink(f"/proc/{guardian}/fd/{fd}") for fd in os.listdir(f"/proc/{guardian}/fd")}
    # Newer systems' libffi, which ctypes loads, holds its own file open.
    opened = {path for path in opened if "/libffi.so" not in path}

    assert switches() == before
    assert opened == {"/dev/null"}
    assert os.getsid(guardian) == guardian
    bench.close()
    wait_gone(guardian)


def test_what_is_doomed_is_told_by_the_journal_and_by_who_is_a_child() -> None:
    ended = ExitRecord(token="c", cause=EndCause.EXIT, finished_ms=1, exit_code=0)
    known = {
        "live": Trace(pid=10, start_time=1),
        "dead leader": Trace(pid=20, start_time=2),
        "number in use again": Trace(pid=30, start_time=3),
        "ended": Trace(pid=40, start_time=4, exit=ended),
    }
    processes = [
        process(10, parent=5, start_time=1),
        process(21, parent=5, session=20),
        process(30, parent=1, start_time=99),
        process(41, parent=5, session=40),
        process(50, parent=5),  # a daemon of one that has ended, or a run that is not on record
        process(60, parent=1),
        process(70, parent=5, session=6),  # forked, and not in a session of its own yet
    ]

    def doomed(traces: dict[str, Trace], *, is_intact: bool = True) -> set[int]:
        journal = JournalState(is_intact=is_intact, boot_id="boot", traces=traces)
        return find_doomed(journal, processes, guardian_pid=5, supervisor_pid=6)

    assert doomed(known) == {6, 10, 20, 70}
    assert doomed({**known, "on its way": Trace()}) == {6, 10, 20, 50, 70}
    assert doomed({}, is_intact=False) == {6, 10, 50, 70}


def process(pid: int, *, parent: int, session: int | None = None, start_time: int = 7) -> Process:
    return Process(
        pid=pid,
        parent=parent,
        session=session or pid,
        start_time=start_time,
        is_zombie=False,
    )


def daemonise(bell: Bell) -> str:
    inner = f"echo $$ > {bell.path}; exec sleep 60"
    return f"setsid sh -c '{inner}' </dev/null >/dev/null 2>&1 & exit 0"


def alive_with(mark: str) -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdecimal() and mark.encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(name)
    return found


def settle(is_so: Callable[[], bool]) -> None:
    poller = select.poll()
    for _ in range(1000):
        if is_so():
            return
        poller.poll(10)
    raise AssertionError("it did not come to that")
