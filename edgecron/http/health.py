"""`/healthz`: the state of the database and of its engines. `/metrics`: Prometheus text.

/healthz needs no token, so monitoring needs none: it shows one word for the database and one for
the engines. It is 503 if the database is unusable, and 200 without an engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.base.errors import DatabaseBusy, DatabaseUnusable, InvalidInput
from edgecron.base.paths import is_there
from edgecron.http.messages import Answer, ApiRequest, json_answer

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.client.engine_health import EngineState


def need_database(client: Client) -> None:
    """Raise DatabaseUnusable if there is no database: the request is not wrong."""
    if not is_there(client.path):
        raise DatabaseUnusable(
            f"there is no database {client.path}",
            hint="check that its engine is running: edgecron daemon",
        )


def get_health(client: Client, request: ApiRequest) -> Answer:
    try:
        need_database(client)
        engine = _engine_word(client.engines())
        client.active_counts()
    except DatabaseUnusable as error:
        client.close()  # The file or its log may be replaced before the next request.
        word = "busy" if isinstance(error, DatabaseBusy) else "unusable"
        return json_answer({"database": word, "engine": "unknown"}, status=503)
    return json_answer({"database": "ok", "engine": engine})


def _engine_word(states: list[EngineState]) -> str:
    """Return the state of the engine that is best off."""
    if any(state.is_working for state in states):
        return "working"
    return "stalled" if any(state.is_stalled for state in states) else "none"


def get_metrics(client: Client, request: ApiRequest) -> Answer:
    from edgecron.client.metrics import exposition

    per_schedule = request.first("per_schedule", "0")
    if per_schedule not in ("0", "1"):
        raise InvalidInput(f"per_schedule is {per_schedule!r}, expected 0 or 1")
    body, content_type = exposition(
        client, request.headers.get("accept"), per_schedule=per_schedule == "1"
    )
    return Answer(body=body, media_type=content_type)
