"""A program with huey in it, its tasks and results in SQLite; see acts.py."""

import datetime
import os
import sys

import acts
from huey import SqliteHuey, crontab

WORKERS = 10  # as many as APScheduler has threads
huey = SqliteHuey("bench", filename=sys.argv[2], utc=True, fsync="HUEY_AS_IT_IS" not in os.environ)


@huey.task()
def call() -> int:
    return acts.calls.note()


class HueyApp:
    add_s = 0.02
    grain_s = 1.0

    def __init__(self, database: str) -> None:
        self._consumer = huey.create_consumer(workers=WORKERS)

    def prepare(self, instants: list[float]) -> None:
        for instant in instants:
            eta = datetime.datetime.fromtimestamp(instant, datetime.UTC).replace(tzinfo=None)
            call.schedule(eta=eta)

    def start(self) -> None:
        self._consumer.start()

    def enqueue(self, count: int) -> None:
        for _ in range(count):
            call()

    def recorded(self) -> int:
        return int(huey.result_count())

    def register(self, count: int) -> None:
        for number in range(count):
            huey.periodic_task(crontab(minute="0"), name=f"job-{number}")(acts.calls.note)

    def stop(self) -> None:
        self._consumer.stop(graceful=True)


if __name__ == "__main__":
    acts.main(HueyApp)
