"""Travelling through time with a Scheduler: a day of its schedules in a few milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from edgecron.base.errors import Conflict, InvalidInput
from edgecron.base.paths import DATABASE_NAME
from edgecron.embedding.borrowed_scheduler import lend
from edgecron.embedding.events import Origins, RunEvent, Told, Wanted, kind_of, run_event, wants_of
from edgecron.embedding.fake_clock import START, FakeClock
from edgecron.embedding.run import Run
from edgecron.embedding.travel_commands import Play, performer
from edgecron.embedding.travel_engine import Driving, JourneyWaits, Setting
from edgecron.store.sqlite.store import open_store

if TYPE_CHECKING:
    from typing import Literal

    from edgecron.embedding.job import Scheduled
    from edgecron.embedding.scheduler import Scheduler
    from edgecron.engine.events import Event

T = TypeVar("T")

_SEED = b"edgecron.testing"  # of jitter and H: the same in every test
_PAGE = 1000


@contextmanager
def travel(
    scheduler: Scheduler,
    start: datetime = START,
    *,
    commands: Literal["skip", "run"] | Play = "skip",
) -> Iterator[Journey]:
    """Let a Scheduler live in a time of its own while the block lasts, which begins at `start`.

        with travel(scheduler, datetime(2026, 3, 28, tzinfo=UTC)) as journey:
            journey.advance(days=1)
            assert journey.fired(poll)[0] == datetime(2026, 3, 28, 0, 5, tzinfo=UTC)
            assert journey.runs(poll)[-1].result == 4

    All that is due then runs, in order, at its time, in this thread: by a real engine, on a
    database of its own in a temporary folder. The Scheduler's own is not touched, and what is
    asked of it or its jobs within the block is asked of that one. A function takes no time, unless
    it says so (`journey.lasts`, `await asyncio.sleep`); one with a process of its own is called
    here as well. Commands are not started: they succeed, or, as `commands` says, end with what a
    function of their arguments gives as exit code, or are "run". Chance is the same each time.
    Raises Conflict where the Scheduler is running.
    """
    if start.tzinfo is None:
        raise InvalidInput(f"start is {start}, which has no time zone", hint="add tzinfo=UTC")
    perform = performer(commands)
    clock = FakeClock(start)
    with TemporaryDirectory(prefix="edgecron-journey-", dir=_folder()) as folder:
        database = Path(folder) / DATABASE_NAME
        open_store(database, now_ms=clock.now_ms(), seed=_SEED).close()
        journey: Journey | None = None

        def move(until_ms: int | None) -> bool:
            return journey is not None and journey._move(until_ms)

        with lend(
            scheduler,
            database,
            clock=clock,
            make_waits=lambda pool: JourneyWaits(pool, clock=clock, move=move),
        ) as lent:
            journey = Journey(scheduler, clock)
            setting = Setting(
                database=database,
                clock=clock,
                lent=lent,
                report=journey._note(lent.report),
                perform=perform,
                lasts=journey._lasts_ms,
            )
            journey._begin(setting)
            try:
                yield journey
            finally:
                journey._end()


class Journey:
    """The time of a Scheduler, moved by its test; and what became of it. See `travel`.

    `clock` is what its engine goes by: a job lets time pass by `journey.clock.advance_ms(5000)`.
    """

    def __init__(self, scheduler: Scheduler, clock: FakeClock) -> None:
        self.clock = clock
        self._scheduler = scheduler
        self._told: list[Event] = []
        self._lasting: dict[str, int] = {}
        self._is_moving = False
        self._engines = 0
        self._setting: Setting | None = None
        self._driving: Driving | None = None

    def __repr__(self) -> str:
        return f"<Journey of {self._scheduler.name} at {self.now}>"

    @property
    def now(self) -> datetime:
        """The time that it has come to, aware, in UTC."""
        return self.clock.now()

    # Time.

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Let so much time pass; what is due meanwhile runs at its time."""
        duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        self._advance_to(self.clock.now_ms() + _ms(duration))

    def advance_to(self, instant: datetime) -> None:
        """Let time pass until an instant, which is aware. Raises InvalidInput for one before."""
        if instant.tzinfo is None:
            raise InvalidInput(f"instant is {instant}, which has no time zone")
        self._advance_to(self.clock.now_ms() + _ms(instant - self.now))

    def settle(self) -> None:
        """Do what is due now, such as what was asked for by `run_now`. No time passes."""
        with self._moving() as driving:
            driving.settle()

    def sleep(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Let the machine sleep for so long: nothing runs. Then it wakes, and finds what it
        missed."""
        duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        with self._moving() as driving:
            self.clock.suspend_ms(_ms(duration))
            driving.settle()

    def crash(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Kill the program, whatever runs, and start it again after so long."""
        duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        with self._moving():
            self._end()
            self.clock.advance_ms(_ms(duration))
            self._start().settle()

    def reboot(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """The same with the whole machine: what is to run on boot does."""
        duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        with self._moving():
            self._end()
            self.clock.reboot(down_ms=_ms(duration))
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
        """Let runs of a job that start from now on last so long. Others run meanwhile.

        Its function is called at the end.
        """
        duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        self._lasting[_name_of(job)] = _ms(duration)

    # What became of it.

    def runs(self, job: Scheduled[T] | str | None = None) -> list[Run[T]]:
        """The runs of a job, or all, oldest first: those that were skipped or wait, too."""
        name = None if job is None else _name_of(job)
        found: list[Run[T]] = []
        before: int | None = None
        while True:
            with self._scheduler.client() as client:
                page = client.history(name, before_id=before, limit=_PAGE)
            found += [Run(one, self._scheduler.waits) for one in page]
            if len(page) < _PAGE:
                return found[::-1]
            before = page[-1].id

    def fired(self, job: Scheduled[Any] | str | None = None) -> list[datetime]:
        """The times that runs stand for that were started, in order; of a retried one once."""
        return sorted(
            run.plan_at
            for run in self.runs(job)
            if run.attempt == 1 and run.execution.started_at is not None
        )

    def events(self, *kinds: Wanted, job: Scheduled[Any] | str | None = None) -> list[RunEvent]:
        """What was told of runs so far, in order: see Scheduler.subscribe."""
        wants = wants_of(kinds, None if job is None else _name_of(job))
        origins = Origins()
        found = []
        for event in self._told:
            origin, kind = origins.note(event), kind_of(event)
            told = None if kind is None else Told(event=event, kind=kind, origin=origin)
            if told is not None and wants.includes(told):
                with self._scheduler.client() as client:
                    made = run_event(told, client.execution, dropped=0)
                found += [] if made is None else [made]
        return found

    # Its engine.

    def _begin(self, setting: Setting) -> None:
        self._setting = setting
        with self._moving():
            self._start().settle()

    def _start(self) -> Driving:
        assert self._setting is not None
        self._engines += 1
        self._driving = Driving(self._setting, key=f"{self._engines:016x}")
        return self._driving

    def _end(self) -> None:
        driving, self._driving = self._driving, None
        if driving is not None:
            driving.close()

    def _note(self, report: Callable[[Event], object]) -> Callable[[Event], None]:
        def note(event: Event) -> None:
            self._told.append(event)
            report(event)

        return note

    def _lasts_ms(self, schedule: str) -> int:
        return self._lasting.get(schedule, 0)

    @contextmanager
    def _moving(self) -> Iterator[Driving]:
        if self._is_moving:
            raise Conflict(
                "a job moves the time of the journey that it runs in",
                hint="let time pass by journey.clock.advance_ms(5000), or journey.lasts(...)",
            )
        self._is_moving = True
        try:
            if self._driving is not None:
                yield self._driving
            elif self._engines:
                raise Conflict("the journey is over", hint="move it within its block")
            else:
                yield self._start()
        finally:
            self._is_moving = False

    def _advance_to(self, target_ms: int) -> None:
        if target_ms < self.clock.now_ms():
            raise InvalidInput(
                "time does not go back by itself",
                hint="set the clock as a person would: journey.clock.step_ms(-3600000)",
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
        """Go on to what happens next, if that is no later than an instant; False where not."""
        with self._moving() as driving:
            driving.settle()
            wake_ms = driving.wake_ms
            if wake_ms is None or (until_ms is not None and wake_ms > until_ms):
                return False
            self.clock.advance_ms(max(0, wake_ms - self.clock.now_ms()))
            driving.settle()
        return True


def _name_of(job: Scheduled[Any] | str) -> str:
    return job if isinstance(job, str) else job.name


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def _folder() -> str | None:
    """Where nothing waits for a disk, if there is such a place; None is the default."""
    import os

    shared = "/dev/shm"
    return shared if os.path.isdir(shared) and os.access(shared, os.W_OK | os.X_OK) else None
