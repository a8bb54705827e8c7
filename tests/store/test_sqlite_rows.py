"""What the schema itself holds: terminal rows are final, a status goes with its columns."""

from __future__ import annotations

import threading
import zlib
from pathlib import Path
from typing import Any

import apsw
import pytest

from edgecron.base.errors import Unreadable
from edgecron.model.choices import CatchUp, Status
from edgecron.model.run import Output, OutputChunk, Stream
from edgecron.store.sqlite.connection import Database
from tests.store.store_bench import Bench, outcome_of
from tests.support.specs import make_spec

MINUTE = 60_000
BOUND_S = 20.0


@pytest.fixture
def raw(bench: Bench, tmp_path: Path) -> Any:
    database = Database(tmp_path / "edgecron.db")
    yield database
    database.close()


@pytest.mark.parametrize(
    "change",
    [
        "status = 'running'",
        "status = 'failed', reason = 'exit'",
        "exit_code = 9",
        "finished_at = finished_at + 1",
        "error_msg = 'x'",
        "lease_token = 'x'",
        "attempt = 2, max_attempts = 2",
    ],
)
def test_an_ended_run_never_changes(bench: Bench, raw: Database, change: str) -> None:
    bench.add()
    bench.clock.advance_ms(MINUTE)
    bench.end(*bench.fire().granted)

    with pytest.raises(Unreadable, match="terminal"), raw.transaction():
        raw.change(f"UPDATE executions SET {change}")

    assert bench.statuses() == ["success"]


@pytest.mark.parametrize(
    ("change", "may"),
    [
        ("missed_count = 5, missed_to_at = missed_to_at + 60000", True),
        ("missed_count = 5", False),
        ("missed_to_at = missed_to_at + 60000", False),
        ("missed_count = 1, missed_to_at = missed_to_at + 60000", False),
        ("missed_count = 5, missed_to_at = missed_to_at + 60000, reason = 'paused'", False),
        ("missed_count = 5, missed_to_at = missed_to_at + 60000, plan_at = 1", False),
        ("missed_count = NULL, missed_to_at = NULL, missed_from_at = NULL", False),
        ("status = 'queued'", False),
    ],
)
def test_a_skipped_row_may_grow_and_nothing_else(
    bench: Bench, raw: Database, change: str, may: bool
) -> None:
    bench.add(make_spec("backup", "0 * * * *", catch_up=CatchUp.SKIP))
    bench.clock.advance_ms(150 * MINUTE)
    bench.fire()
    [row] = bench.rows()
    assert row.missed_count == 2

    if may:
        with raw.transaction():
            assert raw.change(f"UPDATE executions SET {change}") == 1
    else:
        with pytest.raises(Unreadable), raw.transaction():
            raw.change(f"UPDATE executions SET {change}")


def test_a_skipped_row_without_a_count_never_changes(bench: Bench, raw: Database) -> None:
    bench.add()
    with raw.transaction():
        raw.change(
            """INSERT INTO executions (schedule_id, revision, plan_at, cause, due_at, queue,
                   status, reason, finished_at)
               VALUES (1, 1, 1, 'schedule', 1, 'command', 'skipped', 'condition', 1)"""
        )

    with pytest.raises(Unreadable, match="terminal"), raw.transaction():
        raw.change("UPDATE executions SET error_msg = 'x'")


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "queued"},
        {"status": "queued", "queued_at": 1, "lease_token": "t"},
        {"status": "queued", "queued_at": 1, "started_at": 1},
        {"status": "running", "claimed_at": 1, "engine_id": 1},
        {"status": "running", "claimed_at": 1, "lease_token": "t"},
        {"status": "running", "claimed_at": 1, "lease_token": "t", "engine_id": 1,
         "finished_at": 1},
        {"status": "running", "claimed_at": 1, "lease_token": "t", "engine_id": 1,
         "reason": "exit"},
        {"status": "success", "started_at": 1},
        {"status": "success", "finished_at": 1},
        {"status": "success", "started_at": 1, "finished_at": 1, "reason": "exit"},
        {"status": "failed", "finished_at": 1},
        {"status": "failed", "reason": "exit"},
        {"status": "skipped", "finished_at": 1},
        {"status": "skipped", "finished_at": 1, "reason": "overlap", "started_at": 1},
        {"status": "skipped", "finished_at": 1, "reason": "misfire", "missed_count": 1},
        {"status": "interrupted", "finished_at": 1},
        {"status": "finished", "finished_at": 1, "reason": "exit"},
        {"status": "queued", "queued_at": 1, "attempt": 2},
        {"status": "queued", "queued_at": 1, "cause": "boredom"},
        {"status": "queued", "queued_at": "soon"},
        {"status": "queued", "queued_at": 1, "schedule_id": 99},
    ],
)  # fmt: skip
def test_a_row_whose_columns_do_not_fit_its_status_is_refused(
    bench: Bench, raw: Database, columns: dict[str, object]
) -> None:
    bench.add()
    base: dict[str, object] = {
        "schedule_id": 1, "revision": 1, "plan_at": 1, "cause": "schedule", "due_at": 1,
        "queue": "command",
    }  # fmt: skip
    row = base | columns

    with pytest.raises(Unreadable), raw.transaction():
        raw.change(
            f"INSERT INTO executions ({', '.join(row)})"
            f" VALUES ({', '.join(':' + name for name in row)})",
            row,
        )


