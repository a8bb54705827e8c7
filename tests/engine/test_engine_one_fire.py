"""A warm fire of a real command, from wake-up to recorded end, takes a short way.

A reader who follows a fire opens few files, and the way from a step to the claim is short.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import edgecron
from edgecron.base.clock import SystemClock
from edgecron.client import Client
from edgecron.engine.events import Event, EventKind
from edgecron.engine.host import EngineHost
from edgecron.engine.step import Engine
from edgecron.model.choices import JobKind, Status
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec

PACKAGE = str(Path(edgecron.__file__).parent)
BOUND_S = 30.0
MOST_FILES = 40  # usually 37; a late fire passes through more
MOST_CALLS = 5  # from `Engine.step` to the store's claim


class Trace:
    """The files of the package that a fire calls, and how each claim was reached."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.claims: list[list[str]] = []  # the functions from `Engine.step` to the claim

    def note(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        self.files.add(frame.f_code.co_filename)
        if frame.f_code.co_name == "claim_due":
            names = list(_callers(frame))
            if names[-1] == Engine.step.__qualname__:
                self.claims.append(names)


def _callers(frame: FrameType | None) -> Iterator[str]:
    """The names of a function and of those that called it, up to `Engine.step`."""
    while frame is not None:
        yield frame.f_code.co_qualname
        if frame.f_code is Engine.step.__code__:
            return
        frame = frame.f_back


@contextmanager
def traced() -> Iterator[Trace]:
    trace, before = Trace(), sys.getprofile()
    sys.setprofile(trace.note)
    try:
        yield trace
    finally:
        sys.setprofile(before)


def run_until(host: EngineHost, events: list[Event], ends: int) -> None:
    """Step and sleep as a loop does, until so many runs have ended."""
    bound = time.monotonic() + BOUND_S
    while sum(event.kind is EventKind.ENDED for event in events) < ends:
        assert time.monotonic() < bound, "no run ended"
        wake_ms = host.engine.step().wake_ms
        host.engine.prepare()
        while not host.engine.has_ends():
            left_s = 1.0 if wake_ms is None else wake_ms / 1000 - time.time()
            if left_s <= 0:
                break
            select.select(host.engine.runners.filenos(), [], [], left_s)


def test_a_warm_fire_passes_through_few_files_and_few_calls_before_its_claim(
    tmp_path: Path,
) -> None:
    database = tmp_path / "edge.db"
    with Client(database) as client:
        job = Job(kind=JobKind.COMMAND, argv=("true",))
        client.add(ScheduleSpec(name="poll", triggers=("every 1s",), job=job))
    events: list[Event] = []
    with closing(EngineHost(database, clock=SystemClock(), report=events.append)) as host:
        run_until(host, events, 2)  # What is loaded and compiled once is, then.
        with traced() as trace:
            run_until(host, events, 3)

    outcomes = [event.outcome for event in events if event.outcome is not None]
    assert [one.status for one in outcomes] == [Status.SUCCESS] * 3
    files = sorted(name.removeprefix(PACKAGE) for name in trace.files)
    assert len(files) <= MOST_FILES, files
    shortest = min(trace.claims, key=len)
    assert len(shortest) - 1 <= MOST_CALLS, shortest
