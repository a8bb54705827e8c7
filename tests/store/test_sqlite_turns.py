"""Threads of one process write to a database in turns, without naps in between."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from edgecron.base.errors import DatabaseBusy
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.statistics import find_lock_failures
from edgecron.store.sqlite.store import open_store

NOW_MS = 1_773_000_000_000
BOUND_S = 30.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "edgecron.db"
    open_store(path, now_ms=NOW_MS).close()
    return path


def count(database: Database) -> None:
    with database.transaction():
        database.change("UPDATE meta SET lock_failures = lock_failures + 1000")


def test_a_thread_goes_on_as_soon_as_another_one_has_written(path: Path) -> None:
    first = Database(path)
    has_begun, waits = threading.Event(), threading.Event()
    told: list[int] = []

    def write() -> None:
        second = Database(path)
        has_begun.wait(BOUND_S)
        waits.set()
        count(second)
        told.append(second.lock_waits)
        second.close()

    thread = threading.Thread(target=write)
    thread.start()
    with first.transaction():
        has_begun.set()
        assert waits.wait(BOUND_S)
        first.change("UPDATE meta SET lock_failures = lock_failures + 1000")
    thread.join(BOUND_S)

    # It has waited once at most, and for us: SQLite was never asked in vain.
    [waited] = told
    assert waited <= 1
    assert find_lock_failures(first) == 2000
    first.close()


def test_who_waits_too_long_for_its_turn_is_told_that_others_write(path: Path) -> None:
    first, second = Database(path), Database(path, busy_wait_s=0.15)
    told: list[DatabaseBusy] = []

    def write() -> None:
        with pytest.raises(DatabaseBusy) as caught:
            count(second)
        told.append(caught.value)

    thread = threading.Thread(target=write)
    with first.transaction():
        thread.start()
        thread.join(BOUND_S)

    assert len(told) == 1
    assert second.lock_waits == 2  # looks in between, for who wants to know that it waits
    count(second)
    assert find_lock_failures(first) == 1000


def test_a_turn_that_an_interrupt_left_is_given_away_with_the_connection(path: Path) -> None:
    first, second = Database(path), Database(path, busy_wait_s=0.1)
    first._turns._lock.acquire()  # As Ctrl-C leaves it that comes right after.
    first.close()
    thread = threading.Thread(target=count, args=(second,))

    thread.start()
    thread.join(BOUND_S)

    assert find_lock_failures(second) == 1000


def test_an_error_gives_the_turn_away(path: Path) -> None:
    first, second = Database(path), Database(path, busy_wait_s=0)

    with pytest.raises(KeyError), first.transaction():
        raise KeyError
    count(second)

    assert find_lock_failures(first) == 1000


def test_a_forked_child_waits_for_nobody_of_its_parent(path: Path) -> None:
    holds, may_end = threading.Event(), threading.Event()
    other = path.with_name("other.db")
    open_store(other, now_ms=NOW_MS).close()

    def write() -> None:
        database = Database(path)
        turn = database._turns._lock
        with turn:  # as between two transactions, where a fork may come
            holds.set()
            may_end.wait(BOUND_S)
        database.close()

    thread = threading.Thread(target=write)
    thread.start()
    assert holds.wait(BOUND_S)
    child = os.fork()
    if not child:
        try:
            count(Database(path, busy_wait_s=0.5))
        except BaseException:  # noqa: BLE001  nothing of the parent's test may go on here
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    may_end.set()
    thread.join(BOUND_S)

    assert status == 0
    assert find_lock_failures(Database(path)) == 1000
