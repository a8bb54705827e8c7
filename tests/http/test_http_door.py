"""Who is let in, and what they are told who are not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.client import Client
from tests.support.http import Api, serving

TOKEN = "a-word-that-nobody-guesses"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serving(tmp_path_factory.mktemp("open") / "edge.db") as api:
        yield api


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serving(tmp_path_factory.mktemp("closed") / "edge.db", token=TOKEN) as api:
        yield api


def test_a_healthy_database_says_so_and_no_more(api: Api) -> None:
    told = api.get("/healthz")

    assert told.status == 200
    assert told.json == {"database": "ok", "engine": "none"}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8745", "127.0.0.1.evil.example"])
def test_a_site_that_points_its_name_here_is_refused(api: Api, host: str) -> None:
    told = api.get("/healthz", Host=host)

    assert told.status == 421
    assert told.error["code"] == "wrong_host"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_page_of_another_site_may_ask_nothing(
    api: Api, method: str, headers: dict[str, str]
) -> None:
    told = api.ask(method, "/healthz", headers=headers)

    assert told.status == 403
    assert told.error["code"] == "wrong_origin"


def test_no_answer_lets_a_browser_read_it_elsewhere(api: Api) -> None:
    told = api.ask("GET", "/healthz", headers={"Origin": f"http://127.0.0.1:{api.port}"})

    assert told.status == 200
    assert not [name for name in told.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"]
)
def test_a_token_that_is_set_is_asked_for_on_this_machine_too(
    closed: Api, given: str | None
) -> None:
    headers = {} if given is None else {"Authorization": given}

    told = Api(closed.port).ask("GET", "/api/v1/schedules", headers=headers)

    assert told.status == 401
    assert told.error["code"] == "unauthorized"
    assert told.headers["www-authenticate"].startswith("Bearer")


def test_the_right_token_lets_in_under_any_name(closed: Api) -> None:
    assert closed.get("/nowhere", Host="box.example").status == 404


def test_whatever_watches_the_machine_needs_no_token(closed: Api) -> None:
    assert Api(closed.port).get("/healthz").status == 200


def test_a_body_that_is_not_said_to_be_json_is_refused(api: Api) -> None:
    told = api.ask("POST", "/healthz", b"{}", headers={"Content-Type": "text/plain"})

    assert told.status == 415


def test_what_nobody_asks_leaves_no_thread_and_no_connection(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    Client(database).store.close()
    with serving(database) as api:
        assert api.get("/healthz").status == 200
        workers = [each for each in threading.enumerate() if "worker" in each.name]
        for worker in workers:
            worker.join(10)

        assert workers
        assert not [each for each in workers if each.is_alive()]
        assert api.get("/healthz").status == 200
