"""One connection to a server: what comes over it, and what does not."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from edgecron.base.clock import ServerTime, SystemClock
from edgecron.base.errors import (
    AccessRefused,
    InvalidInput,
    MalformedCall,
    NotSupported,
    QueryInterrupted,
    ServerLost,
    ServerUnavailable,
    ServerUnheard,
)
from edgecron.base.files import read_token
from edgecron.client import Client
from edgecron.client.plain_forms import error_object
from edgecron.client.remote import RemoteClient
from edgecron.client.remote_connection import Connector
from edgecron.client.remote_link import judge, read_server
from edgecron.client.resources import RESOURCES, Resource, resource_types
from tests.support.http import serving
from tests.support.remote import GOOD, answer_of, answering, asked_over_http, said
from tests.support.specs import make_spec

NOW, HOUR = datetime(2026, 1, 5, tzinfo=UTC), timedelta(hours=1)
TOKEN = "a-word-that-nobody-guesses"


def client_of(url: str, *, token: str | None = None) -> RemoteClient:
    return RemoteClient(Connector(read_server(url), token=token))


def test_a_connection_is_kept_for_the_next_question() -> None:
    with answering(said(answer_of(GOOD), answer_of(GOOD))) as url, client_of(url) as client:
        assert client.count_schedules() == (1, 0, 0)
        assert client.count_schedules() == (1, 0, 0)


def test_a_connection_that_the_server_has_given_up_is_opened_anew() -> None:
    once = said(answer_of(GOOD))

    with answering(once, once) as url, client_of(url) as client:
        assert client.count_schedules() == (1, 0, 0)
        assert client.count_schedules() == (1, 0, 0)


def test_what_is_read_is_asked_again_where_the_connection_ends_in_between() -> None:
    def hear_twice(link: socket.socket) -> None:
        link.recv(65_536)
        link.sendall(answer_of(GOOD))
        link.recv(65_536)

    with answering(hear_twice, said(answer_of(GOOD))) as url, client_of(url) as client:
        assert client.count_schedules() == (1, 0, 0)
        assert client.count_schedules() == (1, 0, 0)


def test_a_question_after_an_interrupt_gets_an_answer_of_its_own() -> None:
    def interrupt_while_asked(link: socket.socket) -> None:
        link.recv(65_536)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        link.recv(65_536)

    with (
        answering(interrupt_while_asked, said(answer_of(GOOD))) as url,
        client_of(url) as client,
    ):
        with pytest.raises(KeyboardInterrupt):
            client.count_schedules()

        assert client.count_schedules() == (1, 0, 0)


def test_what_changes_something_is_asked_once() -> None:
    def hear_twice(link: socket.socket) -> None:
        link.recv(65_536)
        link.sendall(answer_of(GOOD))
        link.recv(65_536)

    with answering(hear_twice) as url, client_of(url) as client:
        client.count_schedules()
        with pytest.raises(ServerUnavailable, match="it is unknown whether the server did it"):
            client.cancel(5)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\n" + GOOD[:5] + b"\r\n" + f"{len(GOOD) - 5:x}".encode() + b";x=1\r\n"
        b"" + GOOD[5:] + b"\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n" + GOOD,
        b"HTTP/1.1 100 Continue\r\n\r\n" + answer_of(GOOD),
        answer_of(GOOD, more="Connection: close\r\n"),
    ],
)
def test_an_answer_may_come_in_every_form(answer: bytes) -> None:
    with answering(said(answer)) as url, client_of(url) as client:
        assert client.count_schedules() == (1, 0, 0)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"220 mail.example ESMTP\r\n\r\n", "does not speak HTTP"),
        (b"x" * 70_000, "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "can't be read"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", "too large"),
        (answer_of(b"<html>", status="200 OK"), "can't be read"),
        (answer_of(b"<html>", status="404 Not Found"), "is not an edgecron"),
        (answer_of(b'{"value":[1],"now_ms":1}'), "can't be read"),
        (answer_of(GOOD)[:-5], "closed within an answer"),
        (b"", "without an answer"),
    ],
)
def test_what_is_no_answer_of_ours_is_told_as_that(answer: bytes, told: str) -> None:
    with (
        answering(said(answer)) as url,
        client_of(url) as client,
        pytest.raises(ServerUnavailable, match=told),
    ):
        client.count_schedules()


def test_nobody_at_an_address_is_told_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = client_of(f"http://127.0.0.1:{port}")

    with pytest.raises(ServerUnavailable, match="connection refused") as caught:
        client.schedules()

    assert "edgecron daemon --http" in (caught.value.hint or "")
    with pytest.raises(ServerUnavailable, match="can't be reached"):
        client_of("unix:/nowhere/edge.sock").schedules()


def test_an_interrupt_ends_the_question_that_is_being_answered() -> None:
    heard, may_end = threading.Event(), threading.Event()

    def hear(link: socket.socket) -> None:
        link.recv(65_536)
        heard.set()
        may_end.wait(10)

    with answering(hear, said(answer_of(GOOD))) as url, client_of(url) as client:
        client.interrupt()  # Nothing is asked yet.

        def interrupt() -> None:
            heard.wait(10)
            client.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(QueryInterrupted):
            client.count_schedules()
        thread.join()
        may_end.set()
        assert client.count_schedules() == (1, 0, 0)


@pytest.mark.parametrize("length", ["", "Content-Length: 20000000\r\n"])
def test_an_interrupt_ends_an_answer_after_which_the_server_closes(length: str) -> None:
    is_read, may_end = threading.Event(), threading.Event()

    def begin_to_answer(link: socket.socket) -> None:
        link.recv(65_536)
        link.sendall(f"HTTP/1.1 200 OK\r\nConnection: close\r\n{length}\r\n".encode())
        link.sendall(b" " * 16_000_000)  # More than the kernel holds: the client reads it.
        is_read.set()
        may_end.wait(10)

    with answering(begin_to_answer) as url, client_of(url) as client:

        def interrupt() -> None:
            is_read.wait(10)
            client.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(QueryInterrupted):
            client.count_schedules()
        thread.join()
        may_end.set()


def test_the_token_is_wanted_and_is_never_told(tmp_path: Path) -> None:
    with serving(tmp_path / "edge.db", token=TOKEN) as api:
        url = f"http://127.0.0.1:{api.port}"

        with client_of(url, token=TOKEN) as client:
            assert client.schedules() == []
        with client_of(url) as client, pytest.raises(AccessRefused, match="needs a token"):
            client.schedules()
        with (
            client_of(url, token=f"{TOKEN}-not") as client,
            pytest.raises(AccessRefused, match="the token is wrong") as caught,
        ):
            client.schedules()

    assert TOKEN not in f"{caught.value} {caught.value.hint}"


def test_who_is_another_user_there_is_told_so_and_not_that_a_token_is_missing() -> None:
    body = b'{"error": {"code": "other_user", "message": "it answers user 1 alone", "hint": "x"}}'

    with pytest.raises(AccessRefused, match="refused access: it answers user 1 alone") as caught:
        judge("http://127.0.0.1:1", status=403, body=body, has_token=False, is_write=False)

    assert caught.value.hint is not None
    assert "start the daemon with a token" in caught.value.hint


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)

    with pytest.raises(InvalidInput, match="is open to others"):
        read_token(str(file))

    file.chmod(0o600)
    assert read_token(str(file)) == TOKEN


def test_a_resource_that_a_server_does_not_know_yet_is_told_as_one_of_an_older_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = RESOURCES["imported"]._replace(path="/later")
    with asked_over_http(tmp_path / "edge.db") as client:
        monkeypatch.setitem(cast("dict[str, Resource]", RESOURCES), "imported", later)
        resource_types.cache_clear()
        try:
            with pytest.raises(ServerUnavailable, match="has nothing at this path") as caught:
                client.imported()
        finally:
            resource_types.cache_clear()

    assert "use the same version on both machines" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        (
            "timeline",
            lambda client: client.timeline([1], from_at=NOW, until_at=NOW + HOUR, cells=4),
        ),
        ("acknowledged", lambda client: client.acknowledged([1])),
        ("acknowledge", lambda client: client.acknowledge(1, "exit", 1)),
    ],
)
def test_an_older_server_lacks_a_view_and_the_others_work(
    name: str,
    ask: Callable[[RemoteClient], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = RESOURCES[name]._replace(path="/later")
    with asked_over_http(tmp_path / "edge.db") as client:
        monkeypatch.setitem(cast("dict[str, Resource]", RESOURCES), name, later)
        resource_types.cache_clear()
        try:
            with pytest.raises(NotSupported, match="the server is older: it has no"):
                ask(client)
        finally:
            resource_types.cache_clear()

        assert client.count_schedules() == (0, 0, 0)


def test_the_week_of_an_older_server_is_counted_without_the_limit() -> None:
    refusal = MalformedCall("a parameter is 'most_per_hour', expected one of: zone")
    refused = json.dumps({"error": error_object(refusal)}).encode()
    week = {"first_day": "2026-01-05", "counts": [[0] * 24] * 7, "schedules": 2}
    requests = []

    def answer(link: socket.socket) -> None:
        for one in (
            answer_of(refused, status="400 Bad Request"),
            answer_of(json.dumps(week).encode()),
        ):
            requests.append(link.recv(65_536).split()[1])
            link.sendall(one)
        link.recv(1)

    with answering(answer) as url, client_of(url) as client:
        [heat] = client.week_heat("UTC", most_per_hour=12)

    assert heat is not None
    assert heat.schedules == 2
    assert requests == [b"/api/v1/week?zone=UTC&most_per_hour=12", b"/api/v1/week?zone=UTC"]


def test_an_older_server_yields_all_fires_of_each_schedule() -> None:
    refused = json.dumps(
        {"error": {"code": "unknown_parameter", "message": "parameter 'each' is unknown here"}}
    ).encode()
    requests = []

    def answer(link: socket.socket) -> None:
        for one in (
            answer_of(refused, status="400 Bad Request"),
            answer_of(json.dumps({"fires": []}).encode()),
        ):
            requests.append(link.recv(65_536).split()[1])
            link.sendall(one)
        link.recv(1)

    with answering(answer) as url, client_of(url) as client:
        assert list(client.next_fires(most_each=2)) == []

    first, second = (request.partition(b"?")[2] for request in requests)
    assert first == second + b"&each=2"


def test_a_change_is_told_without_asking_again(tmp_path: Path) -> None:
    with asked_over_http(tmp_path / "edge.db") as client, Client(tmp_path / "edge.db") as other:
        mark = client.change_mark()
        assert client.change_mark() == mark

        other.add(make_spec("backup"))
        tries = 0
        while client.change_mark() == mark:
            tries += 1
            assert tries < 100
            threading.Event().wait(0.05)


def look_until_it_fails(client: RemoteClient) -> None:
    """About 5 s: a server that ends lets go of all who are connected, at once."""
    for _ in range(100):
        client.change_mark()
        threading.Event().wait(0.05)


def test_a_server_that_is_lost_is_noticed(tmp_path: Path) -> None:
    with serving(tmp_path / "edge.db") as api:
        client = client_of(f"http://127.0.0.1:{api.port}")
        mark = client.change_mark()
        assert client.change_mark() == mark

    with client, pytest.raises(ServerUnavailable):
        look_until_it_fails(client)


def test_distances_are_told_by_the_clock_of_the_other_machine() -> None:
    time = ServerTime(SystemClock())
    client = RemoteClient(Connector(read_server("http://127.0.0.1:1")), time=time)

    time.note(1_000_000)

    assert 1_000_000 <= time.now_ms() < 1_060_000
    assert client.now().year == 1970


@pytest.mark.parametrize(
    ("text", "host", "port", "base"),
    [
        ("http://pi:8745", "pi", 8745, ""),
        ("http://[::1]:8745/edge/", "::1", 8745, "/edge"),
        ("https://jobs.example", "jobs.example", 443, ""),
        ("HTTP://127.0.0.1:80", "127.0.0.1", 80, ""),
    ],
)
def test_an_address_is_read(text: str, host: str, port: int, base: str) -> None:
    server = read_server(text)

    assert (server.host, server.port, server.base) == (host, port, base)


@pytest.mark.parametrize(
    "text",
    [
        *("pi:8745", "ftp://pi", "http://", "http://pi:0", "http://pi:99999", "unix:"),
        *("http://me:secret@pi", "http://pi?x=1", "http://pi#x", "http://pi\r\nX: y", ""),
    ],
)
def test_what_is_no_address_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_server(text)

    assert "secret" not in str(caught.value)


def test_what_travels_in_the_open_is_known() -> None:
    assert read_server("http://pi:8745").is_open
    for url in ("http://127.0.0.1:1", "http://localhost", "https://pi", "unix:/run/e.sock"):
        assert not read_server(url).is_open


@pytest.mark.parametrize(("is_write", "is_known"), [(True, False), (False, True)])
def test_what_a_proxy_gave_up_waiting_for_may_have_been_done(
    is_write: bool, is_known: bool
) -> None:
    with pytest.raises(ServerLost) as caught:
        judge("http://pi", status=504, body=b"<html>", has_token=True, is_write=is_write)

    assert ("it is unknown whether the server did it" not in caught.value.message) is is_known


@pytest.mark.parametrize(("is_write", "is_known"), [(True, False), (False, True)])
def test_what_a_server_ends_as_it_stops_may_have_been_done(is_write: bool, is_known: bool) -> None:
    body = b'{"error":{"code":"interrupted","message":"what was asked was interrupted"}}'

    with pytest.raises(ServerLost) as caught:
        judge("http://pi", status=503, body=body, has_token=True, is_write=is_write)

    assert ("it is unknown whether the server did it" not in caught.value.message) is is_known
    assert not isinstance(caught.value, ServerUnheard)


def test_what_a_server_refuses_to_begin_with_was_not_done() -> None:
    body = b'{"error":{"code":"overloaded","message":"the server is stopping"}}'

    with pytest.raises(ServerUnheard, match="the server is stopping"):
        judge("http://pi", status=503, body=body, has_token=True, is_write=True)
