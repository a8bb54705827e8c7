"""An engine and who started it: a terminal, a host with children and threads of its own."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.base.clock import SystemClock
from edgecron.engine.host import EngineHost
from edgecron.model.choices import Status
from tests.support.engines import Place
from tests.support.processes import BOUND_S, Daemon, ends, parent_of


class Terminal:
    """A terminal that programs are started on, and that can hang up."""

    def __init__(self) -> None:
        self._outer, inner = pty.openpty()
        self._inner: int | None = inner

    def daemon(self, place: Place, *options: str, through: tuple[str, ...] = ()) -> Daemon:
        """A daemon of this terminal: its signal comes when the terminal closes."""
        assert self._inner is not None
        daemon = place.daemon(
            *options, through=("setsid", "--ctty", *through), terminal=self._inner
        )
        os.close(self._inner)
        self._inner = None
        return daemon

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Python on this terminal, with its output there too."""
        assert self._inner is not None
        process = subprocess.Popen(
            ["setsid", "--ctty", sys.executable, *words],
            stdin=self._inner,
            stdout=self._inner,
            stderr=self._inner,
        )
        os.close(self._inner)
        self._inner = None
        return process

    def hang_up(self) -> None:
        os.close(self._outer)
        self._outer = -1

    def close(self) -> None:
        for fd in (self._outer, self._inner):
            if fd is not None and fd >= 0:
                os.close(fd)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


@pytest.mark.failure(37)
def test_the_daemon_of_a_terminal_that_closes_ends_cleanly_and_its_runs_go_on(
    place: Place, terminal: Terminal
) -> None:
    place.add("long", "@yearly", f"{place.gate.line}; exit 7")
    first = terminal.daemon(place)
    place.client.run_now("long")
    job = os.pidfd_open(place.gate.wait_arrival())

    terminal.hang_up()
    code = first.wait_end()
    goes_on = not ends(job, bound_s=0)
    second = place.daemon()
    place.gate.open()
    ended = second.wait_for("ended", schedule="long")

    assert code == 0
    assert first.lines[-1]["event"] == "engine_stopped"
    assert goes_on
    assert (ended["status"], ended["exit_code"]) == ("failed", 7)
    os.close(job)


@pytest.mark.failure(37)
def test_the_daemon_that_is_to_outlive_its_terminal_does(place: Place, terminal: Terminal) -> None:
    daemon = terminal.daemon(place, through=("nohup",))
    daemon.wait_for("engine_started")

    terminal.hang_up()
    place.add("next", "every 1s", "true")

    assert daemon.wait_for("ended", schedule="next")["status"] == "success"


