"""Schedules over HTTP: made, read, changed and removed, and no update is lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from edgecron.client import Client
from edgecron.http.openapi import ANSWERS
from tests.support.http import Api, serving
from tests.support.specs import make_spec

ALL = "/api/v1/schedules"
ONE = f"{ALL}/backup"
NIGHTLY: dict[str, Any] = {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "command": ["true"]}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "edge.db"


@pytest.fixture
def api(database: Path) -> Iterator[Api]:
    with serving(database) as api:
        yield api


def test_a_schedule_is_made_by_its_name(api: Api, database: Path) -> None:
    told = api.ask("PUT", ONE, NIGHTLY)

    assert told.status == 201
    assert told.headers["location"] == ONE
    assert told.json["timezone"] == "Europe/Berlin"
    assert told.json["document"] == NIGHTLY
    with Client(database) as client:
        assert client.schedule("backup").spec.triggers == ("0 2 * * *",)


def test_what_is_read_of_a_schedule_can_be_put_as_it_stands(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY | {"env": {"A": "1"}, "timeout": "1h30m", "enabled": False})
    read = api.get(ONE)

    told = api.ask("PUT", ONE, read.json["document"])

    assert told.status == 200
    assert told.json["document"] == read.json["document"]
    assert told.json["revision"] == read.json["revision"]


def test_an_answer_has_the_fields_that_the_document_says(api: Api) -> None:
    shown = api.ask("PUT", ONE, NIGHTLY).json
    fired = api.ask("POST", f"{ONE}/fire").json["runs"][0]
    fires = api.get("/api/v1/next").json["fires"]

    assert shown.keys() == set(ANSWERS["Schedule"]["required"])
    assert fired.keys() == set(ANSWERS["Run"]["required"])
    assert fires[0].keys() == ANSWERS["Fire"]["properties"].keys()
    assert {one["timezone"] for one in (shown, fired, fires[0])} == {"Europe/Berlin"}


def test_put_says_all_of_a_schedule_and_patch_a_part(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY | {"description": "old", "timeout": "1h"})

    patched = api.ask("PATCH", ONE, {"description": "new"}).json["document"]
    put = api.ask("PUT", ONE, NIGHTLY).json["document"]

    assert patched == NIGHTLY | {"description": "new", "timeout": "1h"}
    assert put == NIGHTLY


def test_a_note_says_that_a_removed_secret_stays_in_the_database(api: Api) -> None:
    made = api.ask("PUT", ONE, NIGHTLY | {"env": {"TOKEN": "old"}})

    patched = api.ask("PATCH", ONE, {"env": {"TOKEN": None}})
    put = api.ask("PUT", ONE, NIGHTLY | {"env": {"TOKEN": "new"}})
    changed = api.ask("PUT", ONE, NIGHTLY | {"env": {"TOKEN": "newer"}})

    words = "the database keeps the former env.TOKEN for runs that started with it"
    for told in (patched, changed):
        assert told.headers["edgecron-note"].startswith(words)
        assert told.headers["edgecron-note"].endswith("edgecron prune --forget backup")
    assert not {"edgecron-note"} & (made.headers.keys() | put.headers.keys())


def test_null_clears_a_key_and_a_variable(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY | {"timeout": "1h", "env": {"A": "1", "B": "2"}})

    told = api.ask("PATCH", ONE, {"timeout": None, "env": {"A": None}, "cron": None, "every": "1h"})

    assert told.json["document"] == {
        "every": "1h",
        "timezone": "Europe/Berlin",
        "command": ["true"],
        "env": {"B": "2"},
    }


def test_null_for_enabled_lets_a_paused_schedule_go_and_put_leaves_it(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY)
    api.ask("POST", f"{ONE}/pause")

    left = api.ask("PUT", ONE, NIGHTLY | {"description": "other"}).json["enabled"]
    cleared = api.ask("PATCH", ONE, {"enabled": None}).json["enabled"]

    assert (left, cleared) == (False, True)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (NIGHTLY | {"cron": None}, "wrong_shape"),
        (NIGHTLY | {"timezone": "Europe/Berlni"}, "unknown_timezone"),
        (NIGHTLY | {"timezone": ""}, "wrong_shape"),
        (NIGHTLY | {"timezone": 5}, "wrong_shape"),
        (NIGHTLY | {"tz": "UTC"}, "wrong_shape"),
        (NIGHTLY | {"timeout": 60}, "wrong_shape"),
        (NIGHTLY | {"retries": True}, "wrong_shape"),
        ([], "wrong_shape"),
    ],
)
def test_what_is_not_of_the_shape_is_refused_at_the_door(api: Api, body: object, code: str) -> None:
    told = api.ask("PUT", ONE, body)

    assert told.status == 400
    assert told.error["code"] == code
    assert told.error["message"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b'{"a": NaN}', b'{"cron": "a", "cron": "b"}', b"[" * 100_000, b"9" * 9999],
)
def test_what_is_no_json_is_refused(api: Api, content: bytes) -> None:
    told = api.ask("PUT", ONE, content)

    assert told.status == 400


def test_what_means_nothing_is_told_key_by_key(api: Api) -> None:
    told = api.ask("PUT", ONE, NIGHTLY | {"cron": "0 25 * * *", "shell": "true"})

    assert told.status == 422
    assert told.error["code"] == "invalid_document"
    assert {one["key"] for one in told.error["problems"]} == {"cron", "shell"}


def test_a_write_on_an_old_reading_is_refused(api: Api) -> None:
    first = api.ask("PUT", ONE, NIGHTLY).headers["etag"]
    second = api.ask("PATCH", ONE, {"description": "theirs"}, headers={"If-Match": first})

    lost = [
        api.ask(method, ONE, body, headers={"If-Match": first})
        for method, body in (("PUT", NIGHTLY), ("PATCH", {"description": "mine"}), ("DELETE", None))
    ]

    assert second.status == 200
    assert [told.status for told in lost] == [412, 412, 412]
    assert lost[0].error["code"] == "precondition_failed"
    assert api.get(ONE).json["description"] == "theirs"


def test_a_run_that_ended_meanwhile_is_no_lost_update_but_something_new_to_read(
    api: Api, database: Path
) -> None:
    tag = api.ask("PUT", ONE, NIGHTLY).headers["etag"]
    with Client(database) as client:
        client.cancel(client.run_now("backup")[0].id)

    read = api.get(ONE, **{"If-None-Match": tag})
    written = api.ask("PATCH", ONE, {"description": "mine"}, headers={"If-Match": tag})

    assert (read.status, written.status) == (200, 200)


def test_changes_that_meet_are_all_made(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY)
    names = [f"V{number}" for number in range(24)]

    def change(name: str) -> int:
        """Change it, again where others were at it."""
        while (status := api.ask("PATCH", ONE, {"env": {name: "1"}}).status) == 409:
            pass
        return status

    with ThreadPoolExecutor(6) as crowd:
        statuses = set(crowd.map(change, names))

    assert statuses == {200}
    assert api.get(ONE).json["env"].keys() == set(names)


def test_what_was_read_before_and_is_the_same_is_not_sent_again(api: Api) -> None:
    tag = api.ask("PUT", ONE, NIGHTLY).headers["etag"]

    told = api.get(ONE, **{"If-None-Match": f'"else", {tag}'})

    assert (told.status, told.body) == (304, b"")
    assert told.headers["etag"] == tag


def test_if_none_match_makes_and_never_replaces(api: Api) -> None:
    headers = {"If-None-Match": "*"}

    told = [api.ask("PUT", ONE, NIGHTLY, headers=headers).status for _ in range(2)]

    assert told == [201, 412]


def test_if_match_changes_and_never_makes(api: Api) -> None:
    assert api.ask("PUT", ONE, NIGHTLY, headers={"If-Match": "*"}).status == 412
    assert api.ask("PATCH", ONE, {}, headers={"If-Match": '"1.1"'}).status == 404


def test_the_id_and_the_revision_are_a_tag_too(api: Api) -> None:
    shown = api.ask("PUT", ONE, NIGHTLY).json
    tag = f'"{shown["id"]}.{shown["revision"]}"'

    assert api.ask("PATCH", ONE, {"retries": 1}, headers={"If-Match": tag}).status == 200
    lost = api.ask("PATCH", ONE, {"retries": 2}, headers={"If-Match": tag})
    assert lost.status == 412
    assert "is at revision 2: the condition of the request" in lost.json["error"]["message"]


def test_a_removed_schedule_is_gone_and_its_runs_stay(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY)
    api.ask("POST", f"{ONE}/fire")

    removed = api.ask("DELETE", ONE)

    assert (removed.status, removed.body) == (204, b"")
    assert api.get(ONE).status == 404
    assert api.ask("DELETE", ONE).status == 404
    assert api.get(f"{ONE}/runs").json["runs"][0]["reason"] == "removed"


def test_a_removed_schedule_is_restored_with_its_runs(api: Api) -> None:
    made = api.ask("PUT", ONE, NIGHTLY).json
    api.ask("POST", f"{ONE}/fire")
    api.ask("DELETE", ONE)

    restored = api.ask("POST", f"{ONE}/restore")
    again = api.ask("POST", f"{ONE}/restore")
    unknown = api.ask("POST", f"{ALL}/nothing/restore")

    assert (restored.status, again.status, unknown.status) == (200, 404, 404)
    assert restored.headers["etag"] == api.get(ONE).headers["etag"]
    assert restored.json["document"] == made["document"]
    assert restored.json["next_run_at"] == made["next_run_at"]
    assert len(api.get(f"{ONE}/runs").json["runs"]) == 1


def test_a_removed_schedule_whose_name_is_taken_is_not_restored(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY)
    api.ask("DELETE", ONE)
    api.ask("PUT", ONE, NIGHTLY)

    told = api.ask("POST", f"{ONE}/restore")

    assert told.status == 409
    assert "backup" in told.error["message"]


def test_a_schedule_that_others_name_is_not_removed(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY)
    api.ask("PUT", f"{ALL}/report", {"after": "backup", "timezone": "UTC", "shell": "true"})

    told = api.ask("DELETE", ONE)

    assert told.status == 409
    assert "report" in told.error["message"]


def test_schedules_come_page_by_page(api: Api, database: Path) -> None:
    with Client(database) as client:
        client.add_all([make_spec(f"job-{number}") for number in range(5)])

    names, path = [], f"{ALL}?limit=2"
    while path:
        page = api.get(path)
        names.append([one["name"] for one in page.json["schedules"]])
        path = page.json["next"]

    assert names == [["job-0", "job-1"], ["job-2", "job-3"], ["job-4"]]


def test_a_row_that_makes_no_sense_hides_no_other(api: Api, database: Path) -> None:
    with Client(database) as client:
        client.add_all([make_spec(f"job-{number}") for number in range(4)])
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("UPDATE schedules SET kind = 'rocket' WHERE name = 'job-1'")
    connection.close()

    first = api.get(f"{ALL}?limit=2").json
    second = api.get(first["next"]).json
    one = api.get(f"{ALL}/job-1")
    removed = api.ask("DELETE", f"{ALL}/job-1")

    assert [one["name"] for one in first["schedules"]] == ["job-0"]
    assert first["unreadable"] == ["job-1"]
    assert [one["name"] for one in second["schedules"]] == ["job-2", "job-3"]
    assert one.status == 503  # No fault of who asks.
    assert removed.status == 204


def test_a_run_that_can_not_be_read_is_named_in_its_page(api: Api, database: Path) -> None:
    with Client(database) as client:
        client.add(make_spec("job"))
        for number in range(1, 6):
            client.run_now("job")
            client.cancel(number)
    connection = apsw.Connection(str(database))
    connection.execute("DROP TRIGGER executions_final")
    connection.execute("UPDATE executions SET error_msg = CAST(x'ff' AS TEXT) WHERE id IN (2, 4)")
    connection.close()

    first = api.get("/api/v1/runs?limit=2").json
    second = api.get(first["next"]).json
    of_one = api.get("/api/v1/schedules/job/runs").json
    one = api.get("/api/v1/runs/4")

    assert [run["id"] for run in first["runs"]] == [5, 3]
    assert first["unreadable"] == [4]
    assert ([run["id"] for run in second["runs"]], second["unreadable"]) == ([1], [2])
    assert of_one["unreadable"] == [4, 2]
    assert one.status == 503


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "limit=x", "limit=", "limit=1&limit=2", "offset=3", "after=%00"],
)
def test_a_question_that_is_not_known_is_refused(api: Api, query: str) -> None:
    assert api.get(f"{ALL}?{query}").status == 400


def test_a_pause_ends_when_it_is_said_and_in_the_zone_that_is_said(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY)
    said = {"until": "2098-06-01 12:00", "timezone": "Europe/Berlin"}

    paused = api.ask("POST", f"{ONE}/pause", said)
    resumed = api.ask("POST", f"{ONE}/resume")

    assert paused.json["paused_until"] == "2098-06-01T10:00:00Z"
    assert resumed.json["paused_until"] is None


def test_the_next_run_is_moved(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY)

    told = api.ask(
        "POST", f"{ONE}/reschedule", {"time": "2098-06-01T12:00:00+02:00", "timezone": "UTC"}
    )

    assert told.json["next_run_at"] == "2098-06-01T10:00:00Z"
    assert api.get(f"{ONE}/next?limit=1").json["fires"][0]["is_moved"] is True


def test_a_fire_by_hand_carries_any_json(api: Api, database: Path) -> None:
    api.ask("PUT", ONE, NIGHTLY)

    told = api.ask("POST", f"{ONE}/fire", {"payload": {"size": [1, None]}})

    run = told.json["runs"][0]
    assert told.status == 202
    assert told.headers["location"] == f"/api/v1/runs/{run['id']}"
    assert run["cause"] == "manual"


def test_runs_come_page_by_page_and_by_status(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY | {"overlap": "allow"})
    ids = [api.ask("POST", f"{ONE}/fire").json["runs"][0]["id"] for _ in range(3)]
    api.ask("POST", f"/api/v1/runs/{ids[1]}/cancel")

    first = api.get("/api/v1/runs?limit=2&status=queued&status=cancelled")
    second = api.get(first.json["next"])

    assert first.headers["link"] == f'<{first.json["next"]}>; rel="next"'
    assert [run["id"] for run in first.json["runs"] + second.json["runs"]] == ids[::-1]
    assert second.json["next"] is None
    assert [run["id"] for run in api.get("/api/v1/runs?status=cancelled").json["runs"]] == [ids[1]]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/runs/99", 404),
        ("/api/v1/runs/0", 400),
        ("/api/v1/runs/x", 400),
        ("/api/v1/runs/99999999999999999999", 400),
        ("/api/v1/schedules/nobody", 404),
        ("/api/v1/schedules/12", 400),
        ("/api/v1/schedules/a%20b", 400),
        ("/api/v1/schedules/a%00b", 400),
        ("/api/v1/schedules/%2e%2e", 400),
        ("/api/v1/schedules/..%2fruns", 400),
        ("/api/v1//schedules", 404),
        ("/api/v1/schedules/", 404),
        ("//etc/passwd", 404),
    ],
)
def test_what_is_not_there_is_told_so(api: Api, path: str, status: int) -> None:
    told = api.get(path)

    assert told.status == status
    assert told.error["hint"]


def test_a_missing_part_of_a_body_is_named(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY)

    told = api.ask("POST", f"{ONE}/backfill", {})

    assert (told.status, told.error["message"]) == (422, "from_at is missing")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"until": "2098-13-01T00:00:00Z"}, 400, "invalid_time"),
        ({"until": "some day"}, 400, "invalid_time"),
        ({"until": "2098-06-01 09:00", "timezone": "Mars/Olympus"}, 400, "unknown_timezone"),
        ({"until": "2020-06-01T00:00:00Z"}, 422, "invalid_time"),
        ({"until": "2098-06-01 09:00", "timezone": "Europe/Berlin"}, 200, None),
    ],
)
def test_no_time_and_no_zone_are_told_from_a_time_that_has_passed(
    api: Api, body: dict[str, str], status: int, code: str | None
) -> None:
    api.ask("PUT", ONE, NIGHTLY)

    told = api.ask("POST", f"{ONE}/pause", {"timezone": "UTC", **body})

    assert told.status == status, told.body
    assert code is None or told.error["code"] == code


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("limit=abc", "limit"),
        ("limit=0", "limit"),
        ("limit=1&limit=2", "limit"),
        ("nosuch=1", "nosuch"),
    ],
)
def test_a_wrong_parameter_is_named_in_the_problems(api: Api, query: str, key: str) -> None:
    told = api.get(f"{ALL}?{query}")

    assert told.status == 400
    assert [one["key"] for one in told.error["problems"]] == [key]
    assert told.error["hint"]


def test_a_refusal_because_of_the_state_says_what_to_do(api: Api) -> None:
    api.ask("PUT", ONE, NIGHTLY)
    api.ask("PUT", f"{ALL}/follower", {"after": "backup", "command": ["true"]})
    run = api.ask("POST", f"{ONE}/fire").json["runs"][0]["id"]
    api.ask("POST", f"/api/v1/runs/{run}/cancel")

    refused = [
        api.ask("POST", f"/api/v1/runs/{run}/cancel"),
        api.ask("POST", f"{ALL}/follower/reschedule", {"time": "2098-06-01 12:00"}),
        api.ask("PUT", ONE, NIGHTLY, headers={"If-None-Match": "*"}),
    ]

    assert [told.status for told in refused] == [409, 409, 412]
    assert all(told.error["hint"] for told in refused)


def test_a_run_has_its_own_time_priority_and_scope(api: Api) -> None:
    scopes = {"scope": ["device:a", "device:b"], "overlap": "allow"}
    api.ask("PUT", ONE, NIGHTLY | scopes)
    said = {"delay": "5m", "priority": "high", "timeout": "30s", "scope": "device:b"}

    [run] = api.ask("POST", f"{ONE}/fire", said).json["runs"]
    [first, _] = api.ask("POST", f"{ONE}/fire", {"at": "2098-06-01T12:00:00Z"}).json["runs"]
    both = api.ask("POST", f"{ONE}/fire", {"delay": "5m", "at": "in 5m"})
    other = api.ask("POST", f"{ONE}/fire", {"scope": "device:c"})

    assert (run["status"], run["scope_id"]) == ("queued", "b")
    assert first["due_at"] == "2098-06-01T12:00:00Z"
    assert (both.status, other.status) == (422, 422)
    assert "a delay and a time" in both.json["error"]["message"]
    assert other.json["error"]["hint"] == "its scopes: device:a, device:b"
