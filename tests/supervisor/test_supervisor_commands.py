"""Commands as they are started: what they find, what they inherit, what can't be started."""

from __future__ import annotations

import os
import pwd
import resource
import signal
import sys
from pathlib import Path

import pytest

from edgecron.model.run import Stream
from edgecron.supervisor.launch import StartBy
from edgecron.supervisor.protocol import EndCause, Flag, Identity
from tests.supervisor.supervisor_bench import Bell, Bench, children_of
from tests.support.accounts import as_root

# Forked, so that what a test changes here is changed there; test runners have threads of their own.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def test_an_exit_code_is_recorded_with_times_and_output(bench: Bench) -> None:
    record = bench.run_shell("echo out; echo err >&2; exit 7")

    assert (record.cause, record.exit_code, record.signal) == (EndCause.EXIT, 7, None)
    assert record.started_ms is not None
    assert record.started_ms <= record.finished_ms
    assert record.duration_ms is not None
    assert record.flags == ()
    assert bench.printed(record) == b"out\n"
    assert bench.printed(record, Stream.STDERR) == b"err\n"


def test_a_signal_is_recorded_as_128_and_its_number(bench: Bench) -> None:
    record = bench.run_shell("kill -USR1 $$")

    assert (record.cause, record.exit_code) == (EndCause.SIGNAL, 128 + signal.SIGUSR1)
    assert record.signal == signal.SIGUSR1


@pytest.mark.failure(38)
def test_a_command_inherits_no_descriptor_but_three(bench: Bench) -> None:
    keeper = bench.shell("exec sleep 60")
    bench.started(keeper)

    record = bench.run("/bin/ls", "/proc/self/fd")

    # The fourth is the folder that ls itself reads.
    assert bench.printed(record).split() == [b"0", b"1", b"2", b"3"]


@pytest.mark.failure(39)
def test_a_command_inherits_no_mask_and_no_ignored_signal(tmp_path: Path) -> None:
    ignored = {number: signal.signal(number, signal.SIG_IGN) for number in (2, 10, 13, 15)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGCHLD})
    try:
        bench = Bench(tmp_path / "state")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, before in ignored.items():
            signal.signal(number, before)
    try:
        record = bench.run("/bin/grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status")
    finally:
        bench.close()

    values = [int(word, 16) for word in bench.printed(record).split()[1::2]]
    # 32 and 33 belong to the C library, whose posix_spawn leaves them ignored in all its children
    # (that of Python 3.13's test runner, say); no program can set them, or cares.
    assert [value & ~(0b11 << 31) for value in values] == [0, 0]


def test_a_command_has_its_own_session_and_group(bench: Bench) -> None:
    token = bench.shell("exec sleep 60")
    pid = bench.started(token).pid

    assert os.getsid(pid) == os.getpgid(pid) == pid
    assert os.getsid(bench.link.pid) == bench.link.pid


def test_a_command_has_the_limit_of_descriptors_that_the_engine_had(bench: Bench) -> None:
    record = bench.run_shell("ulimit -Sn")

    assert int(bench.printed(record)) == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_a_raised_limit_of_descriptors_is_not_handed_on(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Room for the link, whatever tests before this one have open.
    low = max(256, len(os.listdir("/dev/fd")) + 16)
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))
    try:
        bench = Bench(tmp_path / "state")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        tokens = [bench.shell("exec sleep 60") for _ in range(150)]
        for token in tokens:
            bench.started(token)
        record = bench.run_shell("ulimit -Sn")
    finally:
        bench.close()

    assert bench.printed(record) == f"{low}\n".encode()


@pytest.mark.failure(41)
@pytest.mark.parametrize(
    ("argv", "cwd", "code", "words"),
    [
        (("/no/such/command",), "/", "ENOENT", "command '/no/such/command' is missing"),
        (("no-such-command",), "/", "ENOENT", "command 'no-such-command' is not in PATH"),
        (("/bin/true",), "/no/such/folder", "ENOENT", "folder '/no/such/folder' is missing"),
        (("/bin/true",), "/etc/passwd", "ENOTDIR", "folder '/etc/passwd' can't be entered"),
        (("/etc",), "/", "EACCES", "command '/etc' is a folder"),
        (("/etc/passwd",), "/", "EACCES", "command '/etc/passwd' can't be started"),
    ],
)
def test_what_is_missing_is_told_at_once(
    bench: Bench, argv: tuple[str, ...], cwd: str, code: str, words: str
) -> None:
    record = bench.run(*argv, cwd=cwd)

    assert (record.cause, record.exit_code, record.started_ms) == (EndCause.SPAWN, None, None)
    assert record.error_code == code
    assert words in (record.error_msg or "")


