"""A program with functions that are due at one instant: `functions_app.py DATABASE COUNT [PLACES]`.

Prints the seconds from that instant to the first call and to the last.
"""

from __future__ import annotations

import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from edgecron import Scheduler

LEAD_S = 3  # from declaring the functions, which takes a part of it


def main() -> None:
    count = int(sys.argv[2])
    places = int(sys.argv[3]) if len(sys.argv) > 3 else None
    called_at: list[float] = []
    done = threading.Event()

    def work() -> None:
        called_at.append(time.time())
        if len(called_at) == count:
            done.set()

    scheduler = Scheduler(Path(sys.argv[1]), max_running=places)
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=LEAD_S + count // 500)
    for number in range(count):
        scheduler.job(f"at {due.isoformat()}", name=f"job-{number}")(work)
    scheduler.start()
    assert time.time() < due.timestamp() - 0.5, "the functions were declared too late"
    assert done.wait(600), f"{len(called_at)} of {count} were called"
    print(min(called_at) - due.timestamp(), max(called_at) - due.timestamp(), flush=True)
    scheduler.stop()


if __name__ == "__main__":
    main()
