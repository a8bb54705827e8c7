"""A fire that is sent with an Idempotency-Key: it runs once, whatever becomes of its answer."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.model.choices import Overlap, Reason
from tests.support.http import Api, Told, serving
from tests.support.newdatabases import new_database
from tests.support.specs import make_spec

FIRE = "/api/v1/schedules/backup/fire"
SCOPES = (("device", "a"), ("device", "b"))
BOUND_S = 10.0


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with Client(new_database(tmp_path / "edge.db")) as client:
        client.add(make_spec("backup", "@yearly", overlap=Overlap.ALLOW))
        client.add(make_spec("report", "@yearly"))
        client.add(make_spec("poll", "@yearly", scopes=SCOPES))
    return tmp_path / "edge.db"


@pytest.fixture
def api(database: Path) -> Iterator[Api]:
    with serving(database) as api:
        yield api


def fire(api: Api, key: str, body: object = None, *, path: str = FIRE) -> Told:
    return api.ask("POST", path, body, headers={"Idempotency-Key": key})


def ids(told: Told) -> list[int]:
    assert told.status == 202, told.body
    return [run["id"] for run in told.json["runs"]]


def all_ids(database: Path) -> list[int]:
    with Client(database) as client:
        return sorted(run.id for run in client.history(limit=1000))


def test_the_second_request_is_answered_as_the_first_was(api: Api, database: Path) -> None:
    first = fire(api, "8e03978e", {"payload": {"n": 1}})
    second = fire(api, "8e03978e", {"payload": {"n": 1}})

    assert first.json == second.json
    assert first.headers["location"] == second.headers["location"] == "/api/v1/runs/1"
    assert all_ids(database) == [1]


def test_a_key_means_the_same_in_quotes_as_without(api: Api, database: Path) -> None:
    for bare, quoted in (("k-1", '"k-1"'), ('a"b\\c', r'"a\"b\\c"')):
        assert ids(fire(api, bare)) == ids(fire(api, quoted))

    assert len(all_ids(database)) == 2


def test_keys_of_other_schedules_are_other_keys(api: Api) -> None:
    other = fire(api, "k", path="/api/v1/schedules/report/fire")

    assert ids(fire(api, "k")) != ids(other)


def test_without_a_key_each_request_is_a_run(api: Api, database: Path) -> None:
    for _ in range(2):
        assert api.ask("POST", FIRE).status == 202

    assert len(all_ids(database)) == 2


def test_every_scope_is_in_the_answer_again(api: Api, database: Path) -> None:
    told = [ids(fire(api, "k", path="/api/v1/schedules/poll/fire")) for _ in range(2)]

    assert told == [[1, 2], [1, 2]]
    assert all_ids(database) == [1, 2]


def test_what_overlap_left_out_is_left_out_the_second_time(api: Api, database: Path) -> None:
    fire(api, "first", path="/api/v1/schedules/report/fire")
    first = fire(api, "k", path="/api/v1/schedules/report/fire")
    with Client(database) as client:
        client.cancel(1)
    second = fire(api, "k", path="/api/v1/schedules/report/fire")

    assert [run["reason"] for run in first.json["runs"]] == [Reason.OVERLAP]
    assert first.json == second.json


@pytest.mark.parametrize("body", [None, {"payload": {"n": 2}}, {"payload": None}])
def test_a_key_that_was_given_with_another_payload_is_refused(
    api: Api, database: Path, body: object
) -> None:
    fire(api, "k", {"payload": {"n": 1}})

    told = fire(api, "k", body)

    assert told.status == 422
    assert told.error["code"] == "idempotency_key_reused"
    assert all_ids(database) == [1]


@pytest.mark.parametrize(
    "key", ["", '""', '"', '"a', '"a"b"', '"a\\b"', "é", "a\tb", "k" * 256, f'"{"k" * 256}"']
)
def test_what_is_no_key_is_refused_at_the_door(api: Api, database: Path, key: str) -> None:
    told = fire(api, key)

    assert told.status == 400
    assert told.error["code"] == "wrong_shape"
    assert "header Idempotency-Key is" in told.error["message"]
    assert all_ids(database) == []


@pytest.mark.parametrize("keys", [("a", "b"), ("a", "a"), ('"a"', "")])
def test_two_keys_of_one_request_are_refused(
    api: Api, database: Path, keys: tuple[str, str]
) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", api.port, timeout=BOUND_S)) as connection:
        connection.putrequest("POST", FIRE)
        for key in keys:
            connection.putheader("Idempotency-Key", key)
        connection.endheaders()
        answer = connection.getresponse()
        said = json.loads(answer.read())

    assert answer.status == 400
    assert said["error"]["message"] == "header Idempotency-Key is given twice"
    assert all_ids(database) == []


@pytest.mark.parametrize("key", ["k" * 255, f'"{"k" * 255}"', '"' + '\\"' * 255 + '"', "a b", "~"])
def test_a_key_may_have_255_characters(api: Api, key: str) -> None:
    assert ids(fire(api, key)) == ids(fire(api, key)) == [1]


def test_a_key_outlasts_its_server(database: Path) -> None:
    with serving(database) as api:
        first = ids(fire(api, "k"))
    with serving(database) as api:
        second = ids(fire(api, "k"))

    assert first == second
    assert all_ids(database) == first


def test_requests_with_one_key_at_once_over_two_servers_are_one_run(database: Path) -> None:
    with serving(database) as one, serving(database) as other, ThreadPoolExecutor(8) as crowd:
        told = list(crowd.map(lambda api: ids(fire(api, "k")), [one, other] * 12))

    assert told == [[1]] * 24
    assert all_ids(database) == [1]


def test_who_goes_away_before_the_answer_and_comes_again_finds_the_run_that_he_made(
    api: Api, database: Path
) -> None:
    head = f"POST {FIRE} HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: k\r\n"
    request = f"{head}Content-Length: 0\r\n\r\n".encode()
    with closing(socket.create_connection(("127.0.0.1", api.port), timeout=BOUND_S)) as link:
        link.sendall(request)
        assert link.recv(1) == b"H"  # It is handled, and all that follows is lost.

    assert ids(fire(api, "k")) == all_ids(database) == [1]


def test_the_document_says_what_a_key_is(api: Api) -> None:
    document = api.get("/api/v1/openapi.json").json

    described = document["paths"]["/api/v1/schedules/{name}/fire"]["post"]
    [key] = [one for one in described["parameters"] if one["name"] == "Idempotency-Key"]
    assert (key["in"], key["required"]) == ("header", False)
    assert "as long as the history holds them" in key["description"]
