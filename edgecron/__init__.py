"""edgecron: cron that you can see, trust and embed.

The package has fourteen rooms on eight floors. A module imports from its own room and from rooms
on lower floors, never from a room on its own floor or above. `tests/test_house.py` checks this map.

    1  base        errors, clock, zones, paths, files, input checks, values as people write them
    2  model       schedules, runs, policies and conditions as frozen values; the table of options
    2  triggers    a time rule as text, its compiled form, `next_after(instant)`
    3  planning    pure decisions: next fire, misfire, overlap, retry, backfill, retention
    3  formats     TOML documents, crontabs and the configuration file, read and written
    4  views       what people see of values: standing, outlook, statistics, sentences
    4  store       the only place that knows SQL
    4  supervisor  the process that starts and watches commands; runners of commands and callables
    5  engine      `step()` is one pass; `run()` sleeps and wakes between passes
    6  client      a database as front ends see it, on this machine or on another one
    7  embedding   `Scheduler`: schedules and an engine within a Python program
    7  http        the HTTP API: an extra
    7  tui         the dashboard
    8  cli         one module per command; service files; tools for AI assistants

Python loads the names below when you first use them, so that `import edgecron` stays light.
"""

from __future__ import annotations

# `typing` says the same, and takes longer to load than the rest of this.
TYPE_CHECKING = False

__version__ = "0.1.0"
# A release sets this too, no later than its own day: a clock that says less can't be right.
__built__ = "2026-05-01"

if TYPE_CHECKING:
    from edgecron.base.errors import (
        AlreadyExists,
        Cancelled,
        Conflict,
        DatabaseBusy,
        DatabaseDamaged,
        DatabaseFull,
        DatabaseGone,
        DatabaseUnusable,
        EdgecronError,
        InvalidInput,
        InvalidTrigger,
        KeyReused,
        NotFound,
        ResultLost,
        RunFailed,
        SchemaTooNew,
        SupervisorUnavailable,
        UnknownTimezone,
        Unreadable,
    )
    from edgecron.embedding.context import RunContext
    from edgecron.embedding.entry import Entry
    from edgecron.embedding.events import RunEvent
    from edgecron.embedding.job import Job
    from edgecron.embedding.run import Run
    from edgecron.embedding.scheduler import Scheduler
    from edgecron.embedding.subscriptions import EventStream, Subscription
    from edgecron.model.choices import Cause, Reason, Status
    from edgecron.model.run import Progress, Upstream
    from edgecron.model.schedule import Schedule
    from edgecron.planning.retention import Retention
    from edgecron.supervisor.calls import Retry, Skip
    from edgecron.triggers import Trigger, at, cron, every, parse_trigger

_HOME = {
    "AlreadyExists": "edgecron.base.errors",
    "Cancelled": "edgecron.base.errors",
    "Cause": "edgecron.model.choices",
    "Conflict": "edgecron.base.errors",
    "DatabaseBusy": "edgecron.base.errors",
    "DatabaseDamaged": "edgecron.base.errors",
    "DatabaseFull": "edgecron.base.errors",
    "DatabaseGone": "edgecron.base.errors",
    "DatabaseUnusable": "edgecron.base.errors",
    "EdgecronError": "edgecron.base.errors",
    "Entry": "edgecron.embedding.entry",
    "EventStream": "edgecron.embedding.subscriptions",
    "InvalidInput": "edgecron.base.errors",
    "InvalidTrigger": "edgecron.base.errors",
    "Job": "edgecron.embedding.job",
    "KeyReused": "edgecron.base.errors",
    "NotFound": "edgecron.base.errors",
    "Progress": "edgecron.model.run",
    "Reason": "edgecron.model.choices",
    "ResultLost": "edgecron.base.errors",
    "Retention": "edgecron.planning.retention",
    "Retry": "edgecron.supervisor.calls",
    "Run": "edgecron.embedding.run",
    "RunContext": "edgecron.embedding.context",
    "RunEvent": "edgecron.embedding.events",
    "RunFailed": "edgecron.base.errors",
    "Schedule": "edgecron.model.schedule",
    "Scheduler": "edgecron.embedding.scheduler",
    "SchemaTooNew": "edgecron.base.errors",
    "Skip": "edgecron.supervisor.calls",
    "Status": "edgecron.model.choices",
    "Subscription": "edgecron.embedding.subscriptions",
    "SupervisorUnavailable": "edgecron.base.errors",
    "Trigger": "edgecron.triggers",
    "UnknownTimezone": "edgecron.base.errors",
    "Unreadable": "edgecron.base.errors",
    "Upstream": "edgecron.model.run",
    "at": "edgecron.triggers",
    "cron": "edgecron.triggers",
    "every": "edgecron.triggers",
    "parse_trigger": "edgecron.triggers",
}

__all__ = [
    "AlreadyExists",
    "Cancelled",
    "Cause",
    "Conflict",
    "DatabaseBusy",
    "DatabaseDamaged",
    "DatabaseFull",
    "DatabaseGone",
    "DatabaseUnusable",
    "EdgecronError",
    "Entry",
    "EventStream",
    "InvalidInput",
    "InvalidTrigger",
    "Job",
    "KeyReused",
    "NotFound",
    "Progress",
    "Reason",
    "ResultLost",
    "Retention",
    "Retry",
    "Run",
    "RunContext",
    "RunEvent",
    "RunFailed",
    "Schedule",
    "Scheduler",
    "SchemaTooNew",
    "Skip",
    "Status",
    "Subscription",
    "SupervisorUnavailable",
    "Trigger",
    "UnknownTimezone",
    "Unreadable",
    "Upstream",
    "__version__",
    "at",
    "cron",
    "every",
    "parse_trigger",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'edgecron' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
