"""Run the engine of a program, on a thread of its own or in the foreground, until it must stop.

If the engine dies, of a bug or because the database file was replaced, a new engine starts. The
engine stops on a signal in the foreground, and when the interpreter ends.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

# `Scheduler` needs it on the engine's thread: it is loaded with this module instead.
import edgecron.supervisor.callable_runner  # noqa: F401
from edgecron.base.errors import Conflict, EdgecronError, SchemaTooNew
from edgecron.base.service_manager import SOCKET, Watchdog, find_service_watchdog
from edgecron.embedding.concurrency import engine_logger, wait_for_rest
from edgecron.engine.host import EngineHost
from edgecron.model.choices import OnShutdown

if TYPE_CHECKING:
    from types import FrameType

    from edgecron.base.clock import Clock
    from edgecron.engine.events import Event

_PAUSES_S = (0.1, 1.0, 5.0, 15.0, 60.0)  # before a new engine, while engines die in a row
_CALM_MS = 60_000  # an engine that lived for so long starts a new row of deaths
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MOST_NAMES = 5  # of the functions that a stopping engine waits for


def refuse_greenlets() -> None:
    """Raise Conflict if gevent has replaced threads by greenlets.

    The engine would sleep in the kernel, and with it the whole process.
    """
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        raise Conflict(
            "an engine can't run if gevent has patched threads",
            hint="run the engine in another process: scheduler.run_forever(); run_now works here",
        )


def find_watchdog(clock: Clock) -> Watchdog | None:
    """Return the watchdog of the service manager; None without one."""
    if SOCKET not in os.environ:
        return None  # Before the log is loaded.
    return find_service_watchdog(clock=clock, warn=engine_logger().warning)


class OwnEngine:
    """Runs the engines that `opened` makes, one after the other, until it is stopped.

    `failed` gets the error that an engine died of, and None when the next engine runs.
    """

    def __init__(
        self,
        opened: Callable[[], EngineHost],
        *,
        monotonic_ms: Callable[[], int],
        failed: Callable[[BaseException | None], object],
    ) -> None:
        self._opened = opened
        self._monotonic_ms = monotonic_ms
        self._failed = failed
        self.awake = threading.RLock()  # held while its engine does anything
        self._stopping = threading.Event()
        self._has_begun = threading.Event()  # the first engine runs, or could not be made
        self._first_error: BaseException | None = None
        # Between a thread or signal handler that stops a host, and the end of the host.
        self._lock = threading.RLock()
        self._host: EngineHost | None = None
        self._thread: threading.Thread | None = None  # None in the foreground
        self._ident: int | None = None  # of the thread that it runs on
        self._has_ended = threading.Event()

    def start(self) -> None:
        """Start the thread, and wait until its engine is ready. Raises what prevents that."""
        # Daemon: a function that hangs must not keep the interpreter from ending. `stop` joins.
        thread = threading.Thread(target=self._run, name="edgecron-engine", daemon=True)
        with self._lock:
            thread.start()
            self._thread = thread
        self._has_begun.wait()
        if self._first_error is not None:
            thread.join()
            raise self._first_error

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def run(self) -> None:
        """Run in the foreground, until `stop`. Raises what prevents the start."""
        self._run()
        if self._first_error is not None:
            raise self._first_error

    def ask_to_stop(self) -> None:
        """Ask the engine to end, from a signal handler of `run`. Other threads use `stop`."""
        self._stopping.set()
        host = self._host
        if host is not None:
            host.loop.stop()

    def stop(self, *, wait_s: float) -> bool:
        """Ask it to end, and wait up to `wait_s`; report whether it has ended."""
        with self._lock:
            self.ask_to_stop()
            thread, ident = self._thread, self._ident
        if thread is None and ident is None:
            return True  # If it is about to start, it ends immediately.
        if ident == threading.get_ident():
            return self._has_ended.is_set()
        if thread is None:
            return self._has_ended.wait(wait_s)
        thread.join(wait_s)
        return not thread.is_alive()

    def log_stopping(self, event: Event, *, wait_s: float) -> None:
        """Tell the sender of a signal to a foreground program why it does not end yet."""
        if self._thread is None and self._ident is not None:
            engine_logger().warning("%s", stopping_words(event.details, wait_s=wait_s))

    def _run(self) -> None:
        wait_for_rest(self)
        with self._lock:  # `start` has set `_thread` then.
            self._ident = threading.get_ident()
        try:
            self._run_engines()
        finally:
            self._has_ended.set()
            self._has_begun.set()  # If it was stopped before its start, nobody must wait for that.

    def _run_engines(self) -> None:
        deaths = 0
        while not self._stopping.is_set():
            begun_ms = self._monotonic_ms()
            with self.awake:
                error = self._run_one()
            if error is None:
                return
            if not self._has_begun.is_set():
                self._first_error = error
                self._has_begun.set()
                return
            known = isinstance(error, EdgecronError)
            exc_info = None if known else error
            engine_logger().error("the engine has died: %s", error, exc_info=exc_info)
            self._failed(error)
            if isinstance(error, SchemaTooNew):
                return  # A newer edgecron has the database now: it stays so.
            deaths = deaths + 1 if self._monotonic_ms() - begun_ms < _CALM_MS else 1
            self._stopping.wait(_PAUSES_S[min(deaths, len(_PAUSES_S)) - 1])

    def _run_one(self) -> BaseException | None:
        """Run one engine to its end; return the error that it died of, None if it was stopped."""
        try:
            host = self._opened()
        except Exception as error:  # noqa: BLE001  reported, and tried again
            return error
        died: BaseException | None = None
        try:
            self._host = host
            if not self._stopping.is_set():
                host.engine.register()  # Whoever waits for the start then finds it on record.
                if self._has_begun.is_set():
                    self._failed(None)
                self._has_begun.set()
                host.loop.hold_while_awake(self.awake)
                in_thread = self._thread is not None
                # In the foreground it is on the main thread: see `Scheduler.run_forever`.
                with nullcontext() if in_thread else host.loop.woken_by_signals():
                    host.loop.run()
                if in_thread:
                    # The program might continue for long, and so might a function that hangs.
                    host.loop.linger()
        except BaseException as error:  # noqa: BLE001  SystemExit is a death, too
            died = error
        finally:
            with self._lock:
                # Nobody may ring its bell from here on: another file can have the descriptor then.
                self._host = None
            try:
                host.close()
            except Exception as error:  # noqa: BLE001  reported as above
                died = died or error
        return died


@contextmanager
def stopping_on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Let TERM, INT and HUP call `stop` while the block lasts; a second one ends the process.

    A signal that is ignored, as under nohup, stays ignored. The former handlers return afterwards.
    """
    seen = 0

    def stop_once(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if number == signal.SIGHUP and seen:
            return  # Kernel and shell can both report that a terminal closes.
        seen += 1
        if seen == 1:
            stop()
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    before = {number: signal.getsignal(number) for number in _STOPS}
    taken = [number for number, was in before.items() if was is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, stop_once)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number] or signal.SIG_DFL)


