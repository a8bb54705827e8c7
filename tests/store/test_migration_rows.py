"""An old database is brought up to date whole, at once or not at all, and works."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import apsw
import pytest

from edgecron.base.errors import DatabaseUnusable, SchemaTooNew
from edgecron.client import Client
from edgecron.model.choices import Status
from edgecron.planning.times import load_triggers
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.store import open_store
from tests.support.clock import FakeClock
from tests.support.olddatabases import (
    everything,
    make_unreleased,
    make_version,
    make_version_1,
    version_of,
)

Tables = dict[str, list[dict[str, object]]]
NOW_MS = 1_795_200_000_000
migrate = import_module("edgecron.store.sqlite.migrate")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "edgecron.db"


def migrated(path: Path) -> None:
    open_store(path, now_ms=NOW_MS).close()


@pytest.mark.failure(68)
def test_no_row_and_no_value_is_lost(path: Path) -> None:
    make_version_1(path)
    before = with_new_names(everything(path))

    migrated(path)

    after = everything(path)
    assert version_of(path) == migrate.SCHEMA_VERSION
    for table, rows in before.items():
        if table == "sqlite_sequence":
            continue  # Numbers of runs need none any more.
        kept = [
            {name: new[name] for name in old} for old, new in zip(rows, after[table], strict=True)
        ]
        if table == "schedules":
            rows = [{**row, "needs_deadline_s": 86_400.0} for row in rows]
        if table == "schedule_revisions":
            for row in kept:
                row["snapshot"] = without_new_words(str(row["snapshot"]))
            rows = [{**row, "snapshot": json.loads(str(row["snapshot"]))} for row in rows]
        assert kept == rows, table


def with_new_names(tables: Tables) -> Tables:
    """The same rows, with the names that columns have now."""
    renamed: Tables = {}
    for table, rows in tables.items():
        renamed[table] = [
            {"max_late_s" if name == "grace_s" else name: value for name, value in row.items()}
            for row in rows
        ]
    for row in renamed["schedule_revisions"]:
        snapshot = json.loads(str(row["snapshot"]))
        if "grace_s" not in snapshot:
            continue
        snapshot["max_late_s"] = snapshot.pop("grace_s")
        row["snapshot"] = json.dumps(snapshot, ensure_ascii=False, separators=(",", ":"))
    return renamed


def without_new_words(snapshot: str) -> object:
    """A snapshot without what version 2 has added, which says what nobody had said otherwise."""
    words = json.loads(snapshot)
    assert words.pop("needs") == "[]"
    assert words.pop("needs_deadline_s") == 86_400.0
    assert words.pop("after_end_ms") == (3_600_000 if words["name"] == "again" else None)
    return words


@pytest.mark.failure(68)
def test_old_schedules_and_runs_are_read_and_changed(path: Path) -> None:
    make_version_1(path)

    with Client(path, clock=FakeClock(NOW_MS)) as client:
        names = {schedule.name for schedule in client.schedules()}
        runs = client.history(limit=100)
        [asked] = client.run_now("again")
        client.resume("second")
        client.pause("scoped")
        client.remove("boots")

    assert names == {
        *("first", "follows", "again", "second", "fails", "boots", "once", "scoped"),
        *("paused", "long"),
    }
    assert [run.id for run in runs] == list(range(11, 0, -1))
    assert {run.status for run in runs} == {
        *(Status.SUCCESS, Status.FAILED, Status.SKIPPED, Status.CANCELLED, Status.RUNNING),
    }
    # A number is never given twice.
    assert asked.id == 12


@pytest.mark.failure(68)
def test_views_that_a_person_made_keep_no_database_from_an_upgrade(path: Path) -> None:
    make_version_1(path)
    connection = apsw.Connection(str(path))
    connection.execute("""
        CREATE VIEW mine AS SELECT name FROM schedules WHERE enabled;
        CREATE VIEW ours AS SELECT id FROM executions;
        CREATE VIEW theirs AS SELECT schedule FROM executions_view""")
    counts = "SELECT (SELECT count(*) FROM mine), (SELECT count(*) FROM ours)"
    before = connection.execute(counts).fetchall()
    connection.close()

    migrated(path)

    connection = apsw.Connection(str(path))
    assert connection.execute(counts).fetchall() == before
    assert connection.execute("SELECT count(*) FROM theirs").fetchall() == [(11,)]
    assert connection.execute("PRAGMA foreign_key_list(executions)").fetchall()[0][2] == "schedules"
    connection.close()


@pytest.mark.failure(68)
def test_every_old_revision_can_be_carried_out(path: Path) -> None:
    make_version_1(path)
    store = open_store(path, now_ms=NOW_MS)
    wanted = [
        (row["schedule_id"], row["revision"]) for row in everything(path)["schedule_revisions"]
    ]

    stored = store.load_schedules(wanted)  # type: ignore[arg-type]

    store.close()
    assert len(stored) == len(wanted) == 16
    assert all(load_triggers(one.compiled) for one in stored)
    assert {one.spec.policies.needs for one in stored} == {()}


def test_who_followed_another_schedule_follows_it(path: Path) -> None:
    make_version_1(path)

    migrated(path)

    rows = everything(path)
    assert rows["schedule_upstreams"] == [
        {"schedule_id": 2, "upstream": "first", "ends": "success"}
    ]
    assert [row["name"] for row in rows["schedules"] if row["after_end_ms"] == 3_600_000] == [
        "again"
    ]


def test_what_had_a_queue_for_nobody_is_in_that_of_its_program_again(path: Path) -> None:
    make_version_1(path)
    connection = apsw.Connection(str(path))
    connection.execute("""
        UPDATE schedules SET queue = 'py:plant:vanished', kind = 'callable', job = 'poll',
            updated_at = 5 WHERE name = 'first';
        UPDATE schedule_revisions SET snapshot = json_set(snapshot, '$.queue', 'py:plant:vanished')
        WHERE schedule_id = (SELECT id FROM schedules WHERE name = 'first');
        UPDATE executions SET queue = 'py:plant:vanished'
        WHERE status = 'running'""")
    connection.close()

    migrated(path)

    rows = everything(path)
    [first] = [row for row in rows["schedules"] if row["name"] == "first"]
    assert (first["queue"], first["vanished_at"]) == ("py:plant", 5)
    assert {row["vanished_at"] for row in rows["schedules"] if row is not first} == {None}
    assert {
        json.loads(str(row["snapshot"]))["queue"]
        for row in rows["schedule_revisions"]
        if row["schedule_id"] == first["id"]
    } == {"py:plant"}
    assert "vanished" not in str([row["queue"] for row in rows["executions"]])


def test_what_can_not_be_read_of_a_schedule_does_not_hold_up_the_others(path: Path) -> None:
    make_version_1(path)
    connection = apsw.Connection(str(path))
    connection.execute("""UPDATE schedules SET compiled = '["x", 1]' WHERE id = 1""")
    connection.execute("UPDATE schedule_revisions SET snapshot = '[]' WHERE schedule_id = 1")
    connection.execute(
        """UPDATE schedule_revisions SET snapshot = '{"compiled": "[{"}' WHERE schedule_id = 2"""
    )
    connection.close()

    migrated(path)

    assert version_of(path) == migrate.SCHEMA_VERSION


@pytest.mark.failure(68)
def test_a_database_that_is_of_version_2_but_for_its_number_gets_the_number(path: Path) -> None:
    make_unreleased(path)
    before = with_new_names(everything(path))

    migrated(path)

    after = everything(path)
    assert version_of(path) == migrate.SCHEMA_VERSION
    for table, rows in before.items():
        if table == "sqlite_sequence":
            continue  # Numbers of runs need none any more.
        kept = [
            {name: new[name] for name in old} for old, new in zip(rows, after[table], strict=True)
        ]
        assert kept == rows, table


@pytest.mark.failure(68)
def test_a_database_of_a_state_between_two_versions_is_refused_and_left(path: Path) -> None:
    make_version_1(path)
    connection = apsw.Connection(str(path))
    connection.execute("ALTER TABLE engines ADD COLUMN supervisor_id TEXT")
    connection.close()
    before = everything(path)

    with pytest.raises(DatabaseUnusable, match=r"lacks meta\.local_timezone") as caught:
        migrated(path)

    assert "left as it is" in str(caught.value.hint)
    assert everything(path) == before
    assert version_of(path) == 1
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.failure(68)
def test_an_old_database_with_a_row_that_points_nowhere_is_refused_and_left(path: Path) -> None:
    make_version_1(path)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE executions SET schedule_id = 99 WHERE status = 'running'")
    connection.close()
    before = everything(path)

    with pytest.raises(DatabaseUnusable, match="1 row refers to missing schedules"):
        migrated(path)

    assert everything(path) == before


@pytest.mark.failure(68)
def test_rows_that_nothing_can_reach_keep_no_database_from_an_upgrade(path: Path) -> None:
    make_version_1(path)
    connection = apsw.Connection(str(path))
    connection.execute("""
        INSERT INTO schedule_scopes VALUES (99, 'global', '');
        INSERT INTO schedule_revisions VALUES (99, 1, 0, 'cli', '{}');
        UPDATE schedules SET group_name = 'lost' WHERE name = 'first'""")
    connection.close()

    migrated(path)

    rows = everything(path)
    assert not [row for row in rows["schedule_scopes"] if row["schedule_id"] == 99]
    assert not [row for row in rows["schedule_revisions"] if row["schedule_id"] == 99]
    assert {"name": "lost", "max_running": None} in rows["groups"]


@pytest.mark.failure(66)
def test_a_trigger_that_was_planted_is_not_run_by_a_migration(path: Path) -> None:
    make_version_1(path)
    connection = apsw.Connection(str(path))
    connection.execute(
        """CREATE TRIGGER evil AFTER UPDATE ON schedule_revisions BEGIN
               UPDATE schedules SET job = 'evil'; END"""
    )
    connection.close()
    before = everything(path)

    with pytest.raises(DatabaseUnusable, match="holds the trigger 'evil'"):
        migrated(path)

    assert everything(path) == before


@pytest.mark.parametrize("fails", [False, True])
def test_a_connection_is_after_a_migration_as_it_was_before(path: Path, fails: bool) -> None:
    make_version_1(path)
    database = Database(path)
    before = [database.rows(f"PRAGMA {name}") for name in ("foreign_keys", "temp_store")]
    if fails:
        database.rows("PRAGMA foreign_keys = OFF")
        with database.transaction():
            database.change("UPDATE executions SET schedule_id = 99 WHERE status = 'running'")
        database.rows("PRAGMA foreign_keys = ON")

    with suppress(DatabaseUnusable):
        migrate.migrate(database, now_ms=NOW_MS)

    assert version_of(path) == (1 if fails else migrate.SCHEMA_VERSION)
    assert [database.rows(f"PRAGMA {name}") for name in ("foreign_keys", "temp_store")] == before
    database.close()


class Crash(Exception):
    """What a process that is killed would not come back from."""


def crash_at(database: Database, number: int) -> None:
    """Raise before the statement of this number that this connection runs from now on."""
    left = number

    def trace(_cursor: object, _sql: str, _bindings: object) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise Crash
        return True

    database.connection.exec_trace = trace


@pytest.mark.failure(68)
@pytest.mark.failure(15)
@pytest.mark.parametrize("apart", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_migration_that_ends_before_any_of_its_statements_leaves_all_as_it_was(
    path: Path, apart: int
) -> None:
    make_version_1(path)
    before = everything(path)
    number = 0

    while version_of(path) == 1:
        assert everything(path) == before, number
        database = Database(path)
        crash_at(database, number)
        with suppress(Crash):
            migrate.migrate(database, now_ms=NOW_MS)
        database.connection.exec_trace = None
        database.close()
        number += apart

    assert number > 30
    migrated(path)
    assert len(everything(path)["schedule_upstreams"]) == 1


@pytest.mark.failure(69)
def test_a_database_that_becomes_newer_while_it_is_open_is_written_no_more(path: Path) -> None:
    store = open_store(path, now_ms=NOW_MS)
    store.register_engine(key="a", pid=1, boot_id="b", queues=(), now_ms=NOW_MS)
    newer = apsw.Connection(str(path))
    newer.execute("PRAGMA user_version = 99")

    with pytest.raises(SchemaTooNew, match="is version 99, this edgecron knows up to"):
        store.register_engine(key="b", pid=1, boot_id="b", queues=(), now_ms=NOW_MS)
    with pytest.raises(SchemaTooNew):
        _ = store.change_mark
    newer.execute("DROP VIEW executions_view; ALTER TABLE engines RENAME TO others")
    with pytest.raises(SchemaTooNew):
        store.find_engines()

    assert newer.execute("SELECT key FROM others").fetchall() == [("a",)]
    newer.close()
    store.close()


def test_engines_that_were_told_to_stop_before_keep_the_queues_they_may_have_taken(
    path: Path,
) -> None:
    make_version(path, 20)
    raw = apsw.Connection(str(path))
    for key, program, seen_ms in (("a", None, 9), ("b", "py:shop", 9), ("c", None, None)):
        raw.execute(
            """INSERT INTO engines (key, pid, boot_id, queues, program, version, started_at,
                   stopped_at, seen_at) VALUES (?, 1, 'b', '[]', ?, '1', 5, 9, ?)""",
            (key, program, seen_ms),
        )
    raw.close()

    store = open_store(path, now_ms=NOW_MS)

    found = {
        queue: {one.key for one in store.find_presence((queue,), but=0)}
        for queue in ("command", "py:shop", "py:other")
    }
    store.close()
    assert found == {"command": {"a", "b"}, "py:shop": {"b"}, "py:other": set()}
