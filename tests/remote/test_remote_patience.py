"""`logs -f --url` and a server that ends and comes back: nothing is lost, nothing comes twice."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from edgecron.errors import ServerLost
from edgecron.remote.client import HttpLines, RemoteClient
from edgecron.remote.patience import PatientLines
from edgecron.remote.places import read_server
from support.engines import Place
from support.http import serving
from support.processes import BOUND_S, Daemon, Gate
from support.program import PROGRAM


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


@pytest.fixture
def second_gate(tmp_path: Path) -> Iterator[Gate]:
    folder = tmp_path / "second"
    folder.mkdir()
    with closing(Gate(folder)) as gate:
        yield gate


@contextmanager
def following(url: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`logs -f` of a server, the real program; ended where it does not end within the bound."""
    process = subprocess.Popen(
        [*PROGRAM, "--url", url, "logs", "-f", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(BOUND_S, process.kill)
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def read_words(process: subprocess.Popen[str], *, until: str) -> list[str]:
    """What it says on stderr, up to a line with these words."""
    assert process.stderr is not None
    found = []
    for line in process.stderr:
        found.append(line)
        if until in line:
            return found
    raise AssertionError(f"never said {until!r}: {found}")


def served(place: Place, url: str) -> Daemon:
    daemon = place.daemon("--http", url)
    daemon.wait_for("engine_started")
    return daemon


@pytest.mark.parametrize("is_killed", [False, True], ids=["ended", "killed"])
def test_a_run_is_followed_on_when_its_server_is_back(
    place: Place, second_gate: Gate, *, is_killed: bool
) -> None:
    url = f"unix:{place.database.with_name('far.sock')}"
    line = f"echo one; {place.gate.line}; echo two; {second_gate.line}; echo three"
    place.add("slow", "every 1d", line)
    first = served(place, url)
    [run] = place.client.run_now("slow")
    with following(url, str(run.id)) as follower:
        assert read_line(follower) == "one\n"
        place.gate.wait_arrival()

        if is_killed:
            first.kill()
        else:
            first.stop()
        lost = read_words(follower, until="waiting until it is back")
        place.gate.open()
        second_gate.wait_arrival()  # It has printed on while nobody served it.
        served(place, url)
        back = read_words(follower, until="answers again")
        assert read_line(follower) == "two\n"
        second_gate.open()

        rest, words = follower.communicate(timeout=BOUND_S)
    assert (rest, follower.returncode) == ("three\n", 0)
    assert (len(lost), len(back)) == (1, 1)
    assert "succe" in words


def test_runs_of_a_schedule_are_followed_on_when_its_server_is_back(place: Place) -> None:
    url = f"unix:{place.database.with_name('far.sock')}"
    place.add("job", "every 1d", "echo $EDGECRON_RUN_ID")
    first = served(place, url)
    with following(url, "job") as follower:
        read_words(follower, until="waiting for its first run")
        first.stop()
        read_words(follower, until="waiting until it is back")
        served(place, url)
        [run] = place.client.run_now("job")

        assert read_line(follower) == f"{run.id}\n"


def test_a_server_that_never_answered_is_not_waited_for(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*PROGRAM, "--url", f"unix:{tmp_path}/no", "logs", "-f", "job"],
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )

    assert (ended.returncode, ended.stdout) == (5, "")
    assert "can't be reached" in ended.stderr


def test_what_changes_something_is_not_asked_again(tmp_path: Path) -> None:
    told: list[str] = []
    with serving(tmp_path / "edge.db") as api:
        server = read_server(f"http://127.0.0.1:{api.port}")
        client = RemoteClient(PatientLines(HttpLines(server), tell=told.append))
        assert client.schedules() == []

    with client, pytest.raises(ServerLost):
        client.cancel(1)

    assert told == []
