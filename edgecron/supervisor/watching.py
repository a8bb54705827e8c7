"""Runs that live: their pipes, time-outs and ends, as selector and deadlines report them."""

from __future__ import annotations

import os
import signal
from functools import partial

from edgecron.base.clock import Clock
from edgecron.supervisor.deadlines import Deadlines
from edgecron.supervisor.ledger import Ledger
from edgecron.supervisor.reactor import WRITE, Reactor
from edgecron.supervisor.records import EndCause
from edgecron.supervisor.run import READ_BYTES, LiveRun

MOST_HELD_PIPES = 256
SAVE_MS = 200  # output is in a file so long after it was printed; shorter runs need none
WAKE_REAP = "reap"  # the deadline at which `reap_unwatched` is called


class Watch:
    """The live runs of a supervisor, by token."""

    def __init__(
        self,
        reactor: Reactor,
        *,
        clock: Clock,
        deadlines: Deadlines,
        ledger: Ledger,
    ) -> None:
        self._reactor = reactor
        self._clock = clock
        self._deadlines = deadlines
        self._ledger = ledger
        self._unwatched: dict[str, LiveRun] = {}  # without a pidfd: looked at on SIGCHLD
        self._held: dict[int, None] = {}  # pipes of ended runs that others still hold
        self.live: dict[str, LiveRun] = {}

    def add(self, run: LiveRun) -> None:
        """Watch a run that was just started."""
        self.live[run.token] = run
        for fd in run.streams:
            self._reactor.watch(fd, partial(self._on_output, run, fd))
        if run.stdin_fd is not None:
            self._reactor.watch(run.stdin_fd, partial(self._on_stdin, run), WRITE)
        if run.timeout_ms is not None:
            self._set_deadline(run, run.timeout_ms)
        try:
            run.pidfd = os.pidfd_open(run.pid)
        except (AttributeError, OSError):  # macOS, an old kernel, or no descriptor left
            self._unwatched[run.token] = run
            signal.signal(signal.SIGCHLD, note_signal)
            # It may have ended before the signal was asked for.
            self._deadlines.set(WAKE_REAP, self._clock.monotonic_ms())
        else:
            self._reactor.watch(run.pidfd, partial(self._reap, run))

    def end(self, run: LiveRun, cause: EndCause) -> None:
        """TERM to its group, and KILL after its grace. A run that is being ended stays so."""
        if run.end_cause is not None:
            return
        if run.has_ended():
            self._reap(run)  # it was faster: its own end is the truth
            return
        run.terminate(cause)
        self._set_deadline(run, run.kill_grace_ms)

    def on_deadline(self, key: str) -> None:
        """The time-out or the grace of a run is over, or it is searched once more, or its output
        is to be saved."""
        if key.startswith("save "):
            run = self.live.get(key.removeprefix("save "))
            if run is not None:
                run.save_output()
            return
        run = self.live.get(key.removeprefix("run "))
        if run is None:
            return
        if run.end_cause is None:
            self.end(run, EndCause.TIMEOUT)
        else:
            if not run.is_searched:
                run.kill()
            self._reap(run)  # its main process may have ended before

    def reap_unwatched(self) -> None:
        for run in list(self._unwatched.values()):
            self._reap(run)

    def _on_output(self, run: LiveRun, fd: int) -> None:
        if fd not in run.streams:
            return
        has_more = run.read(fd)
        save = f"save {run.token}"
        if run.token in self.live and run.has_unsaved_output and save not in self._deadlines:
            self._deadlines.set(save, self._clock.monotonic_ms() + SAVE_MS)
        if not has_more:
            del run.streams[fd]
            self._reactor.close(fd)
            if run.end_cause is not None and not run.streams:
                self._reap(run)  # it may have lingered for this

    def _on_stdin(self, run: LiveRun) -> None:
        if run.stdin_fd is not None and not run.feed():
            self._reactor.close(run.stdin_fd)
            run.stdin_fd = None

    def _set_deadline(self, run: LiveRun, after_ms: int) -> None:
        self._deadlines.set(f"run {run.token}", self._clock.monotonic_ms() + after_ms)

    def _reap(self, run: LiveRun) -> None:
        # Several events of one turn may tell of the same end.
        if run.token not in self.live:
            return
        if run.lingers():
            self._close_ended(run)
            return
        record = run.reap()
        if record is None:
            if run.is_searched:
                self._set_deadline(run, 0)
            return
        del self.live[run.token]
        self._unwatched.pop(run.token, None)
        self._deadlines.clear(f"run {run.token}")
        self._deadlines.clear(f"save {run.token}")
        self._close_ended(run)
        if run.stdin_fd is not None:
            self._reactor.close(run.stdin_fd)
            run.stdin_fd = None
        for fd in run.streams:
            self._hold(fd)
        run.streams = {}
        self._ledger.record_exit(record)

    def _close_ended(self, run: LiveRun) -> None:
        """Close what would be ready for ever: the process that has ended, pipes at their end."""
        for fd in run.ended_fds:
            self._reactor.close(fd)
        run.ended_fds = []
        if run.pidfd is not None:
            self._reactor.close(run.pidfd)
            run.pidfd = None

    def _hold(self, fd: int) -> None:
        """Read on: whoever holds the other end would be killed by a pipe without a reader."""
        if len(self._held) >= MOST_HELD_PIPES:
            oldest = next(iter(self._held))
            del self._held[oldest]
            self._reactor.close(oldest)
        self._held[fd] = None
        self._reactor.change(fd, partial(self._discard, fd))

    def _discard(self, fd: int) -> None:
        if fd not in self._held:
            return
        try:
            if os.read(fd, READ_BYTES):
                return
        except BlockingIOError:
            return
        del self._held[fd]
        self._reactor.close(fd)


def note_signal(number: int, frame: object) -> None:
    """The wake-up descriptor tells the loop. Not SIG_IGN, which commands would inherit."""
