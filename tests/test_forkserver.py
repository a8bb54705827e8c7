"""Programs that tests start by a fork are what a new interpreter would be."""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.support.forkserver import count_forks, real_starts
from tests.support.processes import Daemon
from tests.support.program import PACKAGE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the server")

VERSION = [*PACKAGE, "--version"]


@pytest.fixture(autouse=True)
def server() -> None:
    """The server has begun, or this machine has none."""
    before = count_forks()
    subprocess.run(VERSION, capture_output=True, check=True)
    if count_forks() == before:
        pytest.skip("this machine, or its kernel, has no server")


def look(pid: int, folder: str) -> dict[str, object]:
    """All that /proc shows of a process, without numbers and without the folder of its test."""
    home = Path(f"/proc/{pid}")

    def read(name: str) -> str:
        return (home / name).read_bytes().decode().replace(folder, "FOLDER")

    def aim(name: str) -> str:
        words = os.readlink(home / name).replace(folder, "FOLDER")
        return re.sub(r"\d+\]$|(?<=engine-)\w+", "", words)

    stat = read("stat").rpartition(")")[2].split()
    status = [
        line
        for line in read("status").splitlines()
        if re.match(
            "Name|Umask|TracerPid|[UG]id|Groups|PPid|Sig|Shd|Cap|NoNew|Secc|Cpus|Threads", line
        )
    ]
    return {
        "words": read("cmdline").split("\0"),
        "variables": sorted(read("environ").split("\0")),
        "descriptors": {fd: aim(f"fd/{fd}") for fd in os.listdir(home / "fd")},
        "folder": aim("cwd"),
        "program": aim("exe"),
        "limits": read("limits"),
        "status": [line for line in status if not line.startswith("SigQ")],
        "group, terminal, niceness": (stat[2] == str(pid), stat[3] == str(pid), stat[4], stat[16]),
        "children": len(read(f"task/{pid}/children").split()),
    }


def test_a_forked_engine_is_in_proc_as_one_that_was_started(tmp_path: Path) -> None:
    seen: list[dict[str, object]] = []
    for how in (nullcontext(), real_starts()):
        folder = tmp_path / str(len(seen))
        folder.mkdir()
        with how:
            daemon = Daemon(folder / "edge.db")
        try:
            daemon.wait_for("engine_started")
            seen.append(look(daemon.process.pid, str(folder)))
        finally:
            daemon.close()

    assert seen[0] == seen[1]


def test_a_forked_program_gets_words_folder_variables_and_streams_of_its_start(
    tmp_path: Path,
) -> None:
    options: dict[str, Any] = {
        "cwd": tmp_path,
        "env": {**os.environ, "EDGECRON_DB": "a ä.db", "TZ": "Asia/Tokyo"},
        "input": b"",
        "capture_output": True,
        "check": False,
    }
    forks = count_forks()
    subprocess.run([*PACKAGE, "add", "a", "--at", "2040-01-01 00:00", "--", "true"], **options)
    forked = subprocess.run([*PACKAGE, "show", "a"], **options)
    wrong = subprocess.run([*PACKAGE, "show", "b"], **options)
    assert count_forks() == forks + 3

    with real_starts():
        real = subprocess.run([*PACKAGE, "show", "a"], **options)
        really_wrong = subprocess.run([*PACKAGE, "show", "b"], **options)
    assert (tmp_path / "a ä.db").exists()
    assert (forked.returncode, forked.stdout, forked.stderr) == (0, real.stdout, b"")
    assert b"2040" in forked.stdout
    assert (wrong.returncode, wrong.stderr) == (3, really_wrong.stderr)


def test_a_forked_program_is_killed_and_waited_for_as_any_child(tmp_path: Path) -> None:
    forks = count_forks()
    daemon = Daemon(tmp_path / "edge.db")
    assert count_forks() == forks + 1
    daemon.wait_for("engine_started")

    daemon.process.send_signal(signal.SIGKILL)
    _, status = os.waitpid(daemon.process.pid, 0)
    daemon.process.returncode = os.waitstatus_to_exitcode(status)
    daemon.close()

    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize(
    "options",
    [
        {"umask": 0o22},
        {"preexec_fn": lambda: None},
        {"close_fds": False},
        {"env": {**os.environ, "PYTHONWARNINGS": "ignore"}},
        {"env": {**os.environ, "LC_ALL": "C"}},
    ],
    ids=["umask", "function", "descriptors", "warnings", "locale"],
)
def test_what_a_fork_can_not_show_is_a_new_interpreter(options: dict[str, Any]) -> None:
    forks = count_forks()

    shown = subprocess.run(VERSION, stdout=subprocess.PIPE, check=True, **options)

    assert count_forks() == forks
    assert shown.stdout.startswith(b"edgecron ")


def test_a_worker_that_has_changed_starts_new_interpreters() -> None:
    forks = count_forks()
    umask = os.umask(0o077)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        subprocess.run(VERSION, stdout=subprocess.DEVNULL, check=True)
        os.umask(umask)
        subprocess.run(VERSION, stdout=subprocess.DEVNULL, check=True)
        signal.signal(signal.SIGHUP, handler)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit[0] - 1, limit[1]))
        subprocess.run(VERSION, stdout=subprocess.DEVNULL, check=True)
    finally:
        os.umask(umask)
        signal.signal(signal.SIGHUP, handler)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert count_forks() == forks

    subprocess.run(VERSION, stdout=subprocess.DEVNULL, check=True)
    assert count_forks() == forks + 1


@pytest.mark.parametrize("name", ["edgecron", "json.py", "sitecustomize.py"])
def test_a_folder_with_modules_of_its_own_starts_a_new_interpreter(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).touch()
    forks = count_forks()

    subprocess.run(VERSION, cwd=tmp_path, capture_output=True, check=True)

    assert count_forks() == forks


_HELD = """
import os, subprocess, sys
from tests.support.forkserver import begin_forking, count_forks, end_forking, fork_programs
begin_forking()
fork_programs(True)
subprocess.run([sys.executable, "-m", "edgecron", "--version"], check=True)
assert count_forks() == 1
child = os.fork()
if child == 0:
    sys.stdin.read()
    os._exit(0)
end_forking()
print("ended")
"""


def test_the_server_ends_although_a_fork_of_the_worker_is_still_there() -> None:
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", _HELD],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        ready, _, _ = select.select([worker.stdout], [], [], 30)
        said = worker.stdout.readline() + worker.stdout.readline() if ready else b""
        worker.stdin.close()

    assert said.endswith(b"ended\n")
