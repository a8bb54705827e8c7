"""For the tests of programs that embed a Scheduler: time moves only when a test moves it.

    def test_the_backup_runs_at_night():
        with travel(scheduler, start=datetime(2026, 3, 28, tzinfo=UTC)) as journey:
            journey.advance(days=1)
            assert journey.fired(backup) == [datetime(2026, 3, 28, 2, tzinfo=UTC)]

`travel` puts a Scheduler in a time of its own, and its Journey moves that time. `context` makes a
RunContext to call a function with. Parts of a journey:

travel_engine    its engine, stepped by hand, its clock and its event loop
travel_runs      its functions, coroutines and commands, in turn

Nothing here needs pytest or starts a thread. For pytest, `pytest_plugin` has fixtures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from edgecron.base.checks import (
    check_aware,
    check_aware_or_none,
    check_name,
    check_range,
    check_seconds,
    check_type,
    json_text,
)
from edgecron.base.errors import Conflict, InvalidInput
from edgecron.base.paths import DATABASE_NAME
from edgecron.base.units import to_ms
from edgecron.embedding.context import RunContext
from edgecron.embedding.events import (
    Origins,
    PendingEvent,
    RunEvent,
    Wanted,
    name_of,
    run_event,
    wants_of,
)
from edgecron.embedding.job import payload_json
from edgecron.embedding.run import Run
from edgecron.embedding.travel_engine import START, Driving, FakeClock, Setting, moved
from edgecron.embedding.travel_runs import Perform, Play, performer
from edgecron.model.choices import GLOBAL_SCOPE, Cause, JobKind, Reason
from edgecron.model.job import Job
from edgecron.model.listing import RunChoice
from edgecron.model.options import Policies
from edgecron.model.run import Claim, Progress, Upstream, progress_text
from edgecron.store.sqlite.store import open_store
from edgecron.supervisor.calls import Call

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


__all__ = ["FakeClock", "FakeContext", "Journey", "context", "travel"]


def context(
    *,
    schedule: str = "test",
    plan_at: datetime = START,
    due_at: datetime | None = None,
    cause: str = "schedule",
    attempt: int = 1,
    max_attempts: int | None = None,
    scope: tuple[str, str] = GLOBAL_SCOPE,
    timeout: float | None = None,
    payload: object = None,
    state: Mapping[str, Any] | None = None,
    upstream: Upstream | None = None,
) -> FakeContext:
    """Return a context to call a function with, without a run.

        run = context(attempt=2, state={"cursor": 41})
        assert copy(run, "/srv") == 12
        assert run.reports[-1] == (1.0, "copied 12 of 12")
        assert run.remembered == {"cursor": 53}

    `max_attempts` None is `attempt`, `due_at` None is `plan_at`. Its `timeout`, in seconds, is
    over when a test moves `run.clock` beyond it. `payload` is JSON, as `run.payload` has it; the
    function gets only the arguments of its call. `upstream` is the run that a follow-up follows,
    such as `Upstream("backup", run=7, status="failed")`. Raises InvalidInput for impossible values.
    """
    try:
        known_cause = Cause(cause)
    except ValueError:
        raise InvalidInput(
            f"cause is {cause!r:.40}", hint=f"expected one of {', '.join(Cause)}"
        ) from None
    check_name(schedule, what="schedule name")
    check_aware("plan_at", plan_at)
    check_aware_or_none("due_at", due_at)
    most = attempt if max_attempts is None else max_attempts
    for what, number in (("attempt", attempt), ("max_attempts", most)):
        check_type(what, number, int, expected="a whole number", hint=f"such as {what}=2")
        check_range(what, number, 1, 1_000_000)
    check_seconds("timeout", timeout, example="timeout=5", is_optional=True)
    if [type(scope), *map(type, scope)] != [tuple, str, str]:
        raise InvalidInput(
            f"scope is {scope!r:.60}, expected (kind, id)",
            hint="such as scope=('device', 'pump-3')",
        )
    check_type(
        "state", {} if state is None else state, Mapping,
        expected="a dict", hint="such as state={'cursor': 41}",
    )  # fmt: skip
    claim = Claim(
        execution_id=1,
        lease_token="test",
        schedule_id=1,
        schedule=schedule,
        job=Job(kind=JobKind.CALLABLE, argv=(schedule,), payload=payload_json(payload)),
        plan_ms=to_ms(plan_at),
        due_ms=to_ms(due_at or plan_at),
        fire_key="",
        cause=known_cause,
        attempt=attempt,
        max_attempts=max(attempt, most),
        scope_kind=scope[0],
        scope_id=scope[1],
        policies=Policies(timeout_s=timeout),
        upstream=upstream,
    )
    clock = FakeClock(due_at or plan_at)
    texts = {key: json_text(value, what=f"state {key!r}") for key, value in (state or {}).items()}
    call = _RecordingCall(claim, clock=clock, read_state=lambda _: texts)
    call.begin(clock.monotonic_ms())
    return FakeContext(call, clock)


class FakeContext(RunContext):
    """A RunContext that records its calls. `clock` is the clock of its timeout."""

    __slots__ = ("_recording", "clock")

    def __init__(self, call: _RecordingCall, clock: FakeClock) -> None:
        super().__init__(call)
        self._recording = call
        self.clock = clock

    @property
    def reports(self) -> list[tuple[float | None, str]]:
        """The reported progress, in order: fraction and text."""
        return self._recording.reports

    @property
    def remembered(self) -> dict[str, Any]:
        """The state after the function: what is kept if the run succeeds."""
        return {key: json.loads(text) for key, text in self._recording.state.items()}

    def cancel(self) -> None:
        """Ask it to stop, as a person would."""
        self._recording.ask_to_stop(Reason.REQUEST)


class _RecordingCall(Call):
    __slots__ = ("reports",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reports: list[tuple[float | None, str]] = []

    def report_progress(self, fraction: float | None, text: str = "") -> None:
        progress_text(Progress(fraction=fraction, text=text))
        self.reports.append((fraction, text))
