"""A program with edgecron in it; see acts.py."""

from datetime import UTC, datetime

from acts import calls, main

from edgecron import Scheduler, at, every


def call() -> int:
    return calls.note()


class EdgecronApp:
    add_s = 0.005
    grain_s = 0.001

    def __init__(self, database: str) -> None:
        self._scheduler = Scheduler(database)

    def prepare(self, instants: list[float]) -> None:
        for number, instant in enumerate(instants):
            due = datetime.fromtimestamp(instant, UTC)
            self._scheduler.job(at(due), name=f"job-{number}")(call)

    def start(self) -> None:
        self._asked = self._scheduler.task(name="asked")(call)
        self._scheduler.start()

    def enqueue(self, count: int) -> None:
        for _ in range(count):
            self._asked.enqueue()

    def recorded(self) -> int:
        with self._scheduler.client() as client:
            return len(calls.at) - sum(client.active_counts().values())

    def register(self, count: int) -> None:
        for number in range(count):
            self._scheduler.job(every("1h"), name=f"job-{number}")(call)

    def stop(self) -> None:
        self._scheduler.stop()


if __name__ == "__main__":
    main(EdgecronApp)
