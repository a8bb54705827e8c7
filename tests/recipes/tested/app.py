"""A program with tests of its own: see `edgecron help testing`."""

# SHOWN: app.py
import os

from edgecron import RunContext, Scheduler, every

scheduler = Scheduler(os.environ.get("APP_DB", "app.db"), timezone="Europe/Berlin")


@scheduler.job(every("1h"), retries=1, retry_delay="1m")
def copy(run: RunContext, count: int = 3) -> int:
    run.state["done"] = run.state.get("done", 0) + count
    return run.state["done"]


# SHOWN: end
