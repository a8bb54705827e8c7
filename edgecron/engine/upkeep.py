"""Work beside the runs, in slices: progress, history, notices and calendars."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from edgecron.engine.claim import Core
from edgecron.engine.events import EventKind
from edgecron.model.run import Reported
from edgecron.planning.corrections import resolve_mark_ms
from edgecron.planning.retention import Kind, Removed, limits_at

StartSender = Callable[[bool], int]  # whether it first sends a heartbeat; its pid
StartReader = Callable[[], int]  # its pid


class Upkeep:
    """The work beside the runs of one engine. An engine for one run prunes nothing."""

    def __init__(
        self,
        core: Core,
        *,
        start_sender: StartSender | None,
        start_reader: StartReader | None,
        wake_alarm: Path | None,
    ) -> None:
        is_for_one_run = core.settings.is_for_one_run
        self.progress = ProgressWriter(core)
        self._pruning = Pruning(core)
        self.notices = NoticeStarter(core, start_sender)
        self._calendars = CalendarStarter(core, None if is_for_one_run else start_reader)
        self.wake_alarm = WakeAlarm(core, None if is_for_one_run else wake_alarm)
        self._may_prune = not is_for_one_run

    @property
    def wake_ms(self) -> int | None:
        """How long until something is to be done; None if nothing is."""
        waits_ms = (
            self.progress.wake_ms,
            self._pruning.wake_ms,
            self.notices.wake_ms,
            self._calendars.wake_ms,
        )
        return min((wait_ms for wait_ms in waits_ms if wait_ms is not None), default=None)

    def work(
        self, *, is_busy: bool, ended: int, is_trusted: bool, has_changed: bool, has_advanced: bool
    ) -> None:
        """Do what is due at the end of a pass.

        `is_busy`: the pass had something to write. `ended`: how many runs it ended.
        `has_changed`: another process has written. `has_advanced`: the pass has moved next times.
        """
        self.progress.write()
        if self._may_prune:
            self._pruning.work(is_busy=is_busy, ended=ended, is_trusted=is_trusted)
        self.notices.look(has_changed=has_changed)
        self._calendars.look(has_changed=has_changed)
        if has_changed or has_advanced:
            self.wake_alarm.look()

    def stop_pruning(self) -> None:
        """Remove no more history: the engine ends."""
        self._may_prune = False


_PROGRESS_MS = 1_000


class ProgressWriter:
    """Record the progress of functions, at most once a second: spare flash memory."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._clock = core.clock
        self._runners = core.runners
        self._unwritten: list[Reported] = []
        self._next_ms = core.clock.monotonic_ms()
        self._had_some = False  # at the last look

    @property
    def wake_ms(self) -> int | None:
        """How long until the next look; None if a descriptor becomes readable with progress."""
        if not self._had_some:
            return None
        return max(self._next_ms - self._clock.monotonic_ms(), 0)

    def look(self) -> bool:
        """Whether there is progress to record now."""
        if not self._unwritten and self._clock.monotonic_ms() >= self._next_ms:
            self._unwritten = self._runners.take_progress()
            self._had_some = bool(self._unwritten)
        return bool(self._unwritten)

    def write(self) -> None:
        """Record the progress that came."""
        if self.look():
            self._next_ms = self._clock.monotonic_ms() + _PROGRESS_MS
            self._store.note_progress(self._unwritten)
            self._unwritten = []


_FIRST_MS = 60_000  # after the start, when the engine has enough to do
_EVERY_MS = 3_600_000
# After so many ended runs, a pass begins before its hour: 200 a second are 430 MB an hour.
MANY_ENDS = 20_000
PAUSE_MS = 2  # between transactions: longer than other processes nap while they wait for the lock


