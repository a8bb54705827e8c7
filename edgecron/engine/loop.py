"""Running an engine: steps, and between them sleep that nothing but work or a change ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from edgecron.base.clock import Clock
from edgecron.base.errors import DatabaseGone, DatabaseUnusable, SchemaTooNew, SupervisorUnavailable
from edgecron.base.memory import give_back_memory
from edgecron.engine.ahead import Ahead
from edgecron.engine.core import Engine
from edgecron.engine.events import Event, EventKind, Report
from edgecron.engine.pulse import FindNext, Pulse, Unheard
from edgecron.engine.sleep import SAFETY_MS, Lock, RestingSleeper, Sleeper
from edgecron.engine.twins import Twin
from edgecron.engine.wake import NEWCOMER, Doorbell
from edgecron.engine.walwatch import LOOK_AFTER_MS, WalWatch
from edgecron.engine.watch import PeerWatch
from edgecron.model.choices import OnShutdown

GROUP_MS = 50  # ends that come within it are written in one transaction
_STREAM_MS = 5  # likewise of wishes that come one right after the other
_LOOK_MS = 1_000  # how often it is looked what became of runs that are waited for
_END_MS = 10_000  # so long after the last grace, what was ended is waited for
CALL_GRACE_MS = 10_000  # so long functions of the program are waited for that were asked to stop
_TROUBLE_MS = (100, 250, 500, 1000, 2000)  # pauses while the database can't be used
# An OSError: the state folder can't be looked into, as where no descriptor is left.
_OUTLIVED = (DatabaseUnusable, SupervisorUnavailable, OSError)


class Loop:
    """One engine, run until it is told to stop. `stop` may be called from anywhere.

    `on_shutdown` says what then becomes of what runs. With `shutdown_timeout_ms`, what has been
    waited for that long is ended. What is left that is a function of the program is
    waited for up to `call_wait_ms`, then asked to stop, and waited for up to `call_grace_ms` more;
    see `linger`. `keep_state` makes the state folder anew where it
    was deleted, and says whether it was. `mend_store` puts right, after trouble, what became of
    the open database. `find_twins` says who runs a copy of it. `pulse` is told of each look, with
    what `find_next` finds. `ahead` waits for what is due, where that is to begin at once.
    `wal_watch` hears of writes by programs that ring no engine.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        clock: Clock,
        sleeper: Sleeper,
        doorbell: Doorbell,
        report: Report,
        on_shutdown: OnShutdown = OnShutdown.LEAVE,
        shutdown_timeout_ms: int | None = None,
        call_wait_ms: int = 0,
        call_grace_ms: int = CALL_GRACE_MS,
        keep_state: Callable[[], bool] = lambda: False,
        mend_store: Callable[[], object] = lambda: None,
        find_twins: Callable[[], Sequence[Twin]] = lambda: (),
        pulse: Pulse | None = None,
        find_next: FindNext = lambda: None,
        ahead: Ahead | None = None,
        wal_watch: WalWatch | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._sleeper = sleeper
        self._doorbell = doorbell
        self._report = report
        self._on_shutdown = on_shutdown
        self._shutdown_timeout_ms = shutdown_timeout_ms
        self._call_wait_ms = call_wait_ms
        self._call_grace_ms = call_grace_ms
        self._keep_state = keep_state
        self._mend_store = mend_store
        self._find_twins = find_twins
        self._pulse: Pulse = pulse or Unheard()
        self._find_next = find_next
        self._ahead = ahead
        self._wal_watch = wal_watch
        self._watch = PeerWatch()
        self._stopping = threading.Event()
        self._must_stop_runs = threading.Event()
        self._linger_ms = 0
        self._is_lingering = False
        self._troubles = 0
        self._has_settled = False

    def hold_while_awake(self, awake: Lock) -> None:
        """Let go of a lock, which the thread that is to call `run` holds, whenever it sleeps."""
        self._sleeper = RestingSleeper(self._sleeper, awake)

    def stop(self, *, linger_ms: int = 0) -> None:
        """End `run` after the step that is going on. Safe in a signal handler.

        What is left running is left after so long a time, for `stop_runs` to be called in.
        """
        self._linger_ms = linger_ms
        self._stopping.set()
        self._doorbell.ring()

    def stop_runs(self) -> None:
        """End `run`, and what runs with it, whatever `on_shutdown` says. Safe likewise."""
        self._must_stop_runs.set()
        self.stop()

    @contextmanager
    def woken_by_signals(self) -> Iterator[None]:
        """Have each signal that has a handler end the sleep. For the main thread.

        Python runs a handler when the interpreter goes on: one that comes between its last look
        and the sleep would be heard when that ends.
        """
        import signal  # Of a program with a thread for its engine, all that it makes is not needed.

        bell = os.dup(self._doorbell.fileno())  # ours, whatever becomes of the other one
        before = signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            os.close(bell)

    def close(self) -> None:
        """Let go of what is watched."""
        self._watch.close()
        if self._wal_watch is not None:
            self._wal_watch.close()

    def run(self) -> None:
        """Step and sleep until `stop`.

        Trouble with the database, the state folder, or to start another supervisor is reported,
        and outlived. Raises DatabaseGone where the file was deleted, replaced or emptied, and
        SchemaTooNew where a newer edgecron has brought it up to date.
        """
        self._tell(EventKind.ENGINE_STARTED)
        for twin in self._find_twins():
            path = None if twin.path is None else str(twin.path)
            self._tell(EventKind.DATABASE_COPIED, {"pid": twin.pid, "copy": path})
        while not self._stopping.is_set():
            try:
                if self._keep_state():
                    self._tell(EventKind.STATE_RESTORED)
                if self._troubles:
                    self._mend_store()
                step = self._engine.step()
                self._engine.tidy()
                self._settle()
                self._note_health()
                self._tell_pulse()
                self._sleep(step.wake_ms, has_claimed=step.claimed > 0)
            except (DatabaseGone, SchemaTooNew) as error:
                # To wait would be to wait for a file that nobody else writes to, or for an older
                # edgecron: a newer one is to be started instead of this one.
                self._tell(EventKind.DATABASE_TROUBLE, {"error": str(error)})
                self._leave_database()
                raise
            except _OUTLIVED as error:
                self._wait_for_health(error)
        self._leave()

    def _settle(self) -> None:
        """After the first pass: what follows takes less than the start did."""
        if not self._has_settled:
            self._has_settled = True
            give_back_memory()

    def _sleep(self, wake_ms: int | None, *, has_claimed: bool) -> None:
        """Sleep until there is something to do."""
        if self._hear():
            if has_claimed:
                # Somebody asks for one thing after the other, and will go on asking.
                self._let_more_come(wake_ms)
            return
        self._engine.prepare()
        hinted_ms: int | None = None  # when to look because somebody wrote
        while not self._stopping.is_set():
            if wake_ms is not None and wake_ms <= self._clock.now_ms():
                return
            bell = self._doorbell.fileno()
            runners = self._engine.filenos()
            peers = self._watch.watch(self._engine.peers)
            if self._watch.take_missed():
                self._engine.suspect()
                return
            writes = self._wal_watch.arm() if self._wal_watch and hinted_ms is None else []
            ready = self._wait([bell, *runners, *peers, *writes], wake_ms, look_ms=hinted_ms)
            for dead in ready.intersection(peers):
                self._watch.forget(dead)
                self._engine.suspect()
            if bell in ready:
                self._hear()
                return
            if ready.intersection(runners):
                if not self._engine.has_ends():
                    self._tell_pulse()
                    continue  # Something has only started.
                self._gather(wake_ms)
                return
            if self._wal_watch is not None and ready.intersection(writes):
                self._wal_watch.clear()
                hinted_ms = self._clock.now_ms() + LOOK_AFTER_MS
                continue
            # A clock that was set ends the wait too: then the time of waking is looked at again.
            if wake_ms is not None and wake_ms <= self._clock.now_ms():
                return  # What is due does not wait for what else there may be.
            hinted_ms = None
            if self._engine.has_changed():
                return
            if self._keep_state():
                self._tell(EventKind.STATE_RESTORED)
            self._tell_pulse()

    def _hear(self) -> bool:
        """Take what was rung; whether anything was. Who has come is looked at by the next step."""
        rung = self._doorbell.clear()
        if NEWCOMER in rung:
            self._engine.suspect()
        return bool(rung)

    def _tell_pulse(self) -> None:
        self._pulse.looked(running=self._engine.live.unended_count, find_next=self._find_next)

    def _look_ms(self, wake_ms: int | None) -> int | None:
        """When to look again at the latest, where somebody wants to know that we still do."""
        if self._pulse.every_ms is None:
            return wake_ms
        look_ms = self._clock.now_ms() + self._pulse.every_ms
        return _earliest(wake_ms, look_ms)

    def _wait(self, fds: list[int], wake_ms: int | None, *, look_ms: int | None) -> set[int]:
        """Wait for descriptors, or until it is time to step or to look."""
        until_ms = _earliest(self._look_ms(wake_ms), look_ms)
        if self._ahead is not None and wake_ms is not None and until_ms == wake_ms:
            return self._ahead.wait(self._sleeper, fds, until_ms=wake_ms)
        return self._sleeper.wait(fds, until_ms=until_ms)

    def _gather(self, wake_ms: int | None) -> None:
        """Give other runs that are about to end the time to share one transaction.

        Not while all places are taken: each end then lets something start that waits.
        """
        if 1 < len(self._engine.live) < self._engine.max_running:
            until_ms = self._clock.now_ms() + GROUP_MS
            if wake_ms is not None:
                until_ms = min(until_ms, wake_ms)
            self._sleeper.wait([self._doorbell.fileno()], until_ms=until_ms)

    def _let_more_come(self, wake_ms: int | None) -> None:
        """Give those who ask for one thing after the other the time to ask for some more, which
        then share one transaction. They wait for ours as we do for theirs.
        """
        if len(self._engine.live) < self._engine.max_running:
            until_ms = self._clock.now_ms() + _STREAM_MS
            self._sleeper.wait([], until_ms=until_ms if wake_ms is None else min(until_ms, wake_ms))

    def _note_health(self) -> None:
        if self._troubles:
            self._troubles = 0
            self._tell(EventKind.DATABASE_WELL)

    def _wait_for_health(self, error: Exception) -> None:
        if not self._troubles:
            self._tell(EventKind.DATABASE_TROUBLE, {"error": str(error)})
        pause_ms = _TROUBLE_MS[min(self._troubles, len(_TROUBLE_MS) - 1)]
        self._troubles += 1
        self._pulse.troubled(error)
        self._sleeper.wait([self._doorbell.fileno()], until_ms=self._clock.now_ms() + pause_ms)
        self._hear()

    @property
    def is_lingering(self) -> bool:
        """Whether `run` has ended, and functions of the program have not."""
        return self._is_lingering and self._engine.live.call_count > 0

    def linger(self) -> None:
        """After `run`: write the ends of functions that run on, however long that takes.

        To be called where the process goes on, too. The engine counts as alive until then: nobody
        is to take a function for dead that is not. Where the process ends first, they are
        `interrupted`.
        """
        while self.is_lingering:
            try:
                self._step_once_more(None, look_ms=SAFETY_MS)
            except _OUTLIVED as error:  # The last has ended, and that can't be written.
                self._tell(EventKind.DATABASE_TROUBLE, {"error": str(error)})
                return
        if self._is_lingering:
            self._is_lingering = False
            with suppress(*_OUTLIVED):  # Its lock, which is let go of, says the same.
                self._engine.retire()

    def _leave(self) -> None:
        self._pulse.stopping(running=self._engine.live.unended_count)
        self._engine.drain()
        try:
            self._shut_down()
            live = len(self._engine.live)
            self._is_lingering = self._engine.live.call_count > 0
            if self._is_lingering:
                self._engine.note_draining()
            else:
                self._engine.retire()
        except _OUTLIVED as error:
            # The journal keeps these ends, and the next engine takes them over.
            live = len(self._engine.live)
            self._tell(EventKind.DATABASE_TROUBLE, {"error": str(error)})
        self._tell(EventKind.ENGINE_STOPPED, {"runs": live})

    def _leave_database(self) -> None:
        """Do with what runs as is to be done when we stop, with nothing to write its ends to."""
        self._engine.drain()
        with suppress(*_OUTLIVED):  # told before; the journal keeps the ends
            self._shut_down()

    def _shut_down(self) -> None:
        """Leave what runs, wait for it, or end it. Raises where only the database is in the way."""
        policy = self._on_shutdown
        until_ms = self._begin(policy)
        while self._engine.live:
            is_over = until_ms is not None and self._clock.monotonic_ms() >= until_ms
            is_asked = self._must_stop_runs.is_set() and policy is not OnShutdown.STOP
            if is_asked or (is_over and policy is OnShutdown.WAIT):
                policy = OnShutdown.STOP
                until_ms = self._begin(policy)
            elif is_over:
                if policy is OnShutdown.LEAVE:
                    self._end_calls()
                return
            self._step_once_more(until_ms)

    def _end_calls(self) -> None:
        """Wait for functions of the program, then ask them to stop, and wait a while: of one that
        ends after the engine, nobody would know that it did."""
        if self._engine.live.call_count:
            self._tell_ending(OnShutdown.LEAVE)
        self._wait_for_calls(self._call_wait_ms)
        self._engine.live.stop_calls()
        self._wait_for_calls(self._call_grace_ms)

    def _wait_for_calls(self, wait_ms: int) -> None:
        until_ms = self._clock.monotonic_ms() + wait_ms
        while self._engine.live.call_count and self._clock.monotonic_ms() < until_ms:
            self._step_once_more(until_ms)

    def _begin(self, policy: OnShutdown) -> int | None:
        """Begin to leave, wait or end; how long that lasts, by the monotonic clock."""
        if policy is OnShutdown.STOP:
            self._engine.live.stop()
        self._tell_stopping(policy)
        now_ms = self._clock.monotonic_ms()
        if policy is OnShutdown.LEAVE:
            return now_ms + self._linger_ms
        if policy is OnShutdown.STOP:
            # A supervisor that is stopped itself ends nobody: it is not waited for without end.
            return now_ms + self._engine.live.kill_grace_ms + _END_MS
        return None if self._shutdown_timeout_ms is None else now_ms + self._shutdown_timeout_ms

    def _step_once_more(self, until_ms: int | None, *, look_ms: int = _LOOK_MS) -> None:
        """Write the ends that came, or wait for one."""
        left_ms = look_ms
        if until_ms is not None:
            left_ms = max(0, min(left_ms, until_ms - self._clock.monotonic_ms()))
        fds = [self._doorbell.fileno(), *self._engine.filenos()]
        self._sleeper.wait(fds, until_ms=self._clock.now_ms() + left_ms)
        self._hear()
        self._pulse.stopping(running=self._engine.live.unended_count)
        try:
            if self._troubles:  # Also for others, who wait for a lost log to be let go of.
                self._mend_store()
            self._engine.step()
            self._note_health()
        except _OUTLIVED as error:
            if not self._engine.live.unended_count:
                raise
            self._wait_for_health(error)

    def _tell_stopping(self, policy: OnShutdown) -> None:
        is_told_at_the_end = policy is OnShutdown.LEAVE and not self._linger_ms
        if self._engine.live and not is_told_at_the_end:
            with suppress(*_OUTLIVED):  # Trouble shows with the ends, which are written too.
                self._engine.note_draining()
            self._tell_ending(policy)

    def _tell_ending(self, policy: OnShutdown) -> None:
        details: dict[str, object] = {
            "on_shutdown": policy.value,
            "runs": len(self._engine.live),
        }
        if self._engine.live.call_count:
            details["functions"] = self._engine.live.call_count  # of these runs
            details["called"] = self._engine.live.called
        self._tell(EventKind.ENGINE_STOPPING, details)

    def _tell(self, kind: EventKind, details: dict[str, object] | None = None) -> None:
        self._report(Event(at_ms=self._clock.now_ms(), kind=kind, details=details or {}))


def _earliest(*times_ms: int | None) -> int | None:
    return min((at_ms for at_ms in times_ms if at_ms is not None), default=None)
