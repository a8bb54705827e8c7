"""Handlers that explain runs and times."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from edgecron.client.why import answer_now, answer_object, answer_run, answer_time, say_run
from edgecron.http.answer_objects import shown_runs, zone_of
from edgecron.http.messages import Answer, ApiRequest, json_answer
from edgecron.http.runs import find_run, instant_of
from edgecron.triggers import load_zone

if TYPE_CHECKING:
    from datetime import tzinfo

    from edgecron.client import Client
    from edgecron.client.why import Answer as Explained
    from edgecron.model.run import Execution


class _Http:
    """What sentences ask of a front end: a client, and commands of the command line."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def client(self) -> Client:
        return self._client

    def command(self, words: str) -> str:
        return f"edgecron {words}"


def get_why(client: Client, request: ApiRequest) -> Answer:
    """Explain the last run of a schedule and the next one, or a time."""
    name, at = request.words["name"], instant_of(request, "at")
    client.take_over()  # A run that ended without an engine must not look active.
    zone = load_zone(zone_of(client.schedule(name).spec))
    say = partial(say_run, client, zone=zone)
    if at is None:
        return _answer(client, answer_now(_Http(client), name, zone=zone, say=say))
    return _answer(client, answer_time(_Http(client), name, at, zone=zone, say=say))


def get_why_of_run(client: Client, request: ApiRequest) -> Answer:
    """Explain a run."""
    run = find_run(client, request)
    say = partial(say_run, client, zone=_zone_of_run(client, run))
    return _answer(client, answer_run(run, say=say))


def _zone_of_run(client: Client, run: Execution) -> tzinfo:
    spec = client.spec_of(run)
    return load_zone(None if spec is None else zone_of(spec))


def _answer(client: Client, answer: Explained) -> Answer:
    body = answer_object(answer, now=client.now())
    return json_answer(body | {"runs": shown_runs(client, answer.runs)})
