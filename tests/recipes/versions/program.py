"""A program in an old and in a new version: python program.py old, python program.py new."""

import os
import sys

from edgecron import RunContext, Scheduler, every

scheduler = Scheduler("plant.db")
version = sys.argv[1]


def fire(run: RunContext) -> None:
    with open("polled.txt", "a") as file:
        file.write(f"{run.schedule} {run.plan_at.isoformat()} {os.getpid()}\n")


for name in ("both", version):
    scheduler.job(every("100ms"), name=name, allow_fast=True, overlap="allow")(fire)


@scheduler.job(every("1s"), process=True)
def apart(run: RunContext) -> None:
    fire(run)


@scheduler.job(every("1s"), name="either", overlap="allow", process=version == "new")
def either(run: RunContext) -> None:
    fire(run)


if __name__ == "__main__":
    scheduler.run_forever()
