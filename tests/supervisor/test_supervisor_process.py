"""How the supervisor comes to be, what it holds, and what it is told."""

from __future__ import annotations

import os
import resource
import select
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import edgecron
from edgecron.base.clock import SystemClock
from edgecron.base.errors import SupervisorUnavailable
from edgecron.supervisor.launch import StartBy, start
from edgecron.supervisor.protocol import BrokenProtocol, FrameReader, FrameWriter, Kind, encode
from edgecron.supervisor.state_files import (
    find_holders,
    lock_is_held,
    lock_path,
    socket_path,
    take_lock,
)
from tests.supervisor.supervisor_bench import Bench

# Forked, so that what a test changes here is changed there; test runners have threads of their own.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.real_starts,
]


@pytest.mark.parametrize("by", list(StartBy))
def test_a_supervisor_serves_forked_or_executed(tmp_path: Path, by: StartBy) -> None:
    bench = Bench(tmp_path / "state", by=by)
    try:
        record = bench.run_shell("echo hello; exit 3")

        assert (record.exit_code, bench.printed(record)) == (3, b"hello\n")
        assert lock_is_held(lock_path(bench.state_dir, bench.link.supervisor_id))
        assert os.getsid(bench.link.pid) == bench.link.pid
        assert os.readlink(f"/proc/{bench.link.pid}/cwd") == "/"
        assert Path(f"/proc/{bench.link.pid}/comm").read_text() == "edgecron-super\n"
    finally:
        bench.close()


@pytest.mark.parametrize("by", list(StartBy))
def test_a_supervisor_keeps_nothing_of_its_host_open(tmp_path: Path, by: StartBy) -> None:
    read_fd, write_fd = os.pipe()
    os.set_inheritable(write_fd, True)
    with socket.socket() as listener, (tmp_path / "file").open("w") as file:
        bench = Bench(tmp_path / "state", by=by)
        hosts = {os.readlink(f"/proc/self/fd/{fd}") for fd in (write_fd, listener.fileno())}
        hosts.add(file.name)
    try:
        folder = f"/proc/{bench.link.pid}/fd"
        open_files = [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)]
        os.close(write_fd)
        at_its_end = os.read(read_fd, 1)
    finally:
        bench.close()
        os.close(read_fd)

    assert not hosts & set(open_files)
    assert at_its_end == b""


def test_a_host_with_threads_gets_an_executed_supervisor(tmp_path: Path) -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="other")
    thread.start()
    try:
        bench = Bench(tmp_path / "state")
        command = Path(f"/proc/{bench.link.pid}/cmdline").read_bytes()
        bench.close()
    finally:
        done.set()
        thread.join()

    assert b"edgecron.supervisor" in command


@pytest.mark.failure(62)
def test_folder_and_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        bench = Bench(tmp_path / "deep" / "state")
    finally:
        os.umask(before)
    bench.run_shell("head -c 100000 /dev/zero")
    modes = {path.stat().st_mode & 0o777 for path in bench.state_dir.iterdir()}
    bench.close()

    assert bench.state_dir.stat().st_mode & 0o777 == 0o700
    assert modes == {0o600}


@pytest.mark.failure(63)
def test_a_symlink_in_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    link = lock_path(tmp_path, "a" * 16)
    link.symlink_to(victim)

    with pytest.raises(SupervisorUnavailable, match="exists"):
        take_lock(link)

    # Nobody is judged by it: whoever it stands for is left alone.
    assert lock_is_held(link)
    assert not victim.exists()


@pytest.mark.failure(51)
def test_a_lock_that_cannot_be_made_is_no_defect_of_the_supervisor(tmp_path: Path) -> None:
    for folder in (tmp_path / "missing", tmp_path / "file"):
        (tmp_path / "file").touch()

        # What is not of this kind is kept as a crash, and doctor asks to report it.
        with pytest.raises(SupervisorUnavailable, match=r"can't be taken: [a-z ]+$"):
            take_lock(lock_path(folder, "a" * 16))


