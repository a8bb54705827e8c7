"""The threads on which requests are answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.base.errors import DatabaseUnusable, NotFound
from edgecron.client import Client
from edgecron.http.client_threads import Workers
from edgecron.http.messages import Refused
from tests.support.newdatabases import new_database
from tests.support.specs import make_spec

BOUND_S = 20.0


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with Client(new_database(tmp_path / "edge.db")) as client:
        client.add(make_spec("backup"))
    return tmp_path / "edge.db"


@pytest.fixture
def workers(database: Path) -> Iterator[Workers]:
    workers = Workers(lambda: Client(database), most_threads=2)
    yield workers
    workers.close()


def test_each_thread_has_a_client_of_its_own(workers: Workers) -> None:
    meeting = threading.Barrier(2)

    def meet(client: Client) -> int:
        client.count_schedules()
        meeting.wait(BOUND_S)
        return id(client)

    first, second = workers.submit(meet), workers.submit(meet)

    assert first.result(BOUND_S) != second.result(BOUND_S)


def test_what_a_task_raises_is_raised_to_who_asked(workers: Workers) -> None:
    with pytest.raises(NotFound):
        workers.submit(lambda client: client.schedule("nobody")).result(BOUND_S)

    assert workers.submit(lambda client: client.schedule("backup").name).result(BOUND_S) == "backup"


def test_a_database_that_failed_is_opened_anew(workers: Workers) -> None:
    def fail(client: Client) -> None:
        client.count_schedules()
        raise DatabaseUnusable("as if its file had been replaced")

    with pytest.raises(DatabaseUnusable):
        workers.submit(fail).result(BOUND_S)

    assert workers.submit(lambda client: client.count_schedules()[0]).result(BOUND_S) == 1


def test_only_so_much_waits(workers: Workers) -> None:
    gate = threading.Event()
    begun = [workers.submit(lambda client: gate.wait(BOUND_S)) for _ in range(2)]
    while not all(future.running() for future in begun):
        threading.Event().wait(0.001)
    waiting = [workers.submit(lambda client: True) for _ in range(64)]

    with pytest.raises(Refused, match="64 requests are waiting"):
        workers.submit(lambda client: True)

    gate.set()
    assert all(future.result(BOUND_S) for future in waiting)


def test_the_end_ends_a_question_that_goes_on_and_what_waits(database: Path) -> None:
    workers = Workers(lambda: Client(database), most_threads=1)
    begun = threading.Event()

    def ask_on(client: Client) -> None:
        begun.set()
        while True:
            client.schedules()

    going, waiting = workers.submit(ask_on), workers.submit(lambda client: None)
    assert begun.wait(BOUND_S)

    workers.close()

    assert isinstance(going.exception(BOUND_S), Exception)
    with pytest.raises(Refused, match="stopping"):
        waiting.result(BOUND_S)
    with pytest.raises(Refused, match="stopping"):
        workers.submit(lambda client: None)


def test_threads_that_end_leave_no_task_behind(database: Path) -> None:
    """Again and again a task comes just as a thread is about to end."""
    workers = Workers(lambda: Client(database), most_threads=1, idle_s=0.001)
    try:
        for _ in range(200):
            assert workers.submit(lambda client: True).result(BOUND_S)
            threading.Event().wait(0.001)
    finally:
        workers.close()
