"""The engine of a journey: the real engine, stepped by hand, alone with its database."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.errors import Conflict
from edgecron.base.units import from_ms
from edgecron.base.values import dataclass
from edgecron.embedding.travel_calls import CallsInTurn, Lasts, Stage
from edgecron.embedding.travel_commands import CommandsInTurn, Perform
from edgecron.embedding.waiting import Waits
from edgecron.engine.presence import EngineIdentity, EngineSettings
from edgecron.engine.runners import Runners
from edgecron.engine.step import Engine
from edgecron.model.choices import ACTIVE, Reason, Status
from edgecron.model.claim import Outcome, Output
from edgecron.planning.retention import UNLIMITED
from edgecron.store.sqlite.store import open_store
from edgecron.supervisor.verdicts import Exit, Interrupted, Verdict

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.embedding.borrowed_scheduler import Lent
    from edgecron.embedding.fake_clock import FakeClock
    from edgecron.embedding.pool import ClientPool
    from edgecron.embedding.travel_calls import JourneyLoop
    from edgecron.engine.events import Event
    from edgecron.model.run import Execution
    from edgecron.store.contract import RunningRow


_MOST_RUNNING = 8  # where the program does not say; an engine would count the cores
_MOST_PASSES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every engine of a journey finds."""

    database: Path
    clock: FakeClock
    lent: Lent
    report: Callable[[Event], None]
    perform: Perform
    lasts: Lasts


class Driving:
    """One engine from its start to its end. `key` is its own."""

    def __init__(self, setting: Setting, *, key: str) -> None:
        clock, lent = setting.clock, setting.lent
        self._clock = clock
        self._lent = lent
        self._stage = Stage(clock)
        self._loop: JourneyLoop | None = None
        self._loop_at_ms: int | None = None  # by the monotonic clock: its coroutines go on
        self._wake_ms: int | None = None
        self._calls = CallsInTurn(
            lent.functions,
            lent.coroutines,
            stage=self._stage,
            lasts=setting.lasts,
            find_loop=self._find_loop,
            clock=clock,
            read_state=lent.read_state,
        )
        commands = CommandsInTurn(
            setting.perform,
            self._calls,
            apart=lent.apart,
            stage=self._stage,
            lasts=setting.lasts,
            clock=clock,
        )
        self._store = open_store(setting.database, now_ms=clock.now_ms())
        settings = EngineSettings(
            queues=lent.queues,
            max_running=lent.max_running or _MOST_RUNNING,
            retention=UNLIMITED,
        )
        self._engine = Engine(
            settings,
            EngineIdentity(key, os.getpid()),
            store=self._store,
            clock=clock,
            others=_Alone(key, boot_id=clock.boot_id()),
            runners=Runners(lambda: commands, clock=clock, callables=self._calls),
            report=setting.report,
        )

    @property
    def wake_ms(self) -> int | None:
        """When there is something to do next, by the wall clock; None where nothing is to come."""
        elapsed = [at for at in (self._stage.next_ms, self._loop_at_ms) if at is not None]
        offset_ms = self._clock.now_ms() - self._clock.monotonic_ms()
        wakes = [at + offset_ms for at in elapsed]
        return min(wakes if self._wake_ms is None else [*wakes, self._wake_ms], default=None)

    def settle(self) -> None:
        """Do all that is due now, and what comes of it."""
        for _ in range(_MOST_PASSES):
            self._wake_ms = self._engine.step().wake_ms
            self._lent.deliver()
            is_busy = self._play() or self._is_due() or self._engine.has_ends()
            if not is_busy and not self._engine.has_changed():
                return
        raise Conflict(
            f"there is no end of what is due at {self._clock.now()}",
            hint="does a job run itself, or another one that runs it?",
        )

    def close(self) -> None:
        """End it as a crash would: what runs has no end on record."""
        self._calls.stop()
        if self._loop is not None:
            self._loop.drive()  # Its coroutines are cancelled.
            self._loop.close()
        self._engine.close()
        self._store.close()

    def _play(self) -> bool:
        """Call functions, and let coroutines go on; whether any has been called."""
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

    def _find_loop(self) -> JourneyLoop:
        if self._loop is None:
            from edgecron.embedding.travel_calls import JourneyLoop

            self._loop = JourneyLoop(self._clock)
        return self._loop


class _Alone:
    """Other engines: all are dead, and so is everything that they ran."""

    def __init__(self, key: str, *, boot_id: str) -> None:
        self._key = key
        self._boot_id = boot_id

    def ring(self) -> None:
        """No other engine is alive."""

    def announce(self) -> None:
        """No other engine is alive."""

    def adopt(self, supervisor_id: str, rows: Sequence[RunningRow]) -> None:
        """No other supervisor is alive."""

    def engine_is_alive(self, key: str) -> bool:
        return key == self._key

    def supervisor_is_alive(self, supervisor_id: str) -> bool:
        return False

    def dead_supervisors(self) -> list[str]:
        return []

    def judge(self, supervisor_id: str, tokens: Iterable[str]) -> dict[str, Verdict]:
        return {token: Interrupted(reason=Reason.LOST) for token in tokens}

    def outcome_of(self, verdict: Exit, row: RunningRow) -> Outcome:
        raise AssertionError("no journal of a journey tells an end")

    def find_output(self, token: str) -> tuple[Output, bool] | None:
        return None  # it was no process

    def end_what_is_left(self, verdict: Interrupted, token: str) -> None:
        """Nothing is left: it was no process."""

    def forget_engine(self, key: str) -> None:
        """It has no files."""

    def forget_supervisor(self, supervisor_id: str) -> None:
        """Likewise."""

    def remove_dead_files(self, *, known: Collection[str], now_ms: int) -> None:
        """Likewise."""


Move = Callable[[int | None], bool]  # to the next event, before an instant; False where none is


class JourneyWaits(Waits):
    """`move` goes on to what happens next."""

    def __init__(self, pool: ClientPool, *, clock: Clock, move: Move) -> None:
        super().__init__(pool, clock=clock)
        self._pool = pool
        self._clock = clock
        self._move = move

    def wait(self, execution: Execution, *, timeout_s: float | None) -> Execution:
        """Let time pass until a run has ended. Raises TimeoutError where nothing ends it."""
        until_ms = None if timeout_s is None else self._clock.now_ms() + round(timeout_s * 1000)
        while True:
            can_move = self._move(until_ms)
            execution = self.look(execution)
            if execution.status not in ACTIVE:
                return execution
            if not can_move:
                raise TimeoutError(
                    f"run {execution.id} of {execution.schedule!r} is {execution.status} at"
                    f" {from_ms(self._clock.now_ms())}, and nothing that is to come ends it"
                )

    async def wait_async(self, execution: Execution) -> Execution:
        return self.wait(execution, timeout_s=None)

    def cancel(self, execution_id: int) -> Execution:
        with self._pool.client() as client:
            if client.execution(execution_id).status is not Status.RUNNING:
                return client.cancel(execution_id)
            client.store.request_cancel(execution_id, now_ms=self._clock.now_ms())
            return client.execution(execution_id)
