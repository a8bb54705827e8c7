"""The jobs of a small plant, whatever serves its pages: see `edgecron help web`."""

# SHOWN: jobs.py
import os

from edgecron import RunContext, Scheduler, every

scheduler = Scheduler("plant.db", timezone="Europe/Berlin")


@scheduler.job(every("1s"))
def poll(run: RunContext, host: str = "plc1") -> None:
    with open("polled.txt", "a") as file:
        file.write(f"{run.schedule} {run.plan_at.isoformat()} {os.getpid()}\n")


@scheduler.job("0 2 * * *", retries=3, overlap="allow")
async def report(plant: str = "all") -> str:
    return f"all is well in {plant}"


# SHOWN: end
# What only tests need.


@scheduler.job(every("100ms"), allow_fast=True, overlap="allow")
def brisk(run: RunContext) -> None:
    """So often that engines meet at each of its times."""
    poll(run)


@scheduler.job("@yearly")
def hold(run: RunContext) -> None:
    """Say who runs it, and wait to be let go."""
    poll(run)
    with open("gate", "rb", buffering=0) as gate:
        gate.read(3)
