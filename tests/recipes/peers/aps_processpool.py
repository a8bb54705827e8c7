"""APScheduler's example of a process pool: each tick is a process, and its output is kept."""

import os

from edgecron import RunEvent, Scheduler, every

scheduler = Scheduler("processes.db")


@scheduler.job(every("1s"), process=True)
def tick() -> None:
    print(f"tick in process {os.getpid()}")


def show(event: RunEvent) -> None:
    print(scheduler.run(event.run_id).output, end="", flush=True)


if __name__ == "__main__":
    with scheduler.subscribe(show, "success"):
        scheduler.run_forever()
    print("ended", flush=True)
