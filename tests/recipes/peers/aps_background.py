"""APScheduler's example of a background scheduler: a tick each second beside the program."""

import threading
from datetime import datetime

from edgecron import Scheduler, every

scheduler = Scheduler("background.db")


@scheduler.job(every("1s"))
def tick() -> None:
    print(f"tick at {datetime.now().astimezone():%H:%M:%S}", flush=True)


if __name__ == "__main__":
    with scheduler:
        try:
            threading.Event().wait()  # the work of the program
        except KeyboardInterrupt:
            print("ended", flush=True)
