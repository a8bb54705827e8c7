"""A database with a past, and what can become of its file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

import apsw

from edgecron.client import Client
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from tests.support.clock import FakeClock

PAGE_BYTES = 1024
_RUNS = """
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
    INSERT INTO executions (schedule_id, revision, plan_at, cause, due_at, queue, status,
        claimed_at, started_at, finished_at, exit_code, engine_id, lease_token, error_msg)
    SELECT 1 + i % 3, 1, 1000 * i, 'schedule', 1000 * i, 'command', 'success',
        1000 * i, 1000 * i, 1000 * i, 0, 1, 'token-' || i, 'said ' || i FROM n"""


def make_past(path: Path) -> None:
    """A database of some hundred pages in one file: schedules, runs, pages that are free."""
    with Client(path, clock=FakeClock()) as client:
        for number in range(30):
            job = Job(kind=JobKind.COMMAND, argv=("true",))
            client.add(
                ScheduleSpec(
                    name=f"job-{number}",
                    triggers=("every 1h",),
                    job=job,
                    description=f"{number} " * 40,
                )
            )
        client.store.register_engine(key="ab" * 8, pid=1, boot_id="b", queues=(), now_ms=0)
    connection = apsw.Connection(str(path))
    connection.execute(f"UPDATE engines SET stopped_at = 1; {_RUNS}")
    connection.execute("DELETE FROM executions WHERE id BETWEEN 300 AND 600")
    connection.close()


def copy_of(path: Path, place: Path) -> Path:
    """A copy of a database that nobody uses, as private as it."""
    shutil.copy(path, place)
    place.chmod(0o600)
    return place


def root_of(path: Path, name: str) -> int:
    """The first page of a table or an index."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    [(page,)] = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)
    ).fetchall()
    connection.close()
    return int(str(page))


def overwrite(path: Path, at: int, content: bytes) -> None:
    """Write into a file that nobody has open."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def spoil_page(path: Path, page: int) -> None:
    overwrite(path, (page - 1) * PAGE_BYTES, b"\xa5" * PAGE_BYTES)


def spoil_pages(path: Path, *, seed: int, count: int) -> None:
    """Noise in so many pages, the first one left out."""
    random = Random(seed)
    pages = path.stat().st_size // PAGE_BYTES
    for page in random.sample(range(2, pages + 1), count):
        overwrite(path, (page - 1) * PAGE_BYTES, random.randbytes(PAGE_BYTES))


def spoil_free_pages(path: Path) -> None:
    """What says which pages are free."""
    with path.open("rb") as file:
        file.seek(32)
        spoil_page(path, int.from_bytes(file.read(4), "big"))


def cut(path: Path, *, to_bytes: int) -> None:
    os.truncate(path, to_bytes)
