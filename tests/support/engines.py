"""A database in a folder of its own, and real engines on it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from edgecron.base.paths import read_location
from edgecron.client import Client
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.run import Execution
from edgecron.model.schedule import ScheduleSpec
from tests.support.newdatabases import new_database
from tests.support.processes import Daemon, Gate


class Place:
    """A database in a folder of its own, the jobs' own log, and the engines that were started."""

    def __init__(self, folder: Path, stack: ExitStack, *, url: str | None = None) -> None:
        location = folder / "edge.db" if url is None else read_location(url)
        self.database = cast("Path", location)  # Few tests give a URL, and those ask for no path.
        self.log = folder / "effects.log"
        self.gate = Gate(folder)
        stack.callback(self.gate.close)
        if isinstance(location, Path):
            new_database(location)
        self.client = stack.enter_context(Client(self.database))
        self._stack = stack

    def add(self, name: str, trigger: str, line: str) -> None:
        job = Job(kind=JobKind.SHELL, argv=(line,), env={"LOG": str(self.log)})
        self.client.add(ScheduleSpec(name=name, triggers=(trigger,), job=job))

    def daemon(self, *options: str, **how: Any) -> Daemon:
        daemon = Daemon(self.database, *options, **how)
        self._stack.callback(daemon.close)
        return daemon

    def runs(self, name: str) -> list[Execution]:
        return self.client.history(name, limit=1000)[::-1]

    def effects(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []
