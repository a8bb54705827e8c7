"""`logs -f` and `run --wait` of a server that ends and is back: nothing is lost or done twice."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from edgecron.base.errors import ServerLost
from edgecron.client.remote import RemoteClient
from edgecron.client.remote_connection import Connector
from edgecron.client.remote_link import ServerWait, read_server
from edgecron.model.choices import Overlap, Status
from tests.support.engines import Place
from tests.support.http import serving
from tests.support.processes import BOUND_S, Daemon, Gate
from tests.support.program import PROGRAM
from tests.support.remote import GOOD, answer_of, answering


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
    """`logs -f` of a server, the real program."""
    with program(url, "logs", "-f", *words) as process:
        yield process


@contextmanager
def program(url: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The real program; ended where it does not end within the bound."""
    process = subprocess.Popen(
        [*PROGRAM, "--url", url, *words],
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


def test_what_changes_something_is_asked_again_where_nobody_can_have_heard_it(
    place: Place,
) -> None:
    url = f"unix:{place.database.with_name('far.sock')}"
    place.add("job", "every 1d", "true")
    daemons = [served(place, url)]
    told: list[str] = []

    def tell(words: str) -> None:
        told.append(words.rpartition(" ")[2])
        if len(told) == 1:
            daemons.append(served(place, url))

    with RemoteClient(Connector(read_server(url), wait=ServerWait(tell))) as client:
        assert len(client.schedules()) == 1
        daemons[0].stop()
        [run] = client.run_now("job")

    assert told == ["back", "again"]
    assert [one.id for one in place.runs("job")] == [run.id]


def test_what_changes_something_is_not_asked_again_where_it_may_have_been_heard() -> None:
    told: list[str] = []
    heard: list[bytes] = []

    def hear(link: socket.socket) -> None:
        heard.append(link.recv(65_536))
        link.sendall(answer_of(GOOD))
        heard.append(link.recv(65_536))

    with answering(hear) as url:
        lines = Connector(read_server(url), wait=ServerWait(told.append))
        with RemoteClient(lines) as client:
            client.count_schedules()
            with pytest.raises(ServerLost, match="it is unknown whether the server did it"):
                client.cancel(5)

    assert told == []
    assert [words.split()[1].rpartition(b"/")[2] for words in heard] == [
        b"status?only=counts",
        b"cancel",
    ]


def test_who_waits_no_more_is_told_that_the_server_is_lost(tmp_path: Path) -> None:
    told: list[str] = []
    with serving(tmp_path / "edge.db") as api:
        server = read_server(f"http://127.0.0.1:{api.port}")
        lines = Connector(server, wait=ServerWait(told.append, is_on=lambda: False))
        client = RemoteClient(lines)
        assert client.schedules() == []

    with client, pytest.raises(ServerLost):
        client.schedules()

    assert told == []


@pytest.mark.parametrize("is_killed", [False, True], ids=["ended", "killed"])
def test_a_run_is_waited_for_when_its_server_is_back_and_run_once(
    place: Place, second_gate: Gate, *, is_killed: bool
) -> None:
    url = f"unix:{place.database.with_name('far.sock')}"
    line = f"echo one; {place.gate.line}; echo two; {second_gate.line}; echo three; exit 7"
    place.add("slow", "every 1d", line)
    first = served(place, url)
    with program(url, "run", "slow", "--wait") as waiting:
        assert read_line(waiting) == "one\n"
        place.gate.wait_arrival()

        if is_killed:
            first.kill()
        else:
            first.stop()
        read_words(waiting, until="waiting until it is back")
        place.gate.open()
        second_gate.wait_arrival()
        served(place, url)
        read_words(waiting, until="answers again")
        assert read_line(waiting) == "two\n"
        second_gate.open()

        rest, _ = waiting.communicate(timeout=BOUND_S)
    assert (rest, waiting.returncode) == ("three\n", 7)
    assert [run.exit_code for run in place.runs("slow")] == [7]


def test_a_run_that_waits_for_its_place_is_waited_for_across_an_end_of_the_server(
    place: Place,
) -> None:
    url = f"unix:{place.database.with_name('far.sock')}"
    place.add("slow", "every 1d", f"{place.gate.line}; echo done")
    place.client.edit(
        "slow",
        lambda spec: replace(spec, policies=replace(spec.policies, overlap=Overlap.QUEUE)),
    )
    first = served(place, url)
    place.client.run_now("slow")
    place.gate.wait_arrival()
    with program(url, "run", "slow", "--wait") as waiting:
        read_words(waiting, until="waits")
        first.stop()
        read_words(waiting, until="waiting until it is back")
        served(place, url)
        read_words(waiting, until="answers again")
        place.gate.open()
        place.gate.wait_arrival()
        place.gate.open()

        rest, _ = waiting.communicate(timeout=BOUND_S)
    assert (rest, waiting.returncode) == ("done\n", 0)
    assert [run.status for run in place.runs("slow")] == [Status.SUCCESS] * 2


def test_who_gives_up_waiting_for_a_server_is_told_that_the_run_may_go_on(place: Place) -> None:
    url = f"unix:{place.database.with_name('far.sock')}"
    place.add("slow", "every 1d", f"echo one; {place.gate.line}")
    first = served(place, url)
    with program(url, "run", "slow", "--wait") as waiting:
        assert read_line(waiting) == "one\n"
        first.stop()
        read_words(waiting, until="waiting until it is back")

        waiting.send_signal(signal.SIGINT)
        _, words = waiting.communicate(timeout=BOUND_S)
    place.gate.open()
    [run] = place.runs("slow")
    assert waiting.returncode == 130
    assert (
        f"run {run.id} was requested and might still be active: edgecron --url {url} show" in words
    )
    assert "Traceback" not in words
