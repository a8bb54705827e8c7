"""Keep a supervisor for an engine: started if needed, and on record before any claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import SupervisorUnavailable
from edgecron.engine.events import EventKind, EventReporter
from edgecron.model.choices import COMMAND_QUEUE
from edgecron.supervisor.runner import THREADS, Runner

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

_SHORT_LIFE_MS = 10_000  # a supervisor that dies sooner might die again and again
_PAUSE_MS, _LONGEST_PAUSE_MS = 1_000, 60_000


class OwnSupervisor:
    """The supervisor that an engine has started, if any, and when to start the next one.

    `start_runner` starts it. After its death another one follows: immediately, or after growing
    pauses if each one dies soon. `is_optional`: functions of a program run without a supervisor, so
    none is started until `want` is called.
    """

    def __init__(
        self, start_runner: Callable[[], Runner], *, clock: Clock, is_optional: bool
    ) -> None:
        self._start_runner = start_runner
        self._clock = clock
        self.is_optional = is_optional
        self.is_wanted = not is_optional
        self.runner: Runner | None = None
        self.id = THREADS  # of the runner of the next claim; THREADS without a supervisor
        self.is_recorded = False  # by `Supervision`, before anything is claimed for it
        self._started_ms = clock.monotonic_ms()
        self._start_at_ms = self._started_ms  # when the next one is to be started
        self._short_lives = 0  # supervisors in a row that died soon, or could not be started

    @property
    def start_wait_ms(self) -> int | None:
        """How long until another supervisor is to be started; None: not wanted."""
        if self.runner is not None or not self.is_wanted:
            return None
        return max(self._start_at_ms - self._clock.monotonic_ms(), 0)

    def want(self) -> None:
        """Have a supervisor started: there are commands to run."""
        self.is_wanted = True

    def start(self) -> None:
        """Start a supervisor. Raises SupervisorUnavailable or OSError if that fails."""
        self.runner, self.is_recorded = self._start_runner(), False
        self.id = self.runner.supervisor_id
        self._started_ms = self._clock.monotonic_ms()

    def note_failure(self) -> None:
        """Try to start a supervisor again later, and later each time: it just failed."""
        self._delay_start(is_soon=True)

    def note_death(self) -> None:
        """Let go of the supervisor: it has died."""
        self.runner, self.id, self.is_recorded = None, THREADS, False
        lived_ms = self._clock.monotonic_ms() - self._started_ms
        self._delay_start(is_soon=lived_ms < _SHORT_LIFE_MS)

    def _delay_start(self, *, is_soon: bool) -> None:
        self._short_lives = self._short_lives + 1 if is_soon else 0
        pause_ms = 0
        if self._short_lives > 1:
            pause_ms = min(_PAUSE_MS * 2 ** (self._short_lives - 2), _LONGEST_PAUSE_MS)
        self._start_at_ms = self._clock.monotonic_ms() + pause_ms


class Supervision:
    """Start an engine's own supervisor when it is needed, and record it."""

    def __init__(self, *, store: Store, own: OwnSupervisor, events: EventReporter) -> None:
        self._store = store
        self._own = own
        self._events = events
        self._is_lacking = False  # and that was reported

    def keep(self, engine_id: int, *, has_news: bool) -> None:
        """Start a supervisor if there is a command to run, and record it.

        `has_news`: there might be a first command since the last time. Raises
        SupervisorUnavailable or OSError if none can be started and nothing else can run either.
        """
        if has_news and not self._own.is_wanted and self._store.is_used(COMMAND_QUEUE):
            self._own.want()
        if self._own.start_wait_ms == 0:
            self._start()
        if self._own.runner is not None and not self._own.is_recorded:
            # Before anything is claimed for it: no other engine then removes its files.
            self._store.note_supervisor(engine_id, self._own.id)
            self._own.is_recorded = True

    def _start(self) -> None:
        try:
            self._own.start()
        except (SupervisorUnavailable, OSError) as error:
            if not self._own.is_optional:
                raise
            # Functions need no supervisor, and do not wait for it.
            self._own.note_failure()
            if not self._is_lacking:
                self._events.report(EventKind.SUPERVISOR_TROUBLE, details={"error_msg": str(error)})
            self._is_lacking = True
        else:
            if self._is_lacking:
                self._events.report(EventKind.SUPERVISOR_WELL)
            self._is_lacking = False
