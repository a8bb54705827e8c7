"""The recipes of `help web`: real servers, several workers, one fire for each time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.model.choices import Reason, Status
from tests.support.servers import Plant

pytestmark = pytest.mark.needs_package("fastapi", "flask", "gunicorn", "uvicorn_worker")

UVICORN = ("-m", "uvicorn", "fastapi_app:app", "--uds", "web.sock")
# Its control socket would lie in the home of whoever runs the tests.
GUNICORN = ("-m", "gunicorn", "--bind", "unix:web.sock", "--no-control-socket", "--workers", "4")
FLASK = (*GUNICORN, "flask_app:app")
# As many as can part or meet, for what does not depend on their number.
TWO = ("--workers", "2")
# FastAPI starts its engines itself: without the hooks of gunicorn.conf.py.
ASGI = (*GUNICORN, "-c", "none.py", "-k", "uvicorn_worker.UvicornWorker", "fastapi_app:app")
# Enough times that engines met at, and a second between the first and the last.
MANY = 12
BOTH = pytest.mark.parametrize(
    "words",
    [
        pytest.param((*UVICORN, *TWO), id="uvicorn"),
        pytest.param((*FLASK, *TWO), id="gunicorn"),
    ],
)


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    with ExitStack() as stack:
        yield Plant(tmp_path, stack)


@pytest.mark.failure(80)
@pytest.mark.parametrize(
    ("words", "workers"),
    [
        pytest.param((*UVICORN, *TWO), 2, id="uvicorn"),
        pytest.param((*ASGI, *TWO), 2, id="gunicorn-uvicorn"),
        pytest.param((*FLASK, *TWO, "--preload"), 2, id="gunicorn-preload"),
        pytest.param((*FLASK, "--threads", "2"), 4, id="gunicorn-threads"),
    ],
)
def test_each_worker_is_an_engine_and_each_time_fires_once(
    plant: Plant, words: tuple[str, ...], workers: int
) -> None:
    (plant.folder / "none.py").touch()
    server = plant.start(*words)
    engines = plant.wait_engines(workers)
    before = len(plant.fires.all())

    plant.fires.wait_for(MANY, "brisk", after=before)
    status, answer = server.ask("POST", "/reports/north")
    pids = {one.pid for one in plant.fires.all()}
    server.stop()

    assert (status, answer) == (200, {"status": "success", "result": "all is well in north"})
    assert pids <= engines
    assert plant.engines() == set()
    plant.check_one_fire_each()


@pytest.mark.failure(80)
@BOTH
def test_a_worker_that_is_killed_leaves_its_run_interrupted_and_the_others_go_on(
    plant: Plant, words: tuple[str, ...]
) -> None:
    server = plant.start(*words)
    engines = plant.wait_engines(2)
    with Client(plant.database) as client:
        [held] = client.run_now("hold")
    [fire] = plant.fires.wait_for(1, "hold")

    os.kill(fire.pid, signal.SIGKILL)
    after = len(plant.fires.all())
    plant.wait_engines(2, without={fire.pid})
    plant.fires.wait_for(MANY, "brisk", after=after)
    server.stop()

    assert fire.pid in engines
    [run] = plant.runs("hold")
    assert (run.id, run.status, run.reason) == (held.id, Status.INTERRUPTED, Reason.LOST)
    plant.check_one_fire_each(may_be_interrupted=True)


@BOTH
def test_what_runs_when_a_server_is_told_to_end_is_waited_for(
    plant: Plant, words: tuple[str, ...]
) -> None:
    server = plant.start(*words)
    plant.wait_engines(2)
    # uvicorn ends a worker at once that is told to while it starts.
    plant.fires.wait_for(MANY, "brisk")
    with Client(plant.database) as client:
        client.run_now("hold")
    plant.fires.wait_for(1, "hold")

    server.send(signal.SIGTERM)
    plant.wait_engines(1)  # The other one has ended: it runs nothing.
    plant.let_go()
    server.wait_end()

    [run] = plant.runs("hold")
    assert run.status is Status.SUCCESS
    plant.check_one_fire_each()


def test_a_reload_of_gunicorn_has_new_engines_and_misses_nothing(plant: Plant) -> None:
    server = plant.start(*FLASK, *TWO)
    before = plant.wait_engines(2)

    server.send(signal.SIGHUP)
    plant.wait_engines(2, without=before)
    after = len(plant.fires.all())
    plant.fires.wait_for(MANY, "brisk", after=after)
    server.stop()

    plant.check_one_fire_each()


def test_a_worker_that_gunicorn_gives_up_on_is_ended_with_its_engine(plant: Plant) -> None:
    server = plant.start(*FLASK, *TWO, "--preload", "--timeout", "3")
    plant.wait_engines(2)
    connection = server.connect()
    connection.request("POST", "/hold")

    server.wait_said("WORKER TIMEOUT")
    plant.wait_engines(2)
    after = len(plant.fires.all())
    plant.fires.wait_for(MANY, "brisk", after=after)
    connection.close()
    server.stop()

    plant.check_one_fire_each(may_be_interrupted=True)


def test_uvicorn_s_reloader_has_one_engine_and_a_new_one_for_new_code(plant: Plant) -> None:
    server = plant.start(*UVICORN, "--reload")
    [old] = plant.wait_engines(1)
    assert old != server.process.pid

    jobs = plant.folder / "jobs.py"
    jobs.write_text(jobs.read_text().replace("all is well", "all is new"))
    plant.wait_engines(1, without={old})
    _, answer = server.ask("POST", "/reports/north")
    server.stop()

    assert answer == {"status": "success", "result": "all is new in north"}
    assert plant.engines() == set()
    plant.check_one_fire_each()


def test_the_http_api_is_served_under_a_path_of_the_program_s(plant: Plant) -> None:
    server = plant.start(*UVICORN)
    plant.wait_engines(1)

    refused, _ = server.ask("GET", "/jobs/api/v1/schedules")
    token = {"Authorization": "Bearer a-secret-word-of-your-own"}
    status, answer = server.ask("GET", "/jobs/api/v1/schedules", headers=token)
    server.stop()

    assert (refused, status) == (401, 200)
    assert "report" in str(answer)


BARE_ASGI = """
import json
from jobs import report, scheduler

