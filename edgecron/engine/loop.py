"""Run an engine: step, and sleep until there is work, a change or a signal."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from edgecron.base.clock import Clock
from edgecron.base.errors import DatabaseGone, DatabaseUnusable, SchemaTooNew, SupervisorUnavailable
from edgecron.base.service_manager import NoWatchdog, Watchdog
from edgecron.engine.events import EventKind
from edgecron.engine.other_engines import DatabaseCopy
from edgecron.engine.presence import EngineSettings
from edgecron.engine.sleep import (
    SAFETY_MS,
    EarlyStart,
    Lock,
    PeerWatch,
    RestingSleeper,
    Sleeper,
    WriteWatch,
)
from edgecron.engine.state_folder import NEWCOMER, EngineFiles
from edgecron.engine.step import Engine
from edgecron.model.choices import OnShutdown

GROUP_MS = 50  # ends that come within this time are recorded in one transaction
# The same for requests that come right after one another: a millisecond for each that the last pass
# started, and this many times as long as it took, within these bounds. A pass costs as much as
# starting a dozen runs, and programs that enqueue wait while it has the lock or the interpreter.
_STREAM_REST = 3
_LEAST_STREAM_MS = 5
_MOST_STREAM_MS = 50
_LOOK_MS = 1_000  # how often a stopping engine looks at runs that it waits for
_END_MS = 10_000  # how long it waits for stopped runs after the longest kill grace
_TROUBLE_MS = (100, 250, 500, 1000, 2000)  # pauses while the database can't be used
# OSError: the state folder can't be read, for example if no descriptor is left.
_OUTLIVED = (DatabaseUnusable, SupervisorUnavailable, OSError)


class Loop:
    """Run one engine until `stop`, which can be called from anywhere.

    `files` are the engine's in the state folder: its doorbell ends a sleep, and they are made again
    if the folder is deleted. `copies` are processes that run a copy of the database. `watchdog` is
    fed at each look. `write_watch` notices writes by programs that ring no doorbell.
    """

    def __init__(
        self,
        engine: Engine,
        settings: EngineSettings,
        *,
        clock: Clock,
        sleeper: Sleeper,
        files: EngineFiles,
        watchdog: Watchdog | None = None,
        copies: Sequence[DatabaseCopy] = (),
        write_watch: WriteWatch | None = None,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._sleeper = sleeper
        self._files = files
        self.doorbell = files.doorbell
        self._watchdog: Watchdog = watchdog or NoWatchdog()
        self._copies = copies
        self._writes = write_watch
        self._is_polling = False
        self._early = EarlyStart(engine, clock) if self._settings.starts_on_time else None
        self.peer_watch = PeerWatch()
        self._stopping = threading.Event()
        self._must_stop_runs = threading.Event()
        self._linger_ms = 0
        self._is_lingering = False
        self._troubles = 0

    def hold_while_awake(self, awake: Lock) -> None:
        """Release a lock during each sleep. The thread that calls `run` must hold it."""
        self._sleeper = RestingSleeper(self._sleeper, awake)

    def stop(self, *, linger_ms: int = 0) -> None:
        """End `run` after the current step. Safe in a signal handler.

        Runs that are left running are left after `linger_ms`, so that `stop_runs` can be called.
        """
        self._linger_ms = linger_ms
        self._stopping.set()
        self.doorbell.ring()

    def stop_runs(self) -> None:
        """End `run` and all runs, whatever `on_shutdown` says. Safe in a signal handler."""
        self._must_stop_runs.set()
        self.stop()

    @contextmanager
    def woken_by_signals(self) -> Iterator[None]:
        """Let each signal that has a handler end the sleep. For the main thread.

        Python calls a handler when the interpreter continues: without this, a signal that comes
        just before the sleep would wait until its end.
        """
        import signal  # Its enumerations take memory, for nothing in a program's engine thread.

        bell = os.dup(self.doorbell.fileno())  # It stays open if the doorbell is renewed.
        before = signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            os.close(bell)

    def close(self) -> None:
        """Stop watching other engines and other connections."""
        self.peer_watch.close()
        if self._writes is not None:
            self._writes.close()

    def run(self) -> None:
        """Step and sleep until `stop`.

        If the database, the state folder or a new supervisor fails, report it and try again.
        Raises DatabaseGone if the database file was deleted, replaced or emptied, and SchemaTooNew
        if a newer edgecron has upgraded it.
        """
        with suppress(*_OUTLIVED):  # The first step tries again, and reports what is wrong.
            self._engine.register()  # A reader of the report must find this engine.
        self._report(EventKind.ENGINE_STARTED)
        for copy in self._copies:
            path = None if copy.path is None else str(copy.path)
            self._report(EventKind.DATABASE_COPIED, {"pid": copy.pid, "copy": path})
        while not self._stopping.is_set():
            try:
                if self._files.keep():
                    self._report(EventKind.STATE_RESTORED)
                if self._troubles:
                    self._engine.mend()
                if self._writes is not None:
                    self._writes.arm()  # Before the step: a later edit is a hint.
                    self._report_polling(self._writes)
                begun_ms = self._clock.monotonic_ms()
                step = self._engine.step()
                took_ms = self._clock.monotonic_ms() - begun_ms
                self._engine.tidy()
                self._note_health()
                self._feed_watchdog()
                self._sleep(step.wake_ms, stream_ms=_find_stream_ms(step.claimed, took_ms))
            except (DatabaseGone, SchemaTooNew) as error:
                # Waiting is useless: nobody else writes to this file any more, and only a newer
                # edgecron can use an upgraded one.
                self._report(EventKind.DATABASE_TROUBLE, {"error_msg": str(error)})
                self._leave_database()
                raise
            except _OUTLIVED as error:
                self._wait_for_health(error)
        self._leave()

    def _sleep(self, wake_ms: int | None, *, stream_ms: int) -> None:
        """Sleep until there is something to do.

        If there is something already, wait `stream_ms` for more.
        """
        if self._hear():
            if stream_ms:
                # A client makes one request after the other, and will continue.
                self._let_more_come(wake_ms, stream_ms=stream_ms)
            return
        if wake_ms is None or wake_ms > self._clock.now_ms():
            self._engine.prepare()
        hinted_ms: int | None = None  # when to look, because a process wrote to the log
        while not self._stopping.is_set():
            if wake_ms is not None and wake_ms <= self._clock.now_ms():
                return
            bell = self.doorbell.fileno()
            runners = self._engine.runners.filenos()
            peers = self.peer_watch.watch(self._engine.recovery.live_processes)
            if self.peer_watch.take_missed():
                self._engine.recovery.suspect()
                return
            writes: list[int] = []
            look_ms = hinted_ms
            if self._writes is not None and hinted_ms is None:
                near_ms = self._clock.now_ms() + self._writes.look_after_ms
                if wake_ms is None or wake_ms > near_ms:
                    writes = self._writes.arm()
                self._engine.follow(self._writes.take_followed())
                if self._writes.take_news() and self._engine.has_changed():
                    return
                if self._writes.poll_ms is not None:
                    look_ms = self._clock.now_ms() + self._writes.poll_ms
            machine = self._engine.conditions.filenos()
            fds = [bell, *runners, *peers, *writes, *machine]
            ready = self._wait(fds, wake_ms, look_ms=look_ms)
            for dead in ready.intersection(peers):
                self.peer_watch.forget(dead)
                self._engine.recovery.suspect()
            if ready.intersection(machine):
                self._engine.conditions.hear()
                return
            if bell in ready:
                self._hear()
                return
            if ready.intersection(runners):
                if not self._engine.has_ends():
                    self._feed_watchdog()
                    continue  # A run has only started.
                self._gather(wake_ms)
                return
            if self._writes is not None and ready.intersection(writes):
                self._writes.clear()
                if self._writes.look_after_ms:
                    hinted_ms = self._clock.now_ms() + self._writes.look_after_ms
                continue
            # A clock that was set ends the wait too. Compare the time of waking again.
            if wake_ms is not None and wake_ms <= self._clock.now_ms():
                return  # Due fires do not wait for other changes.
            hinted_ms = None
            if self._engine.has_changed():
                return
            if self._files.keep():
                self._report(EventKind.STATE_RESTORED)
            self._feed_watchdog()

    def _report_polling(self, writes: WriteWatch) -> None:
        """Report once if a server or a pooler passes no notices on, and once if it does again."""
        self._engine.note_polling(writes.poll_ms)
        is_polling = writes.poll_ms is not None
        if is_polling != self._is_polling:
            self._is_polling = is_polling
            kind = EventKind.POLLING if is_polling else EventKind.LISTENING
            details: dict[str, object] = {}
            if writes.poll_ms is not None:
                details["every_s"] = writes.poll_ms // 1000
            self._report(kind, details)

    def _hear(self) -> bool:
        """Clear the doorbell; whether it rang. The next step looks at engines that started."""
        rung = self.doorbell.clear()
        if NEWCOMER in rung:
            self._engine.recovery.suspect()
        return bool(rung)

    def _feed_watchdog(self) -> None:
        self._watchdog.note_alive(
            running=self._engine.runners.unended_count, find_next=self._engine.find_next
        )

    def _look_ms(self, wake_ms: int | None) -> int | None:
        """When to look again at the latest, to feed the watchdog and for leases."""
        pauses_ms = (self._watchdog.every_ms, self._engine.look_in_ms)
        if pauses_ms == (None, None):
            return wake_ms
        now_ms = self._clock.now_ms()
        return _earliest(wake_ms, *(now_ms + one for one in pauses_ms if one is not None))

    def _wait(self, fds: list[int], wake_ms: int | None, *, look_ms: int | None) -> set[int]:
        """Wait for descriptors, or until it is time to step or to look."""
        until_ms = _earliest(self._look_ms(wake_ms), look_ms)
        if self._early is not None and wake_ms is not None and until_ms == wake_ms:
            return self._early.wait(self._sleeper, fds, until_ms=wake_ms)
        return self._sleeper.wait(fds, until_ms=until_ms)

    def _gather(self, wake_ms: int | None) -> None:
        """Wait a moment for other ends, which then share one transaction.

        Not while all places are taken: each end then lets a queued run start. With a reserve, the
        runner starts the next runs meanwhile: wait until half of the reserve is used up.
        """
        count, places = len(self._engine.runners), self._settings.places
        group_ms = min(GROUP_MS, self._engine.runners.reserve_lasts_ms() // 2)
        if 1 < count < places:
            group_ms = GROUP_MS
        if not group_ms:
            return
        until_ms = self._clock.now_ms() + group_ms
        if wake_ms is not None:
            until_ms = min(until_ms, wake_ms)
        self._sleeper.wait([self.doorbell.fileno()], until_ms=until_ms)

    def _let_more_come(self, wake_ms: int | None, *, stream_ms: int) -> None:
        """Wait a moment for further requests, which then share one transaction.

        Clients wait for our transactions as we do for theirs. Do not wait while all places are
        taken: each end then lets a queued run start.
        """
        runners = self._engine.runners
        if len(runners) - len(runners.collect()) < self._settings.places:
            until_ms = self._clock.now_ms() + stream_ms
            self._sleeper.wait([], until_ms=until_ms if wake_ms is None else min(until_ms, wake_ms))

    def _note_health(self) -> None:
        if self._troubles:
            self._troubles = 0
            self._report(EventKind.DATABASE_WELL)

    def _wait_for_health(self, error: Exception) -> None:
        if not self._troubles:
            self._report(EventKind.DATABASE_TROUBLE, {"error_msg": str(error)})
        pause_ms = _TROUBLE_MS[min(self._troubles, len(_TROUBLE_MS) - 1)]
        self._troubles += 1
        if isinstance(error, DatabaseUnusable):
            self._engine.note_trouble(error)
        self._watchdog.note_trouble(error)
        self._sleeper.wait([self.doorbell.fileno()], until_ms=self._clock.now_ms() + pause_ms)
        self._hear()

    @property
    def is_lingering(self) -> bool:
        """Whether `run` has ended while functions of the program are still running."""
        return self._is_lingering and self._engine.runners.call_count > 0

    def linger(self) -> None:
        """After `run`, record the ends of functions that are still running, until the last.

        Call it also if the process continues. The engine counts as alive until then, so that no
        other engine takes a running function for dead. If the process ends first, these runs are
        `interrupted`.
        """
        while self.is_lingering:
            try:
                self._step_once_more(None, look_ms=SAFETY_MS)
            except _OUTLIVED as error:  # The last function has ended, and that can't be recorded.
                self._report(EventKind.DATABASE_TROUBLE, {"error_msg": str(error)})
                return
        if self._is_lingering:
            self._is_lingering = False
            with suppress(*_OUTLIVED):  # Its free lock says the same.
                self._engine.retire()

    def _leave(self) -> None:
        self._watchdog.note_stopping(running=self._engine.runners.unended_count)
        self._engine.drain()
        try:
            self._shut_down()
            live = len(self._engine.runners)
            self._is_lingering = self._engine.runners.call_count > 0
            if self._is_lingering:
                self._engine.note_draining()
            else:
                self._engine.retire()
        except _OUTLIVED as error:
            # The journal keeps these ends, and the next engine takes them over.
            live = len(self._engine.runners)
            self._report(EventKind.DATABASE_TROUBLE, {"error_msg": str(error)})
        self._report(EventKind.ENGINE_STOPPED, {"runs": live})

    def _leave_database(self) -> None:
        """Shut down without a database: ends stay in the journal."""
        self._engine.drain()
        with suppress(*_OUTLIVED):  # reported before; the journal keeps the ends
            self._shut_down()

    def _shut_down(self) -> None:
        """Leave runs, wait for them, or end them. Raises if only the database is in the way."""
        policy = self._settings.on_shutdown
        until_ms = self._begin(policy)
        while self._engine.runners:
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
        """Wait for functions of the program, ask them to stop, and wait again.

        The end of a function that ends after the engine would not be recorded.
        """
        if self._engine.runners.call_count:
            self._report_stopping(OnShutdown.LEAVE)
        self._wait_for_calls(self._settings.call_wait_ms)
        self._engine.runners.stop_calls()
        self._wait_for_calls(self._settings.call_grace_ms)

    def _wait_for_calls(self, wait_ms: int) -> None:
        until_ms = self._clock.monotonic_ms() + wait_ms
        while self._engine.runners.call_count and self._clock.monotonic_ms() < until_ms:
            self._step_once_more(until_ms)

    def _begin(self, policy: OnShutdown) -> int | None:
        """Begin to leave, wait for or end runs; until when, by the monotonic clock."""
        if policy is OnShutdown.STOP:
            self._engine.runners.stop()
        self._report_shutdown(policy)
        now_ms = self._clock.monotonic_ms()
        if policy is OnShutdown.LEAVE:
            return now_ms + self._linger_ms
        if policy is OnShutdown.STOP:
            # A supervisor that is stopped itself ends no run: do not wait for it forever.
            return now_ms + self._engine.runners.longest_grace_ms + _END_MS
        timeout_ms = self._settings.shutdown_timeout_ms
        return None if timeout_ms is None else now_ms + timeout_ms

    def _step_once_more(self, until_ms: int | None, *, look_ms: int = _LOOK_MS) -> None:
        """Record the ends that came, or wait for one."""
        left_ms = look_ms
        if until_ms is not None:
            left_ms = max(0, min(left_ms, until_ms - self._clock.monotonic_ms()))
        fds = [self.doorbell.fileno(), *self._engine.runners.filenos()]
        self._sleeper.wait(fds, until_ms=self._clock.now_ms() + left_ms)
        self._hear()
        self._watchdog.note_stopping(running=self._engine.runners.unended_count)
        try:
            if self._troubles:  # Also for others, which wait until a lost log is closed.
                self._engine.mend()
            self._engine.step()
            self._note_health()
        except _OUTLIVED as error:
            if not self._engine.runners.unended_count:
                raise
            self._wait_for_health(error)

    def _report_shutdown(self, policy: OnShutdown) -> None:
        is_told_at_the_end = policy is OnShutdown.LEAVE and not self._linger_ms
        if self._engine.runners and not is_told_at_the_end:
            with suppress(*_OUTLIVED):  # Recording the ends will show the same trouble.
                self._engine.note_draining()
            self._report_stopping(policy)

    def _report_stopping(self, policy: OnShutdown) -> None:
        details: dict[str, object] = {
            "on_shutdown": policy.value,
            "runs": len(self._engine.runners),
        }
        if self._engine.runners.call_count:
            details["functions"] = self._engine.runners.call_count  # of these runs
            details["called"] = self._engine.runners.called
        self._report(EventKind.ENGINE_STOPPING, details)

    def _report(self, kind: EventKind, details: dict[str, object] | None = None) -> None:
        self._engine.events.report(kind, details=details)


def _find_stream_ms(claimed: int, took_ms: int) -> int:
    """How long to wait for further requests after a pass; 0 if it claimed nothing."""
    if not claimed:
        return 0
    return min(max(_LEAST_STREAM_MS, claimed, _STREAM_REST * took_ms), _MOST_STREAM_MS)


def _earliest(*times_ms: int | None) -> int | None:
    return min((at_ms for at_ms in times_ms if at_ms is not None), default=None)
