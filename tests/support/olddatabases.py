"""Databases as earlier versions of edgecron have left them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import apsw

from edgecron.store.sqlite.database_file import APPLICATION_ID

migrate = import_module("edgecron.store.sqlite.migrate")
_ROWS = Path(__file__).parent.parent / "store"


def make_version_1(path: Path) -> None:
    """A database of version 1, with rows as that version wrote them."""
    _make(path, layout=script(1), rows=(_ROWS / "version_1.sql").read_text("utf-8"))


def make_version(path: Path, version: int) -> None:
    """A database of a version from 9 on, without schedules and runs."""
    layout = ";".join(script(step) for step in range(1, version + 1))
    meta = """INSERT INTO meta (id, uuid, seed, created_at, created_by)
              VALUES (1, 'one', zeroblob(16), 1, '0.1.0')"""
    _make(path, layout=layout, rows=meta, version=version)


def make_unreleased(path: Path) -> None:
    """A database of version 2, as it says of version 1: of a state that was never released."""
    layout = (_ROWS / "version_1_of_2.sql").read_text("utf-8")
    rows = (_ROWS / "version_1.sql").read_text("utf-8")
    _make(path, layout=layout, rows=rows)


def script(step: int) -> str:
    """A migration as it is in the package."""
    folder = Path(str(migrate.__file__)).parent / "migrations"
    return (folder / migrate.SCRIPTS[step - 1]).read_text("utf-8")


def everything(path: Path) -> dict[str, list[dict[str, object]]]:
    """Every row of every table, by the names of its columns."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    found = {}
    for (table,) in connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    ).fetchall():
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        rows = connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
        found[str(table)] = [dict(zip(names, row, strict=True)) for row in rows]
    connection.close()
    return found


def version_of(path: Path) -> int:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    [(version,)] = connection.execute("PRAGMA user_version").fetchall()
    connection.close()
    return int(str(version))


def _make(path: Path, *, layout: str, rows: str, version: int = 1) -> None:
    path.touch(mode=0o600)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA page_size = 1024; PRAGMA journal_mode = WAL")
    connection.execute(f"BEGIN; {layout}; {rows}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}; COMMIT")
    connection.close()
