"""A world with one engine, for stories that are told step by step."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from edgecron.client import Client
from edgecron.engine.state_folder import engine_lock_path
from edgecron.engine.step import Engine, Hosting
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.run import Execution
from edgecron.model.schedule import ScheduleSpec
from tests.simulation.world import World
from tests.support.clock import FakeClock
from tests.support.stores import Stores

START_MS = 1_773_000_000_000  # 2026-03-08T20:00:00Z, a whole minute


def a_spec(
    name: str,
    *triggers: str,
    lasts_s: int = 0,
    code: int = 0,
    policies: Policies = Policies(),  # noqa: B008  # It is frozen.
    **more: Any,
) -> ScheduleSpec:
    job = Job(kind=JobKind.COMMAND, argv=("job", str(lasts_s), str(code)))
    return ScheduleSpec(name=name, triggers=triggers, job=job, policies=policies, **more)


class Story:
    """A world with one engine, and what a person sees of it."""

    def __init__(
        self,
        path: Path,
        *,
        max_running: int = 8,
        burst: int | None = None,
        clock: FakeClock | None = None,
        hosting: Hosting = Hosting(),  # noqa: B008  # It is frozen.
        stores: Stores | None = None,
    ) -> None:
        """Tell it over `stores`; None is the file at `path`."""
        self.world = World(path, random=Random(0), start_ms=START_MS, clock=clock, stores=stores)
        self.world.hosting = hosting
        self.world.fix_seed()
        self.client = Client(self.world.location, clock=self.world.clock)
        self.key = self.world.start_engine(max_running=max_running, burst=burst)
        # Nobody holds this lock: the engine is no process. Without the file, who asks whether the
        # engine is alive would look into every process of this machine, thousands of times.
        folder = self.client.state_dir
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        engine_lock_path(folder, self.key).touch(mode=0o600)

    @property
    def engine(self) -> Engine:
        return self.world.engines[self.key][0]

    def add(self, name: str, *triggers: str, **options: Any) -> None:
        self.client.add(a_spec(name, *triggers, **options))

    def add_many(self, count: int, name: str, *triggers: str, **options: Any) -> None:
        """Add schedules of one kind, which have numbers behind their name."""
        self.client.add_all(
            [a_spec(f"{name}{each}", *triggers, **options) for each in range(count)]
        )

    def after_s(self, seconds: float) -> None:
        """Let time pass, then step twice: what starts in the first may end in the second."""
        self.world.clock.advance_ms(round(seconds * 1000))
        self.engine.step()
        self.engine.step()

    def runs(self, name: str) -> list[Execution]:
        """The executions of a schedule, oldest first."""
        return self.client.history(name, limit=1000)[::-1]

    def statuses(self, name: str) -> list[str]:
        return [
            f"{run.status}:{run.reason}" if run.reason else str(run.status)
            for run in self.runs(name)
        ]

    def bodies(self, name: str) -> int:
        return sum(body.schedule == name for body in self.world.bodies)