def test_a_script_whose_interpreter_is_missing_is_told_apart(bench: Bench, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n", encoding="ascii")
    script.chmod(0o755)

    record = bench.run(str(script))

    assert "names an interpreter in its first line that is missing" in (record.error_msg or "")


def test_a_script_without_a_first_line_is_told(bench: Bench, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo hello\n", encoding="ascii")
    script.chmod(0o755)

    record = bench.run(str(script))

    assert record.error_code == "ENOEXEC"


def test_an_argument_list_that_is_too_long_fails(bench: Bench) -> None:
    record = bench.run("/bin/true", "x" * 3_000_000)

    assert (record.cause, record.error_code) == (EndCause.SPAWN, "E2BIG")


def test_bytes_that_are_not_utf8_reach_a_command_unchanged(bench: Bench) -> None:
    record = bench.run("/usr/bin/printf", "%s", os.fsdecode(b"\xff\x80"))

    assert bench.printed(record) == b"\xff\x80"


@pytest.mark.failure(40)
def test_a_start_is_repeated_while_no_descriptor_is_left(bench: Bench) -> None:
    other = bench.shell("exec sleep 60")
    bench.started(other)
    limits = resource.prlimit(bench.link.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(bench.link.pid, resource.RLIMIT_NOFILE, (4, limits[1]))
    first = bench.shell("echo ran")
    # The answer to what came later says that the first was tried.
    bench.link.cancel([other])
    bench.ended(other)

    resource.prlimit(bench.link.pid, resource.RLIMIT_NOFILE, limits)
    record = bench.ended(first)

    assert (record.exit_code, record.flags) == (0, (Flag.SPAWN_RETRIED,))


@pytest.mark.failure(40)
def test_a_start_that_never_finds_a_descriptor_is_given_up_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgecron.supervisor.start.RETRY_LIMIT_MS", 300)
    bench = Bench(tmp_path / "state", by=StartBy.FORK)
    limits = resource.prlimit(bench.link.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(bench.link.pid, resource.RLIMIT_NOFILE, (4, limits[1]))

    records = [bench.ended(token) for token in [bench.shell("true"), bench.shell("true")]]
    resource.prlimit(bench.link.pid, resource.RLIMIT_NOFILE, limits)
    bench.close()

    assert [record.error_code for record in records] == ["EMFILE", "EMFILE"]
    assert all(record.flags == (Flag.SPAWN_RETRIED,) for record in records)
    assert all("no file descriptor left" in (record.error_msg or "") for record in records)
    assert all("tried for 300ms" in (record.error_msg or "") for record in records)


@pytest.mark.failure(40)
def test_a_start_is_repeated_also_after_others_were_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgecron.supervisor.start.RETRY_LIMIT_MS", 1000)
    bench = Bench(tmp_path / "state", by=StartBy.FORK)
    other = bench.shell("exec sleep 60")
    bench.started(other)
    limits = resource.prlimit(bench.link.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(bench.link.pid, resource.RLIMIT_NOFILE, (4, limits[1]))
    given_up = bench.ended(bench.shell("true"))
    second = bench.shell("echo ran")
    # The answer to what came later says that the second was tried.
    bench.link.cancel([other])
    bench.ended(other)

    resource.prlimit(bench.link.pid, resource.RLIMIT_NOFILE, limits)
    record = bench.ended(second)
    bench.close()

    assert given_up.error_code == "EMFILE"
    assert (record.exit_code, record.flags) == (0, (Flag.SPAWN_RETRIED,))


@pytest.mark.failure(46)
def test_a_command_that_reads_stdin_finds_its_end_at_once(bench: Bench) -> None:
    record = bench.run("/bin/cat")

    assert (record.exit_code, bench.printed(record)) == (0, b"")


@pytest.mark.failure(46)
def test_a_command_is_given_its_text_whole(bench: Bench) -> None:
    text = "line é\n" * 40_000

    record = bench.run("/bin/cat", stdin=text, output_cap_bytes=1_000_000)

    assert bench.printed(record) == text.encode()


@pytest.mark.failure(46)
def test_a_command_that_does_not_read_its_text_is_none_the_worse(bench: Bench) -> None:
    text = "x" * 1_000_000

    records = [
        bench.run("/bin/true", stdin=text),
        bench.run_shell("exec <&-; echo closed", stdin=text),
        bench.run_shell("head -c 3", stdin=text),
    ]

    assert [record.exit_code for record in records] == [0, 0, 0]
    assert bench.printed(records[2]) == b"xxx"


@as_root
def test_a_command_runs_as_another_user_with_its_groups(bench: Bench) -> None:
    account = pwd.getpwnam("nobody")
    who = Identity(name="nobody", uid=account.pw_uid, gid=account.pw_gid, groups=(account.pw_gid,))

    record = bench.run("/usr/bin/id", identity=who)
    foreign = bench.run("/bin/cat", "/etc/shadow", identity=who)

    expected = f"uid={account.pw_uid}(nobody) gid={account.pw_gid}"
    assert bench.printed(record).decode().startswith(expected)
    assert b"(root)" not in bench.printed(record)
    assert foreign.exit_code == 1


@pytest.mark.failure(35)
def test_no_zombie_is_left_by_any_kind_of_end(bench: Bench, bell: Bell) -> None:
    bench.run_shell("exit 3")
    bench.run_shell("kill -9 $$")
    bench.run("/no/such/command")
    bench.run_shell(f"trap '' TERM; echo > {bell.path}; sleep 60", timeout_ms=1, kill_grace_ms=1)
    bench.run_shell("sleep 0.01 & true")

    assert children_of(bench.link.pid) == []


@pytest.mark.failure(35)
def test_the_supervisor_is_no_child_of_the_engine(bench: Bench) -> None:
    assert bench.link.pid not in children_of(os.getpid())


@pytest.mark.failure(42)
def test_the_end_of_the_thread_that_started_it_ends_no_command(tmp_path: Path) -> None:
    import threading

    made: list[tuple[Bench, str]] = []

    def work() -> None:
        bench = Bench(tmp_path / "state")
        token = bench.shell("read line; echo $line", stdin="still here\n", timeout_ms=20_000)
        bench.started(token)
        made.append((bench, token))

    thread = threading.Thread(target=work, name="starter")
    thread.start()
    thread.join()
    bench, token = made[0]
    record = bench.ended(token)
    bench.close()

    assert bench.printed(record) == b"still here\n"


def test_the_supervisor_loads_nothing_that_it_does_not_need() -> None:
    import subprocess

    heavy = {"apsw", "croniter", "asyncio", "textual", "sqlite3", "ssl", "random"}
    code = (
        "import sys, edgecron.supervisor.loop, edgecron.supervisor.command_runner;"
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert shown.stdout == b"[]\n"
