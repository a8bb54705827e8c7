"""A program's own schedules: its functions as jobs, and an engine within it.

scheduler           Scheduler: start and stop its engine
program             what a program declares, and what it asks of the database
registry            the program's functions by name; decorating: their types
options             options of a job or a command, by the names that documents have
job                 one schedule as a program holds it: a Job is a function
signatures          what a function takes, and its arguments as a payload
run, waiting        one run and its result; waiting for its end
context             what a function may ask about the run that it is called for
events              events of runs as values; subscriptions: who gets them
serving             the engine's thread, restarted if it dies; event_loops: for coroutines
processes           functions in processes of their own; child and calling run inside them
shutdown            stopping the engine on a signal and at the end of the interpreter
pool                database connections for threads, and what a forked child begins anew
borrowed_scheduler  a Scheduler moved to another database and clock, for tests
testing             for tests of programs; travel* and fake_* are its parts

Nothing starts a thread or opens the database before you use it.
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
