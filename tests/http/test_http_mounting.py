"""The application in somebody else's server: alone, and mounted under a path of another one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from edgecron.client import Client
from edgecron.http import application
from edgecron.http.serving import TcpPlace, bind
from tests.support.http import Api, EventStream
from tests.support.newdatabases import new_database
from tests.support.specs import make_spec


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with Client(new_database(tmp_path / "edge.db")) as client:
        client.add_all([make_spec("backup"), make_spec("report")])
    return tmp_path / "edge.db"


@contextmanager
def served(app: Any) -> Iterator[Api]:
    """An application in uvicorn as it comes, on a thread of this test's."""
    listener = bind(TcpPlace("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Api(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()


def mounted(app: Any) -> Starlette:
    async def home(request: object) -> PlainTextResponse:
        return PlainTextResponse("home")

    return Starlette(routes=[Route("/", home), Mount("/jobs", app)])


def test_under_a_path_all_links_lead_there(database: Path) -> None:
    app = application(database)
    with served(mounted(app)) as api:
        home = api.get("/")
        page = api.get("/jobs/api/v1/schedules?limit=1")
        following = api.get(page.json["next"])
        made = api.ask("PUT", "/jobs/api/v1/schedules/new", following.json["schedules"][0])
        document = api.get("/jobs/api/v1/openapi.json").json
    app.close()

    assert home.body == b"home"
    assert page.json["next"] == "/jobs/api/v1/schedules?limit=1&after=backup"
    assert following.json["schedules"][0]["name"] == "report"
    assert made.status == 400  # What is listed is no document.
    assert document["servers"] == [{"url": "/jobs"}]


def test_a_token_of_the_mounted_one_is_its_own(database: Path) -> None:
    app = application(database, token="a-word-that-nobody-guesses")
    with served(mounted(app)) as api:
        assert api.get("/").status == 200
        assert api.get("/jobs/healthz").status == 200
        assert api.get("/jobs/api/v1/schedules").status == 401
    app.close()


def test_names_that_a_site_is_served_under_can_be_given(database: Path) -> None:
    with served(application(database, hosts=["box.example"])) as api:
        assert api.get("/healthz", Host="box.example").status == 200
        assert api.get("/healthz").status == 421


def test_it_asks_through_the_client_that_it_is_given(database: Path) -> None:
    made: list[Client] = []

    def opened() -> Client:
        made.append(Client(database, busy_wait_s=0.1))
        return made[-1]

    with served(application(opened)) as api:
        assert api.get("/api/v1/schedules/backup").json["name"] == "backup"

    assert len(made) == 1


def test_the_end_of_its_server_ends_its_streams_and_threads(database: Path) -> None:
    with Client(database) as client:
        [run] = client.run_now("backup")
    before = set(threading.enumerate())
    with served(application(database)) as api:
        stream = EventStream(api, run.id)
        assert next(iter(stream)).told["status"] == "queued"

    with closing(stream):
        assert [each for each in set(threading.enumerate()) - before if each.is_alive()] == []


def test_what_was_closed_says_that_it_is_stopping(database: Path) -> None:
    app = application(database)
    with served(app) as api:
        app.close()
        told = api.get("/api/v1/schedules")

    assert told.status == 503
    assert told.headers["retry-after"] == "1"
