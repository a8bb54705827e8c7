"""A program's own schedules: its functions as jobs, and an engine within it.

scheduler.py   Scheduler: the beginning and the end of its engine
program.py     what it declares, and what it asks of the database
registry.py    its functions by name; decorating.py: their types
options.py     the options of a job or a command, by the names that documents have
job.py         one schedule, as its program has it in hand: a Job is a function
arguments.py   the arguments of a function as a payload, and back; signatures.py: what it takes
run.py         one run, and its result; waiting.py: for its end
context.py     what a function may ask of the run that it is called for
listening.py   what it can be told of runs; subscribing.py: who is told
events.py      what becomes of runs, as values
serving.py     the engine's thread: it is started anew where it dies; loops.py: for coroutines
processes.py   functions in processes of their own: child.py, calling.py, children.py are theirs
signals.py     what ends an engine in the foreground; atexits.py: and what the program leaves
pool.py        connections, one for each thread that is asking
forks.py       what a child that the program forks starts anew
lending.py     a Scheduler at another place and time, for tests

None of it starts a thread or opens the database before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.embedding.context import RunContext
    from edgecron.embedding.events import RunEvent
    from edgecron.embedding.job import Entry, Job
    from edgecron.embedding.run import Run
    from edgecron.embedding.scheduler import Scheduler
    from edgecron.embedding.subscribing import EventStream, Subscription

_HOME = {
    "Entry": "job",
    "EventStream": "subscribing",
    "Job": "job",
    "Run": "run",
    "RunContext": "context",
    "RunEvent": "events",
    "Scheduler": "scheduler",
    "Subscription": "subscribing",
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
