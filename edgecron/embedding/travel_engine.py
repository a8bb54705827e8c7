"""The engine of a journey, with its clock and its event loop.

The real engine is stepped by hand, with a database that no other engine uses.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from selectors import DefaultSelector, SelectorKey
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, Unpack

from edgecron.base.errors import Conflict
from edgecron.base.units import from_ms, to_ms
from edgecron.base.values import dataclass
from edgecron.embedding.concurrency import ClientPool
from edgecron.embedding.enqueuing import Enqueuer
from edgecron.embedding.own_engine import OwnEngine
from edgecron.embedding.run import Waits
from edgecron.embedding.scheduler import Scheduler
from edgecron.embedding.travel_runs import CallsInTurn, CommandsInTurn, Lasts, Perform, Stage
from edgecron.engine.presence import EngineIdentity, EngineSettings
from edgecron.engine.runners import Runners
from edgecron.engine.step import Engine
from edgecron.model.choices import ACTIVE, Reason, Status
from edgecron.model.run import Outcome, Output
from edgecron.planning.retention import UNLIMITED
from edgecron.store.sqlite.store import open_store
from edgecron.supervisor.journal import Exit, Interrupted, Verdict

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from edgecron.base.clock import Clock
    from edgecron.engine.events import Event
    from edgecron.engine.host import EngineHost
    from edgecron.model.run import Execution
    from edgecron.store.contract import RunningRow

START = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)


class FakeClock:
    """Takes the place of the machine's clocks: wall time, elapsed time, and the kernel's view.

    >>> clock = FakeClock(datetime(2021, 3, 28, tzinfo=UTC))
    >>> clock.advance_ms(1500)
    >>> clock.now()
    datetime.datetime(2021, 3, 28, 0, 0, 1, 500000, tzinfo=datetime.timezone.utc)
    """

    def __init__(self, start: datetime | int = START) -> None:
        self._now_ms = to_ms(start) if isinstance(start, datetime) else start
        self._monotonic_ms = 1_000_000
        self._boottime_ms = 1_000_000
        self._boots = 1
        self.synchronised: bool | None = True  # what the kernel reports

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def boottime_ms(self) -> int:
        return self._boottime_ms

    def boot_id(self) -> str:
        return f"boot-{self._boots}"

    def is_synchronised(self) -> bool | None:
        return self.synchronised

    def now(self) -> datetime:
        """Return the wall time as an aware UTC datetime."""
        return from_ms(self._now_ms)

    def advance_ms(self, duration_ms: int) -> None:
        """Let time pass, on all clocks."""
        if duration_ms < 0:
            raise ValueError(f"time passed by {duration_ms} ms; use step_ms to set the clock back")
        self._now_ms += duration_ms
        self._monotonic_ms += duration_ms
        self._boottime_ms += duration_ms

    def advance_to(self, instant: datetime | int) -> None:
        """Let time pass until a wall instant."""
        target_ms = to_ms(instant) if isinstance(instant, datetime) else instant
        self.advance_ms(target_ms - self._now_ms)

    def suspend_ms(self, duration_ms: int) -> None:
        """Let the machine sleep: elapsed time stops, the time since the boot does not."""
        self._now_ms += duration_ms
        self._boottime_ms += duration_ms

    def step_ms(self, by_ms: int) -> None:
        """Set the wall clock forward or back; no time passes."""
        self._now_ms += by_ms

    def set_ms(self, instant_ms: int) -> None:
        """Set the wall clock to an instant; no time passes."""
        self._now_ms = instant_ms

    def set_to(self, instant: datetime) -> None:
        """Set the wall clock to an instant; no time passes."""
        self._now_ms = to_ms(instant)

    def reboot(self, *, down_ms: int = 0) -> None:
        """Boot again after `down_ms`, with another boot id and elapsed time from 0."""
        self._boots += 1
        self._now_ms += down_ms
        self._monotonic_ms = 0
        self._boottime_ms = 0


_REAL_S = 1.0
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _JourneyLoop(asyncio.SelectorEventLoop):
    """Runs until nothing can continue before time passes: see `drive`.

    `await asyncio.sleep(60)` takes a minute of the journey's time. `asyncio.to_thread` calls its
    function immediately, in this thread. If a coroutine waits for a socket or a pipe, it gets a
    second of real time.
    """

    def __init__(self, clock: Clock) -> None:
        self._journey_clock = clock
        self.wait_s: float | None = None  # until its next timer; None without one
        super().__init__(_Selector(self._hold))

    def time(self) -> float:
        return self._journey_clock.monotonic_ms() / 1000

    @property
    def wait_ms(self) -> int | None:
        """The time until its next timer; None without one."""
        return None if self.wait_s is None else ceil(self.wait_s * 1000)

    def drive(self) -> None:
        """Do all that can be done now, also while another loop of this thread is running."""
        outer = asyncio._get_running_loop()
        task = None if outer is None else asyncio.current_task(outer)
        if outer is not None and task is not None:
            # Since Python 3.14, the current task belongs to the thread, not to the loop.
            asyncio.tasks._leave_task(outer, task)
        asyncio._set_running_loop(None)
        try:
            self.run_forever()
        finally:
            asyncio._set_running_loop(outer)
            if outer is not None and task is not None:
                asyncio.tasks._enter_task(outer, task)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  whoever awaits it gets it
            future.set_exception(error)
        return future

    def _hold(self, timeout_s: float | None) -> None:
        self.wait_s = timeout_s
        self.stop()


class _Selector(DefaultSelector):
    """Does not wait for time. It calls `hold` when there is nothing else to wait for."""

    def __init__(self, hold: Callable[[float | None], object]) -> None:
        super().__init__()
        self._hold = hold

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if len(self.get_map()) > 1:  # more than the descriptor that wakes the loop
            ready = super().select(_REAL_S if timeout is None else min(timeout, _REAL_S))
        if not ready:
            self._hold(timeout)
        return ready


_MOST_RUNNING = 8  # without a limit of the program; a real engine would count the cores
MOST_PASSES = 100_000  # of the engine at one instant; more of them have no end


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The state that all engines of a journey share."""

    scheduler: Scheduler
    database: Path
    clock: FakeClock
    report: Callable[[Event], None]
    perform: Perform
    lasts: Lasts


