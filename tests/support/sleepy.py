"""An engine in its loop, in a world of which each wait is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from edgecron.base.paths import state_dir
from edgecron.base.service_manager import Watchdog
from edgecron.client import Client
from edgecron.engine.loop import Loop
from edgecron.engine.presence import EngineSettings
from edgecron.engine.sleep import WalWatch
from edgecron.engine.state_folder import EngineFiles
from edgecron.model.choices import JobKind, OnShutdown
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from tests.simulation.world import World

START_MS = 1_773_000_000_000  # 2026-03-08T20:00:00Z


class ScriptedSleeper:
    """Notes what each wait was for and does what the story says happens in it."""

    def __init__(self, *happenings: Callable[[], set[int]]) -> None:
        self.waits: list[int | None] = []
        self.fds: list[int] = []  # of the last wait
        self._happenings = list(happenings)

    def wait(self, fds: Iterable[int], *, until_ms: int | None) -> set[int]:
        self.waits.append(until_ms)
        self.fds = list(fds)
        return self._happenings.pop(0)()

    def close(self) -> None: ...


class Sleepy:
    """A world with one engine in a loop, and a doorbell that is real."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder / "e.db", random=Random(0), start_ms=START_MS)
        self.world.fix_seed()
        self.client = Client(self.world.path, clock=self.world.clock)
        self.engine = self.world.engines[self.world.start_engine()][0]
        self.state_dir = state_dir(self.world.path)
        self.state_dir.mkdir()
        self.files = EngineFiles(self.state_dir, "a1")
        self.doorbell = self.files.doorbell

    def add(self, name: str, trigger: str, *, queue: str = "command", lasts_s: int = 0) -> None:
        job = Job(kind=JobKind.COMMAND, argv=("job", str(lasts_s), "0"))
        self.client.add(ScheduleSpec(name=name, triggers=(trigger,), job=job, queue=queue))

    def run(
        self,
        *happenings: Callable[[], set[int]],
        watchdog: Watchdog | None = None,
        is_prompt: bool = False,
        write_watch: WalWatch | None = None,
    ) -> ScriptedSleeper:
        """Run the loop through a story, whose end stops it."""
        sleeper = ScriptedSleeper(*happenings, lambda: loop.stop() or set())
        loop = self.loop(sleeper, watchdog=watchdog, is_prompt=is_prompt, write_watch=write_watch)
        loop.run()
        return sleeper

    def loop(
        self,
        sleeper: ScriptedSleeper,
        *,
        on_shutdown: OnShutdown = OnShutdown.LEAVE,
        watchdog: Watchdog | None = None,
        is_prompt: bool = False,
        write_watch: WalWatch | None = None,
    ) -> Loop:
        return Loop(
            self.engine,
            EngineSettings(on_shutdown=on_shutdown, starts_on_time=is_prompt, max_running=4),
            clock=self.world.clock,
            sleeper=sleeper,
            files=self.files,
            watchdog=watchdog,
            write_watch=write_watch,
        )