def stopping_words(details: Mapping[str, object], *, wait_s: float) -> str:
    """Say what a stopping engine waits for, from the details of its ENGINE_STOPPING event.

    `wait_s` is how long it waits for functions before it asks them to stop.
    """
    runs, functions = details["runs"], details.get("functions", 0)
    assert isinstance(runs, int)
    assert isinstance(functions, int)
    if details["on_shutdown"] == OnShutdown.WAIT:
        words = f"waiting for {_counted(runs, 'run')} to end"
    elif details["on_shutdown"] == OnShutdown.STOP:
        words = f"ending {_counted(runs, 'run')}"
    else:
        called = details["called"]
        assert isinstance(called, list)
        words = f"waiting up to {wait_s:g} s for {_counted(functions, 'function')} to end"
        words += f" ({', '.join(called[:_MOST_NAMES])}{', ...' * (len(called) > _MOST_NAMES)})"
        if runs > functions:
            words += f", leaving {_counted(runs - functions, 'command')} running"
    return f"edgecron is stopping: {words}; a second signal ends this program immediately"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class Stoppable(Protocol):
    def stop(self, wait: float | None = None) -> bool:
        """Stop an engine, and wait for its end."""


_RUNNING: WeakSet[Stoppable] = WeakSet()


def stop_at_exit(one: Stoppable) -> None:
    """Stop it when the program, or a child of multiprocessing, ends without stopping it."""
    _RUNNING.add(one)
    # Such a child ends by os._exit: only a Finalize of multiprocessing runs before.
    if "multiprocessing.util" in sys.modules:
        # Import the name: another thread might still be loading the module in sys.modules.
        from multiprocessing.util import Finalize

        Finalize(None, _stop_all, exitpriority=100)


def _stop_all() -> None:
    for one in list(_RUNNING):
        one.stop()


atexit.register(_stop_all)
