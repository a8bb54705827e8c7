"""Celery's beat at rest, in a program of its own: `celery_beat.py DATABASE COUNT idle`.

Prints `ready` once beat has its schedules, and ends when stdin does. The broker is a folder, so
that no server counts; the worker that Celery also needs is not here.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from celery import Celery
from celery.schedules import crontab
from celery.signals import beat_init

folder = Path(sys.argv[1]).parent
places = {"data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "control"}
app = Celery(
    "peer",
    broker="filesystem://",
    broker_transport_options={name: str(folder / place) for name, place in places.items()},
)


@app.task
def call() -> None:
    """Never due."""


def end() -> None:
    sys.stdin.read()
    os._exit(0)


@beat_init.connect
def begin(**_: Any) -> None:
    print("ready", flush=True)
    threading.Thread(target=end, daemon=True).start()


def main() -> None:
    never = crontab(minute=0, hour=0, day_of_month=29, month_of_year=2)
    app.conf.worker_redirect_stdouts = False  # Otherwise `ready` goes to its log.
    app.conf.beat_schedule = {
        f"s{number}": {"task": call.name, "schedule": never} for number in range(int(sys.argv[2]))
    }
    app.Beat(schedule=str(folder / "beat"), quiet=True, loglevel="ERROR").run()


if __name__ == "__main__":
    main()
