"""edgecron: cron that you can see, trust and embed.

The map of the floors. A module imports from its own floor's package or from floors above it
in this list, never from below; `tests/test_house.py` holds it.

    errors                what goes wrong, as types
    values                frozen values: what `dataclasses` makes, at half its price
    safetext              text from anybody, made harmless for a terminal
    timetext, sizetext    durations, instants and sizes as text
    hashing               a hash that costs no memory
    thrift                memory that is free, given back to the system
    clock, paths          the only readers of clocks; where files live
    ownership             whether a file is its owner's alone, as root's must be
    safefiles             files that commands write, where nobody leads root elsewhere
    bundle                the single binary: where it is unpacked, and starting it again
    tomltext              the nesting of TOML text, checked before it is read
    validity              checks that values go through at birth
    reporting             what a run says of itself: how far it is, what is to be remembered
    queues                who runs what is in a queue: any engine, one program, or nobody
    hold                  what may not fire, where a clock can't be believed
    trust                 whether a clock can be believed, and what is held where it can't
    conditions            what a run needs before it starts: read, said in words, judged
    model                 Schedule, Execution, policies, statuses: frozen values
    attempt               what a runner is given, and gives: Claim, Output, Outcome
    triggers              text -> Trigger; next_after(instant); the gap and fold rule
    planning, admission   pure decisions: the next fire; overlap, limits
    catchup               likewise: what becomes of what is due, misfires included
    retrying, upstreams   likewise: the next attempt; what a schedule may come after
    correcting            stored times put right, after a wrong clock or in a changed zone
    timing                a schedule's words to its times, compiled when written
    upcoming              fires to come, as people see them
    busy                  how busy the coming week is, by hour
    standing              how a schedule stands, as lists show it; why nothing is to come of it
    outlook               what will happen next, and why
    explaining            why a schedule ran, did not run, or will not run
    objects               values as the JSON objects that scripts and programs read
    tallies               how schedules go: what their runs amount to
    steps                 the steps by which durations are counted
    measures              what is counted of all that ever ran, for who watches over years
    browsing              lines, orders and pages, as a screen goes through all there is
    filtering, ranking    which of them are wanted; how near a name is to what was typed
    backfilling           which times of the past a backfill may take
    retention             what is kept of the past, and how much
    store                 the only place that knows SQL
    retiming              a schedule's times when a person changes it
    supervisor            the process that starts and watches commands, and its journal
    runners               take a claim, give an outcome; never see the database
    engine                step(): one pass; run(): sleeping and waking
    notify                telling a service manager that an engine is ready and at work
    following             what a run prints, while it prints it
    documents             schedules as TOML text, and the texts of their options
    copies                backups, and a backup in the place of the database
    config                settings: flag, variable, files, default
    api                   Client: a database as programs see it, and the only wiring
    embedding             Scheduler: the schedules of a program, and an engine within it
    tokens                who may ask a server: a word in a file
    peers                 whose a connection from this machine is, as the kernel knows it
    wire                  what a Client is asked and answers, as JSON
    remote                RemoteClient: the database of another machine, seen in the same way
    testing               for the tests of such programs: a day in some milliseconds
    words                 values in plain words, for people who ask, in whatever way
    paging                a text in the pager of a terminal
    checkup               what is wrong with a database and around it; the end of what stalls
    crontab               crontabs in and out
    service               the engine as a service: files for systemd and others, made and removed
    metrics               what Prometheus reads, as text
    http                  the HTTP API, for programs in any language: an extra
    tui                   the dashboard: what will happen and what happened
    cli                   one module per verb

The names below are loaded when they are first used, so that `import edgecron` stays light.
"""

from __future__ import annotations

# `typing` says the same, and takes longer to load than the rest of this.
TYPE_CHECKING = False

__version__ = "0.1.0"
# A release sets this too, no later than its own day: a clock that says less can't be right.
__built__ = "2026-05-01"

if TYPE_CHECKING:
    from edgecron.attempt import Upstream
    from edgecron.embedding import Job, Run, RunContext, RunEvent, Scheduler
    from edgecron.errors import EdgecronError, InvalidTrigger, UnknownTimezone
    from edgecron.triggers import Trigger, at, cron, every, parse_trigger

_HOME = {
    "EdgecronError": "edgecron.errors",
    "InvalidTrigger": "edgecron.errors",
    "Job": "edgecron.embedding",
    "Run": "edgecron.embedding",
    "RunContext": "edgecron.embedding",
    "RunEvent": "edgecron.embedding",
    "Scheduler": "edgecron.embedding",
    "Trigger": "edgecron.triggers",
    "UnknownTimezone": "edgecron.errors",
    "Upstream": "edgecron.attempt",
    "at": "edgecron.triggers",
    "cron": "edgecron.triggers",
    "every": "edgecron.triggers",
    "parse_trigger": "edgecron.triggers",
}

__all__ = [
    "EdgecronError",
    "InvalidTrigger",
    "Job",
    "Run",
    "RunContext",
    "RunEvent",
    "Scheduler",
    "Trigger",
    "UnknownTimezone",
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
