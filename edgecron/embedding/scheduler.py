"""Scheduler: durable schedules within a Python program, and the engine that fires them."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutinefunction, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Self
from weakref import WeakSet

from edgecron.base.checks import check_range, check_seconds, check_switch, check_type, suggest
from edgecron.base.clock import Clock
from edgecron.base.errors import Conflict, DatabaseGone, InvalidInput
from edgecron.base.forks import reset_in_children
from edgecron.base.paths import Location, is_there
from edgecron.embedding.adding import Adding
from edgecron.embedding.concurrency import Loops, beside, beside_loop
from edgecron.embedding.events import RunEvent, log_end, wants_of
from edgecron.embedding.processes import is_child, is_interactive, process_part
from edgecron.embedding.subscriptions import EventStream, Subscribers, Subscription
from edgecron.model.choices import COMMAND_QUEUE, OnShutdown
from edgecron.model.engine import check_label, queues_at
from edgecron.planning.retention import Retention

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from edgecron.base.service_manager import Watchdog
    from edgecron.client.schedule_changes import ScheduleChanges
    from edgecron.embedding.events import Wanted
    from edgecron.embedding.job import Scheduled
    from edgecron.embedding.own_engine import OwnEngine
    from edgecron.engine.events import Event
    from edgecron.engine.host import EngineHost
    from edgecron.model.run import Claim, Execution
    from edgecron.supervisor.command_runner import Part

_GRACE_MS = 2_000  # the wait for functions that were asked to stop
_FAILURES_S = 2.0  # the wait for `on_failure` functions
_MARGIN_S = 3.0  # what an engine takes to end after its last function, at most
_MOST_RUNNING = 1_000_000
_started: WeakSet[Scheduler] = WeakSet()  # the Schedulers of this process that were ever started


class Scheduler(Adding):
    """The schedules of a program, in a durable database, and an engine that fires them.

        scheduler = Scheduler("app.db", timezone="Europe/Berlin")

        @scheduler.job(every("5m"), retries=3, timeout="30s")
        def poll(host: str = "plc1") -> int: ...

        with scheduler:
            main()

    - `database`: a path, or the URL of a server's database, such as `postgresql://host/app`. The
      default is the database that the command line uses.
    - `name` separates the functions of this program from those of other programs in the database.
      The default is the name of the file or database.
    - `timezone`: for times that name no zone (default: UTC).
    - `max_running`: runs at the same time (default: 4 per core, at least 8).
    - `labels` of this machine: schedules with `on="label:berlin"` run on machines with that label.
    - `commands`: False leaves commands to other engines; this engine runs only its own functions.
    - `on_shutdown`, `shutdown_timeout`: when the engine stops, it waits up to `shutdown_timeout`
      seconds for functions. It then asks them to stop and cancels coroutines. Commands continue,
      unless `on_shutdown` says otherwise.
    - `busy_wait`: calls wait so many seconds for another process's lock on the database, then
      raise DatabaseBusy. The engine waits longer.

    No thread is started and no file opened before the first use. Any thread can use it. After a
    fork, the child has no engine until it starts its own.
    """

    # Eleven parameters, each by its name: a program gives one or two. A value that holds several
    # would be one more name to import, and to find in help.
    def __init__(
        self,
        database: str | Location | None = None,
        *,
        name: str | None = None,
        timezone: str | None = None,
        max_running: int | None = None,
        labels: Sequence[str] = (),
        commands: bool = True,
        on_shutdown: str | OnShutdown = OnShutdown.LEAVE,
        shutdown_timeout: float = 10.0,
        retention: Retention | None = None,
        clock: Clock | None = None,
        busy_wait: float = 30.0,
        **unknown: Never,
    ) -> None:
        if unknown:
            wrong = next(iter(unknown))
            close = suggest(wrong, signature(Scheduler).parameters.keys() - {"unknown"})
            hint = f"did you mean {close}?" if close else "help(Scheduler) shows what it takes"
            raise InvalidInput(f"Scheduler has no parameter {wrong!r}", hint=hint)
        super().__init__(
            database,
            name=name,
            timezone=timezone,
            retention=retention,
            clock=clock,
            busy_wait=busy_wait,
        )
        check_switch("commands", commands)
        check_seconds("shutdown_timeout", shutdown_timeout, example="shutdown_timeout=10.0")
        self._queues = (self.queue, COMMAND_QUEUE) if commands else (self.queue,)
        check_type(
            "max_running", max_running, int, type(None),
            expected="a whole number or None", hint="such as max_running=8",
        )  # fmt: skip
        check_range("max_running", max_running, 1, _MOST_RUNNING)
        check_type(
            "labels", labels, list, tuple,
            expected="a list of names", hint="such as labels=['berlin']",
        )  # fmt: skip
        for label in labels:
            check_label(label, what="a label")
        self._labels = tuple(labels)
        self._max_running = max_running
        if on_shutdown not in tuple(OnShutdown):
            known = ", ".join(OnShutdown)
            raise InvalidInput(
                f"on_shutdown is {on_shutdown!r:.60}, expected one of {known}",
                hint="such as on_shutdown='wait'",
            )
        self._on_shutdown = OnShutdown(on_shutdown)
        self._shutdown_timeout_s = shutdown_timeout
        self._engine: OwnEngine | None = None
        self._loops = Loops()
        self._subscribers = Subscribers(
            self._find_run, lend=self.client, open_client=self._open_client, clock=self._clock
        )
        self._failure: BaseException | None = None
        self._held: ScheduleChanges | None = None  # held open until the engine has it open, too
        self._watchdog: Watchdog | None = None  # of the service manager, if there is one
        reset_in_children(self)
        if is_interactive():
            self._warn_of_another()

    def __repr__(self) -> str:
        state = "running" if self.is_running else "not running"
        return f"<Scheduler {self.name} at {self.location}, {state}>"

    @property
    def is_running(self) -> bool:
        """Whether this process has started its engine and not stopped it."""
        return self._engine is not None

    @property
    def failure(self) -> BaseException | None:
        """The error that its engine died of, until another engine runs; None without one."""
        return self._failure

    def start(self) -> None:
        """Start an engine on a thread of its own; return when the engine is ready and on record.

        This first writes the declarations. Functions that are no longer declared are shown as
        vanished. Raises Conflict if the engine is running already, DatabaseUnusable.
        """
        self._start(None)

    def _start(self, loop: AbstractEventLoop | None) -> None:
        engine = self._begin(loop)
        try:
            engine.start()
        except BaseException:
            engine.stop(wait_s=0)  # If an interrupt ended our wait, its thread runs.
            self._forget(engine)
            raise

    def stop(self, wait: float | None = None) -> bool:
        """Stop its engine and wait for its end, up to `wait` seconds; report whether it has ended.

        It has not ended if a function does not return. The run then continues, and its end is
        written when it comes, as long as this process lives. Harmless without an engine.
        """
        check_seconds("wait", wait, example="stop(wait=10)", is_optional=True)
        with self._lock:
            engine, self._engine = self._engine, None
            self._must_exist = False
        if engine is None:
            return True
        wait_s = self._shutdown_timeout_s + _GRACE_MS / 1000 + _MARGIN_S if wait is None else wait
        has_ended = engine.stop(wait_s=wait_s)
        self._subscribers.stop()
        self._failures.stop(wait_s=_FAILURES_S)
        if has_ended:
            self._loops.close(wait_s=1.0)
        self.pool.close()
        self._close_held()
        return has_ended

    def run_forever(self) -> None:
        """Run the engine here until TERM, INT or HUP. Call it on the main thread.

        While it stops, a warning in the log names what it waits for (on stderr, unless the program
        configures logging). A second signal ends the process immediately. Under systemd
        (Type=notify) it reports when it is ready, and feeds the watchdog. Raises what `start` does.
        """
        if threading.current_thread() is not threading.main_thread():
            raise Conflict(
                "run_forever handles signals, so only the main thread can call it",
                hint="use start(), which runs the engine on another thread",
            )
        engine = self._begin(None)
        from edgecron.embedding.own_engine import find_watchdog, stopping_on_signals

        self._watchdog = find_watchdog(self._clock)
        try:
            with stopping_on_signals(engine.ask_to_stop):
                engine.run()
        finally:
            self.stop()
            self._watchdog = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def astart(self) -> None:
        """`start`, for a coroutine: coroutine jobs run on its event loop."""
        await self.__aenter__()

    astop = beside_loop(stop)

    async def __aenter__(self) -> Self:
        import asyncio  # 30 ms and 11 MB; the caller has it loaded

        loop = asyncio.get_running_loop()
        starting = loop.run_in_executor(None, self._start, loop)
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The thread continues, and would leave an engine without an owner.
            await asyncio.wait([starting])
            if starting.exception() is None:
                await beside(self.stop)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        # Not on the loop itself: the coroutines that the engine waits for run there.
        await beside(self.stop)

    # Events.

    def subscribe(
        self,
        callback: Callable[[RunEvent], object],
        *kinds: Wanted,
        job: Scheduled[Any] | str | None = None,
    ) -> Subscription:
        """Call a function with each event of a run: of these kinds, or all; of one job, or all.

            scheduler.subscribe(lambda event: alert(event.schedule, event.error), "failed")

        The events are those of all engines of the database, from now on, each once and in order per
        run. After a gap, such as a suspended machine or a stopped Scheduler, the events of the gap
        follow, at most the last 1,000. This process needs no engine of its own. The callback runs
        on a thread of its own: its exceptions are logged, and a slow callback delays nothing else.
        Raises InvalidInput for an unknown kind, or if the callback can't be called.
        """
        if not callable(callback):
            raise InvalidInput(
                f"the callback is {callback!r:.60}, expected a function",
                hint="such as subscribe(print)",
            )
        if iscoroutinefunction(callback):
            raise InvalidInput(
                f"{callback.__qualname__} is a coroutine, expected a function",
                hint="use: async for event in scheduler.events(...)",
            )
        return self._subscribers.subscribe(callback, wants_of(kinds, job))

    def events(self, *kinds: Wanted, job: Scheduled[Any] | str | None = None) -> EventStream:
        """Return the same events for a coroutine, from now on, until the Scheduler stops:

        async for event in scheduler.events("finished", job="backup"): ...
        """
        return EventStream(wants_of(kinds, job), self._subscribers)

    # Its engine.

    def reset_in_child(self) -> None:
        """Forget threads, connections and the engine, in a forked child: they are the parent's."""
        self._lock, self._keeping = threading.RLock(), threading.RLock()
        self._engine = self._failure = self._watchdog = self._held = None
        self._must_exist = False
        self.pool.forget()
        self._registry.reset_in_child()
        self.waits.reset_in_child()
        self.enqueuer.reset_in_child()
        self._subscribers.reset_in_child()
        self._failures.reset_in_child()
        self._loops.reset_in_child()

    def _begin(self, loop: AbstractEventLoop | None) -> OwnEngine:
        """Prepare an engine whose coroutines run on `loop`; None is a loop of our own."""
        # The engine takes 60 ms to load, and a program that only asks for runs does not need it.
        # Load it on this thread: on another one its memory would come on top of what is free here.
        from edgecron.embedding.own_engine import OwnEngine, refuse_greenlets, stop_at_exit

        refuse_greenlets()
        if is_child():
            raise Conflict(
                "the process of a job can't start an engine",
                hint="start the engine below: if __name__ == '__main__':",
            )
        with self._lock:
            if self._engine is not None:
                raise Conflict(
                    f"the engine of {self.name!r} runs already in this process",
                    hint="start it only once, when the program starts",
                )
            engine = OwnEngine(
                self._open_host, monotonic_ms=self._clock.monotonic_ms, failed=self._note_failure
            )
            self._refuse_other_functions()
            self._engine = engine
            self._loops.use(loop)
        try:
            self._held = self._declare_and_hold()
        except BaseException:  # an interrupt, too: else it would seem to run forever
            self._forget(engine)
            raise
        self._must_exist = True
        stop_at_exit(self)
        self._subscribers.resume()
        return engine

    def _warn_of_another(self) -> None:
        """Warn if another Scheduler of our name runs here: it does not get our functions."""
        for other in list(_started):
            if other.is_running and (other.location, other.queue) == (self.location, self.queue):
                warnings.warn(
                    f"another Scheduler {self.name!r} of {self.location} runs in this process, and"
                    " it does not run the functions of this one: use that one, or stop() it before"
                    " you make another; if you have no variable for it, restart the kernel",
                    stacklevel=3,
                )

    def _refuse_other_functions(self) -> None:
        """Raise Conflict if another Scheduler of our name runs here and has other functions.

        Its engine would claim runs of our functions, and ours of its.
        """
        for other in list(_started):
            if other is self or not other.is_running:
                continue
            if (other.location, other.queue) != (self.location, self.queue):
                continue
            different = sorted(other._registry.callables ^ self._registry.callables)
            if different:
                raise Conflict(
                    f"another Scheduler {self.name!r} of {self.location} runs in this process, and"
                    f" it declares these jobs differently: {', '.join(different[:3])}",
                    hint="use one Scheduler, or give them names: Scheduler(path, name='other')",
                )
        _started.add(self)

    def _forget(self, engine: OwnEngine) -> None:
        with self._lock:
            if self._engine is engine:
                self._engine = None
                self._must_exist = False
        self._close_held()

    def _close_held(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def _open_host(self) -> EngineHost:
        # Loaded by `own_engine`, on the thread of whoever starts the engine.
        from edgecron.client.side_processes import start_reader, start_sender
        from edgecron.engine.host import EngineHost, ProgramFunctions
        from edgecron.engine.presence import EngineSettings
        from edgecron.supervisor.callable_runner import CallableRunner

        if isinstance(self.location, Path) and not is_there(self.location):
            raise DatabaseGone(
                f"database {self.location} is gone: no job can run",
                hint="put the file back; or stop and start, to begin with a new database",
            )
        self.keep_declared()
        settings = EngineSettings(
            queues=self._queues,
            labels=self._labels,
            max_running=self._max_running,
            retention=self._retention or Retention(),
            on_shutdown=self._on_shutdown,
            call_wait_ms=round(self._shutdown_timeout_s * 1000),
            call_grace_ms=_GRACE_MS,
            starts_supervisor=bool(self._registry.process_commands),
        )
        callables = CallableRunner(
            self._registry.functions,
            coroutines=self._registry.coroutines,
            load=self._registry.load,
            find_loop=self._loops.find,
            read_state=self._read_state,
            clock=self._clock,
            places=settings.places,
            close_ms=_GRACE_MS,
        )
        try:
            host = EngineHost(
                self.location,
                settings,
                clock=self._clock,
                report=self._report,
                functions=ProgramFunctions(
                    callables, find_offers=lambda: self._registry.offers, part_of=self._part_of
                ),
                watchdog=self._watchdog,
                start_sender=start_sender,
                start_reader=start_reader,
            )
        except BaseException:  # an interrupt, too: its descriptors would stay open
            callables.close()
            raise
        self._close_held()
        return host

    def _part_of(self, claim: Claim) -> Part | None:
        command = self._registry.process_commands.get(claim.schedule)
        return process_part(claim, command, database=self.location)

    def _read_state(self, schedule_id: int) -> Mapping[str, str]:
        with self.pool.client() as client:
            return client.store.find_state(schedule_id)

    def _holds_up(self) -> bool:
        return self._loops.is_here()

    def _serves(self, queue: str) -> bool:
        here = queues_at(self._queues, machine=os.uname().nodename, labels=self._labels)
        return self.is_running and queue in here

    def _report(self, event: Event) -> None:
        """Log an event of our engine, and pass it to waiting threads and subscribers."""
        self.waits.note(event)
        if event.kind == "engine_stopping" and self._engine is not None:
            self._engine.log_stopping(event, wait_s=self._shutdown_timeout_s)
        if event.kind == "ended" and self._registry.has_callable(event.schedule or ""):
            log_end(event)
        self._failures.note(event)
        self._subscribers.note(event)

    def _find_run(self, run_id: int) -> Execution:
        return self.waits.execution(run_id)

    def _note_failure(self, error: BaseException | None) -> None:
        self._failure = error
        if isinstance(error, DatabaseGone):
            # A new database might take its place, without our declarations.
            self._registry.forget_kept()
            self.pool.close()
