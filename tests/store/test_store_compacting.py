"""The database's file written anew, without what is free in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgecron.base.errors import DatabaseFull
from edgecron.store.sqlite.store import open_store
from edgecron.store.sqlite.whole_file import compact
from tests.support.places import fill, small_disk

MIB = 1024 * 1024

COMPACT = """
import resource, sys
from pathlib import Path
from edgecron.store.sqlite.store import open_store
from edgecron.store.sqlite.whole_file import compact

def most_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

store = open_store(Path(sys.argv[1]), now_ms=0)
before = most_kib()
compact(store)
print(most_kib() - before)
store.close()
"""


def make_large(path: Path, *, mib: int) -> None:
    """A database that holds so much."""
    store = open_store(path, now_ms=0)
    with store.transaction():
        store.change_many(
            """INSERT INTO engines (key, pid, boot_id, queues, version, started_at)
               VALUES (hex(randomblob(:half)), 1, 'boot', '[]', '0.1.0', 0)""",
            [{"half": MIB // 2}] * mib,
        )
    store.close()


def test_a_large_database_is_not_written_anew_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "edgecron.db"
    make_large(path, mib=48)

    done = subprocess.run(
        [sys.executable, "-c", COMPACT, str(path)], capture_output=True, text=True, check=True
    )

    assert int(done.stdout) < 24 * 1024


@pytest.mark.failure(51)
def test_without_room_for_it_the_database_stays_as_it_was(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", kib=16_384) as disk:
        path = disk / "edgecron.db"
        make_large(path, mib=1)
        store = open_store(path, now_ms=0)
        with store.transaction():
            store.change("UPDATE meta SET next_prune_at = 1 WHERE id = 1")
        filler = fill(disk)

        with pytest.raises(DatabaseFull):
            compact(store)
        os.unlink(filler)

        assert store.rows("PRAGMA integrity_check") == [("ok",)]
        assert store.rows("SELECT next_prune_at FROM meta") == [(1,)]
        store.close()
