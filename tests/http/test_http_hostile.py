"""Clients that mean no good, over real sockets: they are answered or cut off, and others served.

Each ends within its bound, no answer is a 500, and no thread or connection is left of them.
"""

from __future__ import annotations

import random
import select
import socket
import string
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from edgecron.http.access import Limits
from tests.support.http import Api, serving

TOKEN = "a-word-that-nobody-guesses"
LIMITS = Limits(head_s=0.4, body_s=0.4, unread_s=0.4, connections=20)
BOUND_S = 10.0
HOST = b"Host: 127.0.0.1\r\n"
PUT = b"PUT /api/v1/schedules/a HTTP/1.1\r\nContent-Type: application/json\r\n" + HOST
LIST = b"GET /api/v1/schedules HTTP/1.1\r\n"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serving(tmp_path_factory.mktemp("open") / "edge.db", limits=LIMITS) as api:
        yield api


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("closed")
    with serving(folder / "edge.db", token=TOKEN, limits=LIMITS) as api:
        yield api


def connect(api: Api) -> socket.socket:
    return socket.create_connection(("127.0.0.1", api.port), timeout=BOUND_S)


def say(api: Api, content: bytes) -> bytes:
    """All that is answered until the connection ends."""
    with closing(connect(api)) as link:
        with suppress(OSError):  # It was cut off: what was answered is there to be read.
            link.sendall(content)
        return hear(link)


def hear(link: socket.socket) -> bytes:
    heard = b""
    try:
        while part := link.recv(65536):
            heard += part
    except ConnectionResetError:
        pass
    return heard


