"""`edgecron daemon --http`, the real program: where it serves, what it refuses, how it ends."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import apsw
import pytest

from edgecron.base import sockets
from edgecron.client import Client
from edgecron.http.serving import TcpPlace, UnixPlace, read_place
from tests.support.engines import Place
from tests.support.http import Api, EventStream, api_of, serving, url_of
from tests.support.processes import parent_of
from tests.support.program import PROGRAM
from tests.support.specs import make_spec

ONE = "/api/v1/schedules/job"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


def daemon(database: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A daemon that ends by itself, at the latest with its stdin, which has ended."""
    return subprocess.run(
        [*PROGRAM, "--db", str(database), "daemon", "--until-eof", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def token_file(folder: Path, content: str = "a-word-that-nobody-guesses\n") -> Path:
    path = folder / "token"
    path.write_text(content)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("where", ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "box.example:80"])
def test_a_place_that_others_reach_needs_a_token(tmp_path: Path, where: str) -> None:
    ended = daemon(tmp_path / "edge.db", "--http", where)

    assert ended.returncode == 2
    assert "--token-file" in ended.stderr
    assert not (tmp_path / "edge.db").exists()


def test_with_a_token_it_is_served_to_others(place: Place, tmp_path: Path) -> None:
    started = place.daemon("--http", "0.0.0.0:0", "--token-file", str(token_file(tmp_path)))
    port = int(url_of(started).rpartition(":")[2])

    assert Api(port).get("/api/v1/schedules").status == 401
    assert Api(port, token="a-word-that-nobody-guesses").get("/api/v1/schedules").status == 200


def test_a_token_that_others_can_read_is_none(tmp_path: Path) -> None:
    path = token_file(tmp_path)
    path.chmod(0o640)

    ended = daemon(tmp_path / "edge.db", "--http", "127.0.0.1:0", "--token-file", str(path))

    assert ended.returncode == 2
    assert "open to others (mode 640)" in ended.stderr


@pytest.mark.parametrize("content", ["", "short", "two words of enough letters"])
def test_what_is_no_token_is_refused(tmp_path: Path, content: str) -> None:
    path = token_file(tmp_path, content)

    ended = daemon(tmp_path / "edge.db", "--http", "--token-file", str(path))

    assert ended.returncode == 2
    assert "holds no token" in ended.stderr


def test_a_token_without_anything_served_is_refused(tmp_path: Path) -> None:
    ended = daemon(tmp_path / "edge.db", "--token-file", "x")

    assert ended.returncode == 2
    assert "give --http" in ended.stderr


@pytest.mark.parametrize("where", ["", "nowhere", "127.0.0.1", "127.0.0.1:70000", "http://x:1"])
def test_what_is_no_place_is_refused(tmp_path: Path, where: str) -> None:
    ended = daemon(tmp_path / "edge.db", "--http", where)

    assert ended.returncode == 2
    assert "expected HOST:PORT or unix:PATH" in ended.stderr


def test_a_place_that_is_taken_ends_the_daemon_at_once(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        ended = daemon(tmp_path / "edge.db", "--http", f"127.0.0.1:{port}")

    assert ended.returncode == 2
    assert f"can't serve at http://127.0.0.1:{port}" in ended.stderr
    with Client(tmp_path / "edge.db") as client:
        assert client.engines() == []


def test_places_are_read_by_number(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"

    assert read_place("8745", database=database) == TcpPlace("127.0.0.1", 8745)
    assert read_place("localhost:1", database=database) == TcpPlace("127.0.0.1", 1)
    assert read_place("[::1]:1", database=database).is_private
    assert not read_place("localhost.example:1", database=database).is_private
    assert read_place("unix:", database=database) == UnixPlace(tmp_path / "edge.db.state/http.sock")


def test_a_missing_package_is_told_with_how_to_install_it(tmp_path: Path) -> None:
    line = (
        "import sys; sys.modules['uvicorn'] = None; from edgecron.cli import run;"
        f" sys.exit(run(['--db', {str(tmp_path / 'edge.db')!r}, 'daemon', '--http']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    assert "[http]'" in ended.stderr


def test_a_daemon_that_serves_nothing_loads_nothing_of_it(tmp_path: Path) -> None:
    line = (
        "import sys; from edgecron.cli import run;"
        f" run(['--db', {str(tmp_path / 'edge.db')!r}, 'daemon', '--until-eof']);"
        " print('loaded', *sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = {name.split(".")[0] for name in ended.stdout.rpartition("loaded ")[2].split()}
    assert not loaded & {"asyncio", "starlette", "uvicorn", "h11"}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=20)
        self._path = path

    def connect(self) -> None:
        self.sock = sockets.connect(self._path, timeout_s=20)


def health_over(path: Path) -> int:
    with closing(UnixConnection(path)) as connection:
        connection.request("GET", "/healthz")
        return connection.getresponse().status


def test_a_unix_socket_is_for_its_owner_alone_and_goes_with_the_daemon(place: Place) -> None:
    path = place.database.with_name("edge.db.state") / "http.sock"
    started = place.daemon("--http", "unix:")
    assert url_of(started) == f"unix:{path}"

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert health_over(path) == 200
    assert started.stop() == 0
    assert not path.exists()


def test_the_socket_of_a_dead_daemon_is_replaced_and_that_of_a_living_one_is_not(
    place: Place, tmp_path: Path
) -> None:
    path = tmp_path / "x.sock"
    killed = place.daemon("--http", f"unix:{path}")
    killed.wait_for("engine_started")
    assert health_over(path) == 200
    killed.kill()
    assert path.exists()

    place.daemon("--http", f"unix:{path}").wait_for("engine_started")
    second = daemon(place.database, "--http", f"unix:{path}")

    assert second.returncode == 2
    assert "can't serve at" in second.stderr
    assert health_over(path) == 200


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("words")

    ended = daemon(tmp_path / "edge.db", "--http", f"unix:{path}")

    assert ended.returncode == 2
    assert path.read_text() == "words"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_daemon_whoever_holds_a_connection(place: Place, number: int) -> None:
    started = place.daemon("--http", "127.0.0.1:0")
    api = api_of(started)
    started.wait_for("engine_started")
    with ExitStack() as stack:
        for content in (b"", b"GET /he", b"PUT /x HTTP/1.1\r\nContent-Length: 9\r\n\r\n"):
            link = stack.enter_context(closing(socket.create_connection(("127.0.0.1", api.port))))
            link.sendall(content)
        begin_s = time.monotonic()
        started.process.send_signal(number)
        code = started.wait_end(bound_s=8)

    assert code == 0
    print(f"ended within {time.monotonic() - begin_s:.2f} s of the signal")


def restart(place: Place, port: int) -> Api:
    return api_of(place.daemon("--http", f"127.0.0.1:{port}"))


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_outlives_a_daemon_does_not_keep_its_port(place: Place, is_killed: bool) -> None:
    place.add("job", "every 1h", place.gate.line)
    started = place.daemon("--http", "127.0.0.1:0")
    api = api_of(started)
    run = api.ask("POST", f"{ONE}/fire").json["runs"][0]["id"]
    place.gate.wait_arrival()

    if is_killed:
        started.kill()
    else:
        started.stop()
    again = restart(place, api.port)

    assert again.get(f"/api/v1/runs/{run}").json["status"] == "running"


def test_an_engine_that_serves_has_another_supervisor_where_its_own_has_died(
    place: Place,
) -> None:
    place.add("job", "every 1h", place.gate.line)
    api = api_of(place.daemon("--http", "127.0.0.1:0"))
    api.ask("POST", f"{ONE}/fire")
    os.kill(parent_of(place.gate.wait_arrival()), signal.SIGKILL)
    api.ask("PATCH", ONE, {"overlap": "allow"})

    told = api.ask("POST", f"{ONE}/fire").json["runs"][0]
    place.gate.wait_arrival()
    place.gate.open()
    with closing(EventStream(api, told["id"])) as stream:
        events = list(stream)

    assert events[-1].told["status"] == "success"


def test_runs_are_fired_from_there_and_their_engine_is_well(place: Place) -> None:
    place.add("job", "every 1h", place.gate.line)
    api = api_of(place.daemon("--http", "127.0.0.1:0"))

    run = api.ask("POST", f"{ONE}/fire").json["runs"][0]
    place.gate.wait_arrival()
    ended = api.ask("POST", f"/api/v1/runs/{run['id']}/cancel")

    assert api.get("/healthz").json == {"database": "ok", "engine": "working"}
    assert ended.status == 202
    assert ended.json["status"] in ("running", "cancelled")


def test_who_finds_the_database_locked_is_told_to_come_again(tmp_path: Path) -> None:
    with Client(tmp_path / "edge.db") as client:
        client.add(make_spec("job"))
    with serving(tmp_path / "edge.db") as api:
        locker = apsw.Connection(str(tmp_path / "edge.db"))
        locker.execute("BEGIN IMMEDIATE")
        try:
            # The lock is still held when the answer comes.
            told = api.ask("PATCH", ONE, {"description": "new"})
            read = api.get(ONE)
        finally:
            locker.close()
        written = api.ask("PATCH", ONE, {"description": "new"})

    assert (told.status, told.error["code"]) == (503, "database_busy")
    assert told.headers["retry-after"] == "1"
    assert (read.status, written.status) == (200, 200)


def test_a_database_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    with serving(database) as api:
        assert api.get("/healthz").status == 200
        for path in tmp_path.glob("edge.db*"):
            if path.is_file():
                path.unlink()

        told = [api.get(path) for path in ("/api/v1/schedules", "/healthz", "/api/v1/schedules")]

        assert [one.status for one in told] == [503, 503, 503]
        assert told[1].json == {"database": "unusable", "engine": "unknown"}
        assert not database.exists()


def test_a_server_that_nobody_asks_sleeps(tmp_path: Path) -> None:
    def turns() -> int:
        """How often the thread that serves has been given the processor."""
        [thread] = [each for each in threading.enumerate() if each.name == "edgecron-http"]
        shown = Path(f"/proc/{os.getpid()}/task/{thread.native_id}/status").read_text()
        return sum(int(line.split()[1]) for line in shown.splitlines() if "ctxt" in line)

    with serving(tmp_path / "edge.db") as api:
        assert api.get("/healthz").status == 200
        for each in threading.enumerate():
            if each.name == "edgecron-http-worker":
                each.join(10)
        before = turns()
        threading.Event().wait(1.0)

        assert turns() - before <= 2
