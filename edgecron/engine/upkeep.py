"""Work beside the runs, in slices between which the engine serves: times, history and notices.

`Retiming` corrects stored times after a clock or zone has changed. `Pruning` removes history that
retention no longer keeps. `NoticeStarter` starts the process that sends notices. `WakeAlarm` lets
the machine wake for the next run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import SENSELESS
from edgecron.base.values import NamedTuple, dataclass
from edgecron.engine.claim import ScheduleCache
from edgecron.engine.events import EventKind, EventReporter
from edgecron.planning.corrections import KeptTimes, Retimed, resolve_mark_ms
from edgecron.planning.next_fire import Timing
from edgecron.planning.retention import Kind, Removed, Retention, limits_at

if TYPE_CHECKING:
    from edgecron.store.protocol import Store


_SLICE = 64  # ids of one query and of one transaction
# How long one step looks at schedules, and at most how many. Fires that are due wait for it.
_STEP_MS = 50
_MOST_IDS = 65_536
_MOST_FOUND = 512
_TRIES = 5  # to change a slice, if other engines are faster
_LONG_MS = 1_000  # work that takes longer is reported

Find = Callable[[range], list[KeptTimes]]
Plan = Callable[[Timing | None, KeptTimes], Retimed | None]


class Visited(NamedTuple):
    """How many schedules of a slice a visit looked at and changed.

    `is_done`: none was changed by others meanwhile.
    """

    found: int
    changed: int
    is_done: bool = True


@dataclass(slots=True, kw_only=True)
class _Walk:
    """How far a walk over all schedules has come, and since when (monotonic) it goes."""

    begun_ms: int
    next_id: int = 1
    changed: int = 0
    is_reported: bool = False


class Retiming:
    """Sweep over all schedules and give new times to those that are found.

    A sweep that takes longer than a step continues in the next one. After a restart it begins
    again: what is done already is not found, or not changed, again.
    """

    def __init__(
        self, *, store: Store, clock: Clock, schedules: ScheduleCache, events: EventReporter
    ) -> None:
        self._store = store
        self._clock = clock
        self._schedules = schedules
        self._events = events
        self._walks: dict[str, _Walk] = {}  # the unfinished ones
        self._until_ms = 0  # when this step has done enough (monotonic)

    @property
    def is_unfinished(self) -> bool:
        """Whether a sweep has not reached the last schedule yet."""
        return bool(self._walks)

    @property
    def is_time_over(self) -> bool:
        """Whether this step has spent its time on stored times."""
        return self._clock.monotonic_ms() >= self._until_ms

    def has_begun(self, name: str) -> bool:
        """Whether a sweep has passed some schedules, but not all."""
        return name in self._walks

    def restart(self) -> None:
        """Let every unfinished sweep begin again: the clock has changed again."""
        self._walks.clear()

    def forget(self, name: str) -> None:
        """Let a sweep begin again, if it is unfinished."""
        self._walks.pop(name, None)

    def begin_step(self) -> None:
        """Let all sweeps together take the time of one step from now."""
        self._until_ms = self._clock.monotonic_ms() + _STEP_MS

    def sweep(self, name: str, find: Find, plan: Plan, *, reason: str) -> bool:
        """Give all schedules that `find` returns the times that `plan` returns.

        False if that is unfinished: it takes longer than a step, or other engines were faster.
        """
        return self.walk(name, lambda ids: self._retime(find(ids), plan, reason=reason))

    def walk(self, name: str, visit: Callable[[range], Visited]) -> bool:
        """Visit all schedules, slice by slice; False if that is unfinished.

        Each step visits one slice at least. A slice that others have changed is visited again.
        """
        walk = self._walks.pop(name, None) or _Walk(begun_ms=self._clock.monotonic_ms())
        end_id = walk.next_id + _MOST_IDS
        last_id = self._store.find_last_schedule_id()
        count = tries = 0
        while walk.next_id <= last_id:
            ids = range(walk.next_id, walk.next_id + _SLICE)
            visited = visit(ids)
            count += visited.found
            walk.changed += visited.changed
            if visited.is_done:
                walk.next_id, tries = ids.stop, 0
            else:
                tries += 1
            if (
                self.is_time_over
                or walk.next_id >= end_id
                or count >= _MOST_FOUND
                or tries >= _TRIES
            ):
                break
        is_finished = walk.next_id > last_id
        if not is_finished:
            self._walks[name] = walk
        self._report_long(walk, last_id, is_finished=is_finished)
        return is_finished

    def _report_long(self, walk: _Walk, last_id: int, *, is_finished: bool) -> None:
        """Report that a walk takes long, and when it has ended."""
        took_ms = self._clock.monotonic_ms() - walk.begun_ms
        if walk.is_reported and is_finished:
            took_s = round(took_ms / 1000, 1)
            details: dict[str, object] = {"changed": walk.changed, "took_s": took_s}
            self._events.report(EventKind.TIMES_CHECKED, details=details)
        elif took_ms >= _LONG_MS and not walk.is_reported and not is_finished:
            walk.is_reported = True
            details = {"checked_percent": 100 * (walk.next_id - 1) // last_id}
            self._events.report(EventKind.CHECKING_TIMES, details=details)

    def _retime(self, found: list[KeptTimes], plan: Plan, *, reason: str) -> Visited:
        changes = self._plan_all(found, plan)
        done = self._store.retime(changes, marks=None) if changes else []
        for change, ok in zip(changes, done, strict=True):
            if ok and change.has_moved:
                self.report_moved(change, reason)
        return Visited(found=len(found), changed=sum(done), is_done=all(done))

    def _plan_all(self, found: Sequence[KeptTimes], plan: Plan) -> list[Retimed]:
        """The changes to make. A schedule that can't be read is stopped, and reported."""
        self._schedules.load(
            (kept.schedule_id, kept.revision) for kept in found if not kept.is_idle
        )
        changes = []
        for kept in found:
            timing = None
            if not kept.is_idle:
                entry = self._schedules.find(kept.schedule_id, kept.revision)
                timing = None if entry is None else entry.timing
                if timing is None:
                    error = entry.error if entry else None
                    self.mark_broken(
                        kept, error or f"its revision {kept.revision} is not on record"
                    )
                    continue
            try:
                change = plan(timing, kept)
            except SENSELESS as error:
                self.mark_broken(kept, f"its stored times can't be read: {error!r}")
                continue
            if change is not None:
                changes.append(change)
        return changes

    def mark_broken(self, kept: KeptTimes, error: str) -> None:
        """Stop a schedule that can't be read, and report it."""
        now_ms = self._clock.now_ms()
        if self._store.mark_broken(
            kept.schedule_id, revision=kept.revision, error=error, now_ms=now_ms
        ):
            self._events.report(EventKind.BROKEN, None, kept.name, {"error_msg": error})

    def report_moved(self, change: Retimed, reason: str) -> None:
        """Report that a schedule has another next time."""
        details: dict[str, object] = {"reason": reason}
        for name, fire in (("next_was_ms", change.kept.next), ("next_ms", change.next)):
            if fire is not None:
                details[name] = fire.due_ms
        self._events.report(EventKind.RETIMED, None, change.kept.name, details)


