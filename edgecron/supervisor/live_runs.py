"""Live runs: their pipes, time-outs and ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.values import replace
from edgecron.supervisor.forked_start import START_LIMIT_MS, SpawnFailed
from edgecron.supervisor.live_run import READ_BYTES, LiveRun, Recorder
from edgecron.supervisor.protocol import EndCause, Flag
from edgecron.supervisor.reactor import WRITE, Deadlines, Reactor

if TYPE_CHECKING:
    from edgecron.supervisor.awake import Inhibitor

MOST_HELD_PIPES = 256
SAVE_MS = 200  # output is in a file this long after it was printed; shorter runs need none
WAKE_INHIBITOR = "inhibitor"  # the deadline at which the inhibitor is looked at
WAKE_REAP = "reap"  # the deadline at which `reap_without_pidfd` is called


class LiveRuns:
    """The live runs of a supervisor, by token. Reads their pipes, and ends and reaps them."""

    def __init__(
        self,
        reactor: Reactor,
        *,
        clock: Clock,
        deadlines: Deadlines,
        recorder: Recorder,
        retry: Callable[[LiveRun, SpawnFailed], None],
        report_stall: Callable[[LiveRun], None],
    ) -> None:
        """`retry` takes ended forks that a shortage of the system kept from their command.

        `report_stall` takes runs that printed nothing for their stall timeout.
        """
        self._reactor = reactor
        self._retry = retry
        self._report_stall = report_stall
        self._clock = clock
        self._deadlines = deadlines
        self._recorder = recorder
        self._without_pidfd: dict[str, LiveRun] = {}  # checked on SIGCHLD
        self._inhibitor: Inhibitor | None = None  # before the first run that keeps us awake
        self._held: dict[int, None] = {}  # pipes of ended runs that other processes still hold
        self.by_token: dict[str, LiveRun] = {}

    def add(self, run: LiveRun) -> None:
        """Watch a run that was just started."""
        self.by_token[run.token] = run
        if run.request.keep_awake:
            self._keep_awake(run.token)
        for fd in run.streams:
            self._reactor.watch(fd, partial(self._on_output, run, fd))
        if run.stdin_fd is not None:
            self._reactor.watch(run.stdin_fd, partial(self._on_stdin, run), WRITE)
        if run.report is not None and run.report.fd is not None:
            self._reactor.watch(run.report.fd, partial(self._on_report, run))
            self._set_deadline(f"start {run.token}", START_LIMIT_MS)
        if run.timeout_ms is not None:
            self._set_deadline(f"run {run.token}", run.timeout_ms)
        self._await_output(run)
        try:
            run.pidfd = os.pidfd_open(run.pid)
        except (AttributeError, OSError):  # macOS, an old kernel, or no descriptor left
            self._without_pidfd[run.token] = run
            signal.signal(signal.SIGCHLD, note_signal)
            # It may have ended before the signal was asked for.
            self._set_deadline(WAKE_REAP, 0)
        else:
            self._reactor.watch(run.pidfd, partial(self._reap, run))

    @property
    def suspended(self) -> list[str]:
        """The tokens of the runs whose processes are stopped for a while."""
        return [token for token, run in self.by_token.items() if run.suspended is not None]

    def suspend(self, tokens: Sequence[str]) -> None:
        """Stop the processes of runs. Their deadlines wait, too."""
        now_ms = self._clock.monotonic_ms()
        for token in tokens:
            run = self.by_token.get(token)
            if run is not None and run.end_cause is None and run.suspended is None:
                keys = (f"{kind} {token}" for kind in ("run", "start", "stall"))
                run.suspend(self._deadlines.hold(keys, now_ms))

    def resume(self, tokens: Sequence[str]) -> None:
        """Let the processes of runs continue."""
        for token in tokens:
            run = self.by_token.get(token)
            if run is not None and run.suspended is not None:
                for key, left_ms in run.resume().items():
                    self._set_deadline(key, left_ms)

    def end(self, run: LiveRun, cause: EndCause, *, message: str | None = None) -> None:
        """Send TERM to a run, and KILL after its grace. A run that is being ended stays so."""
        if run.end_cause is not None:
            return
        if run.has_ended():
            self._reap(run)  # its own end counts
            return
        run.terminate(cause, message)
        self._set_deadline(f"run {run.token}", run.request.kill_grace_ms)

    def _keep_awake(self, token: str | None = None) -> None:
        """Hold the inhibitor for a run that began, or look at it again."""
        from edgecron.supervisor.awake import LOOK_MS, Inhibitor  # Few schedules want it.

        if self._inhibitor is None:
            self._inhibitor = Inhibitor.of_this_machine(self._clock)
        self._inhibitor.look(token)
        if self._inhibitor:
            self._set_deadline(WAKE_INHIBITOR, LOOK_MS)

    def on_deadline(self, key: str) -> None:
        """Act on `save`, `start`, `stall` or `run` with a token, or on WAKE_INHIBITOR."""
        if key == WAKE_INHIBITOR:
            self._keep_awake()
            return
        kind, _, token = key.partition(" ")
        run = self.by_token.get(token)
        if run is None:
            return
        if kind == "save":
            run.save_output()
        elif kind == "start":
            self._on_report(run)
            if run.report is not None and run.report.fd is not None:
                run.kill_late_start()
        elif kind == "stall":
            self._on_stall(run)
        elif run.end_cause is None:
            self.end(run, EndCause.TIMEOUT)
        else:
            if not run.is_searched:
                run.kill()
            self._reap(run)  # its main process may have ended before

    def reap_without_pidfd(self) -> None:
        for run in list(self._without_pidfd.values()):
            self._reap(run)

    def _await_output(self, run: LiveRun) -> None:
        """Set the time until which a run has to print something, from now on."""
        if run.stall_timeout_ms is not None and run.suspended is None:
            self._set_deadline(f"stall {run.token}", run.stall_timeout_ms)

    def _on_stall(self, run: LiveRun) -> None:
        """Report a stalled run, and end it if that is wanted. Its next output sets a new time."""
        if run.end_cause is not None or run.has_ended():
            return
        run.note_stall()
        self._report_stall(run)
        if run.request.ends_stalled:
            self.end(run, EndCause.STALLED)

    def _on_output(self, run: LiveRun, fd: int) -> None:
        if fd not in run.streams:
            return
        has_more = run.read(fd)
        if has_more and run.token in self.by_token:
            self._await_output(run)
        save = f"save {run.token}"
        if run.token in self.by_token and run.has_unsaved_output and save not in self._deadlines:
            self._set_deadline(save, SAVE_MS)
        if not has_more:
            del run.streams[fd]
            self._reactor.close(fd)
            if run.end_cause is not None and not run.streams:
                self._reap(run)  # it may have lingered for this

    def _on_stdin(self, run: LiveRun) -> None:
        if run.stdin_fd is not None and not run.feed():
            self._close_stdin(run)

    def _on_report(self, run: LiveRun) -> None:
        """Stop to watch a fork that is its command, or has ended."""
        report = run.report
        if report is not None and report.fd is not None and not report.read():
            self._reactor.close(report.fd)
            report.fd = None
            self._deadlines.clear(f"start {run.token}")

    def _set_deadline(self, key: str, after_ms: int) -> None:
        self._deadlines.set(key, self._clock.monotonic_ms() + after_ms)

    def _reap(self, run: LiveRun) -> None:
        # Several events of one turn can report the same end.
        if run.token not in self.by_token:
            return
        if run.is_lingering():
            self._close_ended(run)
            return
        record = run.reap()
        if record is None:
            if run.is_searched:
                self._set_deadline(f"run {run.token}", 0)
            return
        del self.by_token[run.token]
        if run.request.keep_awake and self._inhibitor and not self._inhibitor.end(run.token):
            record = replace(record, flags=(*record.flags, Flag.COULD_SLEEP))
        self._without_pidfd.pop(run.token, None)
        self._deadlines.clear(f"run {run.token}")
        self._deadlines.clear(f"save {run.token}")
        self._deadlines.clear(f"stall {run.token}")
        self._on_report(run)
        self._close_ended(run)
        self._close_stdin(run)
        for fd in run.streams:
            self._hold(fd)
        run.streams = {}
        failure = run.start_failure
        if failure is not None and failure.is_temporary and run.end_cause is None:
            # At once: until it waits again, a revocation would take its token for unknown.
            self._retry(run, failure)
        else:
            self._recorder.record_exit(record)

    def _close_ended(self, run: LiveRun) -> None:
        """Close descriptors that would stay ready: the ended process, and ended pipes."""
        for fd in run.ended_fds:
            self._reactor.close(fd)
        run.ended_fds = []
        if run.pidfd is not None:
            self._reactor.close(run.pidfd)
            run.pidfd = None

    def _close_stdin(self, run: LiveRun) -> None:
        if run.stdin_fd is not None:
            self._reactor.close(run.stdin_fd)
            run.stdin_fd = None

    def _hold(self, fd: int) -> None:
        """Keep reading a pipe of an ended run: without a reader, writing processes would die."""
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
    """Do nothing: the wake-up descriptor tells the loop. Commands would inherit SIG_IGN."""
