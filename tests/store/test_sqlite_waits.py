"""Threads of one process write to a database one after the other."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from edgecron.base.errors import DatabaseBusy
from edgecron.store.sql.statistics import find_lock_failures
from edgecron.store.sqlite.connection import Database
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


def test_a_writer_gives_up_after_its_wait_and_can_write_later(path: Path) -> None:
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
    assert second.lock_waits > 50
    count(second)
    assert find_lock_failures(first) == 1000


def test_an_error_releases_the_lock(path: Path) -> None:
    first, second = Database(path), Database(path, busy_wait_s=0)

    with pytest.raises(KeyError), first.transaction():
        raise KeyError
    count(second)

    assert find_lock_failures(first) == 1000


def test_between_the_slices_of_a_large_change_another_connection_gets_the_lock(
    path: Path,
) -> None:
    slices, second = Database(path), Database(path)
    is_over, never = threading.Event(), threading.Event()
    written: list[int] = []

    def write() -> None:
        while not is_over.is_set():
            with second.transaction():
                second.change("UPDATE meta SET clock_set_by_ms = 1")
            written.append(1)

    thread = threading.Thread(target=write)
    for number in range(60):
        with slices.transaction():
            slices.change("UPDATE meta SET clock_set_at = 1")
            if not number:
                thread.start()
            never.wait(0.005)
        slices.let_others_write()
    is_over.set()
    thread.join(BOUND_S)

    assert len(written) > 20
