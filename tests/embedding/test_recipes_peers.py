"""The example programs of APScheduler and huey, written for edgecron: each runs.

Their web examples are the recipes of `help web` and `help django`. No counterpart have the examples
for gevent, Twisted's own reactor and Qt (see `help compared`), and those for stores on servers.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "tests" / "recipes" / "peers"
BOUND_S = 60.0


Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(RECIPES, tmp_path / "peers", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "peers"


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start a program; it is killed at the end of the test if it still runs."""
    started: list[subprocess.Popen[str]] = []

    def begin(name: str) -> subprocess.Popen[str]:
        program = subprocess.Popen(
            [sys.executable, name],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(program)
        return program

    yield begin
    for program in started:
        program.kill()
        program.communicate()


def next_line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().rstrip("\n")


def interrupt(program: subprocess.Popen[str]) -> str:
    """End a program as Ctrl+C does; return what it printed since."""
    program.send_signal(signal.SIGINT)
    printed, _ = program.communicate(timeout=BOUND_S)
    assert program.returncode == 0
    return printed


@pytest.mark.parametrize("name", ["background", "blocking", "asyncio", "processpool"])
def test_programs_tick_until_they_are_interrupted(start: Start, name: str) -> None:
    program = start(f"aps_{name}.py")

    tick = next_line(program)
    printed = interrupt(program)

    assert tick.startswith("tick")
    assert printed.endswith("ended\n")


def test_an_alarm_survives_the_end_of_its_program(start: Start) -> None:
    first = start("aps_alarm.py")
    assert next_line(first).startswith("set")
    first.kill()
    first.communicate(timeout=BOUND_S)

    second = start("aps_alarm.py")
    assert next_line(second).startswith("set")
    alarms = {next_line(second), next_line(second)}
    interrupt(second)

    assert len(alarms) == 2
    assert all(alarm.startswith("alarm that was set at 20") for alarm in alarms)


def test_another_process_adds_and_removes_a_schedule(start: Start) -> None:
    server = start("aps_rpc_server.py")
    client = start("aps_rpc_client.py")

    printed, _ = client.communicate(timeout=BOUND_S)
    greeting = next_line(server)
    interrupt(server)

    assert (greeting, printed, client.returncode) == ("hello, world", "removed\n", 0)


@pytest.mark.parametrize(
    ("name", "typed", "printed"),
    [
        (
            "simple",
            "7\n",
            "beans? counted 7 beans\ndone in attempt 3\n[0.1, 0.1, 0.1]\n[0.1, 0.2, 0.3]\n",
        ),
        ("mini", "", "3\n30\n"),
        ("synchronize", "", "find 10\ncount 10\n"),
        ("queues", "", "counted 7 beans\nreported\n"),
    ],
)
def test_programs_of_huey_print_their_results(
    folder: Path, name: str, typed: str, printed: str
) -> None:
    done = subprocess.run(
        [sys.executable, f"huey_{name}.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )

    assert (done.stdout, done.returncode) == (printed, 0), done.stderr
