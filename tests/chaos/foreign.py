"""A foreign program that has the database open: it holds the write lock, or reads without end.

foreign.py lock|read DATABASE SECONDS
"""

from __future__ import annotations

import sys
import time

import apsw  # not the standard library's: an older SQLite can damage the log when it is shared


def main() -> None:
    what, path, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(5_000)
    if what == "lock":
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM executions").fetchall()
    print("ready", flush=True)
    time.sleep(seconds)
    connection.execute("ROLLBACK")


if __name__ == "__main__":
    main()
