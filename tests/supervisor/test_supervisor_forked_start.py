"""A command as another user: what it has, what it has not, and what that user can't do with it."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgecron.supervisor import forked_start, live_runs
from edgecron.supervisor.control import Control
from edgecron.supervisor.journal import forget
from edgecron.supervisor.launch import StartBy
from edgecron.supervisor.link import Started
from edgecron.supervisor.protocol import EndCause, ExitRecord, Flag, Identity, Phase, StartRequest
from edgecron.supervisor.results import result_path
from edgecron.supervisor.state_files import lock_is_held, lock_path
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


def lines_of(bench: Bench, record: ExitRecord) -> dict[str, str]:
    """What /proc says of a process, by its name."""
    text = bench.printed(record).decode()
    return {
        name: " ".join(rest.split())
        for name, _, rest in (x.partition(":") for x in text.splitlines())
    }


def wait_until_theirs(pid: int) -> None:
    """Until a process on its way to be a command of nobody's is nobody's."""
    uid = str(identity().uid)
    until_s = time.monotonic() + BOUND_MS / 1000
    while f"Uid:\t{uid}\t{uid}\t" not in Path(f"/proc/{pid}/status").read_text("ascii"):
        assert time.monotonic() < until_s, f"{pid} is not theirs"
        os.sched_yield()


def test_what_is_asked_for_another_user_crosses_to_the_supervisor() -> None:
    who = Identity(name="bob", uid=7, gid=8, groups=(8, 9))
    request = StartRequest(
        token="t",
        argv=("true",),
        env={"A": "1"},
        cwd="/home/bob",
        output_cap_bytes=1,
        identity=who,
        is_home=True,
        env_file="/home/bob/env",
        base_env={"B": "2"},
    )

    assert StartRequest.from_json(request.to_json()) == request


@as_root
def test_a_command_of_another_user_has_nothing_of_root_left(bench: Bench) -> None:
    who = identity(groups=(identity().gid, 4, 24))

    seen = lines_of(bench, bench.run("/bin/cat", "/proc/self/status", identity=who))

    assert seen["Uid"] == " ".join([str(who.uid)] * 4)  # real, effective, saved, file system
    assert seen["Gid"] == " ".join([str(who.gid)] * 4)
    assert set(seen["Groups"].split()) == {str(group) for group in who.groups}
    assert {int(seen[name], 16) for name in ("CapPrm", "CapEff", "CapAmb", "CapInh")} == {0}
    assert seen["NoNewPrivs"] == "0"  # sudo works in a job, as under cron
    assert {int(seen[name], 16) for name in ("SigBlk", "SigIgn")} == {0}


@as_root
@pytest.mark.failure(38)
def test_a_command_of_another_user_inherits_no_descriptor_and_no_terminal(bench: Bench) -> None:
    record = bench.run_shell(
        "ls /proc/$$/fd; ps -o tty= -p $$; ps -o sid= -p $$", identity=identity()
    )

    *fds, tty, session = bench.printed(record).decode().split()
    assert (fds, tty) == (["0", "1", "2"], "?")
    assert session == str(record.pid)


@as_root
def test_a_command_of_another_user_has_a_umask_of_its_own(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        bench = Bench(tmp_path / "state")
    finally:
        os.umask(before)

    record = bench.run_shell("umask", identity=identity())
    bench.close()

    assert bench.printed(record) == b"0022\n"


@as_root
def test_a_command_of_another_user_may_open_as_many_files_as_the_engine(bench: Bench) -> None:
    plain = bench.run_shell("ulimit -S -n; ulimit -H -n", identity=identity())

    ours = [str(limit).encode() for limit in resource.getrlimit(resource.RLIMIT_NOFILE)]
    assert bench.printed(plain).split() == ours


@as_root
@pytest.mark.failure(41)
def test_a_folder_that_another_user_can_not_enter_is_entered_for_nobody(
    bench: Bench, theirs: Path
) -> None:
    roots = theirs.parent / "roots"
    roots.mkdir(mode=0o700)

    refused = bench.run("/bin/pwd", cwd=str(roots), identity=identity())
    home = bench.run("/bin/pwd", cwd=str(roots), is_home=True, identity=identity())
    missing = bench.run("/bin/pwd", cwd="/nonexistent", identity=identity())
    no_home = bench.run("/bin/pwd", cwd="/nonexistent", is_home=True, identity=identity())

    words = f"folder '{roots}' can't be entered: Permission denied, as user 'nobody'"
    assert (refused.cause, refused.error_code, refused.error_msg) == (
        EndCause.SPAWN,
        "EACCES",
        words,
    )
    assert home.error_msg == words  # and not in `/`: that is for who has no home at all
    assert missing.error_msg == "folder '/nonexistent' is missing"
    assert bench.printed(no_home) == b"/\n"


@as_root
@pytest.mark.failure(65)
def test_a_file_of_variables_is_read_as_the_user_it_is_for(bench: Bench, theirs: Path) -> None:
    secret = theirs.parent / "secret"
    secret.write_text("TOKEN=of-root\n")
    secret.chmod(0o600)
    (theirs / "link").symlink_to(secret)
    (theirs / "env").write_text("A=file\nB=file\nPATH=/usr/bin:/bin\n")

    changes = {"base_env": {"A": "base", "C": "base"}, "env": {"B": "own"}, "identity": identity()}
    stolen = bench.run_shell("echo $TOKEN", env_file=str(theirs / "link"), **changes)
    read = bench.run_shell("echo $A $B $C", env_file=str(theirs / "env"), **changes)

    assert (stolen.cause, stolen.error_code) == (EndCause.SPAWN, "EACCES")
    assert stolen.error_msg == (
        f"environment file '{theirs / 'link'}' can't be read: Permission denied,"
        " as user 'nobody' reads it"
    )
    assert bench.printed(read) == b"file own base\n"


@as_root
def test_what_another_user_prints_to_can_be_opened_by_name(bench: Bench) -> None:
    line = "echo out >/dev/stdout; exec 2>&1; echo err | tee /dev/stderr >/dev/null; cat /dev/stdin"

    record = bench.run_shell(line, stdin="in\n", identity=identity())

    assert sorted(bench.printed(record).split()) == [b"err", b"in", b"out"]


@as_root
@pytest.mark.failure(41)
def test_a_command_that_another_user_may_not_run_is_told(bench: Bench, theirs: Path) -> None:
    closed = theirs.parent / "closed"
    closed.write_text("#!/bin/sh\n")
    closed.chmod(0o700)

    record = bench.run(str(closed), identity=identity())
    missing = bench.run("no-such-command", identity=identity())
    script = theirs / "script"
    script.write_text("#!/no/such/shell\n")
    script.chmod(0o755)
    scripted = bench.run("./script", cwd=str(theirs), identity=identity())

    assert "names an interpreter in its first line that is missing" in (scripted.error_msg or "")
    assert record.error_msg == (
        f"command '{closed}' can't be started: Permission denied, as user 'nobody'"
    )
    assert missing.error_code == "ENOENT"
    assert "command 'no-such-command' is not in PATH" in (missing.error_msg or "")


@as_root
@pytest.mark.failure(41)
def test_a_folder_of_path_that_can_not_be_entered_hides_no_missing_command(
    bench: Bench, theirs: Path
) -> None:
    """exec(3) reports EACCES then, also for a command that is in no folder."""
    closed = theirs / "closed"
    closed.mkdir(mode=0o700)
    path = {"PATH": f"{closed}:/usr/bin:/bin"}

    missing = bench.run("no-such-command", env=path, identity=identity())
    (closed / "hidden").write_text("#!/bin/sh\n")
    hidden = bench.run("hidden", env=path, identity=identity())

    assert missing.error_code == "ENOENT"
    assert "command 'no-such-command' is not in PATH" in (missing.error_msg or "")
    assert hidden.error_code == "EACCES"


@as_root
def test_another_user_can_signal_neither_the_supervisor_nor_what_others_run(
    bench: Bench,
) -> None:
    other = bench.shell("exec sleep 60", identity=identity("daemon"))
    victims = [bench.started(other).pid, bench.link.pid, bench.guardian(), os.getpid()]
    tries = (f"kill -9 {pid} && echo killed {pid}" for pid in victims)
    line = "; ".join(["exec 2>&1", *tries, "true"])

    record = bench.run_shell(line, identity=identity())
    bench.link.cancel([other])

    assert b"killed" not in bench.printed(record)
    assert bench.printed(record).count(b"not permitted") == len(victims)
    assert bench.ended(other).cause is EndCause.CANCELLED


@as_root
@pytest.mark.failure(34)
def test_what_another_user_has_left_in_the_background_is_ended_with_it(
    bench: Bench, theirs: Path
) -> None:
    """By a second fork, as daemons do, but in its session."""
    bell = Bell(theirs / "bell")
    os.chmod(bell.path, 0o666)
    line = f"(sleep 60 & echo $!; echo >{bell.path}); exec sleep 60"
    token = bench.shell(line, identity=identity())
    bell.wait()
    bell.close()

    bench.link.cancel([token])
    record = bench.ended(token)

    assert record.cause is EndCause.CANCELLED
    wait_gone(int(bench.printed(record)))


@as_root
def test_a_place_that_never_answers_holds_up_the_one_run_that_needs_it(
    bench: Bench, unanswering: Unanswering, gate: Gate
) -> None:
    # Its input is not all written yet when the other one begins, and ends all the same.
    reader = bench.shell(f"read go <{gate.path}; wc -c", stdin="x" * 1_000_000)
    bench.started(reader)
    held = bench.start(unanswering.path, identity=identity())

    other = bench.run("/bin/true", identity=identity("daemon"))
    gate.open()
    record = bench.ended(reader)

    assert other.cause is EndCause.EXIT
    assert bench.printed(record) == b"1000000\n"
    assert held not in bench.exits()
    unanswering.answer()
    assert bench.ended(held).exit_code == 0


@as_root
def test_what_has_begun_to_start_is_as_good_as_running(
    bench: Bench, unanswering: Unanswering
) -> None:
    held = bench.start(unanswering.path, "exec sleep 60", identity=identity())
    bench.run("/bin/true")  # The one before it has begun by then.

    with Control(bench.state_dir, bench.link.supervisor_id) as control:
        revoked = control.revoke([held])
        phase, part = control.output(held)
        cancelled = control.cancel([held])

    assert {revoked[held], cancelled[held], phase} == {Phase.RUNNING}
    assert part.chunks == ()
    unanswering.answer()
    assert bench.ended(held).cause is EndCause.CANCELLED


@as_root
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_who_is_held_up_for_too_long_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unanswering: Unanswering, is_cancelled: bool
) -> None:
    monkeypatch.setattr(live_runs, "START_LIMIT_MS", 300)
    bench = Bench(tmp_path / "state", by=StartBy.FORK)
    held = bench.start(unanswering.path, identity=identity())
    bench.run("/bin/true")
    [pid] = children_of(bench.link.pid)
    result = result_path(held, bench.state_dir, of_another_user=True)
    was_made = result.exists()
    if is_cancelled:
        bench.link.cancel([held])

    record = bench.ended(held)
    wait_gone(pid)
    bench.run("/bin/true", identity=identity())  # The turns that this takes reap it.
    left = children_of(bench.link.pid)
    bench.close()

    expected = (EndCause.CANCELLED, None) if is_cancelled else (EndCause.SPAWN, "ETIMEDOUT")
    assert (record.cause, record.error_code) == expected
    assert is_cancelled or "user 'nobody' or a folder of theirs held" in (record.error_msg or "")
    assert left == []
    assert (was_made, result.exists()) == (True, False)


@as_root
def test_what_is_held_up_has_nothing_of_the_supervisor_s_open(
    bench: Bench, unanswering: Unanswering
) -> None:
    """Or epoll would report for ever what the supervisor has closed, and never let it sleep."""
    live = bench.shell("exec sleep 60", identity=identity())
    bench.started(live)  # Its pidfd and its pipes are watched by then.
    bench.start(unanswering.path, identity=identity())
    bench.run("/bin/true")  # The one before it has begun by then.
    [pid] = set(children_of(bench.link.pid)) - {bench.started(live).pid}
    wait_until_theirs(pid)

    folder = Path(f"/proc/{pid}/fd")
    seen = {int(fd.name): os.readlink(fd) for fd in folder.iterdir()}

    [told] = [target for fd, target in seen.items() if fd > 2]
    assert told.startswith("pipe:")


@as_root
@pytest.mark.failure(18)
def test_what_is_held_up_does_not_hold_the_lock_of_a_supervisor_that_has_died(
    bench: Bench, unanswering: Unanswering
) -> None:
    bench.start(unanswering.path, identity=identity())
    bench.run("/bin/true")  # The one before it has begun by then.
    [pid] = children_of(bench.link.pid)
    wait_until_theirs(pid)

    bench.kill_guardian()
    os.kill(bench.link.pid, signal.SIGKILL)
    bench.wait_for_death()

    assert not lock_is_held(lock_path(bench.state_dir, bench.link.supervisor_id))
    assert forget(bench.state_dir, bench.link.supervisor_id)


@as_root
@pytest.mark.failure(18)
def test_what_has_begun_to_start_ends_with_its_supervisor(
    bench: Bench, unanswering: Unanswering
) -> None:
    held = bench.start(unanswering.path, "exec sleep 60", identity=identity())
    bench.run("/bin/true")  # The one before it has begun by then.
    [pid] = children_of(bench.link.pid)

    os.kill(bench.link.pid, signal.SIGKILL)
    bench.wait_for_death()
    wait_gone(pid)

    assert bench.journal().traces[held].pid == pid
    assert forget(bench.state_dir, bench.link.supervisor_id)
    assert not result_path(held, bench.state_dir, of_another_user=True).exists()


@pytest.fixture
def refused_as_nobody(tmp_path: Path) -> Iterator[Callable[[], ExitRecord]]:
    """Start a command as nobody by a supervisor that is forked with what a test has patched."""
    benches: list[Bench] = []

    def run() -> ExitRecord:
        benches.append(Bench(tmp_path / "forked", by=StartBy.FORK))
        return benches[0].run("/bin/true", identity=identity())

    yield run
    for bench in benches:
        bench.close()


@as_root
def test_a_user_who_is_not_changed_whole_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, refused_as_nobody: Callable[[], ExitRecord]
) -> None:
    """As where capabilities outlive a change of user."""
    become = os.setuid
    monkeypatch.setattr(os, "setuid", lambda uid: None if uid == 0 else become(uid))

    refused = refused_as_nobody()

    assert (refused.cause, refused.error_code) == (EndCause.SPAWN, "EPERM")
    assert "root's rights could be had back" in str(refused.error_msg)


@as_root
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=str
)
def test_a_signal_on_the_way_to_the_command_ends_a_start_and_no_command(
    monkeypatch: pytest.MonkeyPatch,
    refused_as_nobody: Callable[[], ExitRecord],
    number: signal.Signals,
) -> None:
    """As by its user, whose process it is already, or where the memory runs out."""
    become = os.setuid

    def become_and_meet_signal(uid: int) -> None:
        become(uid)
        os.kill(os.getpid(), number)

    monkeypatch.setattr(os, "setuid", become_and_meet_signal)

    refused = refused_as_nobody()

    assert (refused.cause, refused.error_code) == (EndCause.SPAWN, "EINTR")
    assert refused.started_ms is None
    assert refused.error_msg == (
        "command '/bin/true' can't run as user 'nobody':"
        f" its process was ended by signal {number} before it was the command"
    )


@as_root
@pytest.mark.failure(40)
def test_a_start_is_repeated_while_its_user_has_no_process_left(bench: Bench) -> None:
    wait_until_theirs(bench.started(bench.shell("exec sleep 60", identity=identity())).pid)
    before = resource.prlimit(bench.link.pid, resource.RLIMIT_NPROC)
    resource.prlimit(bench.link.pid, resource.RLIMIT_NPROC, (0, before[1]))
    token = bench.start("/bin/true", identity=identity())
    bench.run("/bin/true", identity=identity("daemon"))
    resource.prlimit(bench.link.pid, resource.RLIMIT_NPROC, before)

    record = bench.ended(token)

    assert (record.exit_code, record.flags) == (0, (Flag.SPAWN_RETRIED,))


@as_root
@pytest.mark.failure(40)
def test_a_user_who_never_has_a_process_left_is_given_up_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgecron.supervisor.start.RETRY_LIMIT_MS", 300)
    bench = Bench(tmp_path / "state", by=StartBy.FORK)
    wait_until_theirs(bench.started(bench.shell("exec sleep 60", identity=identity())).pid)
    before = resource.prlimit(bench.link.pid, resource.RLIMIT_NPROC)
    resource.prlimit(bench.link.pid, resource.RLIMIT_NPROC, (0, before[1]))

    record = bench.run("/bin/true", identity=identity())
    bench.close()

    assert (record.cause, record.error_code) == (EndCause.SPAWN, "EAGAIN")
    assert record.flags == (Flag.SPAWN_RETRIED,)
    assert record.error_msg is not None
    assert record.error_msg.startswith("user 'nobody' has no process left")
    assert record.error_msg.endswith("; tried for 300ms")


@as_root
@pytest.mark.failure(40)
def test_a_start_that_waits_to_be_repeated_can_be_cancelled(bench: Bench) -> None:
    wait_until_theirs(bench.started(bench.shell("exec sleep 60", identity=identity())).pid)
    before = resource.prlimit(bench.link.pid, resource.RLIMIT_NPROC)
    resource.prlimit(bench.link.pid, resource.RLIMIT_NPROC, (0, before[1]))
    token = bench.start("/bin/true", identity=identity())
    bench.started(token)

    bench.link.cancel([token])

    assert bench.ended(token).cause is EndCause.CANCELLED


@as_root
@pytest.mark.failure(40)
def test_a_start_that_was_repeated_says_so_when_it_is_cancelled(bench: Bench) -> None:
    wait_until_theirs(bench.started(bench.shell("exec sleep 60", identity=identity())).pid)
    before = resource.prlimit(bench.link.pid, resource.RLIMIT_NPROC)
    resource.prlimit(bench.link.pid, resource.RLIMIT_NPROC, (0, before[1]))
    token = bench.start("/bin/true", identity=identity())

    def tries() -> int:
        return sum(isinstance(one, Started) and one.token == token for one in bench.events)

    bench.wait_for(lambda: tries() >= 2, "the second try")
    bench.link.cancel([token])
    record = bench.ended(token)

    assert (record.cause, record.flags) == (EndCause.CANCELLED, (Flag.SPAWN_RETRIED,))


@as_root
@pytest.mark.failure(40)
def test_a_start_that_fails_while_it_is_cancelled_is_not_repeated(
    bench: Bench, theirs: Path
) -> None:
    wait_until_theirs(bench.started(bench.shell("exec sleep 60", identity=identity())).pid)
    before = resource.prlimit(bench.link.pid, resource.RLIMIT_NPROC)
    resource.prlimit(bench.link.pid, resource.RLIMIT_NPROC, (0, before[1]))
    # The fork reads it for long enough to cancel the run in between.
    variables = theirs.parent / "variables"
    variables.write_text("A=1\n" * 200_000)
    token = bench.start("/bin/true", identity=identity(), env_file=str(variables))
    pid = bench.started(token).pid

    # The supervisor reads the cancellation before it sees that the fork has ended.
    os.kill(bench.link.pid, signal.SIGSTOP)
    bench.link.cancel([token])
    wait_gone(pid)
    os.kill(bench.link.pid, signal.SIGCONT)

    assert bench.ended(token).cause is EndCause.CANCELLED


def test_a_report_that_is_cut_off_is_a_failed_start() -> None:
    read_fd, write_fd = os.pipe()
    os.write(write_fd, b'\n["command", 7, "argum')
    os.close(write_fd)
    request = StartRequest(
        token="t", argv=("true",), env={}, cwd="/", output_cap_bytes=1, identity=identity()
    )
    report = forked_start.StartReport(read_fd, request)

    failure = report.find_failure(-signal.SIGKILL)
    os.close(read_fd)

    assert failure is not None
    assert failure.code == "EIO"


@as_root
@pytest.mark.failure(65)
def test_a_file_of_variables_that_is_root_s_alone_is_read_by_root(
    bench: Bench, theirs: Path
) -> None:
    secret = theirs.parent / "secret"
    secret.write_text("TOKEN=of-root\n")
    secret.chmod(0o600)

    record = bench.run_shell("echo $TOKEN", env_file=str(secret), identity=identity())
    secret.write_text("no assignment\n")
    refused = bench.run_shell("echo $TOKEN", env_file=str(secret), identity=identity())

    assert bench.printed(record) == b"of-root\n"
    assert refused.error_msg == f"environment file '{secret}' line 1 is not KEY=VALUE"
