"""A client and a server of two versions understand each other.

`exchanges.json` has requests and answers as an earlier version wrote them: this version's server
has to read those requests, and its client those answers. When the API gains something, add to the
file; what is in it stays as long as the major version does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.errors import MalformedCall, NotFound
from edgecron.base.values import replace
from edgecron.client import Client
from edgecron.client.record_forms import schedule_fields
from edgecron.client.resources import (
    RESOURCES,
    Request,
    answer_object,
    read_answer,
    read_arguments,
    resource_types,
    write_request,
)
from edgecron.model.choices import Status
from edgecron.model.options import FORMER_FIELDS
from edgecron.views.json_objects import execution_object
from edgecron.views.run_words import run_lines, run_sentence
from edgecron.views.schedule_words import present_lines
from tests.support.clock import FakeClock
from tests.support.remote import near_answer
from tests.support.specs import make_spec

EXCHANGES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "exchanges.json").read_text("utf-8")
)
_NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
_IDS = [exchange["name"] for exchange in EXCHANGES]


def test_every_resource_has_a_recorded_exchange() -> None:
    assert set(_IDS) == RESOURCES.keys()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=_IDS)
def test_an_earlier_client_s_request_is_answered(exchange: dict[str, Any], tmp_path: Path) -> None:
    request = Request(
        exchange["method"],
        exchange["target"],
        None if exchange["body"] is None else json.dumps(exchange["body"]).encode(),
        key=exchange["key"],
    )
    with Client(tmp_path / "edge.db", clock=FakeClock(_NOW)) as client:
        if exchange["name"] not in ("add_all", "apply", "undo_removal"):
            client.add_all([make_spec("backup", "@daily"), make_spec("report", "every 5m")])
            client.run_now("backup")
        if exchange["name"] in ("remove", "undo_removal"):
            client.add(make_spec("fresh"))
        if exchange["name"] == "undo_removal":
            client.remove("fresh")

        if "error" in exchange["answer"]:
            with pytest.raises(NotFound):
                near_answer(client, request.without_wait())
            return
        answered: Any = near_answer(client, request.without_wait())

    # A renamed field has its new name only: to an earlier client, it has its default.
    named = {FORMER_FIELDS.get(name, name) for name in exchange["answer"]}
    assert named <= answered.keys()
    read_answer(resource_types(exchange["name"]), json.dumps(answered).encode())


@pytest.mark.parametrize("name", ["plan_document", "check", "apply"])
def test_an_earlier_client_s_notes_of_a_schedule_are_ignored(client: Client, name: str) -> None:
    [exchange] = [one for one in EXCHANGES if one["name"] == name]
    text = json.dumps(exchange["body"]).replace('"is_portable":', '"notes": [], "is_portable":')
    request = Request(exchange["method"], exchange["target"], text.encode(), key=exchange["key"])

    assert '"notes": []' in text
    answered: Any = near_answer(client, request)
    assert exchange["answer"].keys() <= answered.keys()


@pytest.mark.parametrize("name", ["run_page", "tallies", "schedule_order"])
def test_an_earlier_server_is_sent_no_switch_that_is_off(name: str) -> None:
    off = {key: False for key, hint in resource_types(name).hints.items() if hint is bool}
    since = {"since": _NOW} if name == "tallies" else {}

    assert off
    assert write_request(name, {**since, **off}) == write_request(name, since)


@pytest.mark.parametrize("exchange", EXCHANGES, ids=_IDS)
def test_an_earlier_server_s_answer_is_read(exchange: dict[str, Any]) -> None:
    told = json.dumps(exchange["answer"]).encode()
    if "error" in exchange["answer"]:
        with pytest.raises(NotFound):
            read_answer(resource_types(exchange["name"]), told)
        return

    found = read_answer(resource_types(exchange["name"]), told)

    is_empty = exchange["answer"] == {} or None in exchange["answer"].values()
    assert found is not None or is_empty


_OF_A_RUN = {"status": "deferred", "reason": "quota", "cause": "webhook"}
_NEWER = {**_OF_A_RUN, "idle": "frozen", "waits_for": "tide", "overlap": "merge"}


def _as_newer(content: Any) -> Any:
    """An answer as a newer version might give it, with choices that this one lacks."""
    if isinstance(content, dict):
        return {
            key: _NEWER[key] if key in _NEWER and isinstance(one, str) else _as_newer(one)
            for key, one in content.items()
        }
    return [_as_newer(one) for one in content] if isinstance(content, list) else content


def _told_by_newer(client: Client, name: str, /, **arguments: object) -> Any:
    asked = resource_types(name)
    answer = answer_object(asked, asked.ask(client, arguments))
    return read_answer(asked, json.dumps(_as_newer(answer)).encode())


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Client(tmp_path / "edge.db", clock=FakeClock(_NOW)) as client:
        client.add(make_spec("backup", "@daily"))
        client.run_now("backup")
        yield client


def test_former_fields_of_an_earlier_server_are_read() -> None:
    [exchange] = [one for one in EXCHANGES if one["name"] == "schedule"]
    told = json.dumps({**exchange["answer"], "grace_s": 90.0}).encode()

    schedule: Any = read_answer(resource_types("schedule"), told)

    assert schedule.spec.policies.max_late_s == 90


def test_choices_of_a_newer_server_are_kept_as_their_text(client: Client) -> None:
    run = _told_by_newer(client, "execution", execution_id=1)
    schedule = _told_by_newer(client, "schedule", name="backup")

    assert (run.status, run.cause) == ("deferred", "webhook")
    assert run.status not in set(Status)
    assert isinstance(run.status, Status)
    assert schedule.spec.policies.overlap == "merge"
    assert write_request(
        "edit_once", {"name": "backup", "schedule": schedule, "spec": schedule.spec}
    )


def test_sentences_show_choices_of_a_newer_server(client: Client) -> None:
    client.cancel(1)
    run = _told_by_newer(client, "execution", execution_id=1)
    outlook = _told_by_newer(client, "outlook", name="backup")

    sentence = run_sentence(run, zone=UTC, now=_NOW)
    shown = dict(run_lines(run, zone=UTC, now=_NOW, mask=None))
    lines = present_lines(outlook, doctor="edgecron doctor", zone=UTC, now=_NOW)

    assert "deferred" in sentence
    assert "quota" in sentence
    assert "webhook" in sentence
    assert (shown["status"], shown["cause"]) == ("deferred: quota", "webhook")
    assert execution_object(run).items() >= _OF_A_RUN.items()
    assert lines


def test_a_request_with_an_unknown_choice_is_refused() -> None:
    query = [("status", "deferred")]

    with pytest.raises(MalformedCall, match="deferred"):
        read_arguments(resource_types("history_page"), words={}, query=query, content={})


def test_an_edit_by_an_earlier_client_keeps_options_that_it_does_not_know(client: Client) -> None:
    client.add(make_spec("placed", "@daily", on="web1", retries=2))
    read = schedule_fields(client.schedule("placed"))
    for unknown in ("on", "keep_awake"):
        del read[unknown]  # As a client without these options has read and sends it.
    spec = {"name": "placed", "kind": "command", "job": ["/bin/true"], "triggers": ["@daily"]}
    body = {"schedule": read, "spec": {**spec, "priority": 5}, "origin": "cli"}
    target = "/api/v1/schedules/placed/specification"

    near_answer(client, Request("PUT", target, json.dumps(body).encode()))

    changed = client.schedule("placed").spec.policies
    assert (changed.on, changed.priority, changed.retries) == ("web1", 5, 0)


def test_an_edit_of_another_revision_is_not_carried_out(client: Client) -> None:
    read = client.schedule("backup")
    client.edit("backup", lambda spec: replace(spec, description="changed"))
    asked = resource_types("edit_once")

    found = asked.ask(client, {"name": "backup", "schedule": read, "spec": read.spec})

    assert found is None
