"""The jobs of the shop: see `edgecron help django`."""

# SHOWN: orders/jobs.py
from django.conf import settings
from django.db import close_old_connections

from edgecron import Scheduler, every

scheduler = Scheduler(settings.BASE_DIR / "schedules.db", timezone=settings.TIME_ZONE)


@scheduler.middleware
def with_database(run):
    """Open and close database connections around each job, as Django does around a request."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


@scheduler.job(every("15m"))
def count_orders() -> int:
    from orders.models import Order

    return Order.objects.count()


@scheduler.task(retries=3)
def confirm(order: int) -> str:
    from orders.models import Order

    return f"confirmed {Order.objects.get(pk=order).item}"


# SHOWN: end
# What only tests need.

import os  # noqa: E402

from edgecron import RunContext  # noqa: E402


@scheduler.job(every("100ms"), allow_fast=True, overlap="allow")
def brisk(run: RunContext) -> None:
    """So often that engines meet at each of its times."""
    with open("polled.txt", "a") as file:
        file.write(f"{run.schedule} {run.plan_at.isoformat()} {os.getpid()}\n")
