"""A run whose answer is lost on its way: it is asked for again, and run once."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC
from pathlib import Path

import pytest

from edgecron.base.clock import ServerTime, SystemClock
from edgecron.base.errors import (
    NotFound,
    QueryInterrupted,
    ServerLost,
    ServerUnavailable,
    ServerUnheard,
)
from edgecron.client import Client
from edgecron.client.remote import RemoteClient
from edgecron.client.remote_connection import Connector
from edgecron.client.remote_link import ServerWait, read_server
from edgecron.model.choices import Overlap
from edgecron.tui.actions import Actions, act_on_each
from tests.support.engines import Place
from tests.support.http import Api, api_of, serving
from tests.support.newdatabases import new_database
from tests.support.processes import BOUND_S
from tests.support.program import PROGRAM
from tests.support.relays import LosingRelay
from tests.support.remote import answer_of, answering, said
from tests.support.servers import wait_until
from tests.support.specs import make_spec

ASKED = b"/fire "
NOT_KNOWN = "it is unknown whether the server did it"
SCOPES = (("device", "a"), ("device", "b"))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with Client(new_database(tmp_path / "edge.db")) as client:
        client.add(make_spec("job", "@yearly", scopes=SCOPES, overlap=Overlap.ALLOW))
    return tmp_path / "edge.db"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little time for what is asked again."""
    monkeypatch.setattr("edgecron.client.remote_connection.REPEAT_MS", 300)


@pytest.fixture
def api(database: Path) -> Iterator[Api]:
    with serving(database) as api:
        yield api


def client_of(url: str) -> RemoteClient:
    """A client that knows the server's time already."""
    time = ServerTime(SystemClock())
    time.note(SystemClock().now_ms())
    return RemoteClient(Connector(read_server(url)), time=time)


def all_ids(database: Path) -> list[int]:
    with Client(database) as client:
        return sorted(run.id for run in client.history(limit=1000))


@pytest.mark.parametrize("times", [1, 2])
def test_the_answer_that_was_lost_is_asked_for_again(api: Api, database: Path, times: int) -> None:
    with LosingRelay(api.port, word=ASKED, times=times) as relay, client_of(relay.url) as client:
        runs = client.run_now("job", payload='{"n": 1}')

    assert relay.lost == times
    assert [run.id for run in runs] == all_ids(database) == [1, 2]
    assert [run.payload for run in runs] == ['{"n": 1}'] * 2


def test_each_wish_has_a_key_of_its_own(api: Api, database: Path) -> None:
    with LosingRelay(api.port, word=ASKED, times=2) as relay, client_of(relay.url) as client:
        told = [[run.id for run in client.run_now("job")] for _ in range(2)]

    assert told == [[1, 2], [3, 4]]
    assert all_ids(database) == [1, 2, 3, 4]


@pytest.mark.usefixtures("soon")
def test_who_waits_for_servers_that_end_asks_again_for_as_long(api: Api, database: Path) -> None:
    told: list[str] = []
    with LosingRelay(api.port, word=ASKED, times=5) as relay:
        lines = Connector(read_server(relay.url), wait=ServerWait(told.append))
        with RemoteClient(lines) as client:
            client.take_over()
            runs = client.run_now("job")

    assert relay.lost == 5
    assert [run.id for run in runs] == all_ids(database) == [1, 2]
    assert told == [
        f"{relay.url} does not answer; waiting until it is back",
        f"{relay.url} answers again",
    ]


def test_the_dashboard_s_run_is_run_once(place: Place) -> None:
    place.add("job", "every 1d", "true")
    api = api_of(place.daemon("--http", "127.0.0.1:0"))
    with LosingRelay(api.port, word=ASKED, times=1) as relay, client_of(relay.url) as client:
        # Its engine is quick: the run has ended, as a rule, before it is heard of.
        report = act_on_each(client, ["job"], Actions.run_now, zone=UTC, progress=lambda *_: True)

    assert relay.lost == 1
    assert (report.done, report.failed) == (1, 0), report
    assert [run.id for run in place.runs("job")] == [1]


