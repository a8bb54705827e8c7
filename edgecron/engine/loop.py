"""Running an engine: steps, and between them sleep that nothing but work or a change ends."""

from __future__ import annotations

import threading

from edgecron.clock import Clock
from edgecron.engine.core import Engine
from edgecron.engine.events import Event, EventKind, Report
from edgecron.engine.sleep import Sleeper
from edgecron.engine.wake import Doorbell
from edgecron.errors import DatabaseGone, DatabaseUnusable, SupervisorUnavailable

GROUP_MS = 25  # ends that come within it are written in one transaction
_TROUBLE_MS = (100, 250, 500, 1000, 2000)  # pauses while the database can't be used
# An OSError: the state folder can't be looked into, as where no descriptor is left.
_OUTLIVED = (DatabaseUnusable, SupervisorUnavailable, OSError)


class Loop:
    """One engine, run until it is told to stop. `stop` may be called from anywhere."""

    def __init__(
        self, engine: Engine, *, clock: Clock, sleeper: Sleeper, doorbell: Doorbell, report: Report
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._sleeper = sleeper
        self._doorbell = doorbell
        self._report = report
        self._stopping = threading.Event()
        self._troubles = 0

    def stop(self) -> None:
        """End `run` after the step that is going on. Safe in a signal handler."""
        self._stopping.set()
        self._doorbell.ring()

    def run(self) -> None:
        """Step and sleep until `stop`.

        Trouble with the database, the state folder, or to start another supervisor is reported,
        and outlived. Raises DatabaseGone where the file was deleted or replaced.
        """
        self._tell(EventKind.ENGINE_STARTED)
        while not self._stopping.is_set():
            try:
                step = self._engine.step()
                self._engine.prepare()
                if self._troubles:
                    self._troubles = 0
                    self._tell(EventKind.DATABASE_WELL)
                self._sleep(step.wake_ms)
            except DatabaseGone as error:
                # To wait would be to wait for a file that nobody else writes to.
                self._tell(EventKind.DATABASE_TROUBLE, {"error": str(error)})
                raise
            except _OUTLIVED as error:
                self._wait_for_health(error)
        self._leave()

    def _sleep(self, wake_ms: int | None) -> None:
        """Sleep until there is something to do."""
        while not self._stopping.is_set():
            if wake_ms is not None and wake_ms <= self._clock.now_ms():
                return
            bell, runner = self._doorbell.fileno(), self._engine.runner.fileno()
            ready = self._sleeper.wait([bell, runner], until_ms=wake_ms)
            if bell in ready:
                self._doorbell.clear()
                return
            if runner in ready:
                self._gather(wake_ms)
                return
            # A clock that was set ends the wait too: then the time of waking is looked at again.
            if self._engine.has_changed():
                return

    def _gather(self, wake_ms: int | None) -> None:
        """Give other runs that are about to end the time to share one transaction.

        Not while all places are taken: each end then lets something start that waits.
        """
        if 1 < self._engine.live_count < self._engine.max_running:
            until_ms = self._clock.now_ms() + GROUP_MS
            if wake_ms is not None:
                until_ms = min(until_ms, wake_ms)
            self._sleeper.wait([self._doorbell.fileno()], until_ms=until_ms)

    def _wait_for_health(self, error: Exception) -> None:
        if not self._troubles:
            self._tell(EventKind.DATABASE_TROUBLE, {"error": str(error)})
        pause_ms = _TROUBLE_MS[min(self._troubles, len(_TROUBLE_MS) - 1)]
        self._troubles += 1
        self._sleeper.wait([self._doorbell.fileno()], until_ms=self._clock.now_ms() + pause_ms)
        self._doorbell.clear()

    def _leave(self) -> None:
        live = self._engine.live_count
        try:
            self._engine.retire()
        except _OUTLIVED as error:
            # The journal keeps these ends, and the next engine takes them over.
            self._tell(EventKind.DATABASE_TROUBLE, {"error": str(error)})
        self._tell(EventKind.ENGINE_STOPPED, {"runs": live})

    def _tell(self, kind: EventKind, details: dict[str, object] | None = None) -> None:
        self._report(Event(at_ms=self._clock.now_ms(), kind=kind, details=details or {}))
