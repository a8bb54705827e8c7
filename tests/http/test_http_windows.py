"""Windows, excepted days and calendars over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from edgecron.client import Client
from tests.support.http import Api, serving

ONE = "/api/v1/schedules/backup"
HOURLY: dict[str, Any] = {"cron": "0 * * * *", "timezone": "UTC", "command": ["true"]}
DAY = "BEGIN:VEVENT\r\nUID:1\r\nDTSTART;VALUE=DATE:{day}\r\nEND:VEVENT\r\n"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serving(tmp_path / "edge.db") as api:
        yield api


def test_windows_and_days_are_read_back_as_they_were_written(api: Api) -> None:
    windows = {
        "between": "21:00-05:00",
        "not_between": ["22:00-23:00 SAT,SUN"],
        "except": ["2026-12-24..2027-01-02"],
    }

    made = api.ask("PUT", ONE, HOURLY | windows)
    again = api.ask("PUT", ONE, made.json["document"])

    assert made.status == 201
    assert made.json["between"] == ["21:00-05:00"]
    assert made.json["except_days"] == ["2026-12-24..2027-01-02"]
    assert again.json["revision"] == made.json["revision"]


def test_coming_runs_are_within_the_windows_and_the_outlook_names_the_others(api: Api) -> None:
    api.ask("PUT", ONE, HOURLY | {"between": "21:00-05:00"})

    fires = api.get("/api/v1/next").json["fires"]
    outlook = api.get(f"{ONE}/outlook?upcoming=10").json

    hours = {int(fire["due_at"][11:13]) for fire in fires}
    assert hours <= {21, 22, 23, 0, 1, 2, 3, 4}
    assert any(one["count"] == 16 for one in outlook["excluded"])


def test_the_days_of_a_calendar_are_used_and_the_document_has_only_its_name(
    api: Api, tmp_path: Path
) -> None:
    calendar = tmp_path / "vacation.ics"
    day = (datetime.now(UTC) + timedelta(days=30)).date()
    event = DAY.format(day=f"{day:%Y%m%d}")
    calendar.write_text(f"BEGIN:VCALENDAR\r\n{event}END:VCALENDAR\r\n")

    made = api.ask("PUT", ONE, HOURLY | {"except": str(calendar)})
    excluded = api.get(f"{ONE}/explanation?at={day}T12:00:00Z").json
    other = api.get(f"{ONE}/explanation?at={day + timedelta(days=1)}T12:00:00Z").json

    assert made.json["except_days"] == [str(calendar)]
    assert made.json["calendar_days"] == {str(calendar): [str(day)]}
    assert made.json["document"]["except"] == [str(calendar)]
    assert (excluded["verdict"], other["verdict"]) == ("excluded", "coming")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"between": "9-17"}, "window '9-17' is not understood"),
        ({"not_between": "00:00-24:00"}, "no time in which a run can start"),
        ({"except": "24.12.2026"}, "day '24.12.2026' is not understood"),
        ({"except": "gone.ics"}, "is a relative path"),
        ({"except": "/nowhere/gone.ics"}, "there is no such file"),
        ({"between": "21:30-21:40"}, "its windows exclude all its times"),
        ({"once": "in 21:00-05:00 when ac-pwer"}, "condition 'ac-pwer' is unknown"),
        ({"once": "in 21:00-05:00"}, "expected no other times beside a window"),
    ],
)
def test_what_leaves_no_time_or_can_not_be_read_is_refused(
    api: Api, wrong: dict[str, Any], words: str
) -> None:
    refused = api.ask("PUT", ONE, HOURLY | wrong)

    assert refused.status == 422
    assert words in str(refused.error)


def test_a_window_of_a_trigger_is_made_and_explained_from_another_machine(
    api: Api, tmp_path: Path
) -> None:
    document = {"once": "in 21:00-05:00 when ac-power", "timezone": "UTC", "command": ["true"]}

    made = api.ask("PUT", ONE, document)
    within = api.get(f"{ONE}/explanation?at=2099-03-04T02:00:00Z").json

    assert made.json["triggers"] == ["once in 21:00-05:00 when ac-power"]
    assert made.json["document"] == document
    assert within["plan_at"] == "2099-03-03T21:00:00Z"
    with Client(tmp_path / "edge.db") as client:
        assert client.schedule("backup").spec.all_needs == ("ac-power",)
