"""Correct stored times after a clock or zone has changed.

It goes in slices, between which the engine serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgecron.base.errors import SENSELESS
from edgecron.base.values import NamedTuple, dataclass, replace
from edgecron.base.zones import (
    local_zone_changed_ms,
    local_zone_mark,
    local_zone_stamp,
    tzdata_version,
)
from edgecron.engine.claim import Core
from edgecron.engine.events import EventKind
from edgecron.planning.corrections import (
    ClockMarks,
    KeptTimes,
    Retimed,
    find_zone_change_ms,
    plan_rezone,
)
from edgecron.planning.next_fire import Timing
from edgecron.planning.times import find_outdated

_SLICE = 64  # ids of one query and of one transaction
# How long one step looks at schedules, and at most how many. Fires that are due wait for it.
STEP_MS = 50
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

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._clock = core.clock
        self._schedules = core.schedules
        self._events = core.events
        self.unfinished: dict[str, _Walk] = {}  # sweeps that have passed some schedules, not all
        self.until_ms = 0  # when all sweeps together have taken the time of this step (monotonic)

    @property
    def is_time_over(self) -> bool:
        """Whether this step has spent its time on stored times."""
        return self._clock.monotonic_ms() >= self.until_ms

    def restart(self) -> None:
        """Let every unfinished sweep begin again: the clock has changed again."""
        self.unfinished.clear()

    def forget(self, name: str) -> None:
        """Let a sweep begin again, if it is unfinished."""
        self.unfinished.pop(name, None)

    def sweep(self, name: str, find: Find, plan: Plan, *, reason: str) -> bool:
        """Give all schedules that `find` returns the times that `plan` returns.

        False if that is unfinished: it takes longer than a step, or other engines were faster.
        """
        return self.walk(name, lambda ids: self._retime(find(ids), plan, reason=reason))

    def walk(self, name: str, visit: Callable[[range], Visited]) -> bool:
        """Visit all schedules, slice by slice; False if that is unfinished.

        Each step visits one slice at least. A slice that others have changed is visited again.
        """
        walk = self.unfinished.pop(name, None) or _Walk(begun_ms=self._clock.monotonic_ms())
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
            self.unfinished[name] = walk
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


_ZONE_LOOK_MS = 30_000


class ZoneWatch:
    """Compute times again if the local zone or the version of tzdata has changed.

    `must_look`: the next look is not to wait for `look_at_ms` (monotonic). `local_timezone` is the
    mark of the local zone at the last look.
    """

    def __init__(self, core: Core, retiming: Retiming) -> None:
        self._store = core.store
        self._retiming = retiming
        self._events = core.events
        self.must_look = True
        self.look_at_ms = 0
        self.local_timezone: str | None = None
        self._stamp: tuple[object, ...] = ()
        self._looked_ms: int | None = None  # wall time
        self._changed_ms = 0
        self._swept: tuple[str | None, ...] = ()  # the zones by which times are being checked

    def has_news(self) -> bool:
        """Whether the local zone might have changed since the last look. Costs little."""
        return local_zone_stamp() != self._stamp

    def look(self, marks: ClockMarks, *, now_ms: int, monotonic_ms: int) -> ClockMarks:
        """Look at the zones, and correct times; the marks of the database afterwards."""
        stamp = local_zone_stamp()
        if stamp != self._stamp or self.must_look:
            self.local_timezone = local_zone_mark()
            wanted = replace(
                marks, tzdata_version=tzdata_version(), local_timezone=self.local_timezone
            )
            if wanted.zones != self._swept:
                self._changed_ms = find_zone_change_ms(
                    local_zone_changed_ms(), looked_ms=self._looked_ms, now_ms=now_ms
                )
            if wanted != marks and not self._rezone(marks, wanted, now_ms):
                return marks  # Other engines were faster; the next look sees what is left.
            marks = wanted
        self._stamp, self._looked_ms = stamp, now_ms
        self.must_look = False
        self.look_at_ms = monotonic_ms + _ZONE_LOOK_MS
        return marks

    def _rezone(self, before: ClockMarks, wanted: ClockMarks, now_ms: int) -> bool:
        is_new_tzdata = before.tzdata_version not in (None, wanted.tzdata_version)
        # None before the first engine: a shell with another TZ might have computed the times.
        is_new_local = before.local_timezone != wanted.local_timezone
        if wanted.zones != self._swept:
            self._retiming.forget("rezone")  # What is done was done by other rules.
            self._swept = wanted.zones
        if is_new_tzdata or is_new_local:
            if "rezone" not in self._retiming.unfinished:
                self._report_changes(before, wanted, is_new_tzdata=is_new_tzdata)
            done = self._retiming.sweep(
                "rezone",
                lambda ids: self._store.find_times(
                    find_outdated(self._store.find_zoned(ids=ids), only_local=not is_new_tzdata)
                ),
                lambda timing, kept: (
                    None
                    if timing is None
                    else plan_rezone(timing, kept, changed_ms=self._changed_ms, now_ms=now_ms)
                ),
                reason="tzdata" if is_new_tzdata else "timezone",
            )
            if not done:
                return False
        self._store.retime((), marks=wanted)
        return True

    def _report_changes(
        self, before: ClockMarks, wanted: ClockMarks, *, is_new_tzdata: bool
    ) -> None:
        if is_new_tzdata:
            details: dict[str, object] = {
                "was": before.tzdata_version,
                "now": wanted.tzdata_version,
            }
            self._events.report(EventKind.TZDATA_CHANGED, details=details)
        if before.local_timezone not in (None, wanted.local_timezone):
            details = {"was": before.local_timezone, "now": wanted.local_timezone}
            self._events.report(EventKind.LOCAL_ZONE_CHANGED, details=details)
