"""A schema that somebody has changed: what he planted is not run, and every command that fails
of it says so in plain words."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.support.cli import Edgecron

pytestmark = pytest.mark.failure(66)

HARMLESS = {
    "a view": "CREATE VIEW evil AS SELECT load_extension('/tmp/evil.so') FROM schedules",
    "a table": "CREATE TABLE mine (a); INSERT INTO mine VALUES (1)",
    "a table that refers to ours": "CREATE TABLE mine (s REFERENCES schedules (id))",
    "a virtual table": "CREATE VIRTUAL TABLE evil USING fts5(a)",
    "an index on an expression": "CREATE INDEX evil ON schedules (lower(name) || abs(id))",
    "a column that is computed": "ALTER TABLE schedules ADD COLUMN evil TEXT AS (upper(name))",
    "no check of what has ended": "DROP TRIGGER executions_final",
}
# As (what is there, what comes in its place): their functions exist in no connection of ours.
REWRITTEN = {
    "a check": (
        "executions",
        "CHECK (attempt >= 1)",
        "CHECK (attempt >= 1 AND writefile('{file}', 'x') IS NULL)",
    ),
    "a default": (
        "schedules",
        "boot_decided TEXT",
        "boot_decided TEXT DEFAULT (writefile('{file}', 'x'))",
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_does_not_touch_ours_is_left_alone(
    edgecron: Edgecron, backup: str, database: Path, name: str
) -> None:
    connection = apsw.Connection(str(database))
    connection.execute(HARMLESS[name])
    connection.close()

    codes = [edgecron(*words).code for words in (("list",), ("run", backup), ("doctor",))]

    assert codes == [0, 0, 0]


@pytest.mark.parametrize("name", REWRITTEN)
def test_what_was_written_into_our_tables_is_not_run(
    edgecron: Edgecron, backup: str, database: Path, tmp_path: Path, name: str
) -> None:
    table, before, after = REWRITTEN[name]
    made = tmp_path / "made"
    connection = apsw.Connection(str(database))
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name = ?",
        (before, after.format(file=made), table),
    )
    connection.close()

    said = [edgecron("run", backup), edgecron("add", "x", "--every", "1h", "--", "true")]
    doctor = edgecron("doctor", "--deep", "--json")
    copied = edgecron("backup", str(tmp_path / "copy.db"))

    for one in said:
        assert one.code in (0, 5)
        assert one.code == 0 or "does not have the tables of this edgecron" in one.err
        assert one.code == 0 or one.is_plain_error
    assert doctor.code in (0, 1, 5)
    assert copied.code in (0, 5)
    assert "partial" not in copied.err
    assert not made.exists()
