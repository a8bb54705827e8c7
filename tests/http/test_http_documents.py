"""Documents over HTTP: time zones that are absent or null, payloads as JSON values, and POST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgecron.client import Client
from tests.support.http import Api, serving

ALL = "/api/v1/schedules"
ONE = f"{ALL}/backup"
PLAIN: dict[str, Any] = {"cron": "0 2 * * *", "command": ["true"]}
NO_ZONES: list[dict[str, Any]] = [{}, {"timezone": None}]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "edge.db"


@pytest.fixture
def api(database: Path) -> Iterator[Api]:
    with serving(database) as api:
        yield api


@pytest.mark.parametrize("zone", NO_ZONES)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_schedule_without_a_zone_is_in_utc_and_says_so(
    api: Api, method: str, zone: dict[str, Any]
) -> None:
    path, name = (ONE, {}) if method == "PUT" else (ALL, {"name": "backup"})

    told = api.ask(method, path, PLAIN | zone | name)

    assert told.status == 201
    assert told.json["timezone"] == told.json["document"]["timezone"] == "UTC"
    assert told.json["next_plan_at"].endswith("T02:00:00Z")


def test_null_clears_the_zone_in_patch_and_an_absent_one_stays(api: Api) -> None:
    api.ask("PUT", ONE, PLAIN | {"timezone": "Asia/Tokyo"})

    absent = api.ask("PATCH", ONE, {"description": "nightly"})
    cleared = api.ask("PATCH", ONE, {"timezone": None})

    assert [told.status for told in (absent, cleared)] == [200, 200]
    assert absent.json["timezone"] == "Asia/Tokyo"
    assert cleared.json["timezone"] == cleared.json["document"]["timezone"] == "UTC"
    assert cleared.json["next_plan_at"].endswith("T02:00:00Z")


@pytest.mark.parametrize("zone", NO_ZONES)
def test_a_time_without_a_zone_is_in_utc(api: Api, zone: dict[str, Any]) -> None:
    api.ask("PUT", ONE, PLAIN | {"timezone": "Asia/Tokyo"})

    moved = api.ask("POST", f"{ONE}/reschedule", {"time": "2098-06-01 12:00"} | zone)
    paused = api.ask("POST", f"{ONE}/pause", {"until": "2098-06-01 09:00"} | zone)

    assert (moved.status, moved.json["next_run_at"]) == (200, "2098-06-01T12:00:00Z")
    assert (paused.status, paused.json["paused_until"]) == (200, "2098-06-01T09:00:00Z")


@pytest.mark.parametrize(
    "payload", [{"size": 3}, [1.0, None], "text", '{"size": 3}', 0, False, 1.0, "", {}]
)
def test_a_payload_is_one_json_value_wherever_it_is_sent(
    api: Api, database: Path, payload: object
) -> None:
    made = api.ask("POST", ALL, PLAIN | {"name": "made", "payload": payload}).json
    put = api.ask("PUT", ONE, PLAIN | {"payload": payload}).json
    patched = api.ask("PATCH", f"{ALL}/made", {"payload": payload}).json
    [fired] = api.ask("POST", f"{ONE}/fire", {"payload": payload}).json["runs"]

    for shown in (made, put, patched):
        assert shown["payload"] == shown["document"]["payload"] == payload
    assert fired["payload"] == api.get(f"/api/v1/runs/{fired['id']}").json["payload"] == payload
    with Client(database) as client:
        kept = [client.schedule(name).spec.job.payload for name in ("made", "backup")]
        texts = [*kept, client.execution(fired["id"]).payload]
    assert [json.loads(text or "") for text in texts] == [payload] * 3
    assert all(text == json.dumps(payload) for text in texts)


def test_a_payload_is_merged_by_patch_and_cleared_by_null(api: Api) -> None:
    api.ask("PUT", ONE, PLAIN | {"payload": {"size": 3, "host": "plc1"}})

    merged = api.ask("PATCH", ONE, {"payload": {"size": 4}}).json
    cleared = api.ask("PATCH", ONE, {"payload": None}).json
    put = api.ask("PUT", ONE, PLAIN | {"payload": None}).json

    assert merged["payload"] == {"size": 4, "host": "plc1"}
    for shown in (cleared, put):
        assert shown["payload"] is None
        assert "payload" not in shown["document"]


def test_a_document_with_a_payload_can_be_put_as_it_stands(api: Api) -> None:
    read = api.ask("PUT", ONE, PLAIN | {"payload": {"size": 3.0}}).json

    told = api.ask("PUT", ONE, read["document"])

    assert (told.status, told.json["revision"]) == (200, read["revision"])


@pytest.mark.failure(58)
def test_post_makes_a_schedule_and_never_changes_one(api: Api) -> None:
    document = PLAIN | {"name": "backup", "timezone": "Europe/Berlin"}

    made = api.ask("POST", ALL, document)
    again = api.ask("POST", ALL, document | {"description": "other"})

    assert (made.status, made.headers["location"]) == (201, ONE)
    assert made.headers["etag"] == api.get(ONE).headers["etag"]
    assert (again.status, again.error["code"]) == (409, "already_exists")
    assert "description" not in api.get(ONE).json["document"]


@pytest.mark.parametrize(
    ("document", "status"),
    [
        (PLAIN, 400),
        (PLAIN | {"name": "7"}, 400),
        (PLAIN | {"name": "backup", "tz": "UTC"}, 400),
        (PLAIN | {"name": "backup", "timezone": "Mars/Olympus"}, 400),
        (PLAIN | {"name": "backup", "cron": "0 25 * * *"}, 422),
    ],
)
def test_post_makes_nothing_of_what_it_can_not_read(
    api: Api, document: dict[str, Any], status: int
) -> None:
    told = api.ask("POST", ALL, document)

    assert told.status == status
    assert api.get(ALL).json["schedules"] == []


@pytest.mark.parametrize("opening", ['{"payload": ' + '{"a": ' * 700, '{"payload": ' + "[" * 700])
def test_a_body_with_too_many_levels_is_refused(api: Api, opening: str) -> None:
    api.ask("PUT", ONE, PLAIN)
    closing = "".join("}" if letter == "{" else "]" for letter in opening if letter in "[{")
    body = (opening + "1" + closing[::-1]).encode()

    told = api.ask("PATCH", ONE, body)

    assert (told.status, told.error["code"]) == (400, "not_json")


def test_a_request_of_another_form_is_told_the_right_one(api: Api) -> None:
    method = api.ask("PATCH", ALL, PLAIN)
    missing = api.ask("POST", ALL)
    broken = api.ask("POST", ALL, b"{,}")
    time = api.get("/api/v1/runs?since=yesterdayish")

    assert (method.status, method.error["message"]) == (405, "this path does not support PATCH")
    assert "it supports GET, HEAD, POST; " in method.error["hint"]
    assert "Content-Type: application/json" in missing.error["hint"]
    assert broken.error["hint"] == 'for example: {"every": "1h", "command": ["true"]}'
    assert "such as 2026-11-20T08:00:00Z" in time.error["message"]


def test_a_document_needs_permission_for_an_interval_under_a_second(api: Api) -> None:
    fast = {"every": "250ms", "command": ["true"]}

    refused = api.ask("PUT", ONE, fast)
    made = api.ask("PUT", ONE, fast | {"allow_fast": True})
    changed = api.ask("PATCH", ONE, {"timeout": "5s"})

    assert refused.status == 422
    assert refused.error["problems"][0]["key"] == "every"
    assert "less than a second" in refused.error["problems"][0]["message"]
    assert made.status == 201
    assert made.json["document"]["allow_fast"] is True
    assert changed.status == 200
    assert changed.json["document"] == made.json["document"] | {"timeout": "5s"}