async def app(scope, receive, send):
    while scope["type"] == "lifespan":
        kind = (await receive())["type"]
        await (scheduler.astart() if kind == "lifespan.startup" else scheduler.astop())
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
    text = json.dumps(await (await report.arun_now("north")).aget())
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
"""
BARE_WSGI = """
import json
from jobs import report

def app(environ, start_response):
    text = json.dumps(report.run_now("north").get(20))
    start_response("200 OK", [("content-type", "application/json")])
    return [text.encode()]
"""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(BARE_ASGI, ("-m", "uvicorn", "bare:app", "--uds", "web.sock"), id="asgi"),
        pytest.param(BARE_WSGI, (*GUNICORN, "bare:app"), id="wsgi"),
    ],
)
def test_an_application_without_a_framework_has_engines_too(
    plant: Plant, source: str, words: tuple[str, ...]
) -> None:
    (plant.folder / "bare.py").write_text(source)
    server = plant.start(*words, *TWO)
    engines = plant.wait_engines(2)

    status, answer = server.ask("POST", "/")
    server.stop()

    assert (status, answer) == (200, "all is well in north")
    assert plant.wait_engines(0, without=engines) == set()


def test_workers_without_an_engine_have_their_runs_done_by_the_process_that_has_one(
    plant: Plant,
) -> None:
    (plant.folder / "gunicorn.conf.py").write_text("")
    server = plant.start(*FLASK, *TWO)
    worker = plant.start("worker.py")
    engines = plant.wait_engines(1)

    _, answer = server.ask("POST", "/reports/north")
    plant.fires.wait_for(MANY, "brisk")
    code = worker.stop()
    server.stop()

    assert engines == {worker.process.pid}
    assert answer["status"] == "success"
    assert code == 0
    plant.check_one_fire_each()


def test_flask_run_has_its_jobs_run_by_a_command_of_the_application(plant: Plant) -> None:
    flask = ("-m", "flask", "--app", "flask_app")
    engine = plant.start(*flask, "jobs")
    [pid] = plant.wait_engines(1)
    server = plant.start(*flask, "run", "--host", "unix://web.sock", "--debug")

    status, answer = server.ask("POST", "/reports/north")
    plant.fires.wait_for(MANY, "brisk")
    server.stop()
    code = engine.stop()

    assert (status, answer["result"]) == (200, "all is well in north")
    assert {one.pid for one in plant.fires.all()} == {pid}
    assert code == 0
    plant.check_one_fire_each()


def test_a_flask_that_starts_its_engine_where_it_is_loaded_has_one_before_a_fork(
    plant: Plant,
) -> None:
    """With --preload that is the master's: its workers have none, and ask it."""
    flask = plant.folder / "flask_app.py"
    flask.write_text(flask.read_text() + "\nfrom jobs import scheduler\nscheduler.start()\n")
    (plant.folder / "gunicorn.conf.py").write_text("")
    server = plant.start(*FLASK, *TWO, "--preload")
    engines = plant.wait_engines(1)

    _, answer = server.ask("POST", "/reports/north")
    plant.fires.wait_for(MANY, "brisk")
    server.stop()

    assert engines == {server.process.pid}
    assert answer["status"] == "success"
    assert {one.pid for one in plant.fires.all()} == engines
    assert plant.engines() == set()
    plant.check_one_fire_each()
