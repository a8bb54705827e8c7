"""A server without a token on a machine with other users: whom it answers, and what."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from edgecron.base.errors import InvalidInput
from edgecron.http.access import Limits
from edgecron.http.serving import (
    Audience,
    HttpService,
    TcpPlace,
    UnixPlace,
    check_served,
    find_audience,
)
from edgecron.http.serving import Place as Address
from tests.support.accounts import as_root
from tests.support.engines import Place
from tests.support.http import Api, api_of, serving, url_of
from tests.support.otherusers import DAEMON, NOBODY, ask_as, holding_as, say_as
from tests.support.relays import relaying

ALL = "/api/v1/schedules"
ONE = "/api/v1/schedules/planted"
JOB = {"cron": "0 2 * * *", "timezone": "UTC", "shell": "id"}
_BODY = json.dumps(JOB).encode()
PUT = (
    f"PUT {ONE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    f"Connection: close\r\nContent-Length: {len(_BODY)}\r\n\r\n"
).encode() + _BODY


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place where nobody is allowed to change anything: one for all."""
    with ExitStack() as stack:
        yield Place(tmp_path_factory.mktemp("quiet"), stack)


@pytest.fixture(scope="module")
def api(quiet: Place) -> Api:
    return api_of(quiet.daemon("--http", "127.0.0.1:0"))


def url(api: Api, path: str, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{api.port}{path}"


def test_this_user_is_answered_without_a_token_and_is_told_who_is_not(place: Place) -> None:
    daemon = place.daemon("--http", "127.0.0.1:0")
    api = api_of(daemon)
    assert daemon.process.stderr is not None
    said = daemon.process.stderr.readline().decode()

    assert api.ask("PUT", ONE, JOB).status == 201
    whom = "root" if os.geteuid() == 0 else "you and root"
    assert f"without a token, only {whom} can use it" in said


@as_root
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ALL),
        ("PUT", ONE),
        ("POST", f"{ONE}/fire"),
        ("POST", "/api/v1/specifications"),
        ("GET", "/api/v1/openapi.json"),
        ("GET", "/nowhere"),
        ("POST", "/metrics"),
        ("DELETE", "/healthz"),
        ("GET", "/metrics/../api/v1/schedules"),
        ("GET", "//healthz"),
        ("GET", "/healthz/"),
        ("GET", "/%68ealthz/..%2fapi"),
        ("OPTIONS", "*"),
    ],
)
def test_another_user_may_ask_nothing(quiet: Place, api: Api, method: str, path: str) -> None:
    words = ("-X", method, "--path-as-is", "--request-target", path)
    heard = ask_as(NOBODY, url(api, "/"), *words, body=JOB if method != "GET" else None)

    assert heard.status == 403
    assert heard.error["code"] == "other_user"
    assert f"the request is from user {NOBODY}" in heard.error["message"]
    assert "--token-file FILE" in heard.error["hint"]
    assert not any(quiet.client.count_schedules())


@as_root
@pytest.mark.parametrize("words", [(), ("--head",)])
@pytest.mark.parametrize("path", ["/healthz", "/metrics"])
def test_what_watches_the_machine_as_another_user_is_told_how_it_is(
    api: Api, path: str, words: tuple[str, ...]
) -> None:
    assert ask_as(NOBODY, url(api, path), *words).status == 200


@as_root
def test_another_user_has_one_answer_for_each_connection(quiet: Place, api: Api) -> None:
    health = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    heard = say_as(NOBODY, api.port, health + PUT)

    assert heard.count("HTTP/1.1 ") == heard.count("HTTP/1.1 200 ") == 1
    assert "connection: close" in heard
    assert not any(quiet.client.count_schedules())


@as_root
@pytest.mark.parametrize("uid", [0, NOBODY])
@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("127.0.0.1", ("--interface", "127.1.2.3")),
        ("[::ffff:127.0.0.1]", ("-H", "Host: 127.0.0.1")),
    ],
)
def test_whoever_comes_from_another_address_of_this_machine_is_who_he_is(
    api: Api, uid: int, host: str, words: tuple[str, ...]
) -> None:
    heard = ask_as(uid, url(api, ALL, host), *words)

    assert heard.status == (200 if uid == 0 else 403)


@as_root
@pytest.mark.parametrize("uid", [0, NOBODY])
def test_ipv6_tells_users_apart_as_well(place: Place, uid: int) -> None:
    daemon = place.daemon("--http", "[::1]:0")
    port = int(url_of(daemon).rpartition(":")[2])

    assert ask_as(uid, url(Api(port), ALL, "[::1]")).status == (200 if uid == 0 else 403)


