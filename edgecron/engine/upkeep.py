"""Keep the database in order, in slices between which the engine serves: times and history.

`Retiming` corrects stored times after a clock or zone has changed. `Pruning` removes history that
retention no longer keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import SENSELESS
from edgecron.engine.claim import ScheduleCache
from edgecron.engine.events import EventKind, EventReporter
from edgecron.planning.corrections import KeptTimes, Retimed, resolve_mark_ms
from edgecron.planning.next_fire import Timing
from edgecron.planning.retention import Kind, Removed, Retention, limits_at

if TYPE_CHECKING:
    from edgecron.store.protocol import Store


_SLICE = 256  # ids of one query
# How many ids one step looks at, and how many schedules it plans: about 50 ms.
_MOST_IDS = 65_536
_MOST_FOUND = 512
_TRIES = 5  # to change a slice, if other engines are faster

Find = Callable[[range], list[KeptTimes]]
Plan = Callable[[Timing | None, KeptTimes], Retimed | None]


class Retiming:
    """Sweep over all schedules and give new times to those that are found.

    A sweep that takes longer than a step continues in the next one.
    """

    def __init__(
        self, *, store: Store, clock: Clock, schedules: ScheduleCache, events: EventReporter
    ) -> None:
        self._store = store
        self._clock = clock
        self._schedules = schedules
        self._events = events
        self._next_ids: dict[str, int] = {}  # of unfinished sweeps

    @property
    def is_unfinished(self) -> bool:
        """Whether a sweep has not reached the last schedule yet."""
        return bool(self._next_ids)

    def has_begun(self, name: str) -> bool:
        """Whether a sweep has passed some schedules, but not all."""
        return name in self._next_ids

    def restart(self) -> None:
        """Let every unfinished sweep begin again: the clock or zone has changed again."""
        self._next_ids.clear()

    def sweep(self, name: str, find: Find, plan: Plan, *, reason: str) -> bool:
        """Give all schedules that `find` returns the times that `plan` returns.

        False if that is unfinished: it takes longer than a step, or other engines were faster.
        """
        next_id = self._next_ids.pop(name, 1)
        end_id = next_id + _MOST_IDS
        last_id = self._store.find_last_schedule_id()
        count = tries = 0
        while next_id <= last_id and next_id < end_id and count < _MOST_FOUND and tries < _TRIES:
            ids = range(next_id, next_id + _SLICE)
            found = find(ids)
            count += len(found)
            if self._retime(found, plan, reason=reason):
                next_id, tries = ids.stop, 0
            else:
                tries += 1
        if next_id <= last_id:
            self._next_ids[name] = next_id
        return next_id > last_id

    def _retime(self, found: list[KeptTimes], plan: Plan, *, reason: str) -> bool:
        changes = self._plan_all(found, plan)
        done = self._store.retime(changes, marks=None) if changes else []
        for change, ok in zip(changes, done, strict=True):
            if ok and change.has_moved:
                self.report_moved(change, reason)
        return all(done)

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
            self._events.report(EventKind.BROKEN, None, kept.name, {"error": error})

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
