"""Programs with functions of their own, and an engine inside."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from edgecron.base.clock import SystemClock
from edgecron.client import Client
from edgecron.engine.events import Report
from edgecron.engine.host import EngineHost, ProgramFunctions
from edgecron.engine.presence import EngineSettings
from edgecron.model.choices import COMMAND_QUEUE, JobKind
from edgecron.model.engine import Offers
from edgecron.model.job import Job
from edgecron.model.run import Execution
from edgecron.model.schedule import ScheduleSpec
from edgecron.supervisor.callable_runner import CallableRunner, Function

BOUND_S = 20.0
QUEUE = "py:plant"


_BEGIN = """
import os, sys, threading
from pathlib import Path
from edgecron.base.clock import SystemClock
from edgecron.engine.host import EngineHost, ProgramFunctions
from edgecron.engine.presence import EngineSettings
from edgecron.supervisor.callable_runner import CallableRunner
"""


def other_program(text: str, database: Path) -> subprocess.Popen[str]:
    """A program in a process of its own, which makes its engine itself."""
    return subprocess.Popen(
        [sys.executable, "-c", _BEGIN + text, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run_program(
    folder: Path, text: str, *start: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a text as `program.py` with the database `app.db` in a folder until it ends.

    `start` is how Python starts it, if not by its file.
    """
    (folder / "program.py").write_text(textwrap.dedent(text))
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, *(start or ("program.py",)), str(folder / "app.db")],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **path, **(environment or {})},
    )


@contextmanager
def program(
    database: Path,
    registry: Mapping[str, Function],
    *,
    report: Report = lambda event: None,
    offers: Callable[[], Offers] | None = None,
    **more: Any,
) -> Iterator[EngineHost]:
    """An engine of this process, that runs commands, too."""
    clock = SystemClock()
    host = EngineHost(
        database,
        EngineSettings(queues=(COMMAND_QUEUE, QUEUE), **more),
        clock=clock,
        report=report,
        functions=ProgramFunctions(CallableRunner(registry, clock=clock), offers),
    )
    with closing(host):
        yield host


def fire(database: Path, name: str, *, payload: str | None = None) -> None:
    """Have a callable run now, with a payload of its own or its schedule's."""
    with Client(database) as client:
        job = Job(kind=JobKind.CALLABLE, argv=(name,), payload='{"host": "plc1"}')
        spec = ScheduleSpec(name=name, triggers=("@yearly",), job=job, queue=QUEUE)
        client.add(spec)
        client.run_now(name, payload=payload)


def add_command(database: Path, name: str, trigger: str, *, queue: str = COMMAND_QUEUE) -> None:
    """A command that does nothing."""
    job = Job(kind=JobKind.COMMAND, argv=("true",))
    with Client(database) as client:
        client.add(ScheduleSpec(name=name, triggers=(trigger,), job=job, queue=queue))


def run_of(database: Path, name: str) -> Execution:
    with Client(database) as client:
        [run] = client.history(name)
    return run


def step_until_ended(host: EngineHost) -> None:
    host.engine.step()
    while host.engine.runners:
        assert select.select(host.engine.runners.filenos(), [], [], BOUND_S)[0], "no end came"
        host.engine.step()
