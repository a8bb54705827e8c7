"""The write-ahead log stays small while an engine goes on writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.store import SqliteStore, open_store

START_MS = 1_773_000_000_000  # 2026-03-08T20:00:00Z


def _write_often(path: Path) -> int:
    """The log's size in bytes after many small commits, of some twenty megabytes together."""
    store = open_store(path, now_ms=START_MS)
    store.rows("PRAGMA synchronous = OFF")  # For speed: the log is the same.
    for number in range(4000):
        store.register_engine(
            key=f"{number:016x}", pid=1, boot_id="b", queues=("command",), now_ms=START_MS
        )
        store.retire_engine(number + 1, now_ms=START_MS)
        store.tidy()
    size = path.with_name(path.name + "-wal").stat().st_size
    store.close()
    return size


def _write_much(store: SqliteStore, keys: range) -> None:
    """What an engine does, which moves its log where nobody is in the way of that."""
    for number in keys:
        engine_id = store.register_engine(
            key=f"{number:016x}", pid=1, boot_id="b", queues=("command",), now_ms=START_MS
        )
        store.retire_engine(engine_id, now_ms=START_MS)
    store.tidy()


@pytest.mark.failure(25)
def test_a_log_that_a_reader_without_end_keeps_from_being_moved_is_measured(
    tmp_path: Path,
) -> None:
    path = tmp_path / "e.db"
    store = open_store(path, now_ms=START_MS)
    store.rows("PRAGMA synchronous = OFF")
    store.tidy()
    store.move_log()
    reader = Database(path, must_exist=True)

    before = store.unmoved_bytes
    reader.rows("BEGIN")
    reader.rows("SELECT count(*) FROM executions")
    measured = []
    for keys in (range(300), range(300, 600)):
        _write_much(store, keys)
        measured.append(store.unmoved_bytes)
    reader.rows("COMMIT")
    store.move_log()
    after = store.unmoved_bytes

    assert before == after == 0
    assert 100_000 < measured[0] < measured[1]
    reader.close()
    store.close()


@pytest.mark.failure(25)
def test_the_log_of_an_engine_that_tidies_stays_small(tmp_path: Path) -> None:
    size = _write_often(tmp_path / "e.db")

    assert size < 6 * 1024 * 1024


def test_tidying_leaves_the_commits_of_others_alone(tmp_path: Path) -> None:
    path = tmp_path / "e.db"
    engine = open_store(path, now_ms=START_MS)
    engine.tidy()
    person = open_store(path, now_ms=START_MS)

    before = engine.change_mark
    person.register_engine(key="ab", pid=1, boot_id="b", queues=(), now_ms=START_MS)
    engine.tidy()
    after = engine.change_mark

    assert after != before
    assert [one.key for one in engine.find_engines()] == ["ab"]
    engine.close()
    person.close()
