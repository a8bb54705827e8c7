"""Handlers of runs: list, read, explain, cancel, output, statistics; of fires to come; of health.

/healthz needs no token, so monitoring needs none: it shows one word for the database and one for
the engines. It is 503 if the database is unusable, and 200 without an engine.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from edgecron.base.errors import DatabaseBusy, DatabaseUnusable, InvalidInput
from edgecron.base.value_texts import read_time
from edgecron.base.zones import load_zone
from edgecron.client.metrics import exposition, stats_objects
from edgecron.client.record_forms import chunk_fields
from edgecron.client.why import answer_now, answer_object, answer_run, answer_time, say_run
from edgecron.http.client_threads import need_database
from edgecron.http.messages import Answer, ApiRequest, json_answer
from edgecron.http.schedules import next_page, paged, shown_fires, shown_runs, zone_of
from edgecron.model.choices import ACTIVE, Cause, Status
from edgecron.model.filters import parse_filter
from edgecron.model.listing import RunChoice
from edgecron.views.json_objects import instant

if TYPE_CHECKING:
    from datetime import tzinfo

    from edgecron.client import Client
    from edgecron.client.engine_health import EngineState
    from edgecron.client.why import Answer as Explained
    from edgecron.model.run import Execution

_LIMIT = 100


def list_runs(client: Client, request: ApiRequest) -> Answer:
    """Answer a page of runs, newest first, of all schedules or of one, and unreadable ones."""
    limit: int = request.first("limit", _LIMIT)
    name = request.words.get("name", request.first("schedule"))
    client.take_over()  # As for one run.
    choice = RunChoice(
        statuses=tuple(Status(text) for text in request.query.get("status", ())),
        causes=tuple(Cause(text) for text in request.query.get("cause", ())),
        before_id=request.first("before"),
        since=instant_of(request, "since"),
        until=instant_of(request, "until"),
        with_former=request.is_on("former"),
    )
    found, unreadable = client.history_page(name, choice=choice, limit=limit + 1)
    page = found[:limit]
    following = None
    if len(found) > limit:
        following = next_page(request, limit=limit, before=page[-1].id)
    if following is not None:  # The next page names unreadable runs after the last one.
        unreadable = [run_id for run_id in unreadable if run_id > page[-1].id]
    return paged("runs", shown_runs(client, page), following, unreadable=unreadable)


def instant_of(request: ApiRequest, name: str) -> datetime | None:
    """Return the instant that a parameter gives; None without it."""
    text = request.first(name)
    return None if text is None else read_time(text, what=name, timezone=None, now=None)


def get_run(client: Client, request: ApiRequest) -> Answer:
    [shown] = shown_runs(client, [find_run(client, request)])
    return json_answer(shown)


def cancel_run(client: Client, request: ApiRequest) -> Answer:
    """Cancel a run; its end is recorded a moment later."""
    [shown] = shown_runs(client, [client.cancel(int(request.words["id"]))])
    return json_answer(shown, status=202)


def get_output(client: Client, request: ApiRequest) -> Answer:
    """Answer what a run has printed so far, if it is still kept."""
    run = find_run(client, request)
    [shown] = shown_runs(client, [run])
    with client.follower(run.id) as follower:
        pieces = follower.read_kept(run)
    stored = client.output(run.id)
    return json_answer(
        {
            "run": run.id,
            "schedule": run.schedule,
            "timezone": shown["timezone"],
            "status": run.status.value,
            "is_complete": run.status not in ACTIVE,
            "dropped_bytes": sum(skipped for skipped, _ in pieces),
            "removed_at": None if stored is None else instant(stored.removed_at),
            "chunks": [chunk_fields(chunk) for _, chunk in pieces],
        }
    )


def find_run(client: Client, request: ApiRequest) -> Execution:
    """Return the run of a request as it is now. Raises NotFound."""
    run = client.execution(int(request.words["id"]))
    if run.status is not Status.RUNNING:
        return run
    client.take_over()  # It may have ended while no engine could record it.
    return client.execution(run.id)


_FIRES = 10


def list_next(client: Client, request: ApiRequest) -> Answer:
    """Answer fires to come, in the order in which they can start."""
    skip: int = request.first("skip", 0)
    text = request.first("filter")
    fires = client.next_fires(
        request.words.get("name", request.first("schedule")),
        matches=None if text is None else parse_filter(text),
        most_each=request.first("each"),
    )
    page = list(islice(fires, skip, skip + request.first("limit", _FIRES)))
    return json_answer({"fires": shown_fires(client, page)})


_COUNTED = timedelta(days=7)


def get_stats(client: Client, request: ApiRequest) -> Answer:
    """Answer the statistics of all schedules, or of one."""
    name = request.words.get("name", request.first("schedule"))
    client.take_over()
    found = client.tallies(
        name,
        since=instant_of(request, "since") or client.now() - _COUNTED,
        with_trends=request.is_on("trend"),
    )
    return json_answer({"stats": stats_objects(client, found, name, has_total=True)})


class _Http:
    """The front end of the sentences: a client, and commands of the command line."""

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


# Health and metrics.


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
    per_schedule = request.first("per_schedule", "0")
    if per_schedule not in ("0", "1"):
        raise InvalidInput(f"per_schedule is {per_schedule!r}, expected 0 or 1")
    body, content_type = exposition(
        client, request.headers.get("accept"), per_schedule=per_schedule == "1"
    )
    return Answer(body=body, media_type=content_type)
