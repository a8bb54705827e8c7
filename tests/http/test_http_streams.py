"""What runs print over HTTP, live: from a real engine, as server-sent events."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.http.access import Limits
from tests.support.engines import Place
from tests.support.http import Api, EventStream, api_of, serving
from tests.support.processes import Daemon
from tests.support.specs import make_spec


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


def start(place: Place, line: str) -> tuple[Daemon, Api, int]:
    """An engine that serves, and the run of a line that it has been told to run."""
    place.add("job", "every 1h", line)
    daemon = place.daemon("--http", "127.0.0.1:0")
    api = api_of(daemon)
    return daemon, api, api.ask("POST", "/api/v1/schedules/job/fire").json["runs"][0]["id"]


def test_output_comes_while_it_is_printed_and_then_the_end(place: Place) -> None:
    _, api, run = start(place, f"echo one; {place.gate.line}; printf '\\377' >&2")

    with closing(EventStream(api, run)) as stream:
        seen = []
        for event in stream:
            seen.append(event)
            if event.told.get("text") == "one\n":
                place.gate.wait_arrival()  # It goes on, and we have heard of it.
                place.gate.open()

    assert stream.media_type == "text/event-stream"
    assert [one.told["base64"] for one in seen if "base64" in one.told] == ["/w=="]
    assert seen[0].name == "status"
    assert (seen[-1].name, seen[-1].id) == ("end", "end")
    assert seen[-1].told["status"] == "success"
    assert [one.id for one in seen if one.name == "output"] == ["4", "5"]


def test_who_comes_again_goes_on_where_they_were(place: Place) -> None:
    _, api, run = start(place, "printf abc; sleep 0.2; printf def >&2")
    with closing(EventStream(api, run)) as stream:
        whole = list(stream)

    with closing(EventStream(api, run, last_id="3")) as stream:
        rest = list(stream)
    ended = EventStream(api, run, last_id="end")
    ended.close()

    assert "".join(one.told["text"] for one in whole if one.name == "output") == "abcdef"
    assert [one.told.get("text") for one in rest] == ["def", None]
    assert ended.status == 204


def test_who_comes_again_to_the_next_engine_goes_on_where_they_were(place: Place) -> None:
    first, api, run = start(place, f"echo one; {place.gate.line}; echo two")
    with closing(EventStream(api, run)) as stream:
        seen = []
        for event in stream:
            seen.append(event)
            if event.told.get("text") == "one\n":
                place.gate.wait_arrival()
                first.stop()  # The stream ends without an `end`: browsers come again.

    second = api_of(place.daemon("--http", "127.0.0.1:0"))
    place.gate.open()
    with closing(EventStream(second, run, last_id=seen[-1].id)) as stream:
        rest = list(stream)

    assert seen[-1].name == "output"
    printed = [one.told["text"] for one in (*seen, *rest) if one.name == "output"]
    assert printed == ["one\n", "two\n"]
    assert rest[-1].name == "end"


def test_output_that_is_there_can_be_had_at_once(place: Place) -> None:
    _, api, run = start(place, "echo one")
    with closing(EventStream(api, run)) as stream:
        list(stream)

    told = api.get(f"/api/v1/runs/{run}/output").json

    assert told["is_complete"] is True
    assert [(one["stream"], one["text"]) for one in told["chunks"]] == [("stdout", "one\n")]


def test_a_stream_of_no_run_is_told_so(place: Place) -> None:
    with serving(place.database) as api, closing(EventStream(api, 7)) as stream:
        assert stream.status == 404


def test_a_stream_ends_with_the_engine_that_serves_it(place: Place) -> None:
    daemon, api, run = start(place, place.gate.line)
    place.gate.wait_arrival()

    with closing(EventStream(api, run)) as stream:
        events = iter(stream)
        assert next(events).told["status"] == "running"
        code = daemon.stop(bound_s=10)

        assert list(events) == []
    assert code == 0


def streams() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if "http-stream" in each.name]


def test_a_reader_who_goes_away_frees_the_thread_at_once(place: Place) -> None:
    place.client.add(make_spec("job"))
    [run] = place.client.run_now("job")
    with serving(place.database) as api:
        stream = EventStream(api, run.id)
        assert next(iter(stream)).told["status"] == "queued"
        [thread] = streams()

        stream.close()
        thread.join(5)

        assert not thread.is_alive()


def test_a_stream_says_what_has_become_of_the_database(place: Place) -> None:
    place.client.add(make_spec("job"))
    [run] = place.client.run_now("job")
    with serving(place.database) as api, closing(EventStream(api, run.id)) as stream:
        events = iter(stream)
        assert next(events).told["status"] == "queued"
        place.database.rename(place.database.with_name("elsewhere.db"))

        [last] = list(events)

    assert last.name == "failure"
    assert last.told["error"]["code"] == "database_gone"


def test_a_stream_with_nothing_to_say_says_that_it_is_there(place: Place) -> None:
    place.client.add(make_spec("job"))
    [run] = place.client.run_now("job")
    limits = Limits(keep_alive_s=0.05)
    with serving(place.database, limits=limits) as api, closing(EventStream(api, run.id)) as stream:
        lines = [stream.readline() for _ in range(8)]

    assert lines[4:] == [": still here", ""] * 2


def test_there_are_only_so_many_streams(place: Place) -> None:
    place.client.add(make_spec("job"))
    [run] = place.client.run_now("job")
    with serving(place.database) as api, ExitStack() as stack:
        opened = [EventStream(api, run.id) for _ in range(17)]
        for stream in opened:
            stack.callback(stream.close)

        assert [stream.status for stream in opened] == [200] * 16 + [503]
        assert api.get("/healthz").status == 200  # Streams take no worker from the others.


def test_nothing_is_left_of_a_service_that_was_closed(tmp_path: Path) -> None:
    with Client(tmp_path / "edge.db") as client:
        client.add(make_spec("job"))
        [run] = client.run_now("job")
    with serving(tmp_path / "edge.db") as api:
        stream = EventStream(api, run.id)
        assert next(iter(stream)).told["status"] == "queued"

    stream.close()
    assert not [each for each in threading.enumerate() if "edgecron-http" in each.name]
