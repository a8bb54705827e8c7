"""Travel through time with a Scheduler: a day of its schedules in a few milliseconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from edgecron.base.checks import check_aware, check_range, check_type
from edgecron.base.errors import Conflict, InvalidInput
from edgecron.base.paths import DATABASE_NAME
from edgecron.embedding.events import (
    Origins,
    PendingEvent,
    RunEvent,
    Wanted,
    name_of,
    run_event,
    wants_of,
)
from edgecron.embedding.run import Run
from edgecron.embedding.travel_commands import Perform, Play, performer
from edgecron.embedding.travel_engine import START, Driving, FakeClock, Setting, moved
from edgecron.model.listing import RunChoice
from edgecron.store.sqlite.store import open_store

if TYPE_CHECKING:
    from typing import Literal

    from edgecron.embedding.job import Scheduled
    from edgecron.embedding.scheduler import Scheduler
    from edgecron.engine.events import Event

T = TypeVar("T")

_SEED = b"edgecron.testing"  # of jitter and H: the same in every test
_PAGE = 1000
_MOST_PASSED = 10**7  # days, hours, ...


@contextmanager
def travel(
    scheduler: Scheduler,
    start: datetime = START,
    *,
    commands: Literal["skip", "run"] | Play = "skip",
) -> Iterator[Journey]:
    """Give a Scheduler a time of its own while the block lasts. It begins at `start`.

        with travel(scheduler, datetime(2026, 3, 28, tzinfo=UTC)) as journey:
            journey.advance(days=1)
            assert journey.fired(poll)[0] == datetime(2026, 3, 28, 0, 5, tzinfo=UTC)
            assert journey.runs(poll)[-1].result == 4

    A real engine runs all due jobs, in order, at their time, in this thread. The database is a new
    one in a temporary folder, also for calls of the Scheduler and its jobs within the block. The
    Scheduler's own database is not touched.

    A function takes no time, unless it says so (`journey.lasts`, `await asyncio.sleep`). A job with
    a process of its own is called here, too. By default commands are not started: they succeed. If
    `commands` is a function, it returns the exit code for the arguments of a command. If it is
    "run", commands run. Jitter is the same in each test. Raises Conflict if the Scheduler is
    running.
    """
    check_aware("start", start)
    if not hasattr(scheduler, "is_running"):
        raise InvalidInput(
            f"scheduler is {scheduler!r:.60}, expected a Scheduler",
            hint="such as travel(Scheduler('app.db'))",
        )
    perform = performer(commands)
    clock = FakeClock(start)
    with TemporaryDirectory(prefix="edgecron-journey-", dir=_folder()) as folder:
        database = Path(folder) / DATABASE_NAME
        open_store(database, now_ms=clock.now_ms(), seed=_SEED).close()
        journey = Journey(scheduler, clock, database, perform)
        with moved(scheduler, database, clock=clock, move=journey._move):
            try:
                journey.settle()
                yield journey
            finally:
                journey._end()


class Journey:
    """The time of a Scheduler, moved by its test, and the runs of that time. See `travel`.

    `clock` is the clock of its engine: a job lets time pass with `journey.clock.advance_ms(5000)`.
    """

    def __init__(
        self, scheduler: Scheduler, clock: FakeClock, database: Path, perform: Perform
    ) -> None:
        self.clock = clock
        self._scheduler = scheduler
        self._origins = Origins()
        self._pending: list[PendingEvent] = []
        self._lasting: dict[str, int] = {}
        self._is_moving = False
        self._engines = 0
        self._driving: Driving | None = None
        self._setting = Setting(
            scheduler=scheduler,
            database=database,
            clock=clock,
            report=self._report,
            perform=perform,
            lasts=self._lasts_ms,
        )

    def __repr__(self) -> str:
        return f"<Journey of {self._scheduler.name} at {self.now}>"

    @property
    def now(self) -> datetime:
        """Its current time, aware, in UTC."""
        return self.clock.now()

    # Time.

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Let time pass; due runs start at their time."""
        duration_ms = _duration_ms(days, hours, minutes, seconds)
        if (days, hours, minutes, seconds) == (0, 0, 0, 0):
            raise InvalidInput(
                "no time is given", hint="such as journey.advance(hours=1), or journey.settle()"
            )
        self._advance_to(self.clock.now_ms() + duration_ms)

    def advance_to(self, instant: datetime) -> None:
        """Let time pass until an aware instant. Raises InvalidInput for a past one."""
        check_aware("instant", instant)
        self._advance_to(self.clock.now_ms() + _ms(instant - self.now))

    def settle(self) -> None:
        """Do the work that is due now, such as runs of `run_now`. No time passes."""
        with self._moving() as driving:
            driving.settle()

    def sleep(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Let the machine sleep: nothing runs. It then wakes and finds what it missed."""
        duration_ms = _duration_ms(days, hours, minutes, seconds)
        with self._moving() as driving:
            self.clock.suspend_ms(duration_ms)
            driving.settle()

    def crash(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Kill the program with its active runs, and start it again after a while."""
        duration_ms = _duration_ms(days, hours, minutes, seconds)
        with self._moving():
            self._end()
            self.clock.advance_ms(duration_ms)
            self._start().settle()

    def reboot(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Crash and start the whole machine: `on boot` schedules run."""
        duration_ms = _duration_ms(days, hours, minutes, seconds)
        with self._moving():
            self._end()
            self.clock.reboot(down_ms=duration_ms)
            self._start().settle()

    def lasts(
        self,
        job: Scheduled[Any] | str,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """Set how long runs of a job last that start from now on. Others run meanwhile.

        The function is called at the end.
        """
        duration_ms = _duration_ms(days, hours, minutes, seconds)
        name = name_of(job)
        with self._scheduler.client() as client:
            client.schedule(name)
        self._lasting[name] = duration_ms

    # Its runs.

    def runs(self, job: Scheduled[T] | str | None = None) -> list[Run[T]]:
        """Return the runs of a job, or all, oldest first, with skipped and waiting ones."""
        name = None if job is None else name_of(job)
        found: list[Run[T]] = []
        before: int | None = None
        while True:
            with self._scheduler.client() as client:
                page = client.history(name, choice=RunChoice(before_id=before), limit=_PAGE)
            found += [Run(one, self._scheduler.waits) for one in page]
            if len(page) < _PAGE:
                return found[::-1]
            before = page[-1].id

    def fired(self, job: Scheduled[Any] | str | None = None) -> list[datetime]:
        """Return the plan times of the fires that started, in order."""
        return sorted(
            run.plan_at
            for run in self.runs(job)
            if run.attempt == 1 and run.execution.started_at is not None
        )

    def events(self, *kinds: Wanted, job: Scheduled[Any] | str | None = None) -> list[RunEvent]:
        """Return the events of runs so far, in order: see Scheduler.subscribe."""
        wants = wants_of(kinds, job)
        with self._scheduler.client() as client:
            found = [
                run_event(pending, client.execution, dropped=0)
                for pending in self._pending
                if wants.includes(pending)
            ]
        return [event for event in found if event is not None]

    # Its engine.

    def _start(self) -> Driving:
        self._engines += 1
        self._driving = Driving(self._setting, key=f"{self._engines:016x}")
        return self._driving

    def _end(self) -> None:
        driving, self._driving = self._driving, None
        if driving is not None:
            driving.close()

    def _report(self, event: Event) -> None:
        pending = self._origins.pending_event(event)
        if pending is not None:
            self._pending.append(pending)
        self._scheduler._report(event)

    def _lasts_ms(self, schedule: str) -> int:
        return self._lasting.get(schedule, 0)

    @contextmanager
    def _moving(self) -> Iterator[Driving]:
        if self._is_moving:
            raise Conflict(
                "a job can't move the journey that it runs in",
                hint="let time pass by journey.clock.advance_ms(5000), or journey.lasts(...)",
            )
        self._is_moving = True
        try:
            if self._driving is not None:
                yield self._driving
            elif self._engines:
                raise Conflict("the journey is over", hint="use the journey within its with block")
            else:
                yield self._start()
        finally:
            self._is_moving = False

    def _advance_to(self, target_ms: int) -> None:
        if target_ms < self.clock.now_ms():
            raise InvalidInput(
                "the time to move to is in the past",
                hint="to set the clock back: journey.clock.step_ms(-3600000)",
            )
        with self._moving() as driving:
            driving.settle()
            while (wake_ms := driving.wake_ms) is not None and wake_ms <= target_ms:
                self.clock.advance_ms(max(0, wake_ms - self.clock.now_ms()))
                driving.settle()
            # A job may have let more time pass.
            self.clock.advance_ms(max(0, target_ms - self.clock.now_ms()))
            driving.settle()

    def _move(self, until_ms: int | None) -> bool:
        """Move to the next event, up to an instant; report whether there was one."""
        with self._moving() as driving:
            driving.settle()
            wake_ms = driving.wake_ms
            if wake_ms is None or (until_ms is not None and wake_ms > until_ms):
                return False
            self.clock.advance_ms(max(0, wake_ms - self.clock.now_ms()))
            driving.settle()
        return True


def _duration_ms(days: float, hours: float, minutes: float, seconds: float) -> int:
    """Return milliseconds. Raises InvalidInput for a value that is not a number from 0."""
    given = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
    for name, value in given.items():
        check_type(name, value, int, float, expected="a number", hint=f"such as {name}=1")
        check_range(name, value, 0, _MOST_PASSED)
    return _ms(timedelta(**given))


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def _folder() -> str | None:
    """Return a folder in memory, so that no test waits for a disk; None if there is none."""
    shared = "/dev/shm"
    return shared if os.path.isdir(shared) and os.access(shared, os.W_OK | os.X_OK) else None
