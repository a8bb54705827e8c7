"""The event loop of the supervisor: start, watch and end commands, and sleep in between.

The loop has one thread and never waits for one peer. The time-outs of all runs hold while an engine
does not read, a command does not read or never stops printing, or the disk is full.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from pathlib import Path
from typing import Any

from edgecron.base.clock import Clock
from edgecron.supervisor.control import ControlServer
from edgecron.supervisor.journal import clear_late_results
from edgecron.supervisor.live_run import WAKE_JOURNAL, LiveRun, Recorder
from edgecron.supervisor.live_runs import WAKE_REAP, LiveRuns, note_signal
from edgecron.supervisor.output import Part
from edgecron.supervisor.protocol import (
    GIVEN_BACK,
    PROTOCOL_VERSION,
    EndCause,
    Flag,
    Kind,
    Phase,
    StartRequest,
)
from edgecron.supervisor.reactor import Deadlines, Peer, Reactor
from edgecron.supervisor.run_session import Snapshots
from edgecron.supervisor.start import WAKE_RESERVE, StartQueue
from edgecron.supervisor.state_files import socket_path

# After this time, drop ends that could not be written to the journal and that no engine takes.
JOURNAL_LIMIT_MS = 600_000
FAREWELL_MS = 2_000  # after TERM, the time for the engine to read what is left
SUSPENDED_LIMIT_MS = 60_000  # the time for another engine to take over suspended runs
_LAST_WAIT = "last wait"
_WAKE_SUSPENDED = "suspended"
_WAKE_UNMINDED = "unminded"  # the engine is connected, and is silent about suspended runs


class Supervisor:
    """One supervisor process, which serves an engine and the control socket."""

    def __init__(
        self,
        link: socket.socket,
        state_dir: Path,
        *,
        key: str,
        clock: Clock,
        places: int | None = None,
    ) -> None:
        self._state_dir, self._key = state_dir, key
        self._clock = clock
        self._reactor = Reactor()
        self._deadlines = Deadlines()
        self._snapshots = Snapshots(clock)
        self._engine = Peer(link, self._reactor, on_message=self._on_message)
        self._recorder = Recorder(
            state_dir, key=key, clock=clock, deadlines=self._deadlines, engine=self._engine
        )
        self._queue = StartQueue(
            state_dir,
            clock=clock,
            deadlines=self._deadlines,
            recorder=self._recorder,
            snapshots=self._snapshots,
            places=places,
        )
        self._runs = LiveRuns(
            self._reactor,
            clock=clock,
            deadlines=self._deadlines,
            recorder=self._recorder,
            retry=self._queue.retry,
            report_stall=self._report_stall,
        )
        # The first message on each connection. Made once: to read the boot id takes a descriptor,
        # and there might be none left when an engine adopts this supervisor.
        self._hello = {
            "version": PROTOCOL_VERSION,
            "pid": os.getpid(),
            "boot_id": clock.boot_id(),
        }
        self._controls = ControlServer(
            socket_path(state_dir, key), self._reactor, supervisor=self, hello=self._hello
        )
        self._revoked: set[str] = set()
        self._is_stopping = False
        self._leave_at_ms: int | None = None

    def serve(self) -> None:
        """Serve until the last run has ended and the engine has gone, or TERM has come."""
        self._watch_signals()
        self._engine.send(Kind.HELLO, self._hello)
        self._engine.flush()
        while not self._is_done():
            self._snapshots.begin_turn()
            self._mind_suspended()
            self._reactor.turn(self._sleep_s())
            for key in self._deadlines.pop_due(self._clock.monotonic_ms()):
                self._on_deadline(key)
            started = self._queue.start_some(live=len(self._runs.by_token))
            for run in started:
                self._runs.add(run)
                # The journal needs no start of a run that has ended: its end follows. To read
                # the start time from /proc takes a tenth of the time of a short command.
                if not run.has_ended():
                    self._recorder.record_start(run.token, pid=run.pid, started_ms=run.started_ms)
            if started:
                pids = [(run.token, run.pid, run.started_ms) for run in started]
                self._engine.send(Kind.STARTED, pids)
            # First the journal: what the engine hears must be on record.
            self._recorder.flush()
            self._engine.flush()
            self._controls.flush()
        self._recorder.close()
        # The folder can be closed to us. The cleanup after another supervisor finds these files.
        with contextlib.suppress(OSError):
            self._controls.close()
            clear_late_results(self._state_dir, self._key)

    def status(self) -> list[Any]:
        """Answer with the running and waiting requests, and whether an engine is connected."""
        return [
            [(run.token, run.pid, run.started_ms) for run in self._runs.by_token.values()],
            self._queue.tokens,
            self._engine.is_connected,
        ]

    def cancel(self, tokens: list[str]) -> dict[str, Phase]:
        """End runs, and answer in which phase each of them was."""
        phases = {token: self._phase(token) for token in tokens}
        self._end(tokens, EndCause.CANCELLED)
        return phases

    def revoke(self, tokens: list[str]) -> dict[str, Phase]:
        """Keep tokens from starting, and answer in which phase each of them was."""
        phases = {token: self._phase(token) for token in tokens}
        removed = [token for token in phases if self._queue.remove(token)]
        # A living engine records this too. It has lost the lease, or is about to.
        self._recorder.revoke(removed)
        unknown = [token for token, phase in phases.items() if phase is Phase.UNKNOWN]
        self._revoked.update(removed, unknown)
        return phases

    def read_output(self, token: str, position: int) -> tuple[Phase, Part]:
        """Answer the phase of a run and a part of its output."""
        run = self._runs.by_token.get(token)
        if run is None:
            return self._phase(token), Part(position=position)
        return Phase.RUNNING, run.read_output(position)

    def adopt(self, end: Peer) -> str | None:
        """Serve another engine from now on; the reason if that is refused."""
        if self._engine.is_connected:
            return "the engine of this supervisor is running"
        if self._is_stopping:
            return "this supervisor is ending"
        try:
            # Before any answer: an engine that does not hear of an end would wait for it for ever.
            unacknowledged = self._recorder.find_unacknowledged()
        except OSError as error:
            return f"its journal can't be read: {error.strerror}"
        end.become_engine(self._on_message)
        self._engine = self._recorder.engine = end
        self._leave_at_ms = None
        end.send(Kind.HELLO, self._hello)
        end.send(Kind.STARTED, self.status()[0])
        for run in self._runs.by_token.values():
            if Flag.STALLED in run.flags:  # The former engine might not have recorded it.
                self._report_stall(run)
        for body in unacknowledged:
            end.send(Kind.EXITED, body)
        return None

    @property
    def _unended(self) -> list[str]:
        return [*self._runs.by_token, *self._queue.tokens]

    def _is_done(self) -> bool:
        if self._runs.by_token or self._queue:
            return False
        if not self._engine.is_connected:
            return not self._recorder.has_backlog or self._has_waited(JOURNAL_LIMIT_MS)
        if self._is_stopping:
            return not self._engine.has_unsent or self._has_waited(FAREWELL_MS)
        return False

    def _has_waited(self, limit_ms: int) -> bool:
        """Report whether the limit has passed since the first call."""
        now_ms = self._clock.monotonic_ms()
        if self._leave_at_ms is None:
            self._leave_at_ms = now_ms + limit_ms
            self._deadlines.set(_LAST_WAIT, self._leave_at_ms)
        return now_ms >= self._leave_at_ms

    def _sleep_s(self) -> float | None:
        if self._queue.is_ready(live=len(self._runs.by_token)):
            return 0
        next_ms = self._deadlines.next_ms()
        return None if next_ms is None else (next_ms - self._clock.monotonic_ms()) / 1000

    def _on_deadline(self, key: str) -> None:
        # The queue of starts and the last wait only have to be looked at again.
        if key == WAKE_RESERVE:
            # A run without an engine stays: it starts here, or another engine revokes it.
            if self._engine.is_connected:
                self._give_back(self._queue.take_overdue())
        elif key == WAKE_JOURNAL:
            self._recorder.retry()
        elif key in (_WAKE_SUSPENDED, _WAKE_UNMINDED):
            self._runs.resume(self._runs.suspended)
        elif key == WAKE_REAP:
            self._runs.reap_without_pidfd()
        else:
            self._runs.on_deadline(key)

    def _mind_suspended(self) -> None:
        """Let suspended runs continue if no engine looks after them for a while.

        An engine that is not stalled asks again, at least once a minute, to suspend them.
        """
        if not self._runs.suspended:
            self._deadlines.clear(_WAKE_UNMINDED)
        if self._engine.is_connected or not self._runs.suspended:
            self._deadlines.clear(_WAKE_SUSPENDED)
        elif _WAKE_SUSPENDED not in self._deadlines:
            self._deadlines.set(_WAKE_SUSPENDED, self._clock.monotonic_ms() + SUSPENDED_LIMIT_MS)

    def _on_message(self, kind: Kind, body: Any) -> None:
        """Carry out a message of the engine."""
        if kind is Kind.START:
            self._start([StartRequest.from_json(request) for request in body])
        elif kind is Kind.CANCEL:
            self._end(body, EndCause.CANCELLED)
        elif kind is Kind.END:
            for token, cause, message in body:
                self._end([token], EndCause(cause), message=message)
        elif kind is Kind.SUSPEND:
            self._runs.suspend(body)
            at_ms = self._clock.monotonic_ms() + 2 * SUSPENDED_LIMIT_MS
            self._deadlines.set(_WAKE_UNMINDED, at_ms)
        elif kind is Kind.CONTINUE:
            self._runs.resume(body)
        elif kind is Kind.STOP_ALL:
            self._end_all(EndCause(body))
        elif kind is Kind.ACK:
            self._recorder.acknowledge(body, busy=set(self._unended))
        else:
            raise ValueError(f"an engine can't send {kind}")

    def _start(self, requests: list[StartRequest]) -> None:
        # A token starts once, however often the engine sends it.
        fresh = {
            request.token: request for request in requests if not self._is_known(request.token)
        }
        for token in self._revoked & fresh.keys():
            del fresh[token]
            self._recorder.refuse([token], "ECANCELED", "it was revoked")
        if self._is_stopping:
            self._recorder.refuse(list(fresh), "ESHUTDOWN", "the supervisor is ending")
        else:
            self._queue.add(list(fresh.values()))

    def _report_stall(self, run: LiveRun) -> None:
        self._engine.send(Kind.STALLED, [(run.token, self._clock.now_ms())])

    def _give_back(self, tokens: list[str]) -> None:
        """Return runs to the engine that have not left the reserve."""
        if tokens:
            self._recorder.refuse(tokens, GIVEN_BACK, "it had no place yet")

    def _is_known(self, token: str) -> bool:
        return token in self._runs.by_token or token in self._queue or self._recorder.knows(token)

    def _end(self, tokens: list[str], cause: EndCause, *, message: str | None = None) -> None:
        for token in tokens:
            run = self._runs.by_token.get(token)
            if run is not None:
                self._runs.end(run, cause, message=message)
            # A fork that has just ended may wait to be started again.
            self._queue.cancel(token, cause)

    def _end_all(self, cause: EndCause) -> None:
        """End all runs, and return those that have no place yet."""
        self._give_back(self._queue.take_reserved())
        self._end(self._unended, cause)

    def _phase(self, token: str) -> Phase:
        if token in self._runs.by_token:
            return Phase.RUNNING
        if token in self._queue:
            return Phase.WAITING
        if self._recorder.knows(token):
            return Phase.ENDED
        return Phase.REVOKED if token in self._revoked else Phase.UNKNOWN

    def _watch_signals(self) -> None:
        woken_fd, waker_fd = os.pipe()
        os.set_blocking(woken_fd, False)
        os.set_blocking(waker_fd, False)
        signal.set_wakeup_fd(waker_fd, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, note_signal)

        def on_signal() -> None:
            self._on_signals(os.read(woken_fd, 4096))

        self._reactor.watch(woken_fd, on_signal)

    def _on_signals(self, numbers: bytes) -> None:
        """On TERM and INT, end every run, then the supervisor. HUP changes nothing."""
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._is_stopping = True
            self._end_all(EndCause.STOPPED)
        if signal.SIGCHLD in numbers:
            self._runs.reap_without_pidfd()
