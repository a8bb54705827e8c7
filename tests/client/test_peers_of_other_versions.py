"""A client and a server of two versions understand each other.

`exchanges.json` has requests and answers as an earlier version wrote them: this version's server
has to read those requests, and its client those answers. When the API gains something, add to the
file; what is in it stays as long as the major version does.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.errors import NotFound
from edgecron.client import Client
from edgecron.client.resources import RESOURCES, Request, question, read_answer
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

    assert exchange["answer"].keys() <= answered.keys()
    read_answer(question(exchange["name"]), json.dumps(answered).encode())


@pytest.mark.parametrize("exchange", EXCHANGES, ids=_IDS)
def test_an_earlier_server_s_answer_is_read(exchange: dict[str, Any]) -> None:
    told = json.dumps(exchange["answer"]).encode()
    if "error" in exchange["answer"]:
        with pytest.raises(NotFound):
            read_answer(question(exchange["name"]), told)
        return

    found = read_answer(question(exchange["name"]), told)

    is_empty = exchange["answer"] == {} or None in exchange["answer"].values()
    assert found is not None or is_empty
