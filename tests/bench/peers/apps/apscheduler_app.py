"""A program with APScheduler 3 in it, its jobs in SQLite; see acts.py."""

import datetime

import acts
from apscheduler.schedulers.background import BackgroundScheduler


def call() -> int:
    return acts.calls.note()


class ApschedulerApp:
    """It keeps no record of ends: a call that has returned is done."""

    add_s = 0.05
    grain_s = 0.001

    def __init__(self, database: str) -> None:
        self._scheduler = BackgroundScheduler(timezone=datetime.UTC)
        self._scheduler.add_jobstore("sqlalchemy", url=f"sqlite:///{database}")
        self._scheduler.start(paused=True)

    def prepare(self, instants: list[float]) -> None:
        for number, instant in enumerate(instants):
            due = datetime.datetime.fromtimestamp(instant, datetime.UTC)
            self._scheduler.add_job(
                call, "date", run_date=due, id=f"job-{number}", misfire_grace_time=None
            )

    def start(self) -> None:
        self._scheduler.resume()

    def enqueue(self, count: int) -> None:
        for _ in range(count):
            self._scheduler.add_job(call, misfire_grace_time=None)

    def recorded(self) -> int:
        return len(acts.calls.at)

    def register(self, count: int) -> None:
        for number in range(count):
            self._scheduler.add_job(call, "interval", hours=1, id=f"job-{number}")

    def stop(self) -> None:
        self._scheduler.shutdown()


if __name__ == "__main__":
    # Jobs are stored by the name of their module.
    from apscheduler_app import ApschedulerApp as Stored

    acts.main(Stored)
