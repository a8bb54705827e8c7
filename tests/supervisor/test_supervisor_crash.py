"""Engines and supervisors that die: what goes on, what is known, what is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgecron.base.clock import SystemClock
from edgecron.engine.other_engines import LocalEngines
from edgecron.model.choices import Reason
from edgecron.supervisor import results
from edgecron.supervisor.journal import Exit, Interrupted, NeverStarted, read_journal
from edgecron.supervisor.launch import StartBy
from edgecron.supervisor.output import load_output
from edgecron.supervisor.protocol import GIVEN_BACK, EndCause
from edgecron.supervisor.run_session import (
    LeftGroup,
    end_left_group,
    end_unrecorded,
    has_supervisor,
    read_start_time,
)
from edgecron.supervisor.state_files import lock_is_held, lock_path, result_name
from tests.supervisor.supervisor_bench import (
    BOUND_MS,
    Bell,
    Bench,
    Gate,
    Unanswering,
    children_of,
    wait_gone,
)
from tests.support.accounts import as_root, identity
from tests.support.verdicts import verdict

ENGINE = """
import os, sys
from pathlib import Path
from edgecron.base.clock import SystemClock
from edgecron.supervisor.launch import start
from edgecron.supervisor.protocol import StartRequest

link = start(Path(sys.argv[1]), clock=SystemClock())
line = sys.argv[2]
link.start([
    StartRequest(token=f"t{number}", argv=("/bin/sh", "-c", line), env={"PATH": "/usr/bin:/bin"},
                 cwd="/", output_cap_bytes=100000, timeout_ms=60000)
    for number in range(int(sys.argv[3]))
])
print(link.supervisor_id, link.pid, flush=True)
sys.stdin.read()
"""


def test_runs_of_an_engine_that_was_killed_end_under_their_supervisor(
    tmp_path: Path, bell: Bell, gate: Gate
) -> None:
    line = f"echo $$ > {bell.path}; read go < {gate.path}; head -c 30000 /dev/zero; exit 7"
    engine = subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(tmp_path), line, "3"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with engine:
        assert engine.stdout is not None
        key, pid = engine.stdout.readline().split()
        rings = b""
        while rings.count(b"\n") < 3:
            rings += bell.wait()
        engine.kill()

    held = lock_is_held(lock_path(tmp_path, key))
    before = read_journal(tmp_path, key)
    for _ in range(3):
        gate.open()
    wait_gone(int(pid))
    after = read_journal(tmp_path, key)

    assert held
    assert {trace.exit for trace in before.traces.values()} == {None}
    assert not lock_is_held(lock_path(tmp_path, key))
    assert after.is_intact
    assert [trace.exit.exit_code for trace in after.traces.values() if trace.exit] == [7, 7, 7]
    for trace in after.traces.values():
        assert trace.exit is not None
        output, is_whole = load_output(trace.exit.output, tmp_path)
        assert (output.stdout_bytes, output.dropped_bytes, is_whole) == (30_000, 0, True)


def test_a_supervisor_without_work_ends_with_its_engine(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run("/bin/true")
    key = bench.link.supervisor_id

    bench.link.close()
    wait_gone(bench.link.pid)

    assert not lock_is_held(lock_path(tmp_path, key))
    # What an engine claimed and never sent can still be told from what was lost.
    boot_id = SystemClock().boot_id()
    assert verdict(tmp_path, key, "never-sent", boot_id=boot_id) == NeverStarted()


def test_requests_that_were_taken_are_run_though_the_engine_has_gone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.link.start([bench.request("/bin/true") for _ in range(300)])

    bench.link.close()
    wait_gone(bench.link.pid)

    traces = read_journal(tmp_path, bench.link.supervisor_id).traces.values()
    assert [trace.exit.exit_code for trace in traces if trace.exit] == [0] * 300


def wait_until_marked(pid: int, token: str) -> None:
    """Until a fork on its way to be a command is that command."""
    mark = os.fsencode(f"/{result_name(token)}\0")
    until_s = time.monotonic() + BOUND_MS / 1000
    while mark not in Path(f"/proc/{pid}/environ").read_bytes():
        assert time.monotonic() < until_s, f"{pid} is still a fork"
        os.sched_yield()


@as_root
@pytest.mark.failure(17)
def test_that_of_another_user_is_found_where_there_can_be_no_file_for_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where /var is read-only."""
    monkeypatch.setattr(results, "OTHER_USERS_FOLDER", Path("/proc/none"))
    bench = Bench(tmp_path, by=StartBy.FORK)
    token = bench.shell("exec sleep 60", identity=identity())
    started = bench.started(token)
    wait_until_marked(started.pid, token)
    bench.kill_guardian()
    os.kill(bench.link.pid, signal.SIGKILL)
    wait_gone(bench.link.pid)

    ended = end_unrecorded(token)

    wait_gone(started.pid)
    assert ended is LeftGroup.ENDED
    bench.link.close()


