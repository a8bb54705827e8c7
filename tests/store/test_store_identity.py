"""The name of a database, and the seed of its jitter."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from edgecron.store.sqlite.store import SqliteStore, open_store


def test_a_store_has_the_seed_and_name_of_its_database_however_it_was_opened(
    tmp_path: Path,
) -> None:
    path = tmp_path / "edge.db"
    store = open_store(path, now_ms=0)
    store.close()

    again = SqliteStore(path)

    assert (again.seed, again.uuid) == (store.seed, store.uuid)
    assert len(again.seed) == 16
    assert UUID(again.uuid).version == 4
    again.close()