@pytest.mark.failure(18)
def test_a_lock_that_was_deleted_is_held_for_who_comes_by_a_link_too(tmp_path: Path) -> None:
    folder, link = tmp_path / "home" / "state", tmp_path / "link" / "state"
    folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home")
    path = link / f"supervisor-{'a' * 16}.lock"
    lock_fd = take_lock(path)
    path.unlink()

    assert lock_is_held(path)
    assert find_holders(link) == {"supervisor": {os.getpid()}}

    os.close(lock_fd)
    assert not lock_is_held(path)
    assert find_holders(link) == {}


def test_a_lock_is_seen_as_held_by_many_who_look_at_once(bench: Bench) -> None:
    path = lock_path(bench.state_dir, bench.link.supervisor_id)

    assert all(lock_is_held(path) for _ in range(100))
    assert not lock_is_held(bench.state_dir / "supervisor-missing.lock")
    assert not (bench.state_dir / "supervisor-missing.lock").exists()


def test_no_command_holds_the_lock(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    token = bench.shell("exec sleep 60")
    pid = bench.started(token).pid

    bench.kill_guardian()
    os.kill(bench.link.pid, 9)
    bench.wait_for_death()

    assert not lock_is_held(lock_path(tmp_path, bench.link.supervisor_id))
    os.kill(pid, 9)


@pytest.mark.parametrize("by", list(StartBy))
def test_a_state_folder_of_any_length_will_do(tmp_path: Path, by: StartBy) -> None:
    bench = Bench(tmp_path / ("x" * 120) / ("y" * 120), by=by)

    record = bench.run_shell("head -c 100000 /dev/zero")
    bench.close()

    assert bench.output(record).stdout_bytes == 100_000


def test_a_relative_state_folder_is_meant_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench(Path("state"))
    bench.close()

    assert len(os.listdir(tmp_path / "state")) == 2


def test_a_state_folder_that_can_not_be_is_an_error_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SupervisorUnavailable, match=r"state folder .* is not usable"):
        start(tmp_path / "file" / "state", clock=SystemClock())


def test_a_supervisor_that_can_not_be_set_up_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("edgecron.supervisor.live_run.Journal", fail)

    with pytest.raises(SupervisorUnavailable, match=r"can't be set up: no space left"):
        start(tmp_path, clock=SystemClock(), by=StartBy.FORK)

    assert os.listdir(tmp_path) == []


@pytest.mark.failure(40)
def test_a_supervisor_for_which_no_descriptor_is_left_is_an_error_with_a_reason(
    tmp_path: Path,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(SupervisorUnavailable, match="can't be started"):
            start(tmp_path / "state", clock=SystemClock())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class BrokenClock(SystemClock):
    def monotonic_ms(self) -> int:
        raise ZeroDivisionError("a defect")


def test_a_supervisor_that_fails_by_a_defect_leaves_its_traceback(tmp_path: Path) -> None:
    bench = Bench(tmp_path, by=StartBy.FORK, clock=BrokenClock())
    bench.start("/bin/true")
    bench.wait_for_death()

    assert bench.link.end_message == "supervisor failed: ZeroDivisionError('a defect')"
    crash = tmp_path / f"supervisor-{bench.link.supervisor_id}.crash"
    assert "ZeroDivisionError: a defect" in crash.read_text(encoding="utf-8")


def test_a_socket_that_can_not_be_removed_is_no_defect(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run("/bin/true")
    path = socket_path(tmp_path, bench.link.supervisor_id)
    path.unlink()
    path.mkdir()  # Root may write into each folder, but unlinks none.
    bench.close()

    assert list(tmp_path.glob("*.crash")) == []


def test_an_executed_supervisor_that_can_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named no_such_module' >&2\nexit 1\n")
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))

    with pytest.raises(SupervisorUnavailable, match="said: No module named no_such_module"):
        start(tmp_path / "state", clock=SystemClock(), by=StartBy.EXEC)


