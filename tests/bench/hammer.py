"""How fair is the wait for the write lock? N processes claim as fast as they can.

    python -m tests.bench.hammer [--processes 8] [--seconds 10]

Prints the claims of each process and Jain's index (1: all equal; 1/N: one has everything), with
edgecron's own waiting and with SQLite's busy_timeout. A measurement, not a test: it is slow, and
its figures are the machine's.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

from edgecron.store.connection import Database

WAITS = ("edgecron", "busy_timeout")


def jain(counts: list[int]) -> float:
    """Jain's fairness index of these shares."""
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else 0.0


def prepare(path: Path, processes: int) -> None:
    database = Database(path)
    with database.transaction():
        database.change("CREATE TABLE turns (id INTEGER PRIMARY KEY, n INTEGER NOT NULL) STRICT")
        database.change("PRAGMA application_id = 1701078883")
    with database.transaction():
        for number in range(processes):
            database.change("INSERT INTO turns VALUES (:id, 0)", {"id": number})
    database.close()


def hammer(path: Path, number: int, wait: str, barrier: Any, until_s: float, out: Any) -> None:
    """Claim until the time is over: a conditional update whose row count is read, then a row."""
    database = Database(path)
    if wait == "busy_timeout":
        database._connection.set_busy_timeout(60_000)
    barrier.wait()
    stop = time.monotonic() + until_s
    turns, longest = 0, 0.0
    while (began := time.monotonic()) < stop:
        with database.transaction():
            changed = database.change(
                "UPDATE turns SET n = n + 1 WHERE id = :id AND n = :n", {"id": number, "n": turns}
            )
        assert changed == 1
        turns += 1
        longest = max(longest, time.monotonic() - began)
    database.close()
    out.put((number, turns, longest))


def measure(wait: str, *, processes: int, seconds: float) -> tuple[list[int], float]:
    """Claims per process, and the longest that any claim took, in seconds."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hammer.db"
        prepare(path, processes)
        barrier, out = context.Barrier(processes), context.Queue()
        workers = [
            context.Process(target=hammer, args=(path, number, wait, barrier, seconds, out))
            for number in range(processes)
        ]
        for worker in workers:
            worker.start()
        found = sorted(out.get(timeout=seconds + 120) for _ in workers)
        for worker in workers:
            worker.join()
    return [turns for _, turns, _ in found], max(longest for _, _, longest in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    for wait in WAITS:
        counts, longest = measure(wait, processes=options.processes, seconds=options.seconds)
        print(
            f"{wait:>12}: {sum(counts) / options.seconds:8.0f} claims/s"
            f"  fairness {jain(counts):.3f}  longest {longest * 1000:7.0f} ms  {counts}"
        )


if __name__ == "__main__":
    main()
