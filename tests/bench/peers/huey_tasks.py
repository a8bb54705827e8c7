"""A thousand tasks of huey due at once, from its store in SQLite; run by the Python that has it:
`huey_tasks.py DATABASE COUNT call|spawn|idle`. Prints seconds from due to the first and the
last start."""

import datetime
import math
import subprocess
import sys
import threading
import time
from typing import Any

from huey import SqliteHuey

PROBES = 20  # tasks that are made first, to see how long each takes
LEAD_S = 3
huey = SqliteHuey("bench", filename=sys.argv[1], utc=True, fsync=True)
count = int(sys.argv[2])
started: list[float] = []
done = threading.Event()


@huey.task()
def call() -> None:
    note()


@huey.task()
def spawn() -> None:
    process = subprocess.Popen(
        ["true"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        close_fds=False, start_new_session=True,
    )  # fmt: skip
    note()
    process.communicate()


def note() -> None:
    started.append(time.time())
    if len(started) == count:
        done.set()


def schedule(job: Any, due: float, number: int) -> None:
    eta = datetime.datetime.fromtimestamp(due, datetime.UTC).replace(tzinfo=None)
    for _ in range(number):
        job.schedule(eta=eta)


def main() -> None:
    is_idle = sys.argv[3] == "idle"
    job = spawn if sys.argv[3] == "spawn" else call
    due = time.time() + 3600
    if not is_idle:
        began = time.time()
        schedule(job, due, PROBES)
        took = time.time() - began
        huey.flush()
        # Of a time, huey keeps the whole seconds.
        due = math.ceil(time.time() + LEAD_S + 2 * took * count / PROBES)
    schedule(job, due, count)
    assert time.time() < due, "the tasks were made too late"
    # As many workers as APScheduler has threads.
    consumer = huey.create_consumer(workers=10, periodic=False)
    consumer.start()
    if is_idle:
        print("ready", flush=True)
        sys.stdin.read()
    else:
        assert done.wait(600), f"{len(started)} of {count} have started"
        print(min(started) - due, max(started) - due, flush=True)
    consumer.stop(graceful=True)


if __name__ == "__main__":
    main()