_FIRST_MS = 60_000  # after the start, when the engine has enough to do
_EVERY_MS = 3_600_000
PAUSE_MS = 2  # between transactions: longer than other processes nap while they wait for the lock


class Pruning:
    """Remove old history: at most once an hour, beginning in a step that wrote something.

    An idle engine removes nothing, as no history came either. If nothing synchronises the clock,
    ages count to the latest instant that has certainly passed: a wrong year would otherwise remove
    most of the history.
    """

    def __init__(
        self, *, store: Store, clock: Clock, events: EventReporter, retention: Retention
    ) -> None:
        self._store = store
        self._clock = clock
        self._events = events
        self._retention = retention
        self._next_ms = clock.monotonic_ms() + _FIRST_MS
        self._going: Iterator[Removed | None] | None = None
        self._removed: Counter[Kind] = Counter()
        self._size_bytes = 0

    @property
    def wake_ms(self) -> int | None:
        """How long until the next slice; None if there is none."""
        return None if self._going is None else PAUSE_MS

    def work(self, *, is_busy: bool, is_trusted: bool) -> None:
        """Do the next slice of a pass. `is_busy`: this step had something to write."""
        if self._going is None and is_busy and self._clock.monotonic_ms() >= self._next_ms:
            self._begin(is_trusted=is_trusted)
        if self._going is None:
            return
        for removed in self._going:
            if removed is not None:
                self._removed[removed.kind] += removed.count
                self._size_bytes += removed.size_bytes
            return
        self._end()

    def _begin(self, *, is_trusted: bool) -> None:
        self._next_ms = self._clock.monotonic_ms() + _EVERY_MS
        if not self._retention.is_unlimited:
            limits = limits_at(
                self._retention,
                self._clock.now_ms(),
                is_trusted=is_trusted,
                passed_ms=self._find_passed_ms(),
            )
            self._going = self._store.begin_pruning(limits)

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
StartSender = Callable[[bool], int]  # whether it first sends a heartbeat; its pid


class NoticeStarter:
    """Start the process that sends notices and signs of life, if something is to be sent.

    `start` starts it and returns its process id; None: this engine starts none. The engine never
    sends itself: no slow server holds up a run. `has_pulse`: it gives signs of life.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        events: EventReporter,
        start: StartSender | None,
        has_pulse: bool,
    ) -> None:
        self._store = store
        self._clock = clock
        self._events = events
        self._start = start
        self._has_pulse = has_pulse
        self._has_rules: bool | None = None  # None: not known yet
        self._pids: dict[bool, int] = {}  # of running processes: one sends, one gives signs of life
        self._next_ms: int | None = None  # when something is to be sent
        self._rest_ms = 0  # until when none is started (monotonic)
        self._beat_ms: int | None = None  # how often a heartbeat is wanted
        self._beat_at_ms = clock.monotonic_ms()  # when the next one is due (monotonic)

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
        self._next_ms = self._store.next_notice_ms() if self._has_rules else None
        if self._next_ms is None or self._next_ms > self._clock.now_ms():
            return
        if self._clock.monotonic_ms() < self._rest_ms and not is_last:
            return
        self._rest_ms = self._clock.monotonic_ms() + _AGAIN_MS
        if not self._is_running(has_beat=False) or is_last:
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
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # The host ignores SIGCHLD or has waited for all children.
            ended = pid
        if ended:
            del self._pids[has_beat]
        return not ended


WAKE_ALARM = Path("/sys/class/rtc/rtc0/wakealarm")
_LEAD_MS = 10_000  # the machine wakes this long before the run is due


class WakeAlarm:
    """Set the alarm of the machine's real-time clock, so that it wakes for the next run (Linux).

    `path` is the file of the alarm; None: this engine sets none. An earlier alarm of another
    program stays: the machine then wakes for that one, and the next pass sets ours.
    """

    def __init__(
        self, *, store: Store, clock: Clock, events: EventReporter, path: Path | None
    ) -> None:
        self._store = store
        self._clock = clock
        self._events = events
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