@pytest.mark.parametrize(
    "change",
    [
        "next_plan_at = NULL",
        "trigger_error = 'x'",
        "deleted_at = 1",
        "max_running = 0",
        "overlap = 'perhaps'",
        "triggers = 'not json'",
        "name = ''",
    ],
)
def test_a_schedule_that_contradicts_itself_is_refused(
    bench: Bench, raw: Database, change: str
) -> None:
    bench.add()

    with pytest.raises(Unreadable), raw.transaction():
        raw.change(f"UPDATE schedules SET {change}")


def test_the_views_show_times_that_people_read(bench: Bench, raw: Database) -> None:
    bench.add()
    bench.clock.advance_ms(MINUTE)
    bench.end(*bench.fire().granted, status=Status.FAILED)

    executions = raw.rows("SELECT schedule, plan_at, finished_at, status FROM executions_view")
    schedules = raw.rows("SELECT name, timezone, next_plan_at, failed_count FROM schedules_view")

    assert executions == [
        ("backup", "2026-11-20T08:01:00.000Z", "2026-11-20T08:01:00.000Z", "failed")
    ]
    assert schedules == [("backup", "UTC", "2026-11-20T08:02:00.000Z", 1)]


def test_an_output_is_compressed_before_the_lock_is_taken(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add()
    bench.clock.advance_ms(MINUTE)
    [granted] = bench.fire().granted
    chunk = OutputChunk(stream=Stream.STDOUT, at_ms=0, content=b"x" * 10_000)
    ended = outcome_of(granted, bench.now)._replace(output=Output(chunks=(chunk,)))
    other = Database(tmp_path / "edgecron.db", busy_wait_s=0)
    compress = zlib.compress

    def compress_while_another_writes(*args: Any) -> bytes:
        with other.transaction():
            return compress(*args)

    monkeypatch.setattr(zlib, "compress", compress_while_another_writes)

    assert bench.store.finish([ended], now_ms=bench.now) != [None]
    other.close()


@pytest.mark.parametrize("ask", [Database.rows, lambda *words: list(Database.each(*words))])
def test_a_text_that_can_not_be_read_leaves_no_statement_behind(raw: Database, ask: Any) -> None:
    """Else the log could not be moved for as long as somebody had the error."""
    text = "SELECT CAST(x'5bc328ff5d' AS TEXT) FROM sqlite_schema"

    with pytest.raises(Unreadable) as kept:
        ask(raw, text)

    assert raw.unmoved_bytes >= 0
    assert raw.checkpoint()
    assert kept.value.__cause__ is not None


class Watched:
    """A lock, and word of who is about to take it."""

    def __init__(self, lock: Any) -> None:
        self._lock, self.asked = lock, threading.Event()

    def __enter__(self) -> None:
        self.asked.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_rows_that_another_thread_gives_up_wait_for_the_statement_that_goes_on(
    raw: Database,
) -> None:
    rows = raw.each("VALUES (1), (2), (3)")
    next(rows)
    in_use = raw.in_use
    watched = Watched(in_use)
    errors: list[apsw.Error] = []

    def give_up() -> None:
        try:
            rows.close()  # type: ignore[attr-defined]
        except apsw.Error as error:
            errors.append(error)
            watched.asked.set()

    other = threading.Thread(target=give_up, name="gives-up")

    def within_the_statement(*_: object) -> int:
        raw.in_use = watched  # type: ignore[assignment]
        other.start()
        assert watched.asked.wait(BOUND_S)
        return 1

    raw.connection.create_scalar_function("within", within_the_statement, 0)
    found = raw.rows("SELECT within()")
    other.join(BOUND_S)
    raw.in_use = in_use  # forks hold it

    assert (found, errors) == ([(1,)], [])