class Pruning:
    """Remove old history: once an hour and after many ends, from a step on that wrote something.

    An idle engine removes nothing, as no history came either. If nothing synchronises the clock,
    ages count to the latest instant that has certainly passed: a wrong year would otherwise remove
    most of the history.
    """

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._clock = core.clock
        self._events = core.events
        self._retention = core.settings.retention
        self._next_ms = self._soonest_ms = core.clock.monotonic_ms() + _FIRST_MS
        self._ended = 0  # runs since the last pass began
        self._going: Iterator[Removed | None] | None = None
        self._removed: Counter[Kind] = Counter()
        self._size_bytes = 0

    @property
    def wake_ms(self) -> int | None:
        """How long until the next slice; None if there is none."""
        return None if self._going is None else PAUSE_MS

    def work(self, *, is_busy: bool, ended: int, is_trusted: bool) -> None:
        """Do the next slice of a pass.

        `is_busy`: this step had something to write. `ended`: how many runs it ended.
        """
        self._ended += ended
        if self._going is None and is_busy:
            now_ms = self._clock.monotonic_ms()
            is_early = self._ended >= MANY_ENDS and now_ms >= self._soonest_ms
            if is_early or now_ms >= self._next_ms:
                self._begin(is_trusted=is_trusted, is_early=is_early)
        if self._going is None:
            return
        for removed in self._going:
            if removed is not None:
                self._removed[removed.kind] += removed.count
                self._size_bytes += removed.size_bytes
            return
        self._end()

    def _begin(self, *, is_trusted: bool, is_early: bool) -> None:
        now_ms = self._clock.monotonic_ms()
        self._next_ms, self._soonest_ms = now_ms + _EVERY_MS, now_ms + _FIRST_MS
        self._ended = 0
        if not self._retention.is_unlimited:
            limits = limits_at(
                self._retention,
                self._clock.now_ms(),
                is_trusted=is_trusted,
                passed_ms=self._find_passed_ms(),
            )
            self._going = self._store.begin_pruning(limits, is_early=is_early)

    def _find_passed_ms(self) -> int | None:
        """The latest instant that has certainly passed; None if the clock is synchronised."""
        if self._clock.is_synchronised():
            return None
        return resolve_mark_ms(self._store.find_clock_marks().trusted_high_ms)

    def _end(self) -> None:
        """Report what was removed."""
        self._going = None
        if any(self._removed.values()):
            details: dict[str, object] = {
                f"{kind.value}s": count for kind, count in self._removed.items() if count
            }
            self._events.report(
                EventKind.PRUNED, details=details | {"size_bytes": self._size_bytes}
            )
        self._removed.clear()
        self._size_bytes = 0


_AGAIN_MS = 2_000  # between two starts of the process that sends notices
_AFTER_FAILURE_MS = 60_000  # the same if it failed, as with a full disk


class NoticeStarter:
    """Start the process that sends notices and signs of life, if something is to be sent.

    `start` starts it and returns its process id; None: this engine starts none. The engine never
    sends itself: no slow server holds up a run. An engine for one run gives no signs of life.
    """

    def __init__(self, core: Core, start: StartSender | None) -> None:
        self._store = core.store
        self._clock = core.clock
        self._events = core.events
        self._start = start
        self._has_pulse = not core.settings.is_for_one_run
        self._has_rules: bool | None = None  # None: not known yet
        self._pids: dict[bool, int] = {}  # of running processes: one sends, one gives signs of life
        self._next_ms: int | None = None  # when something is to be sent
        self._rest_ms = 0  # until when none is started (monotonic)
        self._beat_ms: int | None = None  # how often a heartbeat is wanted
        self._beat_at_ms = core.clock.monotonic_ms()  # when the next one is due (monotonic)

    @property
    def wake_ms(self) -> int | None:
        """How long until the next look; None if nothing is to be sent."""
        waits_ms = []
        if self._next_ms is not None:
            rest_ms = self._rest_ms - self._clock.monotonic_ms()
            waits_ms.append(max(self._next_ms - self._clock.now_ms(), rest_ms, 0))
        if self._beat_ms is not None:
            waits_ms.append(max(self._beat_at_ms - self._clock.monotonic_ms(), 0))
        return min(waits_ms, default=None)

    def look(self, *, has_changed: bool, is_last: bool = False) -> None:
        """Start the process if a notice or a heartbeat is due and no such process is running.

        `has_changed`: another process has written; there can be rules now. `is_last`: this engine
        ends, and can't start another one later.
        """
        if self._start is None:
            return
        if has_changed or self._has_rules is None:
            self._has_rules = self._store.has_notify_rules()
            has_beat = self._has_rules and self._has_pulse
            self._beat_ms = self._store.find_beat_ms() if has_beat else None
        if self._beat_ms is not None and not is_last:
            self._beat(self._beat_ms, self._start)
        now_ms = self._clock.now_ms()
        self._next_ms = self._store.next_notice_ms(now_ms=now_ms) if self._has_rules else None
        if self._next_ms is None or self._next_ms > now_ms:
            return
        if not is_last and self._is_running(has_beat=False):
            self._rest_ms = max(self._rest_ms, self._clock.monotonic_ms() + _AGAIN_MS)
            return
        if self._clock.monotonic_ms() < self._rest_ms and not is_last:
            return
        self._rest_ms = self._clock.monotonic_ms() + _AGAIN_MS
        self._launch(self._start, has_beat=False)

    def _beat(self, beat_ms: int, start: StartSender) -> None:
        now_ms = self._clock.monotonic_ms()
        # A rule with a shorter pause can have come.
        self._beat_at_ms = min(self._beat_at_ms, now_ms + beat_ms)
        if now_ms < self._beat_at_ms:
            return
        self._beat_at_ms = now_ms + beat_ms
        if not self._is_running(has_beat=True):
            self._launch(start, has_beat=True)

    def _launch(self, start: StartSender, *, has_beat: bool) -> None:
        try:
            self._pids[has_beat] = start(has_beat)
        except OSError as error:
            self._events.report(EventKind.NOTICES_TROUBLE, details={"error_msg": str(error)})

    def _is_running(self, *, has_beat: bool) -> bool:
        """Whether the process that was started last for this is still running."""
        pid = self._pids.get(has_beat)
        if pid is None:
            return False
        status = _find_status(pid)
        if status is not None:
            del self._pids[has_beat]
            if status != 0 and not has_beat:
                self._rest_ms = self._clock.monotonic_ms() + _AFTER_FAILURE_MS
        return status is None