class Driving:
    """One engine from its start to its end. `key` is its identity."""

    def __init__(self, setting: Setting, *, key: str) -> None:
        clock, scheduler = setting.clock, setting.scheduler
        registry = scheduler._registry
        self._clock = clock
        self._scheduler = scheduler
        self._stage = Stage(clock)
        self._loop: _JourneyLoop | None = None
        self._loop_at_ms: int | None = None  # on the monotonic clock: its coroutines continue
        self._wake_ms: int | None = None
        self._calls = CallsInTurn(
            registry.functions,
            registry.coroutines,
            load=registry.load,
            stage=self._stage,
            lasts=setting.lasts,
            find_loop=self._find_loop,
            clock=clock,
            read_state=scheduler._read_state,
        )
        commands = CommandsInTurn(
            setting.perform,
            self._calls,
            process_commands=registry.process_commands,
            stage=self._stage,
            lasts=setting.lasts,
            clock=clock,
        )
        self._store = open_store(setting.database, now_ms=clock.now_ms())
        settings = EngineSettings(
            queues=scheduler._queues,
            max_running=scheduler._max_running or _MOST_RUNNING,
            retention=UNLIMITED,
        )
        self._engine = Engine(
            settings,
            EngineIdentity(key, os.getpid()),
            store=self._store,
            clock=clock,
            others=_NoOthers(key, boot_id=clock.boot_id()),
            runners=Runners(lambda: commands, clock=clock, callables=self._calls),
            report=setting.report,
        )

    @property
    def wake_ms(self) -> int | None:
        """The wall time of the next thing to do; None if nothing is to come."""
        elapsed = [at for at in (self._stage.next_ms, self._loop_at_ms) if at is not None]
        offset_ms = self._clock.now_ms() - self._clock.monotonic_ms()
        wakes = [at + offset_ms for at in elapsed]
        return min(wakes if self._wake_ms is None else [*wakes, self._wake_ms], default=None)

    def settle(self) -> None:
        """Do all that is due now, and all that follows from it."""
        for _ in range(MOST_PASSES):
            self._wake_ms = self._engine.step().wake_ms
            self._scheduler._subscribers.deliver()
            self._scheduler._failures.deliver()
            is_busy = self._play() or self._is_due() or self._engine.has_ends()
            if not is_busy and not self._engine.has_changed():
                return
        raise Conflict(
            f"due runs never end at {self._clock.now()}",
            hint="check for a job that runs itself, or two jobs that run each other",
        )

    def close(self) -> None:
        """End it as a crash would: the ends of active runs are not recorded."""
        self._calls.stop()
        if self._loop is not None:
            self._loop.drive()  # Its coroutines are cancelled.
            self._loop.close()
        self._engine.close()
        self._store.close()

    def _play(self) -> bool:
        """Call functions and continue coroutines; report whether a function was called."""
        has_played = self._stage.play()
        if self._loop is not None and self._calls.has_tasks | has_played:
            self._loop.drive()
            wait_ms = self._loop.wait_ms
            self._loop_at_ms = None if wait_ms is None else self._clock.monotonic_ms() + wait_ms
        raised, self._calls.raised = self._calls.raised, None
        if raised is not None:
            raise raised
        return has_played

    def _is_due(self) -> bool:
        return self._wake_ms is not None and self._wake_ms <= self._clock.now_ms()

    def _find_loop(self) -> _JourneyLoop:
        if self._loop is None:
            self._loop = _JourneyLoop(self._clock)
        return self._loop


