"""Run an engine in this process: open it, stop it by signals or with stdin."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgecron.base.clock import SystemClock
from edgecron.base.errors import DatabaseUnusable, SupervisorUnavailable, os_words
from edgecron.base.paths import Location
from edgecron.client.side_processes import start_reader, start_sender
from edgecron.engine.host import EngineHost
from edgecron.engine.presence import EngineSettings
from edgecron.model.choices import OnShutdown

if TYPE_CHECKING:
    from types import FrameType

    from edgecron.base.service_manager import Watchdog
    from edgecron.engine.events import Report
    from edgecron.engine.loop import Loop


_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_FORWARDED = (*_STOPS, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_BY_KERNEL = 0x80  # SI_KERNEL (sigaction(2)): by a key of the terminal, not by kill()
LINGER_MS = 5_000  # how long a second Ctrl-C can still end the runs that the engine leaves


def open_host(
    database: Location,
    settings: EngineSettings,
    *,
    report: Report,
    watchdog: Watchdog | None = None,
) -> EngineHost:
    """Open an engine that is ready to run. Raises DatabaseUnusable."""
    try:
        return EngineHost(
            database,
            settings,
            clock=SystemClock(),
            report=report,
            watchdog=watchdog,
            start_sender=start_sender,
            start_reader=start_reader,
        )
    except (OSError, SupervisorUnavailable) as error:
        raise DatabaseUnusable(
            f"no engine can run beside database {database}: {os_words(error)}",
            hint="check the folder's owner, mode and space",
        ) from error


def run_as_init(serve: Callable[[], int]) -> int:
    """Serve in a child, as the first process of a container: return the child's exit code.

    Forwards signals to it and reaps the processes that the kernel gives to process 1, such as those
    that `docker exec` leaves behind. Nothing else would reap them (pid_namespaces(7)).
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return serve()
    while True:
        found = signal.sigwaitinfo({*_FORWARDED, signal.SIGCHLD})
        if found.si_signo != signal.SIGCHLD:
            # A key of the terminal has reached the child, too.
            if found.si_code != _BY_KERNEL:
                os.kill(child, found.si_signo)
            continue
        code = _reap(child)
        if code is not None:
            return code


def _reap(child: int) -> int | None:
    """Reap all processes that have ended; return the exit code of the child if it has."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return None
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def stop_on_signals(
    loop: Loop,
    *,
    is_terminal: bool,
    on_shutdown: OnShutdown,
    on_hup: Callable[[], None] | None = None,
) -> None:
    """Let the first signal stop a loop and the second one end the process immediately.

    On a terminal, the second Ctrl-C ends the running jobs first, unless they are being ended
    already. HUP calls `on_hup`, if given, unless the terminal has closed. Ignored signals stay
    ignored.
    """
    had_terminal = sys.stdin.isatty()
    may_stop_runs = is_terminal and on_shutdown is not OnShutdown.STOP
    seen = 0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        has_hung_up = had_terminal and not sys.stdin.isatty()
        if number == signal.SIGHUP and on_hup is not None and not has_hung_up:
            on_hup()
            return
        if number == signal.SIGHUP and seen:
            return  # A closing terminal can send HUP twice: from the kernel and from the shell.
        seen += 1
        is_key = is_terminal and number == signal.SIGINT
        # Keep the handlers: Python drops a pending signal if its handler changes.
        if seen == 1:
            loop.stop(linger_ms=LINGER_MS if is_key else 0)
        elif seen == 2 and is_key and may_stop_runs:
            loop.stop_runs()
        else:
            # Nothing is lost: the supervisor keeps the runs.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    for each in _STOPS:
        # An ignored signal is ignored on purpose, for example by nohup.
        is_asked = each == signal.SIGHUP and on_hup is not None
        if is_asked or signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, stop)


_JOIN_S = 2.0
_MOST_BYTES = 65_536  # input is ignored


@contextmanager
def watching_stdin(ended: Callable[[], object]) -> Iterator[None]:
    """While the context lasts, call `ended` once if stdin ends, on a thread of its own.

    Stdin also ends if the process that holds its other end is killed.
    """
    stdin = sys.stdin.fileno()
    stopped, stopper = os.pipe()

    def watch() -> None:
        while True:
            ready = select.select([stdin, stopped], [], [])[0]
            if stopped in ready:
                return
            if not _has_more(stdin):
                ended()
                return

    thread = threading.Thread(target=watch, name="stdin-watch")
    thread.start()
    try:
        yield
    finally:
        os.close(stopper)
        thread.join(_JOIN_S)
        os.close(stopped)


def _has_more(stdin: int) -> bool:
    try:
        return bool(os.read(stdin, _MOST_BYTES))
    except OSError:
        return False  # For example, a terminal that has closed.
