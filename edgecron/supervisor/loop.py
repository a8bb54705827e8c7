"""The event loop of the supervisor: it starts, watches and ends commands, and sleeps otherwise.

Single-threaded. Nothing in it waits: an engine that does not read, a command that does not read or
never stops printing, a full disk, all leave the time-outs of the others as they are.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgecron.base.clock import Clock
from edgecron.supervisor import ledger, starting, watching
from edgecron.supervisor.controls import Controls
from edgecron.supervisor.deadlines import Deadlines
from edgecron.supervisor.engine_end import EngineEnd
from edgecron.supervisor.files import socket_path
from edgecron.supervisor.output import Part
from edgecron.supervisor.protocol import PROTOCOL_VERSION, Kind, Phase
from edgecron.supervisor.reactor import Reactor
from edgecron.supervisor.records import EndCause, StartRequest
from edgecron.supervisor.remains import clear_late_results
from edgecron.supervisor.run import LiveRun
from edgecron.supervisor.run_session import Snapshots

# Ends that found no space for so long, with no engine to tell them to, are given up.
JOURNAL_PATIENCE_MS = 600_000
FAREWELL_MS = 2_000  # so long a supervisor that was told to end waits for an engine that reads
_LAST_WAIT = "last wait"


class Supervisor:
    """One supervisor process: what the engine says, what the system says, when to go."""

    def __init__(
        self,
        link: socket.socket,
        state_dir: Path,
        *,
        key: str,
        clock: Clock,
    ) -> None:
        self._state_dir, self._key = state_dir, key
        self._clock = clock
        self._reactor = Reactor()
        self._deadlines = Deadlines()
        self._snapshots = Snapshots(clock)
        self._engine = EngineEnd(link, self._reactor, on_message=self._on_message)
        self._ledger = ledger.Ledger(
            state_dir,
            key=key,
            clock=clock,
            deadlines=self._deadlines,
            engine=self._engine,
        )
        self._watch = watching.Watch(
            self._reactor, clock=clock, deadlines=self._deadlines, ledger=self._ledger
        )
        self._starter = starting.Starter(
            state_dir,
            self._reactor,
            clock=clock,
            deadlines=self._deadlines,
            ledger=self._ledger,
            snapshots=self._snapshots,
            on_started=self._on_started,
        )
        self._hello = {
            "version": PROTOCOL_VERSION,
            "pid": os.getpid(),
            "boot_id": clock.boot_id(),
        }
        self._controls = Controls(
            socket_path(state_dir, key),
            self._reactor,
            hello=self._hello,
            answers={
                Kind.STATUS: lambda _: self._status(),
                Kind.CANCEL: self._cancel,
                Kind.REVOKE: self._revoke,
            },
            read=self._read_output,
            adopt=self._be_adopted,
        )
        self._revoked: set[str] = set()
        self._started: list[LiveRun] = []  # to be put on record and told in this turn
        self._is_stopping = False
        self._leave_at_ms: int | None = None
        self._messages: dict[Kind, Callable[[Any], None]] = {
            Kind.START: self._on_start,
            Kind.CANCEL: lambda tokens: self._end(tokens, EndCause.CANCELLED),
            Kind.STOP_ALL: lambda cause: self._end(self._busy, EndCause(cause)),
            Kind.ACK: lambda tokens: self._ledger.acknowledge(tokens, busy=set(self._busy)),
        }
        self._wakes: dict[str, Callable[[], None]] = {
            starting.WAKE_SPAWN: lambda: None,
            ledger.WAKE_JOURNAL: self._ledger.retry,
            watching.WAKE_REAP: self._watch.reap_unwatched,
            _LAST_WAIT: lambda: None,
        }

    def serve(self) -> None:
        """Until the engine has gone, or TERM came, and the last run has ended."""
        self._watch_signals()
        self._engine.send(Kind.HELLO, self._hello)
        self._engine.flush()
        while not self._is_done():
            self._snapshots.begin_turn()
            self._reactor.turn(self._sleep_s())
            for due in self._deadlines.pop_due(self._clock.monotonic_ms()):
                wake = self._wakes.get(due)
                if wake is not None:
                    wake()
                elif not self._starter.on_deadline(due):
                    self._watch.on_deadline(due)
            self._starter.start_some()
            if self._started:
                # What had to become its command is on record since it began.
                self._ledger.record_starts(run for run in self._started if run.becoming is None)
                told = [(run.token, run.pid, run.started_ms) for run in self._started]
                self._engine.send(Kind.STARTED, told)
                self._started = []
            # First the journal, then the engine: what it was told must be on record.
            self._ledger.flush()
            self._engine.flush()
            self._controls.flush()
        self._controls.close()
        with contextlib.suppress(OSError):  # who clears away after another one comes back to them
            clear_late_results(self._state_dir, self._key)

    @property
    def _busy(self) -> list[str]:
        """Tokens that have not ended."""
        return [*self._watch.live, *self._starter.tokens]

    def _is_done(self) -> bool:
        if self._watch.live or self._starter:
            return False
        if not self._engine.is_connected:
            return not self._ledger.has_backlog or self._has_waited(JOURNAL_PATIENCE_MS)
        if self._is_stopping:
            return not self._engine.has_unsent or self._has_waited(FAREWELL_MS)
        return False

    def _has_waited(self, patience_ms: int) -> bool:
        """Whether so long has passed since this was asked first."""
        now_ms = self._clock.monotonic_ms()
        if self._leave_at_ms is None:
            self._leave_at_ms = now_ms + patience_ms
            self._deadlines.set(_LAST_WAIT, self._leave_at_ms)
        return now_ms >= self._leave_at_ms

    def _sleep_s(self) -> float | None:
        if self._starter.is_ready:
            return 0
        next_ms = self._deadlines.next_ms()
        if next_ms is None:
            return None
        return (next_ms - self._clock.monotonic_ms()) / 1000

    def _on_message(self, kind: Kind, body: Any) -> None:
        self._messages[kind](body)

    def _on_start(self, bodies: list[dict[str, Any]]) -> None:
        requests = [StartRequest.from_json(body) for body in bodies]
        # A token starts once, however often it is asked for.
        fresh = {
            request.token: request for request in requests if not self._is_known(request.token)
        }
        for token in self._revoked & fresh.keys():
            del fresh[token]
            self._ledger.refuse([token], "ECANCELED", "it was revoked")
        if self._is_stopping:
            self._ledger.refuse(list(fresh), "ESHUTDOWN", "the supervisor was told to end")
        elif self._ledger.open_tokens(list(fresh)):
            self._starter.add(list(fresh.values()))

    def _is_known(self, token: str) -> bool:
        return token in self._watch.live or token in self._starter or self._ledger.knows(token)

    def _on_started(self, run: LiveRun) -> None:
        self._watch.add(run)
        self._started.append(run)
        cause = self._starter.take_withdrawal(run.token)
        if cause is not None:
            self._watch.end(run, cause)

    def _end(self, tokens: list[str], cause: EndCause) -> None:
        for token in tokens:
            run = self._watch.live.get(token)
            if run is not None:
                self._watch.end(run, cause)
            else:
                self._starter.withdraw(token, cause)

    def _phase(self, token: str) -> Phase:
        if token in self._watch.live or self._starter.has_begun(token):
            return Phase.RUNNING
        if token in self._starter:
            return Phase.WAITING
        if self._ledger.knows(token):
            return Phase.ENDED
        return Phase.REVOKED if token in self._revoked else Phase.UNKNOWN

    def _status(self) -> list[Any]:
        return [
            [(run.token, run.pid, run.started_ms) for run in self._watch.live.values()],
            self._starter.tokens,
            self._engine.is_connected,
        ]

    def _cancel(self, tokens: list[str]) -> dict[str, Phase]:
        phases = {token: self._phase(token) for token in tokens}
        self._end(tokens, EndCause.CANCELLED)
        return phases

    def _revoke(self, tokens: list[str]) -> dict[str, Phase]:
        phases = {token: self._phase(token) for token in tokens}
        dropped = [token for token in phases if self._starter.drop(token)]
        # An engine that lives keeps its books; it has lost the lease, or is about to.
        self._ledger.revoke(dropped)
        unheard = [token for token, phase in phases.items() if phase is Phase.UNKNOWN]
        self._revoked.update(dropped, unheard)
        return phases

    def _read_output(self, token: str, position: int) -> tuple[Phase, Part]:
        run = self._watch.live.get(token)
        if run is None:
            return self._phase(token), Part(position=position)
        return Phase.RUNNING, run.read_output(position)

    def _be_adopted(self, end: EngineEnd) -> str | None:
        """Serve another engine from now on; why not, where that can't be."""
        if self._engine.is_connected:
            return "the engine of this supervisor is alive"
        if self._is_stopping:
            return "this supervisor was told to end"
        try:
            # Before anything is said: an engine that is not told of an end waits for it for ever.
            unacknowledged = self._ledger.find_unacknowledged()
        except OSError as error:
            return f"its journal can't be read: {error.strerror}"
        end.become_engine(self._on_message)
        self._engine = self._ledger.engine = end
        self._leave_at_ms = None
        end.send(Kind.HELLO, self._hello)
        runs = self._watch.live.values()
        end.send(Kind.STARTED, [(run.token, run.pid, run.started_ms) for run in runs])
        for body in unacknowledged:
            end.send(Kind.EXITED, body)
        return None

    def _watch_signals(self) -> None:
        woken_fd, waker_fd = os.pipe()
        os.set_blocking(woken_fd, False)
        os.set_blocking(waker_fd, False)
        signal.set_wakeup_fd(waker_fd, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, watching.note_signal)

        def on_signal() -> None:
            self._on_signals(os.read(woken_fd, 4096))

        self._reactor.watch(woken_fd, on_signal)

    def _on_signals(self, numbers: bytes) -> None:
        """TERM and INT end every run, then the supervisor. HUP changes nothing: no terminal."""
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._is_stopping = True
            self._end(self._busy, EndCause.STOPPED)
        if signal.SIGCHLD in numbers:
            self._watch.reap_unwatched()
