"""The recipe of `help django`: which of its processes start an engine, and which do not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgecron import Scheduler
from tests.support.servers import BOUND_S, Plant

pytestmark = pytest.mark.needs_package("django", "gunicorn")

GUNICORN = ("-m", "gunicorn", "--bind", "unix:web.sock", "--no-control-socket", "--workers", "2")
MANY = 12


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Plant]:
    with ExitStack() as stack:
        shop = Plant(tmp_path, stack, recipe="shop", database="schedules.db")
        migrate = shop.start("manage.py", "migrate", "-v", "0")
        assert migrate.wait_end() == 0, migrate.said
        yield shop


def test_commands_of_django_start_no_engine_and_make_no_database(shop: Plant) -> None:
    check = shop.start("manage.py", "check")

    assert check.wait_end() == 0, check.said
    assert (shop.folder / "db.sqlite3").exists()
    assert not shop.database.exists()


def test_a_site_has_its_jobs_run_by_a_command_beside_its_workers(shop: Plant) -> None:
    engine = shop.start("manage.py", "run_edgecron")
    [pid] = shop.wait_engines(1)
    server = shop.start(*GUNICORN, "-c", "/dev/null", "shop.wsgi")

    status, answer = server.ask("GET", "/count")
    _, ordered = server.ask("POST", "/orders")
    Scheduler(shop.database).run(ordered["run"]).wait(BOUND_S)
    _, confirmed = server.ask("GET", f"/runs/{ordered['run']}")
    shop.fires.wait_for(MANY, "brisk")
    open_files = {os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir() if one.exists()}
    server.stop()
    code = engine.stop()

    assert (status, answer) == (200, {"status": "success", "result": 0})
    assert confirmed == {"status": "success", "result": "confirmed pump"}
    assert {one.pid for one in shop.fires.all()} == {pid} == {engine.process.pid}
    assert str(shop.folder / "db.sqlite3") not in open_files, "a job left a connection open"
    assert code == 0
    shop.check_one_fire_each()


@pytest.mark.failure(80)
def test_the_workers_of_a_site_can_have_the_engines_instead(shop: Plant) -> None:
    server = shop.start(*GUNICORN, "--preload", "shop.wsgi")
    engines = shop.wait_engines(2)

    shop.fires.wait_for(MANY, "brisk")
    _, answer = server.ask("GET", "/count")
    server.stop()

    assert answer["status"] == "success"
    assert {one.pid for one in shop.fires.all()} <= engines
    assert shop.engines() == set()
    shop.check_one_fire_each()


def test_the_development_server_starts_no_engine_in_either_of_its_processes(shop: Plant) -> None:
    server = shop.start("manage.py", "runserver", "127.0.0.1:0")
    # Django 6.1 says "Starting WSGI development server at".
    server.wait_said("development server at http")
    processes = server.processes()

    server.stop(signal.SIGINT)

    assert len(processes) == 2
    assert not shop.database.exists()
