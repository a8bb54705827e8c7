"""A program's own schedules: its functions as jobs, and an engine within it.

scheduler      Scheduler: start and stop its engine, subscribe to events
program        what a program declares, and what it asks of the database
declarations   the declared functions and schedules; their options
job            one schedule as an object: a Job is a decorated function
run            one run as an object, and waiting for its end
signatures     the parameters of a function; json_values: payloads and states as JSON
context        what a function can ask about its run
events         events of runs as values; subscriptions: callbacks and streams of them
serving        the engine's thread, restarted if it dies; how it stops
processes      functions in processes of their own; child and child_run are in the process
pool           database connections for threads, and forks
event_loops    event loops of coroutine jobs
testing        for tests of programs; travel* and fake_clock are its parts

No thread starts and no database opens before you use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.embedding.context import RunContext
    from edgecron.embedding.events import RunEvent
    from edgecron.embedding.job import Entry, Job
    from edgecron.embedding.run import Run
    from edgecron.embedding.scheduler import Scheduler
    from edgecron.embedding.subscriptions import EventStream, Subscription

_HOME = {
    "Entry": "job",
    "EventStream": "subscriptions",
    "Job": "job",
    "Run": "run",
    "RunContext": "context",
    "RunEvent": "events",
    "Scheduler": "scheduler",
    "Subscription": "subscriptions",
}

__all__ = [
    "Entry",
    "EventStream",
    "Job",
    "Run",
    "RunContext",
    "RunEvent",
    "Scheduler",
    "Subscription",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'edgecron.embedding' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"edgecron.embedding.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