def test_an_idle_supervisor_never_wakes(bench: Bench) -> None:
    token = bench.shell("exec sleep 60", timeout_ms=3_600_000)
    pid = bench.link.pid
    bench.started(token)

    def switches() -> int:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])

    # What it still had to do when it told of the start is over once it sleeps in epoll.
    before = settled(switches)
    quiet = select.poll()
    quiet.register(bench.link, select.POLLIN)
    assert quiet.poll(500) == []

    assert switches() == before


def settled(read: object) -> int:
    assert callable(read)
    poller = select.poll()
    seen = -1
    while (now := read()) != seen:
        seen = now
        poller.poll(20)
    return int(seen)


def test_a_huge_batch_and_an_engine_that_does_not_read_block_nobody(bench: Bench) -> None:
    payload = {"PATH": "/usr/bin:/bin", "BIG": "x" * 20_000}
    requests = [bench.request("/bin/true", env=payload) for _ in range(600)]
    clock = bench.shell("exec sleep 60", timeout_ms=200)

    bench.link.start(requests)
    loud = [bench.shell("head -c 12000 /dev/zero") for _ in range(100)]
    tokens = [request.token for request in requests] + loud
    codes = {bench.ended(token).exit_code for token in tokens}
    timed_out = bench.ended(clock)

    assert codes == {0}
    assert timed_out.duration_ms is not None
    assert timed_out.duration_ms < 30_000  # far before its own 60 s, however slow the day


def test_a_token_starts_once_however_often_it_is_asked_for(bench: Bench, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    request = bench.request("/bin/sh", "-c", f"echo ran >> {seen}")

    bench.link.start([request, request])
    bench.link.start([request])
    bench.ended(request.token)
    bench.link.start([request])
    bench.run("/bin/true")

    assert seen.read_text(encoding="ascii") == "ran\n"


def test_an_engine_that_talks_nonsense_is_left_and_its_runs_go_on(bench: Bench) -> None:
    token = bench.shell("exit 3")
    bench.ended(token)

    os.write(bench.link.fileno(), b"\x00\x00\x00\x03???")
    bench.wait_for_death()

    assert bench.journal().traces[token].exit is not None


def test_frames_come_out_whole_however_they_are_cut() -> None:
    messages = [(Kind.CANCEL, ["a", "é\udcff"]), (Kind.ACK, []), (Kind.STOP_ALL, "stopped")]
    stream = b"".join(encode(kind, body) for kind, body in messages)

    for size in range(1, len(stream)):
        reader = FrameReader()
        found = []
        for first in range(0, len(stream), size):
            found += reader.feed(stream[first : first + size])

        assert found == messages


def test_frames_go_out_whole_however_little_is_taken() -> None:
    writer = FrameWriter()
    frames = [encode(Kind.ACK, [str(number)]) for number in range(20)]
    for frame in frames:
        writer.put(frame)

    taken = b""
    while writer:
        taken += bytes(writer.next_bytes()[:7])
        writer.sent(min(7, len(writer.next_bytes())))

    assert taken == b"".join(frames)


@pytest.mark.parametrize("text", [b"{}", b"[1]", b'["nonsense", 1]', b"\xff", b"[[], 1]"])
def test_what_is_no_message_is_refused(text: bytes) -> None:
    with pytest.raises(BrokenProtocol):
        FrameReader().feed(len(text).to_bytes(4, "big") + text)


def test_a_frame_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(BrokenProtocol):
        FrameReader().feed(b"\xff\xff\xff\xff")


def test_a_supervisor_that_is_started_anew_is_of_the_same_package(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(Path(edgecron.__file__).parent, copy / "edgecron")
    told = copy / "edgecron" / "supervisor" / "__main__.py"
    told.write_text(told.read_text() + f"\nopen({str(tmp_path / 'here')!r}, 'w').close()\n")
    program = f"""
import sys
sys.path.insert(0, {str(copy)!r})
from pathlib import Path
import edgecron
from edgecron.base.clock import SystemClock
from edgecron.supervisor.launch import StartBy, start
start(Path({str(tmp_path / "state")!r}), clock=SystemClock(), by=StartBy.EXEC).close()
"""

    subprocess.run([sys.executable, "-c", program], cwd="/", check=True)

    assert (tmp_path / "here").exists()
