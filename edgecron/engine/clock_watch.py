"""Watch the clock and the zones, and correct stored times when they change.

The engine reports each change: a suspend, a clock that was set or can't be trusted, another local
zone or tzdata version. It also reports every next time that it changes for that reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgecron.base.errors import SENSELESS
from edgecron.base.units import MINUTE_MS
from edgecron.base.values import dataclass, replace
from edgecron.engine.claim import Core
from edgecron.engine.events import EventKind
from edgecron.engine.presence import Presence
from edgecron.engine.retiming import STEP_MS as RETIMING_STEP_MS
from edgecron.engine.retiming import Retiming, Visited, ZoneWatch
from edgecron.model.choices import Hold
from edgecron.planning.corrections import (
    LARGE_MS,
    ClockMarks,
    KeptTimes,
    is_large,
    is_trusted,
    is_worth_writing,
    plan_rebase,
    plan_repair,
    plan_repeat,
    plan_timeless,
    resolve_hold,
    resolve_mark_ms,
)

_STEP_MS = 1_000  # less is the slewing of a synchronised clock, or a late read
_TRUST_LOOK_MS = 30_000  # the kernel wakes nobody when its clock becomes synchronised
_AT_ONCE = 256  # schedules without a next time that one look settles, at most
_SLICE = 16  # of these in one transaction
_SETTLE_MS = 50  # between two such looks: other processes write, too


@dataclass(frozen=True, slots=True)
class _Reading:
    """The three clocks at one look."""

    now_ms: int
    boottime_ms: int
    monotonic_ms: int

    def set_since(self, before: _Reading) -> int:
        """By how much wall time was set since, in milliseconds."""
        return (self.now_ms - self.boottime_ms) - (before.now_ms - before.boottime_ms)

    def asleep_since(self, before: _Reading) -> int:
        """How long the machine was suspended since, in milliseconds."""
        grown = self.boottime_ms - before.boottime_ms
        return grown - (self.monotonic_ms - before.monotonic_ms)


class ClockWatch:
    """Look at the clocks before each step decides anything.

    While the clock can't be trusted, all plan times are held for `clock_wait_ms`; then schedules
    that follow elapsed time go by the clock as it is. None: they are held without end.
    """

    def __init__(
        self,
        core: Core,
        presence: Presence,
    ) -> None:
        self._store = core.store
        self._clock = core.clock
        self._schedules = core.schedules
        self._events = core.events
        self._presence = presence
        self._retiming = Retiming(core)
        self._clock_wait_ms = core.settings.clock_wait_ms
        self._last: _Reading | None = None
        self._marks: ClockMarks | None = None
        self._mark_ms = 0  # the latest instant that has certainly passed
        self._distrusted_at_ms: int | None = None  # by the time since the boot
        self._hold = Hold.NOTHING
        # What a look found, and could not carry out yet if the database failed.
        self._must_repair = True
        self._is_set_back = False
        self._has_stepped_back = True  # by however little; unknown before the first look
        self._must_rebase = False
        self._must_repeat = True
        self._set_to_note: tuple[int, int] | None = None  # when the clock was set, and by how much
        self._back_ms: int | None = None  # by how much the clock was seen to be set back
        self._must_settle = True
        self._has_resumed = False
        self.zones = ZoneWatch(core, self._retiming)

    @property
    def wake_ms(self) -> int | None:
        """How long to sleep at most: schedules must be corrected, or the clock is not trusted.

        None if neither is so.
        """
        if self._retiming.unfinished:
            return 0
        if self._distrusted_at_ms is None:
            return _SETTLE_MS if self._must_settle and self._last is not None else None
        if self._hold is Hold.CALENDAR or self._clock_wait_ms is None:
            return _TRUST_LOOK_MS
        waited_ms = self._clock.boottime_ms() - self._distrusted_at_ms
        return min(_TRUST_LOOK_MS, max(0, self._clock_wait_ms - waited_ms))

    def has_news(self) -> bool:
        """Whether the clock was set or the machine was asleep since the last look. Costs little."""
        return self._is_news(self._read())

    def take_resumed(self) -> bool:
        """Whether the machine was asleep since this was asked."""
        has_resumed, self._has_resumed = self._has_resumed, False
        return has_resumed

    def is_outdated(self) -> bool:
        """Whether a look would find something to correct or to record.

        That is: news, another zone, an old trusted mark, or work that is left. If there is nothing,
        this counts as a look, so that a slewed clock never becomes news.
        """
        if self._last is None or self._marks is None or self._distrusted_at_ms is not None:
            return True
        if self._must_repair or self._must_rebase or self._must_repeat or self._must_settle:
            return True
        if self.zones.must_look or self._retiming.unfinished:
            return True
        reading, is_synchronised = self._read(), self._clock.is_synchronised()
        if self._is_news(reading) or self.zones.has_news():
            return True
        mark_ms = self._mark_ms + max(0, reading.boottime_ms - self._last.boottime_ms)
        if is_synchronised:
            mark_ms = reading.now_ms
        elif not is_trusted(reading.now_ms, mark_ms=mark_ms, is_synchronised=is_synchronised):
            return True
        if is_worth_writing(mark_ms, stored_ms=self._marks.trusted_high_ms, is_busy=False):
            return True
        self._last, self._mark_ms = reading, mark_ms
        return False

    def look(self, *, has_changed: bool = True) -> Hold:
        """Correct what clocks and zones have made wrong; what is held for now.

        `has_changed`: another process has committed since the last look.
        """
        reading = self._read()
        self._retiming.until_ms = reading.monotonic_ms + RETIMING_STEP_MS
        if self._marks is None:
            self._marks = self._store.find_clock_marks()
            self._mark_ms = resolve_mark_ms(self._marks.trusted_high_ms)
        self._note_changes(reading)
        self._last = reading
        self._must_settle |= has_changed
        if self._set_to_note is not None:
            at_ms, by_ms = self._set_to_note
            self._store.note_clock_set(at_ms=at_ms, by_ms=by_ms)
            self._set_to_note = None
        if self._check_trust(reading):
            if self._has_stepped_back:
                self._has_stepped_back = not self._bring_back_successes(reading.now_ms)
            if self._must_repair:
                self._repair(reading.now_ms)
            if self._must_repeat:
                self._repeat(reading.now_ms)
            if self._must_settle:
                self._must_settle = not self._settle_timeless(reading)
            if self.zones.must_look or reading.monotonic_ms >= self.zones.look_at_ms:
                self._marks = self.zones.look(
                    self._marks, now_ms=reading.now_ms, monotonic_ms=reading.monotonic_ms
                )
            if self._must_repair:
                return Hold.ALL  # Times of a wrong clock might seem due.
        elif self._hold is Hold.CALENDAR:
            self._rebase(reading.now_ms)
            if self._retiming.unfinished:
                return Hold.ALL  # For the same reason.
        return self._hold

    def note_mark(self, *, is_busy: bool) -> None:
        """Record the trusted mark if the one in the database is old."""
        if self._marks is None:
            return
        stored_ms = self._marks.trusted_high_ms
        if not is_worth_writing(self._mark_ms, stored_ms=stored_ms, is_busy=is_busy):
            return
        if self._store.note_trusted(self._mark_ms, was_ms=stored_ms):
            self._marks = replace(self._marks, trusted_high_ms=self._mark_ms)
        else:
            self._read_mark()

    def _is_news(self, reading: _Reading) -> bool:
        if self._last is None:
            return False
        is_set = abs(reading.set_since(self._last)) > _STEP_MS
        return is_set or reading.asleep_since(self._last) > _STEP_MS

    def _read(self) -> _Reading:
        return _Reading(self._clock.now_ms(), self._clock.boottime_ms(), self._clock.monotonic_ms())

    def _note_changes(self, reading: _Reading) -> None:
        """Report a suspend and a clock that was set, and note what to do."""
        if self._last is None:
            return
        self._mark_ms += max(0, reading.boottime_ms - self._last.boottime_ms)
        asleep_ms = reading.asleep_since(self._last)
        if asleep_ms > _STEP_MS:
            self._presence.note_asleep(self._last.boottime_ms, reading.boottime_ms)
            self._report(EventKind.RESUMED, {"asleep_s": round(asleep_ms / 1000, 1)})
            self.zones.must_look = self._has_resumed = True
        set_ms = reading.set_since(self._last)
        has_begun_to_repeat = "repeat" in self._retiming.unfinished
        if abs(set_ms) > _STEP_MS:
            self._retiming.restart()
            self._report(EventKind.CLOCK_SET, {"by_s": round(set_ms / 1000, 1)})
            self.zones.must_look = True
        if set_ms > _STEP_MS and self._distrusted_at_ms is None:
            self._presence.note_set_forward(reading.boottime_ms, set_ms)
        self._has_stepped_back |= set_ms < -_STEP_MS
        if is_large(set_ms):
            self._must_repair = self._must_rebase = True
            self._is_set_back = set_ms < 0
        elif set_ms < -_STEP_MS:
            self._must_repeat = True
            if has_begun_to_repeat:
                self._back_ms = None  # Some schedules are corrected for a part of it.
            else:
                self._back_ms = -set_ms if self._back_ms is None else self._back_ms - set_ms
            if self._distrusted_at_ms is None:
                # A trusted clock was corrected: its time before was ahead.
                self._mark_ms = min(self._mark_ms, reading.now_ms)
        if abs(set_ms) >= MINUTE_MS:
            self._set_to_note = reading.now_ms, set_ms

    # Trust.

    def _check_trust(self, reading: _Reading) -> bool:
        """Whether the clock is trusted; report a change, and set what is held."""
        is_synchronised = self._clock.is_synchronised()
        if is_synchronised:
            self._mark_ms = reading.now_ms
        if not self._is_trusted(reading, is_synchronised):
            self._read_mark()  # A person might trust it now, or another engine saw it synchronised.
        trusted = self._is_trusted(reading, is_synchronised)
        if not trusted and self._distrusted_at_ms is None:
            self._presence.begin_distrust(reading.boottime_ms)
            self._distrusted_at_ms = reading.boottime_ms
            self._report(EventKind.CLOCK_UNTRUSTED, {"known_ms": self._mark_ms})
        elif trusted and self._distrusted_at_ms is not None:
            self._presence.end_distrust(
                self._distrusted_at_ms, reading.boottime_ms, now_ms=reading.now_ms
            )
            self._distrusted_at_ms = None
            self._must_repair = True
            self._retiming.restart()
            self._report(EventKind.CLOCK_TRUSTED)
        since_ms = reading.boottime_ms if self._distrusted_at_ms is None else self._distrusted_at_ms
        before = self._hold
        self._hold = resolve_hold(
            is_trusted=trusted,
            waited_ms=reading.boottime_ms - since_ms,
            clock_wait_ms=self._clock_wait_ms,
        )
        if self._hold is Hold.CALENDAR and before is not Hold.CALENDAR:
            self._report(EventKind.CLOCK_WAIT_OVER)
        return trusted

    def _is_trusted(self, reading: _Reading, is_synchronised: bool | None) -> bool:
        return is_trusted(reading.now_ms, mark_ms=self._mark_ms, is_synchronised=is_synchronised)

    def _read_mark(self) -> None:
        """Read the mark if another process has changed it."""
        assert self._marks is not None
        stored_ms = self._store.find_clock_marks().trusted_high_ms
        if stored_ms != self._marks.trusted_high_ms:
            self._marks = replace(self._marks, trusted_high_ms=stored_ms)
            self._mark_ms = resolve_mark_ms(stored_ms)

    def _bring_back_successes(self, now_ms: int) -> bool:
        """Let no success lie in the future; whether all schedules are done."""

        def visit(ids: range) -> Visited:
            changed = self._store.bring_back_successes(now_ms=now_ms, ids=ids)
            return Visited(found=changed, changed=changed)

        return self._retiming.walk("successes", visit)

    def _repair(self, now_ms: int) -> None:
        """Correct what a wrong clock has stored, now that the clock is right."""
        is_set_back = self._is_set_back
        ahead_ms = now_ms if is_set_back else now_ms + LARGE_MS
        done = self._retiming.sweep(
            "repair",
            lambda ids: self._store.find_misdated(now_ms=now_ms, ahead_ms=ahead_ms, ids=ids),
            lambda timing, kept: plan_repair(timing, kept, now_ms=now_ms, is_set_back=is_set_back),
            reason="clock",
        )
        if done:
            # Also runs that were queued by a clock which was corrected while no engine was running.
            self._store.bring_back_queued(now_ms=now_ms, ahead_ms=ahead_ms)
            self._must_repair = self._is_set_back = self._must_rebase = False

    def _repeat(self, now_ms: int) -> None:
        """Let schedules that follow elapsed time continue in a span that the clock repeats."""
        back_ms = self._back_ms
        if "repeat" not in self._retiming.unfinished:
            self._store.bring_back_queued(now_ms=now_ms, ahead_ms=now_ms)
        done = self._retiming.sweep(
            "repeat",
            lambda ids: self._store.find_set_back(read_now=self._clock.now_ms, ids=ids),
            lambda timing, kept: plan_repeat(timing, kept, now_ms=now_ms, back_ms=back_ms),
            reason="clock",
        )
        if done:
            self._must_repeat, self._back_ms = False, None

    def _rebase(self, now_ms: int) -> None:
        """Let intervals go by the clock as it is, though it can't be trusted."""
        has_stepped = self._must_rebase
        done = self._retiming.sweep(
            "rebase",
            lambda ids: self._store.find_intervals(now_ms=now_ms, has_stepped=has_stepped, ids=ids),
            lambda timing, kept: (
                None if timing is None else plan_rebase(timing, kept, now_ms=now_ms)
            ),
            reason="clock",
        )
        if done:
            self._must_rebase = False

    def _settle_timeless(self, reading: _Reading) -> bool:
        """Compute next times that are missing, without firing; whether none is left.

        This takes what is left of the time of one step, and one slice of schedules at least.
        """
        found = self._store.find_timeless(limit=_AT_ONCE)
        for start in range(0, len(found), _SLICE):
            if start and self._retiming.is_time_over:
                return False
            self._settle(found[start : start + _SLICE], reading)
        return len(found) < _AT_ONCE

    def _settle(self, found: Sequence[KeptTimes], reading: _Reading) -> None:
        now_ms = reading.now_ms
        settled = []
        for kept in found:
            entry = self._schedules.find(kept.schedule_id, kept.revision)
            if entry is None or entry.spec is None or entry.timing is None:
                error = entry.error if entry else None
                self._retiming.mark_broken(
                    kept, error or f"its revision {kept.revision} is not on record"
                )
                continue
            try:
                settled.append((*plan_timeless(entry.timing, kept, now_ms=now_ms), entry.spec))
            except SENSELESS as error:
                self._retiming.mark_broken(kept, f"its stored times can't be read: {error!r}")
        if not settled:
            return
        done = self._store.settle_timeless(
            settled,
            boot_id=self._clock.boot_id(),
            booted_ms=now_ms - reading.boottime_ms,
            now_ms=now_ms,
        )
        for (change, _, _), ok in zip(settled, done, strict=True):
            if ok and change.has_moved:
                self._retiming.report_moved(change, "missing")

    def _report(self, kind: EventKind, details: dict[str, object] | None = None) -> None:
        self._events.report(kind, details=details)
