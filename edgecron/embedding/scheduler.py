"""Scheduler: durable schedules within a Python program, and the engine that fires them."""

from __future__ import annotations

import os
import threading
from _weakrefset import WeakSet  # of `weakref`, all of which is 80 KB
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from edgecron.base.clock import Clock
from edgecron.base.errors import Conflict, DatabaseGone
from edgecron.embedding.event_loops import beside
from edgecron.embedding.pool import begin_anew_in_children, engine_logger
from edgecron.embedding.processes import is_child
from edgecron.embedding.subscriptions import Listener
from edgecron.model.choices import COMMAND_QUEUE, OnShutdown

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from edgecron.client.opening import OpenDatabase
    from edgecron.embedding.serving import Serving
    from edgecron.engine.events import Event
    from edgecron.engine.host import EngineHost
    from edgecron.engine.watchdog import Watchdog
    from edgecron.planning.retention import Retention

_GRACE_MS = 2_000  # so long functions are waited for that were asked to stop
_begun: WeakSet[Scheduler] = WeakSet()  # those of this process that were ever started
_MARGIN_S = 3.0  # what an engine takes at most to end, after those that it waits for


class Scheduler(Listener):
    """The schedules of a program, in a database that lasts, and an engine to fire them.

        scheduler = Scheduler("app.db", timezone="Europe/Berlin")

        @scheduler.job(every("5m"), retries=3, timeout="30s")
        def poll(host: str = "plc1") -> int: ...

        with scheduler:
            main()

    `database` None is the one that the command line uses. `name` tells the callables of this
    program from others' in the same database; None is the name of the file. `timezone` is for
    times that name no zone; None is UTC. `max_running` runs go on at once, None: 4 per core, at
    least 8. With `commands` False its engine runs its own callables alone, and leaves commands to
    others. When it stops, what runs is waited for up to `shutdown_timeout` seconds; then functions
    are asked to stop, coroutines cancelled, and commands go on (`on_shutdown`). Where another
    process holds the database's lock, what is asked of it waits for up to `busy_wait` seconds, and
    then raises DatabaseBusy; the engine is late, and goes on.

    Nothing is opened and no thread started before it is used. It may be used from any thread, and
    after a fork: the child has an engine of its own, once it starts one.
    """

    def __init__(
        self,
        database: str | Path | None = None,
        *,
        name: str | None = None,
        timezone: str | None = None,
        max_running: int | None = None,
        commands: bool = True,
        on_shutdown: str | OnShutdown = OnShutdown.LEAVE,
        shutdown_timeout: float = 10.0,
        retention: Retention | None = None,
        clock: Clock | None = None,
        busy_wait: float = 30.0,
    ) -> None:
        from edgecron.embedding.event_loops import Loops

        super().__init__(
            database,
            name=name,
            timezone=timezone,
            retention=retention,
            clock=clock,
            busy_wait=busy_wait,
        )
        self._queues = (self.queue, COMMAND_QUEUE) if commands else (self.queue,)
        self._max_running = max_running
        self._on_shutdown = OnShutdown(on_shutdown)
        self._shutdown_timeout_s = shutdown_timeout
        self._serving: Serving | None = None
        self._loops = Loops()
        self._failure: BaseException | None = None
        self._held: OpenDatabase | None = None  # the database, until its engine has it open, too
        self._watchdog: Watchdog | None = None  # of a service manager that wants to know
        begin_anew_in_children(self)

    def __repr__(self) -> str:
        state = "running" if self.is_running else "not running"
        return f"<Scheduler {self.name} at {self.path}, {state}>"

    @property
    def is_running(self) -> bool:
        """Whether this process has started an engine of it, and not stopped it."""
        return self._serving is not None

    @property
    def failure(self) -> BaseException | None:
        """What its engine died of, until another one runs in its place; None where all is well."""
        return self._failure

    def start(self) -> None:
        """Start an engine on a thread of its own, and return when it is ready.

        What was declared is kept first; callables that are not declared any more are shown as
        having nobody to run them. Raises Conflict where it runs already, DatabaseUnusable.
        """
        self._start(None)

    def _start(self, loop: AbstractEventLoop | None) -> None:
        serving = self._begin(loop)
        try:
            serving.start()
        except BaseException:
            serving.stop(wait_s=0)  # An interrupt came while we waited: its thread may run.
            self._forget(serving)
            raise

    def stop(self, wait: float | None = None) -> bool:
        """Stop its engine, and wait for its end, so many seconds; whether it has ended.

        What then still runs is a function that does not return: its run goes on, and its end is
        written when it comes, as long as this process lives. Harmless where none runs.
        """
        with self._lock:
            serving, self._serving = self._serving, None
            self._must_exist = False
        if serving is None:
            return True
        wait_s = self._shutdown_timeout_s + _GRACE_MS / 1000 + _MARGIN_S if wait is None else wait
        has_ended = serving.stop(wait_s=wait_s)
        if self._told is not None:
            self._told.stop()
        if has_ended:
            self._loops.close(wait_s=1.0)
        self.pool.close()
        self._let_go()
        return has_ended

    def run_forever(self) -> None:
        """Run the engine here until TERM, INT or HUP. For the main thread.

        What it then waits for is logged as a warning, which is stderr where no logging is set up.
        A second signal ends the process at once. Under systemd (Type=notify) it says when it is
        ready, and feeds the watchdog. Raises what `start` does.
        """
        from edgecron.embedding.shutdown import stopping_on_signals

        if threading.current_thread() is not threading.main_thread():
            raise Conflict(
                "run_forever minds signals, and so is for the main thread",
                hint="use start(), which has a thread of its own",
            )
        serving = self._begin(None)
        self._watchdog = self._find_watchdog()
        try:
            with stopping_on_signals(serving.ask_to_stop):
                serving.run()
        finally:
            self.stop()
            self._watchdog = None

    def _find_watchdog(self) -> Watchdog | None:
        from edgecron.engine.watchdog import SOCKET

        if SOCKET not in os.environ:
            return None
        from edgecron.engine.watchdog import find_service_watchdog

        return find_service_watchdog(clock=self._clock, warn=engine_logger().warning)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def astart(self) -> None:
        """`start`, for a coroutine: coroutines among the jobs run on its event loop."""
        await self.__aenter__()

    async def astop(self, wait: float | None = None) -> bool:
        """`stop`, for a coroutine."""
        return await beside(self.stop, wait)

    async def __aenter__(self) -> Self:
        import asyncio

        loop = asyncio.get_running_loop()
        starting = loop.run_in_executor(None, self._start, loop)
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The thread goes on, and would leave an engine that nobody stops.
            await asyncio.wait([starting])
            if starting.exception() is None:
                await asyncio.to_thread(self.stop)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        # Not on the loop itself: the coroutines that are waited for run there.
        await asyncio.to_thread(self.stop)

    def begin_anew(self) -> None:
        """In a forked child: threads, connections and the engine are the parent's."""
        self._lock, self._keeping = threading.RLock(), threading.RLock()
        self._serving = self._failure = self._watchdog = self._held = None
        self._must_exist = False
        self.pool.forget()
        self._registry.begin_anew()
        self.waits.begin_anew()
        if self._told is not None:
            self._told.begin_anew()
        self._loops.begin_anew()

    def _begin(self, loop: AbstractEventLoop | None) -> Serving:
        """Take the place of the engine, whose coroutines run on `loop`; None is one of our own."""
        # Its engine's modules are loaded on this thread: on another one they would take memory of
        # their own from the system, beside what is free here.
        import edgecron.engine.host
        import edgecron.supervisor.callable_runner  # noqa: F401
        from edgecron.embedding.serving import Serving, refuse_greenlets
        from edgecron.embedding.shutdown import stop_at_exit

        refuse_greenlets()
        if is_child():
            raise Conflict(
                "this is the process of one job, which starts no engine",
                hint="start it below: if __name__ == '__main__':",
            )
        with self._lock:
            if self._serving is not None:
                raise Conflict(
                    f"the engine of {self.name!r} runs already in this process",
                    hint="start it once, where the program begins",
                )
            serving = Serving(
                self._open_host, monotonic_ms=self._clock.monotonic_ms, failed=self._note_failure
            )
            self._refuse_twins()
            self._serving = serving
            self._loops.use(loop)
        try:
            self._held = self._declare_and_hold()
        except BaseException:  # an interrupt, too: else it would seem to run for ever
            self._forget(serving)
            raise
        self._must_exist = True
        stop_at_exit(self)
        return serving

    def _refuse_twins(self) -> None:
        """Raise Conflict where another Scheduler of our name runs here, and has other functions:
        which of them a run is of would not be known."""
        for other in list(_begun):
            if other is self or not other.is_running:
                continue
            if (other.path, other.queue) != (self.path, self.queue):
                continue
            apart = sorted(other._registry.callables ^ self._registry.callables)
            if apart:
                raise Conflict(
                    f"another Scheduler {self.name!r} of {self.path} runs in this process, and"
                    f" they do not declare the same: {', '.join(apart[:3])}",
                    hint="use one Scheduler, or give them names: Scheduler(path, name='other')",
                )
        _begun.add(self)

    def _forget(self, serving: Serving) -> None:
        with self._lock:
            if self._serving is serving:
                self._serving = None
                self._must_exist = False
        self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def _open_host(self) -> EngineHost:
        from edgecron.base.paths import is_there
        from edgecron.engine.host import EngineHost
        from edgecron.engine.presence import EngineSettings
        from edgecron.planning.retention import Retention
        from edgecron.supervisor.callable_runner import CallableRunner

        if not is_there(self.path):
            raise DatabaseGone(
                f"database {self.path} is gone, and nothing is run",
                hint="put it back, or stop and start to begin with a new one",
            )
        self.keep_declared()
        callables = CallableRunner(
            self._registry.functions,
            coroutines=self._registry.coroutines,
            find_loop=self._loops.find,
            read_state=self._read_state,
            clock=self._clock,
            close_ms=_GRACE_MS,
        )
        try:
            host = EngineHost(
                self.path,
                EngineSettings(
                    queues=self._queues,
                    max_running=self._max_running,
                    retention=self._retention or Retention(),
                    on_shutdown=self._on_shutdown,
                    call_wait_ms=round(self._shutdown_timeout_s * 1000),
                    call_grace_ms=_GRACE_MS,
                    starts_supervisor=bool(self._processes.commands),
                ),
                clock=self._clock,
                report=self._report,
                callables=callables,
                find_offers=lambda: self._registry.offers,
                part_of=self._processes.part_of,
                watchdog=self._watchdog,
            )
        except BaseException:  # an interrupt, too: its descriptors would stay open
            callables.close()
            raise
        self._let_go()
        return host

    def _read_state(self, schedule_id: int) -> Mapping[str, str]:
        with self.pool.client() as client:
            return client.store.find_state(schedule_id)

    def _holds_up(self) -> bool:
        return self._loops.is_here()

    def _report(self, event: Event) -> None:
        self.waits.note(event)
        if event.kind == "engine_stopping":
            self._log_stopping(event)
        if event.kind == "ended" and self._registry.has_callable(event.schedule or ""):
            self._log_end(event)
        if self._told is not None:
            self._told.note(event)

    def _log_end(self, event: Event) -> None:
        from edgecron.embedding.events import log_end

        if event.schedule is not None and event.outcome is not None:
            log_end(event.schedule, event.outcome)

    def _log_stopping(self, event: Event) -> None:
        """Tell whoever has sent a signal to a program in the foreground why it goes on."""
        from edgecron.embedding.shutdown import stopping_words

        if self._serving is not None and self._serving.is_in_foreground:
            words = stopping_words(event.details, wait_s=self._shutdown_timeout_s)
            engine_logger().warning("%s", words)

    def _note_failure(self, error: BaseException | None) -> None:
        self._failure = error
        if isinstance(error, DatabaseGone):
            # Another one may take its place, which knows nothing of what was declared.
            self._registry.forget_kept()
            self.pool.close()
