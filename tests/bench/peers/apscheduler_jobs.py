"""A thousand jobs of APScheduler 3 due at once, from a store in SQLite; run by the Python that
has it: `apscheduler_jobs.py DATABASE COUNT call|spawn|idle`. Prints seconds from due to the first
and the last start."""

import datetime
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from apscheduler.schedulers.background import BackgroundScheduler

started: list[float] = []
processes: list["subprocess.Popen[bytes]"] = []
done = threading.Event()


def call() -> None:
    note()


def spawn() -> None:
    process = subprocess.Popen(
        ["true"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        close_fds=False, start_new_session=True,
    )  # fmt: skip
    note()
    process.communicate()


def note() -> None:
    started.append(time.time())
    if len(started) == COUNT:
        done.set()


COUNT = int(sys.argv[2]) if __name__ == "__main__" else 0
PROBES = 20  # jobs that are made first, to see how long each takes
LEAD_S = 3


def add(
    scheduler: BackgroundScheduler,
    job: Callable[[], None],
    due: datetime.datetime,
    count: int,
) -> None:
    for number in range(count):
        scheduler.add_job(
            job, "interval", hours=1, start_date=due, id=f"job-{number}", misfire_grace_time=None
        )


def main() -> None:
    scheduler = BackgroundScheduler(timezone=datetime.UTC)
    scheduler.add_jobstore("sqlalchemy", url=f"sqlite:///{sys.argv[1]}")
    scheduler.start(paused=True)
    is_idle = sys.argv[3] == "idle"
    job = spawn if sys.argv[3] == "spawn" else call
    due = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    if not is_idle:
        began = time.time()
        add(scheduler, job, due, PROBES)
        took = time.time() - began
        scheduler.remove_all_jobs()
        lead_s = LEAD_S + 2 * took * COUNT / PROBES
        due = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=lead_s)
    add(scheduler, job, due, COUNT)
    assert datetime.datetime.now(datetime.UTC) < due, "the jobs were made too late"
    scheduler.resume()
    if is_idle:
        print("ready", flush=True)
        sys.stdin.read()
    else:
        assert done.wait(600), f"{len(started)} of {COUNT} have started"
        print(min(started) - due.timestamp(), max(started) - due.timestamp(), flush=True)
    scheduler.shutdown()


if __name__ == "__main__":
    # Jobs are stored by the name of their module.
    import apscheduler_jobs  # type: ignore[import-not-found]

    apscheduler_jobs.COUNT = COUNT
    apscheduler_jobs.main()