@pytest.mark.failure(37)
def test_the_daemon_that_hup_gives_its_files_again_still_ends_with_its_terminal(
    place: Place, terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "schedules.toml"
    file.write_text('[schedules.hourly]\nevery = "1h"\ncommand = ["true"]\n')
    daemon = terminal.daemon(place, "--schedules", str(file))
    daemon.wait_for("engine_started")

    terminal.hang_up()

    assert daemon.wait_end() == 0
    assert daemon.lines[-1]["event"] == "engine_stopped"


@pytest.mark.failure(37)
@pytest.mark.parametrize("policy", ["stop", "wait"])
def test_a_policy_holds_although_nobody_hears_of_it_on_the_terminal_that_closed(
    place: Place, terminal: Terminal, policy: str
) -> None:
    place.add("long", "@yearly", f"{place.gate.line}; exit 7")
    [run] = place.client.run_now("long")
    words = ("--db", str(place.database), "daemon", "--on-shutdown", policy)
    daemon = terminal.start("-m", "edgecron", *words)
    job = os.pidfd_open(place.gate.wait_arrival())

    terminal.hang_up()
    if policy == "wait":
        place.gate.open()
    code = daemon.wait(BOUND_S)

    assert code == 0
    assert ends(job)
    ended = place.client.execution(run.id)
    assert (ended.status, ended.exit_code) == (
        (Status.CANCELLED, 143) if policy == "stop" else (Status.FAILED, 7)
    )
    os.close(job)


@pytest.mark.failure(37)
def test_the_daemon_that_prints_on_a_terminal_that_closes_ends_cleanly(
    place: Place, terminal: Terminal
) -> None:
    place.add("long", "@yearly", f"{place.gate.line}; exit 7")
    place.client.run_now("long")
    first = terminal.start("-m", "edgecron", "--db", str(place.database), "daemon")
    place.gate.wait_arrival()

    terminal.hang_up()
    code = first.wait(BOUND_S)
    left = place.client.engines()
    second = place.daemon()
    place.gate.open()
    ended = second.wait_for("ended", schedule="long")

    assert (code, left) == (0, []), "it did not say goodbye to the database"
    assert (ended["status"], ended["exit_code"]) == ("failed", 7)


@pytest.mark.failure(38)
@pytest.mark.failure(39)
def test_a_job_inherits_nothing_from_whoever_started_the_daemon(place: Place) -> None:
    line = "trap '' HUP INT QUIT USR1 PIPE CHLD; exec 7<>/dev/zero; exec \"$@\""
    inner = "ls /proc/self/fd; grep -E '^Sig(Blk|Ign):' /proc/self/status"
    place.add("look", "@yearly", inner)
    daemon = place.daemon(through=("/bin/sh", "-c", line, "sh"))

    place.client.run_now("look")
    ended = daemon.wait_for("ended", schedule="look")

    output = place.client.output(ended["run"])
    assert output is not None
    words = b"".join(chunk.content for chunk in output.chunks).split()
    # The fourth descriptor is the folder that ls itself reads.
    assert words[:4] == [b"0", b"1", b"2", b"3"]
    assert words[4::2] == [b"SigBlk:", b"SigIgn:"]
    # 32 and 33 belong to the C library.
    assert [int(word, 16) & ~(0b11 << 31) for word in words[5::2]] == [0, 0]


HOST = """
import json, os, signal, subprocess, sys, threading
from pathlib import Path
from edgecron.base.clock import SystemClock
from edgecron.engine.events import EventKind
from edgecron.engine.host import EngineHost

def kept(number, frame):
    pass

signal.signal(signal.SIGCHLD, kept)
if sys.argv[2] == "threads":
    threading.Thread(target=threading.Event().wait, name="other", daemon=True).start()
early = subprocess.Popen(["/bin/sh", "-c", "exit 5"])
# It has ended, and nobody has asked for its code yet.
os.waitid(os.P_PID, early.pid, os.WEXITED | os.WNOWAIT)
ends = []

def report(event):
    if event.kind is EventKind.ENDED:
        ends.append(event)
        if len(ends) == 10:
            late.stdin.close()
        if len(ends) == 20:
            host.loop.stop()

host = EngineHost(Path(sys.argv[1]), clock=SystemClock(), report=report)
late = subprocess.Popen(["/bin/sh", "-c", "read go; exit 6"], stdin=subprocess.PIPE)
host.loop.run()
host.close()
os.waitid(os.P_PID, late.pid, os.WEXITED | os.WNOWAIT)
children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
print(json.dumps({
    "runs": len(ends),
    "strangers": sorted(set(map(int, children)) - {early.pid, late.pid}),
    "codes": [early.wait(), late.wait()],
    "is_handler_kept": signal.getsignal(signal.SIGCHLD) is kept,
}))
"""


@pytest.mark.failure(35)
@pytest.mark.parametrize("kind", ["alone", "threads"])
def test_an_engine_leaves_its_host_s_children_to_it_and_no_zombie(place: Place, kind: str) -> None:
    for number in range(20):
        place.add(f"job-{number}", "@yearly", f"exit {number}")
        place.client.run_now(f"job-{number}")

    host = subprocess.run(
        [sys.executable, "-c", HOST, str(place.database), kind],
        capture_output=True,
        timeout=2 * BOUND_S,
        check=False,
    )

    assert host.returncode == 0, host.stderr.decode()
    codes = [place.runs(f"job-{number}")[0].exit_code for number in range(20)]
    assert codes == list(range(20))
    assert json.loads(host.stdout) == {
        "runs": 20,
        "strangers": [],
        "codes": [5, 6],
        "is_handler_kept": True,
    }


@pytest.mark.failure(42)
def test_a_run_goes_on_when_the_thread_that_ran_its_engine_has_ended(place: Place) -> None:
    place.add("long", "@yearly", f"{place.gate.line}; exit 7")
    place.client.run_now("long")
    jobs: list[int] = []

    def work() -> None:
        host = EngineHost(place.database, clock=SystemClock(), report=lambda event: None)
        host.engine.step()
        jobs.append(place.gate.wait_arrival())
        host.close()

    thread = threading.Thread(target=work, name="engine")
    thread.start()
    thread.join(BOUND_S)
    [job] = jobs
    watch = os.pidfd_open(job)
    supervisor = parent_of(job)
    goes_on = not ends(watch, bound_s=0)
    place.gate.open()
    daemon = place.daemon()
    ended = daemon.wait_for("ended", schedule="long")

    assert goes_on
    assert supervisor not in (1, os.getpid())
    assert (ended["status"], ended["exit_code"]) == ("failed", 7)
    os.close(watch)