_READ_EVERY_MS = 3_600_000


class CalendarStarter:
    """Start the process that reads calendars again: at the start, and then every hour.

    There is none without a schedule that excepts a calendar. `start` starts the process and returns
    its process id; None: this engine starts none. The engine itself reads neither files of people
    nor their library.
    """

    def __init__(self, core: Core, start: StartReader | None) -> None:
        self._store = core.store
        self._clock = core.clock
        self._events = core.events
        self._start = start
        self._has_calendars: bool | None = None  # None: not known yet
        self._pid: int | None = None
        self._next_ms = core.clock.monotonic_ms()

    @property
    def wake_ms(self) -> int | None:
        """How long until the next start; None without a calendar."""
        if not self._has_calendars:
            return None
        return max(0, self._next_ms - self._clock.monotonic_ms())

    def look(self, *, has_changed: bool) -> None:
        """Start the process if an hour has passed. `has_changed`: another process has written."""
        if self._start is None:
            return
        if has_changed or self._has_calendars is None:
            self._has_calendars = self._store.has_calendars()
        now_ms = self._clock.monotonic_ms()
        if not self._has_calendars or now_ms < self._next_ms:
            return
        self._next_ms = now_ms + _READ_EVERY_MS
        if self._pid is not None and _find_status(self._pid) is None:
            return
        try:
            self._pid = self._start()
        except OSError as error:
            self._events.report(EventKind.CALENDARS_TROUBLE, details={"error_msg": str(error)})


def _find_status(pid: int) -> int | None:
    """Return how a process that this one started has ended, and reap it; None while it runs."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # The host ignores SIGCHLD or has waited for all children.
        return 0
    return status if ended else None


_LEAD_MS = 10_000  # the machine wakes this long before the run is due


class WakeAlarm:
    """Set the alarm of the machine's real-time clock, so that it wakes for the next run (Linux).

    `path` is the file of the alarm; None: this engine sets none. An earlier alarm of another
    program stays: the machine then wakes for that one, and the next pass sets ours.
    """

    def __init__(self, core: Core, path: Path | None) -> None:
        self._store = core.store
        self._clock = core.clock
        self._events = core.events
        self._path = path
        self._wake_ms: int | None = None  # for which our alarm is set
        self._ours = ""  # what the file then held
        self._is_in_trouble = False

    def renew(self) -> None:
        """Set the alarm again, after the machine woke: another program can have used it."""
        self._wake_ms = None
        self.look()

    def look(self) -> None:
        """Set, move or clear the alarm, if the next run that wakes the machine has changed."""
        wake_ms = None if self._path is None else self._store.next_wake_ms()
        if self._path is None or wake_ms == self._wake_ms:
            return
        try:
            self._set(self._path, wake_ms)
            self._is_in_trouble = False
        except OSError as error:
            if not self._is_in_trouble:
                details: dict[str, object] = {"error_msg": str(error)}
                self._events.report(EventKind.ALARM_TROUBLE, details=details)
            self._is_in_trouble = True
        self._wake_ms = wake_ms

    def _set(self, path: Path, wake_ms: int | None) -> None:
        found = path.read_text("ascii").strip()
        if (
            found
            and found != self._ours
            and wake_ms is not None
            and self._is_earlier(found, wake_ms)
        ):
            return
        if found == self._ours or wake_ms is not None:
            path.write_text("0", "ascii")  # Without this, the kernel refuses another time.
        if wake_ms is not None:
            # Relative: the real-time clock can show local time.
            after_s = max(1, (wake_ms - _LEAD_MS - self._clock.now_ms()) // 1000)
            path.write_text(f"+{after_s}", "ascii")
        self._ours = path.read_text("ascii").strip()

    @staticmethod
    def _is_earlier(found: str, wake_ms: int) -> bool:
        return found.isdigit() and int(found) * 1000 <= wake_ms