@as_root
def test_another_user_who_sends_and_closes_at_once_has_changed_nothing(
    place: Place, api: Api
) -> None:
    for _ in range(20):
        say_as(NOBODY, api.port, PUT, hears=False)
    before = api.get(ALL).json["schedules"]  # It came after them all, and is answered after them.
    heard = say_as(0, api.port, PUT)

    assert before == []
    assert heard.startswith("HTTP/1.1 201 ")


@as_root
@pytest.mark.parametrize(("asks", "status"), [(0, 404), (NOBODY, 404), (DAEMON, 403)])
def test_a_server_of_another_user_answers_that_one_and_root(
    tmp_path: Path, asks: int, status: int
) -> None:
    with serving(tmp_path / "edge.db") as loaded:  # of what that user may be unable to read
        assert loaded.get("/nothing").status == 404
    service = HttpService(Path("/nowhere/edge.db"), TcpPlace("127.0.0.1", 0), token=None)
    try:
        os.seteuid(NOBODY)
        try:
            service.start()
        finally:
            os.seteuid(0)
        heard = ask_as(asks, f"{service.url}/nothing")
    finally:
        service.close()

    assert heard.status == status


@as_root
def test_a_relay_is_the_user_that_it_runs_as(api: Api) -> None:
    # As a tunnel of ssh, whose far end is a process of the user who has logged in there.
    with relaying(api.port) as port:
        assert ask_as(NOBODY, url(Api(port), ALL)).status == 200


@as_root
def test_a_socket_that_another_user_has_made_stays_that_user_s(api: Api) -> None:
    with closing(socket.socket()) as link:
        # As if it had been handed to root. The server asks whose it is when it accepts it.
        os.fchown(link.fileno(), NOBODY, -1)
        link.connect(("127.0.0.1", api.port))
        link.sendall(f"GET {ALL} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

        assert link.recv(100).startswith(b"HTTP/1.1 403 ")


@as_root
def test_another_user_who_holds_all_that_he_can_keeps_nobody_out(place: Place) -> None:
    api = api_of(place.daemon("--http", "127.0.0.1:0"))
    place.add("backup", "every 1d", "true")
    with holding_as(NOBODY, api.port, count=100), ExitStack() as stack:
        others = ask_as(DAEMON, url(api, "/healthz"))
        for _ in range(Limits().connections * 2):  # of its own are open besides
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", api.port))))
        listed = api.get(ALL)
        fired = api.ask("POST", "/api/v1/schedules/backup/fire")

    assert (others.status, listed.status, fired.status) == (200, 200, 202)


@as_root
def test_a_token_is_for_whoever_has_it(place: Place, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-word-that-nobody-guesses\n")
    token.chmod(0o600)
    api = api_of(place.daemon("--http", "127.0.0.1:0", "--token-file", str(token)))
    given = ("-H", "Authorization: Bearer a-word-that-nobody-guesses")

    assert ask_as(NOBODY, url(api, ALL), *given).status == 200
    assert ask_as(NOBODY, url(api, "/metrics")).status == 401


@as_root
def test_another_user_s_page_is_refused_by_its_name_first(api: Api) -> None:
    heard = ask_as(NOBODY, url(api, "/metrics"), "-H", "Host: evil.example")

    assert heard.status == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("is_told", [True, False])
def test_where_no_kernel_tells_users_apart_root_serves_nothing_without_a_token(
    tmp_path: Path, host: str, is_told: bool
) -> None:
    address, proc = TcpPlace(host, 8745), Path("/proc") if is_told else tmp_path
    check_served(address, has_token=True, proc=proc)
    check_served(UnixPlace(tmp_path / "x"), has_token=False, proc=proc)

    if is_told or os.geteuid() != 0:
        check_served(address, has_token=False, proc=proc)
        return
    with pytest.raises(InvalidInput, match="could run commands as root") as caught:
        check_served(address, has_token=False, proc=proc)
    assert caught.value.hint is not None
    assert "--token-file FILE; or serve --http unix:" in caught.value.hint


@pytest.mark.parametrize(
    ("address", "has_token", "audience"),
    [
        (TcpPlace("127.0.0.1", 1), True, Audience.TOKEN),
        (UnixPlace(Path("x")), False, Audience.SOCKET),
        (TcpPlace("127.0.0.1", 1), False, Audience.ALL_USERS),
    ],
)
def test_who_is_answered_where_nobody_is_told(
    tmp_path: Path, address: Address, has_token: bool, audience: Audience
) -> None:
    assert find_audience(address, has_token=has_token, proc=tmp_path) is audience
