"""Why a schedule ran or did not, and its statistics, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgecron.http.openapi import ANSWERS
from tests.support.http import Api, serving

ONE = "/api/v1/schedules/backup"
NIGHTLY: dict[str, Any] = {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "command": ["true"]}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "edge.db"


@pytest.fixture
def api(database: Path) -> Iterator[Api]:
    with serving(database) as api:
        api.ask("PUT", ONE, NIGHTLY)
        run = api.ask("POST", f"{ONE}/fire").json["runs"][0]["id"]
        assert run == 1
        api.ask("POST", f"/api/v1/runs/{run}/cancel")
        yield api


def test_why_explains_the_last_run_and_the_next(api: Api) -> None:
    told = api.get(f"{ONE}/why").json

    assert told["verdict"] == "now"
    assert "Run 1" in told["answer"]
    assert "02:00:00" in told["answer"]
    assert [run["id"] for run in told["runs"]] == [1]
    assert told["outlook"] is not None
    assert told.keys() <= ANSWERS["Why"]["properties"].keys()


def test_why_explains_a_time_and_a_run(api: Api) -> None:
    time = api.get(f"{ONE}/why?at=2040-01-01T02:30:00Z").json
    run = api.get("/api/v1/runs/1/why").json

    assert (time["verdict"], time["at"]) == ("no_time", "2040-01-01T02:30:00Z")
    assert time["next_at"] == "2040-01-02T01:00:00Z"
    assert (run["verdict"], run["runs"][0]["id"]) == ("recorded", 1)
    assert "Run 1" in run["answer"]
    assert set(ANSWERS["Why"]["required"]) <= run.keys() & time.keys()


def test_what_does_not_exist_has_no_explanation(api: Api) -> None:
    assert api.get("/api/v1/schedules/nothing/why").status == 404
    assert api.get("/api/v1/schedules/nothing/stats").status == 404
    assert api.get("/api/v1/runs/99/why").status == 404
    assert api.get(f"{ONE}/why?at=soon").status == 400


def test_statistics_have_the_fields_of_the_command_line(api: Api) -> None:
    every = api.get("/api/v1/stats").json["stats"]
    one = api.get(f"{ONE}/stats?trend=true&since=2026-01-01T00:00:00Z").json["stats"]

    assert [told["schedule"] for told in every] == ["backup", None]
    assert [told["cancelled"] for told in every] == [1, 1]
    assert one[0]["since_at"] == "2026-01-01T00:00:00Z"
    assert one[0].keys() == ANSWERS["ScheduleStats"]["properties"].keys()