@pytest.mark.failure(17)
def test_a_command_whose_start_was_not_on_record_yet_is_found_and_ended(
    tmp_path: Path, bell: Bell
) -> None:
    bench = Bench(tmp_path)
    token = bench.shell(f"sh -c 'echo $$ > {bell.path}; exec sleep 60' & wait")
    other = bench.shell("exec sleep 60")
    started, spared = bench.started(token), bench.started(other)
    grandchild = int(bell.wait())
    bench.kill_guardian()
    os.kill(bench.link.pid, signal.SIGKILL)
    wait_gone(bench.link.pid)
    others = LocalEngines(tmp_path, boot_id=SystemClock().boot_id())

    # As the journal has it when the supervisor dies between the start and its record.
    others.end_what_is_left(Interrupted(reason=Reason.LOST), token)

    wait_gone(started.pid)
    wait_gone(grandchild)
    assert end_left_group(spared.pid, read_start_time(spared.pid)) is LeftGroup.ENDED
    assert end_unrecorded("unheard-of") is LeftGroup.GONE
    bench.link.close()


def end_as_a_copy(bench: Bench, token: str, copy: Path) -> None:
    """Recover a run of another database as its copy does, and check that it is still there."""
    copy.mkdir()
    started = bench.started(token)
    others = LocalEngines(copy, boot_id=SystemClock().boot_id())

    # A copied file comes without a journal, a copied folder with one.
    others.end_what_is_left(Interrupted(reason=Reason.LOST), token)
    copied = Interrupted(
        reason=Reason.LOST, pid=started.pid, start_time=read_start_time(started.pid)
    )
    others.end_what_is_left(copied, token)

    os.kill(started.pid, signal.SIGTERM)
    assert bench.ended(token).signal == signal.SIGTERM
    bench.link.close()