class _NoOthers:
    """The other engines of the database: all are dead, and so are their runs."""

    def __init__(self, key: str, *, boot_id: str) -> None:
        self._key = key
        self._boot_id = boot_id

    def ring(self) -> None:
        """No other engine is running."""

    def announce(self) -> None:
        """No other engine is running."""

    def adopt(self, supervisor_id: str, rows: Sequence[RunningRow]) -> None:
        """There is no other supervisor."""

    def engine_is_alive(self, key: str) -> bool:
        return key == self._key

    def is_elsewhere(self, machine: str | None) -> bool:
        return False

    def supervisor_is_alive(self, supervisor_id: str) -> bool:
        return False

    def dead_supervisors(self) -> list[str]:
        return []

    def judge(self, supervisor_id: str, tokens: Iterable[str]) -> dict[str, Verdict]:
        return {token: Interrupted(reason=Reason.LOST) for token in tokens}

    def outcome_of(self, verdict: Exit, row: RunningRow) -> Outcome:
        raise AssertionError("a journey has no journal")

    def find_output(self, token: str) -> tuple[Output, bool] | None:
        return None  # there was no process

    def find_printed(self, supervisor_id: str, token: str) -> Output | None:
        return None  # there was no process

    def end_what_is_left(self, verdict: Interrupted, token: str) -> None:
        """There was no process."""

    def find_unattended(self) -> dict[str, list[str]]:
        """No other engine was here before."""
        return {}

    def end_forgotten(self, supervisor_id: str, tokens: Sequence[str]) -> bool:
        """No other engine was here before."""
        return False

    def forget_engine(self, key: str) -> None:
        """It has no files."""

    def forget_supervisor(self, supervisor_id: str) -> None:
        """It has no files."""

    def remove_dead_files(self, *, known: Collection[str], now_ms: int) -> None:
        """There are no files."""


Move = Callable[[int | None], bool]  # to the next event, up to an instant; False if none is left


class JourneyWaits(Waits):
    """Waits for runs by letting time pass: `move` continues to the next event."""

    def __init__(self, pool: ClientPool, *, clock: Clock, move: Move) -> None:
        super().__init__(pool, clock=clock)
        self._pool = pool
        self._clock = clock
        self._move = move

    def wait(self, execution: Execution, *, timeout_s: float | None) -> Execution:
        """Let time pass until a run has ended. Raises TimeoutError if nothing ends it."""
        until_ms = None if timeout_s is None else self._clock.now_ms() + round(timeout_s * 1000)
        self._move(self._clock.now_ms())  # If the run ends without time, no other run is due.
        while True:
            execution = self.look(execution)
            if execution.status not in ACTIVE:
                return execution
            if not self._move(until_ms):
                raise TimeoutError(
                    f"run {execution.id} of {execution.schedule!r} is {execution.status} at"
                    f" {from_ms(self._clock.now_ms())}, and no later event ends it"
                )

    async def wait_async(self, execution: Execution) -> Execution:
        return self.wait(execution, timeout_s=None)

    def cancel(self, execution_id: int) -> Execution:
        with self._pool.client() as client:
            if client.execution(execution_id).status is not Status.RUNNING:
                return client.cancel(execution_id)
            client.store.request_cancel(execution_id, now_ms=self._clock.now_ms())
            return client.execution(execution_id)


_MOVED = (
    "_database",
    "location",
    "_clock",
    "pool",
    "waits",
    "enqueuer",
)  # a Scheduler's attributes


@contextmanager
def moved(scheduler: Scheduler, database: Path, *, clock: Clock, move: Move) -> Iterator[None]:
    """Give a Scheduler another database and clock while the block lasts.

    It counts as running, so that nothing starts its engine. Raises Conflict if it is running.
    """
    with scheduler._lock:
        if scheduler.is_running:
            raise Conflict(
                f"the engine of {scheduler.name!r} runs in this process",
                hint="use a Scheduler that is not running, or stop it first",
            )
        scheduler._engine = OwnEngine(
            _refuse_to_start, monotonic_ms=clock.monotonic_ms, failed=lambda error: None
        )
    own = {name: getattr(scheduler, name) for name in _MOVED}
    try:
        scheduler._database = scheduler.location = database
        scheduler._clock = clock
        scheduler.pool = ClientPool(scheduler._open_client)
        scheduler.enqueuer = Enqueuer(scheduler.pool)
        scheduler.waits = JourneyWaits(scheduler.pool, clock=clock, move=move)
        scheduler._registry.forget_kept()
        scheduler._subscribers.is_by_hand = scheduler._failures.is_by_hand = True
        scheduler._declare_and_hold().close()
        yield
    finally:
        scheduler._subscribers.stop()
        scheduler._subscribers.is_by_hand = scheduler._failures.is_by_hand = False
        scheduler.pool.close()
        for name, value in own.items():
            setattr(scheduler, name, value)
        scheduler._registry.forget_kept()
        scheduler._engine = None


def _refuse_to_start() -> EngineHost:
    raise AssertionError("a test drives the engine of a journey")