def is_cut_off(link: socket.socket, act: Callable[[], object], *, pause_s: float = 0) -> bool:
    """Whether what is done again and again fails at last, within a bound, for it was hung up.

    Between two acts it is waited for that, `pause_s` at most: by the end of the connection itself.
    """
    until_s = time.monotonic() + BOUND_S
    poller = select.poll()
    poller.register(link, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    while time.monotonic() < until_s:
        try:
            act()
        except TimeoutError:
            return False
        except OSError:
            return True
        poller.poll(pause_s * 1000)
    return False


def status_of(heard: bytes) -> int | None:
    """The status that was answered, None where the connection was cut off without one."""
    return int(heard.split(b" ", 2)[1]) if heard.startswith(b"HTTP/1.1 ") else None


@pytest.mark.parametrize(
    "content",
    [b"", b"G", b"GET /healthz HTTP/1.1\r\nHos", b"POST / HTTP/1.1\r\n" + HOST],
)
def test_a_head_that_does_not_end_is_not_waited_for(api: Api, content: bytes) -> None:
    assert status_of(say(api, content)) in (None, 408)


def test_a_head_that_comes_letter_by_letter_is_not_waited_for(api: Api) -> None:
    with closing(connect(api)) as link:
        link.sendall(LIST + HOST)
        assert is_cut_off(link, lambda: link.sendall(b"X"), pause_s=0.02)


def test_a_second_head_is_not_waited_for_either(api: Api) -> None:
    heard = say(api, b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\nGET /heal")

    assert heard.count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 100\r\n\r\n{",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\n{\r\n",
        b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n",
    ],
)
def test_a_body_that_does_not_end_is_not_waited_for(api: Api, body: bytes) -> None:
    heard = say(api, PUT + body)

    assert status_of(heard.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").lstrip()) == 408


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (PUT + b"Content-Length: 2000000\r\n\r\n{", 413),
        (PUT + b"Content-Length: 9999999999999999999\r\n\r\n{", 413),
        (PUT + b"Content-Length: 99999999999999999999999\r\n\r\n{", 400),
        (
            PUT
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 20,
            413,
        ),
        (LIST + HOST + b"X: " + b"x" * 100_000 + b"\r\n\r\n", None),
        (LIST + HOST + b"".join(b"X-%d: 1\r\n" % number for number in range(5000)) + b"\r\n", None),
        (b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
        (LIST[:-11] + b"?" + b"a=b&" * 4000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", None),
    ],
)
def test_what_is_too_large_is_refused(api: Api, content: bytes, status: int | None) -> None:
    found = status_of(say(api, content))

    # A head that comes in one piece is told so; of one in pieces the rest is not read.
    assert found == status if status is not None else found in (400, 414, 431)


@pytest.mark.parametrize(
    "line",
    [
        b"GET /healthz HTTP/1.1\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n",
        b"GET  /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"GET /healthz\r\n",
        b"GET /he\x00althz HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n",
        PUT + b"Content-Length: 2\r\nContent-Length: 3\r\n",
        PUT + b"Content-Length: -1\r\n",
        PUT + b"Content-Length: 2\r\nTransfer-Encoding: chunked, chunked\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n",
    ],
)
def test_what_is_no_http_is_told_so_or_cut_off(api: Api, line: bytes) -> None:
    assert status_of(say(api, line + b"\r\n")) in (400, 421, None)


@pytest.mark.parametrize("body", [b"0\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\n"])
def test_two_lengths_of_a_body_are_refused_and_the_connection_ends(api: Api, body: bytes) -> None:
    lengths = b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"

    heard = say(api, PUT + lengths + body + LIST + HOST + b"\r\n")

    assert status_of(heard) == 400
    assert heard.count(b"HTTP/1.1 ") == 1
    assert b"Content-Length and Transfer-Encoding" in heard
    assert b"connection: close" in heard.lower()


def test_garbage_is_never_a_defect_of_ours(api: Api) -> None:
    chance = random.Random(8745)
    contents = []
    for _ in range(400):
        content = bytearray(PUT + b"Content-Length: 19\r\n\r\n" + b'{"timezone": "UTC"}')
        for _ in range(chance.randint(1, 6)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        contents.append(bytes(content))

    with ThreadPoolExecutor(10) as crowd:
        statuses = Counter(crowd.map(lambda content: status_of(say(api, content)), contents))

    print(f"garbage: {dict(statuses)}")
    assert not [status for status in statuses if status is not None and status >= 500], statuses
    assert api.get("/healthz").status == 200


PATHS = [
    "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/v1/schedules/%2e%2e%2f%2e%2e",
    "/api/v1/schedules/%00", "/api/v1/schedules/a%00", "/api/v1/schedules/a%0d%0aX:%20y",
    "/api/v1/schedules//", "//api/v1/schedules", "/api//v1/schedules", "/api/v1/schedules/.",
    "/api/v1/schedules/%ff%fe", "/api/v1/schedules/%ed%a0%80", "/api/v1/schedules/%",
    "/api/v1/schedules/%zz", "/api/v1/schedules/a;b=c", "/api/v1/schedules/a%2fruns",
    "/api/v1/runs/-1", "/api/v1/runs/1e3", "/api/v1/runs/%D9%A1", "/api/v1/runs/0x10",
    "/api/v1/runs/1%00", "/api/v1/runs?before=%D9%A1", "/api/v1/runs?status=%00",
    "/api/v1/runs?limit=99999999999999999999999", "/api/v1/schedules?after=%ff",
    "/API/V1/schedules", "/healthz/", "/api/v1/schedules%20", "/api/v1/status/__class__",
    "/api/v1/runs/%2e%2e", "http://evil.example/api/v1/schedules", "*",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_paths_that_lead_nowhere_are_told_so(api: Api, method: str, path: str) -> None:
    line = f"{method} {path} HTTP/1.1\r\nConnection: close\r\n".encode()

    heard = say(api, line + HOST + b"\r\n")

    assert status_of(heard) in (400, 404, 405)
    assert b'{"error":' in heard


def test_a_thousand_wrong_tokens_let_nobody_in(closed: Api) -> None:
    chance = random.Random(1)
    tokens = ["".join(chance.choices(string.ascii_letters, k=26)) for _ in range(200)]
    tokens += [
        TOKEN[:-1],
        TOKEN + "a",
        TOKEN.upper(),
        f" {TOKEN}x",
        "\xff",
        "",
        "null",
        "undefined",
    ]
    head = LIST + HOST
    statuses = set()
    with closing(connect(closed)) as link:
        for token in tokens * 5:
            link.sendall(head + f"Authorization: Bearer {token}\r\n\r\n".encode("latin-1"))
            heard = link.recv(65536)
            while b"}}" not in heard:
                heard += link.recv(65536)
            statuses.add(status_of(heard))

    assert statuses == {401}
    assert closed.get("/api/v1/schedules").status == 200


def test_silent_clients_do_not_keep_others_out_for_long(api: Api) -> None:
    with ExitStack() as stack:
        links = [stack.enter_context(closing(connect(api))) for _ in range(60)]
        refused = [hear(link) for link in links]

    assert {status_of(heard) for heard in refused} <= {None, 503}
    assert api.get("/healthz").status == 200


def test_a_client_that_does_not_read_is_cut_off(api: Api) -> None:
    document = b"GET /api/v1/openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
    with closing(socket.socket()) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(BOUND_S)
        link.connect(("127.0.0.1", api.port))
        assert is_cut_off(link, lambda: link.sendall(document * 10))


def test_all_at_once_others_are_still_served(api: Api) -> None:
    def crowd(act: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=act)
        thread.start()
        return thread

    def ask_slowly() -> None:
        for _ in range(3):
            say(api, PUT + b"Content-Length: 100\r\n\r\n{")

    threads = [crowd(ask_slowly) for _ in range(8)]
    served = [api.get("/healthz").status for _ in range(50)]
    for thread in threads:
        thread.join(BOUND_S)

    print(f"served beside 24 slow bodies: {served.count(200)} of {len(served)}")
    assert set(served) == {200}


def test_a_crowd_leaves_nothing_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = set(threading.enumerate())
    with serving(tmp_path / "edge.db", limits=LIMITS) as api:
        for content in (b"GET", PUT + b"Content-Length: 9\r\n\r\n", b"\x00" * 100):
            with closing(connect(api)) as link:
                link.sendall(content)
        assert api.get("/healthz").status == 200

    assert not [each for each in set(threading.enumerate()) - before if each.is_alive()]
    assert caplog.records == []


@pytest.mark.parametrize(
    "path",
    [
        "schedules/a/outlook?upcoming=1000000000000",
        "standings?limit=1000000000000",
        "waiting-runs?limit=-1",
        f"runs/1/chunks?position={2**63}",
    ],
)
def test_a_number_that_would_cost_memory_or_time_is_refused(api: Api, path: str) -> None:
    answer = api.ask("GET", f"/api/v1/{path}")

    assert answer.status in (400, 422)
    assert "expected a" in answer.json["error"]["message"]
