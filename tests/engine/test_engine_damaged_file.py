"""A database that is damaged under a real engine: it stops firing, says so once, and goes on by
itself where the damage heals, as that of a cable or a cut file that is put back."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.damage import cut, overwrite, root_of, spoil_page
from tests.support.engines import Place
from tests.support.processes import BOUND_S, Daemon
from tests.support.stuck import resume, stop

pytestmark = pytest.mark.failure(52)

# In a process of its own: to close the file in this one would tell nobody, and drop locks.
CHECKPOINT = """
import sys
import apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
print(*connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE))
"""
DAMAGE: dict[str, Callable[[Path], object]] = {
    "its first bytes": lambda path: overwrite(path, 0, b"XXXX"),
    "half of it": lambda path: cut(path, to_bytes=path.stat().st_size // 2),
    "the table of runs": lambda path: spoil_page(path, root_of(path, "executions")),
    "the index of due times": lambda path: spoil_page(path, root_of(path, "schedules_due")),
}


def stop_between_writes(daemon: Daemon, database: Path) -> None:
    """Stop it where it holds no lock, and have all that lies in the log in the database."""
    until = time.monotonic() + BOUND_S
    while time.monotonic() < until:
        stop(daemon.process)
        done = subprocess.run(
            [sys.executable, "-c", CHECKPOINT, str(database)], capture_output=True, check=False
        )
        if done.stdout.split() == [b"0", b"0"]:
            return
        resume(daemon.process)
    raise AssertionError("it was never between two writes")


def between(daemon: Daemon, first: str, last: str) -> list[str]:
    events = [line["event"] for line in daemon.lines]
    return events[events.index(first) + 1 : events.index(last)]


@pytest.mark.parametrize("name", DAMAGE)
def test_an_engine_goes_on_once_a_damage_has_healed(place: Place, name: str) -> None:
    place.add("often", "every 1s", 'echo "$EDGECRON_PLAN_AT" >>$LOG')
    place.client.close()
    daemon = place.daemon()
    daemon.wait_for("ended", schedule="often")
    stop_between_writes(daemon, place.database)
    sound = place.database.read_bytes()

    DAMAGE[name](place.database)
    resume(daemon.process)
    trouble = daemon.wait_for("database_trouble")
    overwrite(place.database, 0, sound)
    daemon.wait_for("database_well")
    daemon.wait_for("ended", schedule="often")
    code = daemon.stop()

    assert "is damaged or not a database" in trouble["error_msg"]
    assert "database_trouble" not in between(daemon, "database_trouble", "database_well")
    assert code == 0
    runs = [run for run in place.runs("often") if run.started_at is not None]
    assert len(place.effects()) == len(set(place.effects())) == len(runs)
    [(verdict,)] = place.client.store.rows("PRAGMA integrity_check")
    assert verdict == "ok"
