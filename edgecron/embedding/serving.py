"""An engine within a program: on a thread of its own, or in the foreground.

It is started anew where it dies: of a defect, or of a database that was put in another's place.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from edgecron.base.errors import Conflict, EdgecronError, SchemaTooNew
from edgecron.embedding.pool import engine_logger, wait_for_rest

if TYPE_CHECKING:
    from edgecron.engine.host import EngineHost

_PAUSES_S = (0.1, 1.0, 5.0, 15.0, 60.0)  # before it is started anew, while it dies again and again
_CALM_MS = 60_000  # who lived for so long has not died again and again


def refuse_greenlets() -> None:
    """Raise Conflict where gevent has put greenlets in the place of threads.

    The engine would sleep in the kernel, and with it all that the process does.
    """
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        raise Conflict(
            "an engine can't run where gevent has patched threads",
            hint="run it in a process of its own, by scheduler.run_forever(); run_now works here",
        )


class Serving:
    """Runs engines that `opened` makes, one after the other, until it is told to stop.

    `failed` is told what an engine died of, and None when another one runs in its place.
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
        self._has_begun = threading.Event()  # the first one runs, or could not be made
        self._first_error: BaseException | None = None
        # Between who stops a host from another thread, or a signal handler, and its end.
        self._lock = threading.RLock()
        self._host: EngineHost | None = None
        self._thread: threading.Thread | None = None  # None in the foreground
        self._ident: int | None = None  # of the thread that it runs on
        self._has_ended = threading.Event()

    def start(self) -> None:
        """Start the thread, and wait until its engine is ready. Raises what keeps it from that."""
        # Daemon: a function that hangs must not keep the interpreter from its end. `stop` joins.
        thread = threading.Thread(target=self._serve, name="edgecron-engine", daemon=True)
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

    @property
    def is_in_foreground(self) -> bool:
        """Whether it runs on the thread of who called `run`."""
        return self._thread is None and self._ident is not None

    def run(self) -> None:
        """The same in the foreground, until `stop`. Raises what keeps it from beginning."""
        self._serve()
        if self._first_error is not None:
            raise self._first_error

    def ask_to_stop(self) -> None:
        """Have it end; what runs then is waited for as its engine was told.

        For the thread that it runs on, such as in a signal handler of `run`; else see `stop`.
        """
        self._stopping.set()
        host = self._host
        if host is not None:
            host.loop.stop()

    def stop(self, *, wait_s: float) -> bool:
        """Have it end, and wait so long; whether it has ended."""
        with self._lock:
            self.ask_to_stop()
            thread, ident = self._thread, self._ident
        if thread is None and ident is None:
            return True  # Where it is about to start, it ends at once.
        if ident == threading.get_ident():
            return self._has_ended.is_set()
        if thread is None:
            return self._has_ended.wait(wait_s)
        thread.join(wait_s)
        return not thread.is_alive()

    def _serve(self) -> None:
        wait_for_rest(self)
        with self._lock:  # `start` has said by then which thread this is
            self._ident = threading.get_ident()
        try:
            self._serve_on()
        finally:
            self._has_ended.set()
            self._has_begun.set()  # Nobody waits for the beginning of what was stopped before.

    def _serve_on(self) -> None:
        deaths = 0
        while not self._stopping.is_set():
            begun_ms = self._monotonic_ms()
            error = self._serve_once()
            if error is None:
                return
            if not self._has_begun.is_set():
                self._first_error = error
                self._has_begun.set()
                return
            self._tell(error)
            if isinstance(error, SchemaTooNew):
                return  # A newer edgecron has the database now: it stays so.
            deaths = deaths + 1 if self._monotonic_ms() - begun_ms < _CALM_MS else 1
            self._stopping.wait(_PAUSES_S[min(deaths, len(_PAUSES_S)) - 1])

    def _serve_once(self) -> BaseException | None:
        """Run one engine to its end; what it died of, None where it was told to stop."""
        with self.awake:
            return self._serve_awake()

    def _serve_awake(self) -> BaseException | None:
        try:
            host = self._opened()
        except Exception as error:  # noqa: BLE001  told, and tried again
            return error
        died: BaseException | None = None
        try:
            self._host = host
            if not self._stopping.is_set():
                if self._has_begun.is_set():
                    self._failed(None)
                self._has_begun.set()
                host.loop.hold_while_awake(self.awake)
                in_thread = self._thread is not None
                # In the foreground it is on the main thread: see `Scheduler.run_forever`.
                with nullcontext() if in_thread else host.loop.woken_by_signals():
                    host.loop.run()
                if in_thread:
                    # The program may go on for long, and so may a function that does not return.
                    host.loop.linger()
        except BaseException as error:  # noqa: BLE001  SystemExit in it, too, is a death
            died = error
        finally:
            with self._lock:
                # Nobody rings its bell from here on: another file may have the descriptor then.
                self._host = None
            try:
                host.close()
            except Exception as error:  # noqa: BLE001  as above
                died = died or error
        return died

    def _tell(self, error: BaseException) -> None:
        known = isinstance(error, EdgecronError)
        engine_logger().error("the engine has died: %s", error, exc_info=None if known else error)
        self._failed(error)