@pytest.mark.parametrize("line", ["exec sleep 60", "exec env -i sleep 60"])
def test_a_copy_of_a_database_never_ends_runs_of_the_original(line: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    end_as_a_copy(bench, bench.shell(line), tmp_path / "copy")


def is_supervisor_if_hidden(name: str) -> bool:
    """Ask a child of a process with this name, whose descriptors it can't see."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            Path("/proc/self/comm").write_text(name)
            os.setgid(identity().gid)
            os.setuid(identity().uid)  # From now on, other processes can't see its descriptors.
            if os.fork() == 0:
                code = int(has_supervisor(os.getpid()))
            else:
                code = os.waitstatus_to_exitcode(os.wait()[1])
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 1)
    return code == 1


@as_root
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_parent_whose_descriptors_are_hidden_is_known_by_its_name() -> None:
    """The systemd of a user has more rights than its services, and adopts their commands."""
    assert not is_supervisor_if_hidden("systemd")
    assert is_supervisor_if_hidden("edgecron-super")


@as_root
@pytest.mark.parametrize("is_there", [True, False])
def test_a_copy_leaves_a_run_of_another_user_alone(
    is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a result file in a folder for all state folders, and without any."""
    folder = tmp_path / "results" if is_there else Path("/proc/none")
    monkeypatch.setattr(results, "OTHER_USERS_FOLDER", folder)
    bench = Bench(tmp_path, by=StartBy.FORK)
    token = bench.shell("exec sleep 60", identity=identity())
    wait_until_marked(bench.started(token).pid, token)

    end_as_a_copy(bench, token, tmp_path / "copy")


def test_what_a_stopped_supervisor_has_printed_is_unknown(bench: Bench) -> None:
    token = bench.shell("exec sleep 60")
    bench.started(token)
    os.kill(bench.link.pid, signal.SIGSTOP)

    engines = LocalEngines(bench.state_dir, boot_id="b")
    printed = engines.find_printed(bench.link.supervisor_id, token)

    os.kill(bench.link.pid, signal.SIGCONT)
    assert printed is None


@pytest.mark.failure(17)
@pytest.mark.failure(18)
def test_what_a_killed_supervisor_left_without_a_guardian_is_judged_and_ended(
    tmp_path: Path, bell: Bell
) -> None:
    bench = Bench(tmp_path)
    ended = bench.run_shell("exit 3")
    token = bench.shell(f"sh -c 'echo $$ > {bell.path}; exec sleep 60' & wait")
    started = bench.started(token)
    grandchild = int(bell.wait())
    boot_id = SystemClock().boot_id()
    bench.kill_guardian()
    os.kill(bench.link.pid, signal.SIGKILL)
    wait_gone(bench.link.pid)

    lost = verdict(tmp_path, bench.link.supervisor_id, token, boot_id=boot_id)
    told = verdict(tmp_path, bench.link.supervisor_id, ended.token, boot_id=boot_id)
    unknown = verdict(tmp_path, bench.link.supervisor_id, "unheard-of", boot_id=boot_id)
    assert isinstance(lost, Interrupted)
    assert lost.pid is not None
    done = end_left_group(lost.pid, lost.start_time)

    assert not lock_is_held(lock_path(tmp_path, bench.link.supervisor_id))
    assert (lost.reason, lost.pid) == (Reason.LOST, started.pid)
    assert told == Exit(record=ended)
    assert unknown == NeverStarted()
    assert done is LeftGroup.ENDED
    wait_gone(started.pid)
    wait_gone(grandchild)
    # The engine's side sees it, and invents no end.
    events = bench.link.receive()
    assert not bench.link.is_alive
    assert events == []
    bench.link.close()


@as_root
@pytest.mark.failure(18)
def test_what_is_held_up_when_all_who_watch_it_die_never_comes_to_run(
    bench: Bench, unanswering: Unanswering
) -> None:
    """It is still no command, by whose variables it could be found, and may be one at any time."""
    token = bench.start(unanswering.path, "exec sleep 60", identity=identity())
    bench.run("/bin/true")  # The one before it has begun by then.
    [pid] = children_of(bench.link.pid)
    unanswering.wait_asked()
    bench.kill_guardian()
    os.kill(bench.link.pid, signal.SIGKILL)
    bench.wait_for_death()
    others = LocalEngines(bench.state_dir, boot_id=SystemClock().boot_id())

    found = others.judge(bench.link.supervisor_id, [token])[token]
    assert isinstance(found, Interrupted)
    others.end_what_is_left(found, token)
    wait_gone(pid)

    assert found.reason is Reason.LOST
    others.forget_supervisor(bench.link.supervisor_id)


@pytest.mark.failure(20)
def test_a_process_id_that_is_in_use_again_is_never_touched(bench: Bench) -> None:
    token = bench.shell("exec sleep 60")
    pid = bench.started(token).pid
    start_time = read_start_time(pid)
    assert start_time is not None

    assert end_left_group(pid, start_time - 1) is LeftGroup.RECYCLED
    assert end_left_group(pid, None) is LeftGroup.UNKNOWN
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    assert end_left_group(ended.pid, 1) is LeftGroup.GONE
    with subprocess.Popen(["sleep", "60"]) as ours:  # It leads no group.
        assert end_left_group(ours.pid, read_start_time(ours.pid)) is not LeftGroup.ENDED
        assert ours.poll() is None
        ours.kill()

    bench.run("/bin/true")
    assert token not in bench.exits()


def test_term_ends_its_runs_then_the_supervisor(tmp_path: Path, bell: Bell) -> None:
    bench = Bench(tmp_path)
    token = bench.shell(f"trap 'exit 4' TERM; echo > {bell.path}; while :; do sleep 0.01; done")
    bell.wait()

    os.kill(bench.link.pid, signal.SIGTERM)
    record = bench.ended(token)
    wait_gone(bench.link.pid)

    assert (record.cause, record.exit_code) == (EndCause.STOPPED, 4)
    bench.wait_for_death()
    assert not lock_is_held(lock_path(tmp_path, bench.link.supervisor_id))


def test_a_supervisor_that_was_told_to_end_refuses_new_work(tmp_path: Path, bell: Bell) -> None:
    bench = Bench(tmp_path)
    bench.shell(f"trap '' TERM; echo > {bell.path}; exec sleep 60", kill_grace_ms=500)
    bell.wait()

    os.kill(bench.link.pid, signal.SIGTERM)
    late = bench.start("/bin/true")
    bench.wait_for(lambda: bool(bench.not_started()) or late in bench.exits(), "an answer")
    bench.close()

    # The signal and the request race; in no case is it lost or run twice. If it waits for its start
    # when the signal comes, it is given back.
    if late in bench.not_started():
        assert bench.not_started()[late].error_code in ("ESHUTDOWN", GIVEN_BACK)
    else:
        assert bench.exits()[late].cause in (EndCause.STOPPED, EndCause.EXIT)


def test_a_hang_up_changes_nothing(bench: Bench) -> None:
    token = bench.shell("read line; exit 6", stdin="go\n")
    os.kill(bench.link.pid, signal.SIGHUP)

    assert bench.ended(token).exit_code == 6
    assert bench.run_shell("exit 5").exit_code == 5