@pytest.mark.parametrize("words", [(), ("--wait",)])
def test_the_command_line_s_run_is_run_once(place: Place, words: tuple[str, ...]) -> None:
    place.add("job", "every 1d", "echo done")
    api = api_of(place.daemon("--http", "127.0.0.1:0"))
    with LosingRelay(api.port, word=ASKED, times=1) as relay:
        ended = subprocess.run(
            [*PROGRAM, "--url", relay.url, "run", "job", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=BOUND_S,
        )

    assert relay.lost == 1
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("done\n" if words else "run 1 of job: ")
    assert [run.id for run in place.runs("job")] == [1]


def test_a_server_that_is_lost_when_the_run_was_asked_for_makes_no_error_of_it(api: Api) -> None:
    with LosingRelay(api.port, word=b"GET /api/v1/schedules/", times=1000) as relay:
        ended = subprocess.run(
            [*PROGRAM, "--url", relay.url, "run", "job"],
            capture_output=True,
            text=True,
            check=False,
            timeout=BOUND_S,
        )

    assert relay.lost > 0
    assert ended.stdout.startswith("run 1 of job: ")
    assert "the run is queued, but its state is unknown" in ended.stderr
    assert ended.returncode == 0


@pytest.mark.parametrize("words", [(), ("--wait",)])
def test_who_breaks_off_a_run_that_was_asked_for_is_told_that_nobody_knows(
    place: Place, words: tuple[str, ...]
) -> None:
    place.add("job", "every 1d", "echo done")
    api = api_of(place.daemon("--http", "127.0.0.1:0"))
    with LosingRelay(api.port, word=ASKED, times=1000) as relay:
        asking = subprocess.Popen(
            [*PROGRAM, "--url", relay.url, "run", "job", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: relay.lost > 1, lambda: "that it is asked again")
        asking.send_signal(signal.SIGINT)
        _, told = asking.communicate(timeout=BOUND_S)

    assert NOT_KNOWN in told
    assert asking.returncode == 130


@pytest.mark.usefixtures("soon")
def test_where_every_answer_is_lost_it_is_said_that_nobody_knows(api: Api, database: Path) -> None:
    with (
        LosingRelay(api.port, word=ASKED, times=1000) as relay,
        client_of(relay.url) as client,
        pytest.raises(ServerLost, match=NOT_KNOWN),
    ):
        client.run_now("job")

    assert relay.lost > 1
    assert all_ids(database) == [1, 2]


@pytest.mark.usefixtures("soon")
def test_a_server_that_is_gone_after_a_lost_answer_may_have_done_it() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def hear_and_go() -> None:
        link, _ = listener.accept()
        with link, listener:
            link.recv(65_536)

    thread = threading.Thread(target=hear_and_go)
    thread.start()
    with (
        client_of(f"http://127.0.0.1:{listener.getsockname()[1]}") as client,
        pytest.raises(ServerLost, match=NOT_KNOWN) as caught,
    ):
        client.run_now("job")
    thread.join()

    assert not isinstance(caught.value, ServerUnheard)


def test_what_surely_was_not_heard_is_said_at_once(tmp_path: Path) -> None:
    with (
        client_of(f"unix:{tmp_path}/no.sock") as client,
        pytest.raises(ServerUnheard),
    ):
        client.run_now("job")


def fault(kind: str, message: str, *, status: str) -> bytes:
    told = {"code": "x", "type": kind, "hint": None, "message": message}
    return answer_of(json.dumps({"error": told}).encode(), status=status)


def test_a_server_of_another_version_is_asked_once_and_has_done_nothing() -> None:
    refusal = fault("ServerUnavailable", "they do not understand each other", status="409 Conflict")
    with (
        answering(said(refusal)) as url,
        client_of(url) as client,
        pytest.raises(ServerUnavailable, match=r"each other$") as caught,
    ):
        client.run_now("job")

    assert not isinstance(caught.value, ServerLost)


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (fault("NotFound", "there is no schedule", status="404 Not Found"), NotFound),
        (fault("ServerUnavailable", "another version", status="409 Conflict"), ServerUnavailable),
        (answer_of(b"<html>", status="404 Not Found"), ServerUnavailable),
    ],
)
def test_what_is_refused_after_a_lost_answer_may_have_been_done(
    refusal: bytes, kind: type[Exception]
) -> None:
    with (
        answering(said(b""), said(refusal)) as url,
        client_of(url) as client,
        pytest.raises(ServerLost, match=NOT_KNOWN) as caught,
    ):
        client.run_now("job")

    assert isinstance(caught.value.__cause__, kind)


def test_whoever_waits_to_ask_again_can_be_broken_off() -> None:
    asked = threading.Event()

    def lose(link: socket.socket) -> None:
        link.recv(65_536)
        asked.set()

    with answering(lose) as url, client_of(url) as client:

        def interrupt() -> None:
            asked.wait(10)
            client.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(QueryInterrupted):
            client.run_now("job")
        thread.join()
