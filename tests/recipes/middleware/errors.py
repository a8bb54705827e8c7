"""A program whose errors go to Sentry. A test imports it and reads the events."""

# SHOWN: errors.py
import sentry_sdk
from sentry_sdk.integrations.logging import ignore_logger

from edgecron import Retry, RunContext, Scheduler, Skip

scheduler = Scheduler("app.db")
ignore_logger("edgecron")  # It logs each failure, too.


@scheduler.middleware
def reported(run: RunContext):
    """Send each exception of a job to Sentry, with the run that it belongs to."""
    with sentry_sdk.new_scope() as scope:
        scope.set_tags({"schedule": run.schedule, "run": run.id, "attempt": run.attempt})
        try:
            yield
        except (Retry, Skip):
            raise
        except Exception:
            sentry_sdk.capture_exception()
            raise


@scheduler.job("@hourly")
def sync(plc: str = "plc1") -> None:
    raise OSError(f"no such plc: {plc}")


# SHOWN: end


@scheduler.job("@hourly")
async def sync_later() -> None:
    raise LookupError("no such tag")


@scheduler.job("@hourly")
def decline() -> None:
    raise Skip("nothing to do")
