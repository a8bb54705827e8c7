"""Fire due schedules: find, plan, claim, start."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from edgecron.base.errors import SENSELESS, DatabaseUnusable, Unreadable
from edgecron.base.values import NamedTuple
from edgecron.base.zones import one_local_zone
from edgecron.engine.claim import Claimer, Core
from edgecron.engine.events import EventKind
from edgecron.engine.presence import Presence
from edgecron.model.choices import Cause, Hold
from edgecron.model.engine import EngineInfo, Offers
from edgecron.planning.admission import find_turn_ms
from edgecron.planning.catch_up import plan_fire
from edgecron.planning.next_fire import Due, Fire
from edgecron.store.contract import BootDecision, Decision

FIRST_CHUNK = 16  # small, so that the first starts are early
CHUNK = 256
# One step decides due fires for at most this long, and at most this many. The rest is for the next
# step, which serves ends, cancels and waiting runs first.
_STEP_MS = 100
_MOST_FIRES = 2048
# After a step that could not decide all that is due, runs that wait for a place have the engine to
# themselves for this many times as long: else the more is due, the less runs. At most for so long:
# fires that are due wait for it, also those of other schedules.
_REST = 4
_MOST_REST_MS = 1_000
# If short runs have taken all places and the reserve, due schedules are left undecided: the next
# ends wake the engine, or this time does. A run that is queued first costs twice as much.
_FULL_MS = 100
# How long fires that another engine claims are left to it: twice as long after each look.
_LOST_MS, _MOST_LOST_MS = 50, 400
# Fires that follow each other closely share a pass: from the third on, passes that fire begin so
# long after each other. With 200 fires a second, an engine takes half of the processor time.
_PACE_MS = 20
_FAST_FOR_MS = 10 * _PACE_MS  # for how long a schedule that fires more often keeps passes unpaced


class _Broken(NamedTuple):
    """A due schedule that can't be planned, and why; `schedule` is its name, if known."""

    due: Due
    schedule: str | None
    error: str


class Firing:
    """Fire for the queues of one engine."""

    def __init__(
        self,
        core: Core,
        *,
        presence: Presence,
        claimer: Claimer,
    ) -> None:
        self._store = core.store
        self._clock = core.clock
        self._schedules = core.schedules
        self._presence = presence
        self._claimer = claimer
        self._runners = core.runners
        self._events = core.events
        # The queues, and what of them, whose boot fires are decided.
        self._boot_decided: tuple[tuple[str, ...], Offers | None] = ((), None)
        self._rest_until_ms = 0  # monotonic
        self._is_behind = False  # the last step could not decide all that is due
        self._may_leave = True  # due schedules, undecided, until short runs have ended
        self._is_full = False  # the last step left due schedules for when short runs have ended
        self._fired_at_ms: int | None = None  # when the last pass that fired began (monotonic)
        self._fast_at_ms = -_FAST_FOR_MS  # when a schedule fired that fires too often for a pace
        self._pace_until_ms = 0  # when the next one begins at the earliest (monotonic)
        self.has_lost = False  # in the last step, other engines claimed most of what is due
        self._lost_ms = _LOST_MS  # how long to leave it to them, if so

    def fire(self, hold: Hold, *, has_filled: bool) -> None:
        """Start all that is due now and not held: boot fires, plan times, then queued runs.

        `has_filled`: this pass has given free places to queued runs already.
        """
        self._lost_ms = min(2 * self._lost_ms, _MOST_LOST_MS) if self.has_lost else _LOST_MS
        self.has_lost = False
        if self._claimer.has_one_run or hold is Hold.ALL:
            self._fill(hold)
            return
        begun_ms = self._clock.monotonic_ms()
        advanced = self._fire_boot()
        if not self.rest_ms or not self._store.has_queued():
            advanced += self._fire_due(hold)
        if advanced:
            self._note_fired(begun_ms)
        if advanced or not has_filled:
            self._fill(hold)

    @property
    def rest_ms(self) -> int:
        """How long waiting runs still go before due fires; 0 if they don't."""
        return max(0, self._rest_until_ms - self._clock.monotonic_ms())

    @property
    def is_paced(self) -> bool:
        """Whether passes that fire follow each other closely."""
        return self._pace_until_ms > self._clock.monotonic_ms()

    def find_wake_ms(
        self,
        hold: Hold,
        *,
        begun_ms: int,
        now_ms: int,
        engine_id: int,
        others: Collection[EngineInfo],
    ) -> int | None:
        """Return when to wake for the next due fire (epoch ms); None if no fire is expected.

        The end of a run wakes the engine sooner.

        `begun_ms`: when this pass began. `others`: the other live engines, each of which has its
        turn at a due time.
        """
        wakes_ms = []
        offers = self._claimer.offers
        for queue in self._claimer.open_queues():
            due_ms = self._store.next_due_ms((queue,), now_ms=begun_ms, hold=hold, offers=offers)
            if due_ms is None:
                continue
            if due_ms <= now_ms and not self.has_lost:
                wakes_ms.append(due_ms)
                continue
            if due_ms <= now_ms:
                due_ms = now_ms + self._lost_ms  # Another engine claims it, unless that stops now.
            turn_ms = find_turn_ms(others, queue, due_ms, engine_id=engine_id, offers=offers)
            wakes_ms.append(due_ms + turn_ms)
        wake_ms = min(wakes_ms, default=None)
        if wake_ms is None:
            return None
        pace_ms = self._pace_until_ms - self._clock.monotonic_ms()
        if wake_ms <= now_ms:
            pace_ms = max(self.rest_ms, _FULL_MS if self._is_full else 0, pace_ms)
        return max(wake_ms, now_ms + pace_ms)

    def _note_fired(self, begun_ms: int) -> None:
        """Let the next pass wait, if passes that fire come closely after each other."""
        before_ms, self._fired_at_ms = self._fired_at_ms, begun_ms
        is_close = before_ms is not None and begun_ms - before_ms < 2 * _PACE_MS
        is_fast = begun_ms - self._fast_at_ms < _FAST_FOR_MS
        if is_close and not is_fast and not self._is_behind:
            self._pace_until_ms = begun_ms + _PACE_MS

    def _fire_due(self, hold: Hold) -> int:
        """Fire the schedules that are due now, chunk by chunk; how many were ours.

        Stop within the bounds of one step, or if runs ended: their ends, and the runs that wait
        for their places, come first. Stop also if another engine is faster: leave the rest to it.
        """
        queues, offers = self._claimer.open_queues(), self._claimer.offers
        # One instant for all chunks: a schedule that is due every millisecond is decided once.
        now_ms, begun_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        # An engine that is behind, or has started the first ones early, wins nothing by a small
        # chunk. On a server, each chunk costs several round trips, and its turn among all engines.
        is_large = self._is_behind or self._claimer.has_started_early
        chunk = CHUNK if is_large or self._store.leases is not None else FIRST_CHUNK
        self._is_behind = self._is_full = False
        self._may_leave = True
        count = total = 0
        while count < _MOST_FIRES and (limit := self._find_limit(chunk, queues, now_ms=now_ms)):
            due = self._store.find_due(queues, now_ms=now_ms, limit=limit, hold=hold, offers=offers)
            decisions = self._plan(due, now_ms)
            advanced, granted = self._claim(decisions)
            total += advanced
            self.has_lost = 2 * advanced < len(decisions)
            if self.has_lost or not decisions:
                break
            self._may_leave &= granted == len(due)  # Else something else holds them back.
            if len(due) < limit or self._must_rest(begun_ms):
                break
            count += len(due)
            chunk = CHUNK
        return total

    def _find_limit(self, chunk: int, queues: tuple[str, ...], *, now_ms: int) -> int:
        """How many due schedules to decide at once; 0: short runs have taken all places."""
        room = self._claimer.find_room() if self._may_leave else None
        if room is not None and self._store.has_priority_due(queues, now_ms=now_ms):
            self._may_leave, room = False, None  # It might start before what is queued.
        if room == 0:
            self._is_full = self._is_behind = True
        return chunk if room is None else min(chunk, room)

    def _must_rest(self, begun_ms: int) -> bool:
        """Whether this step has spent its time on due fires, and runs that wait go first."""
        took_ms = self._clock.monotonic_ms() - begun_ms
        if took_ms < _STEP_MS and not self._is_room_awaited():
            return False
        self._is_behind = True
        if self._store.has_queued():
            self._rest_until_ms = begun_ms + took_ms + min(took_ms * _REST, _MOST_REST_MS)
        return True

    def _is_room_awaited(self) -> bool:
        """Whether runs wait for places while others have ended and leave them theirs."""
        return bool(self._runners.collect()) and self._store.has_queued()

    def _plan(self, due: list[Due], now_ms: int) -> list[Decision]:
        """Plan due schedules; those that can't be read are stopped and reported."""
        with one_local_zone():
            decisions, broken = self._decide(due, now_ms)
        for one in broken:
            self._mark_broken(one)
        return decisions

    def _decide(self, due: list[Due], now_ms: int) -> tuple[list[Decision], list[_Broken]]:
        self._schedules.load((one.schedule_id, one.revision) for one in due)
        decisions, broken = [], []
        for one in due:
            found = self._schedules.find(one.schedule_id, one.revision)
            if found is None:
                # Not on record. If it was only changed since we looked, `mark_broken` refuses.
                error = f"its revision {one.revision} is not on record"
                broken.append(_Broken(one, None, error))
                continue
            if found.spec is None or found.timing is None:
                broken.append(_Broken(one, found.name, found.error or ""))
                continue
            try:
                plan = plan_fire(found.timing, one, now_ms=now_ms)
            except SENSELESS as error:
                # Other schedules must not wait for a time that is out of all bounds.
                words = f"its stored times can't be read: {error!r}"
                broken.append(_Broken(one, found.name, words))
                continue
            if plan.next is not None and plan.next.due_ms - one.due_ms < 2 * _PACE_MS:
                self._fast_at_ms = self._clock.monotonic_ms()
            if plan.is_late:
                queue = found.spec.placed_queue
                plan = self._presence.explain(plan, found.timing, queue=queue, now_ms=now_ms)
            decisions.append(Decision(plan, found.spec))
        return decisions, broken

    def _claim(self, decisions: list[Decision]) -> tuple[int, int]:
        """Claim plans and start what is granted; how many schedules were ours, how many started."""
        if not decisions:
            return 0, 0
        claimant = self._claimer.claimant(decisions)
        try:
            batch = self._store.claim_due(decisions, claimant=claimant, now_ms=self._clock.now_ms())
        except Unreadable as error:
            if len(decisions) > 1:
                # One of them holds invalid values: the others must not fail with it.
                each = [self._claim([one]) for one in decisions]
                return sum(advanced for advanced, _ in each), sum(granted for _, granted in each)
            [one] = decisions
            self._mark_broken(_Broken(one.plan.due, one.spec.name, error.message))
            return 0, 0
        self._claimer.start(batch, claimant=claimant)
        return batch.advanced, len(batch.granted)

    def _fill(self, hold: Hold) -> None:
        """Give free places to queued runs, and start them."""
        claimant = self._claimer.claimant()
        batch = self._store.claim_queued(claimant=claimant, now_ms=self._clock.now_ms(), hold=hold)
        self._claimer.start(batch, claimant=claimant)

    def _fire_boot(self) -> int:
        """Fire `on boot` schedules once for this boot; how many were ours."""
        queues, offers = self._claimer.open_queues(), self._claimer.offers
        if self._boot_decided == (queues, offers):
            return 0
        boot_id = self._clock.boot_id()
        now_ms = self._clock.now_ms()
        decisions = []
        # A schedule that was added since was added from another machine, with its boot decided.
        # In a file, it has ours; there, our clock can be wrong after a boot.
        booted_ms = None if self._store.leases is None else now_ms - self._clock.boottime_ms()
        due = self._store.find_boot_due(
            queues, boot_id=boot_id, booted_ms=booted_ms, now_ms=now_ms, offers=offers
        )
        for schedule_id, revision in due:
            found = self._schedules.find(schedule_id, revision)
            if found is None or found.spec is None:
                continue
            fire = Fire(
                plan_ms=now_ms,
                due_ms=now_ms,
                cause=Cause.BOOT,
                source="on boot",
                fire_key=f"boot:{boot_id}",
            )
            decisions.append(
                BootDecision(schedule_id=schedule_id, revision=revision, fire=fire, spec=found.spec)
            )
        advanced = 0
        if decisions:
            claimant = self._claimer.claimant(decisions)
            now_ms = self._clock.now_ms()
            batch = self._store.claim_boot(
                decisions, boot_id=boot_id, claimant=claimant, now_ms=now_ms
            )
            self._claimer.start(batch, claimant=claimant)
            advanced = batch.advanced
        # A schedule that was edited meanwhile is not decided, and is looked at again.
        if advanced == len(due):
            self._boot_decided = (queues, offers)
        return advanced

    def _mark_broken(self, one: _Broken) -> None:
        if self._store.mark_broken(
            one.due.schedule_id,
            revision=one.due.revision,
            error=one.error,
            now_ms=self._clock.now_ms(),
        ):
            self._events.report(EventKind.BROKEN, None, one.schedule, {"error_msg": one.error})

    # Fires whose time is about to come. What can't be planned is reported when it is due.

    def rehearse(self, at_ms: int) -> bool:
        """Claim what will be due at an instant, and undo that: the claim itself is faster then.

        Returns whether, as things are, the runs would start, as many as there are places.
        """
        decisions = self._decide_early(at_ms)
        if not decisions:
            return False
        claimant = self._claimer.claimant(decisions)
        with suppress(Unreadable, DatabaseUnusable):
            with self._store.rehearsal():
                batch = self._store.claim_due(decisions, claimant=claimant, now_ms=at_ms)
            waits_only = all(one.reason is None and not one.condition for one in batch.decided)
            return bool(batch.granted) and waits_only and not batch.has_replaced
        return False

    def claim_early(self, at_ms: int) -> None:
        """Claim what will be due at an instant that is about to come, as of that instant."""
        decisions = self._decide_early(at_ms)
        if not decisions:
            return
        claimant = self._claimer.claimant(decisions)
        with suppress(Unreadable):
            batch = self._store.claim_due(decisions, claimant=claimant, now_ms=at_ms)
            self._claimer.keep_early(batch, claimant=claimant)

    def _decide_early(self, at_ms: int) -> list[Decision]:
        due = self._store.find_due(
            self._claimer.open_queues(),
            now_ms=at_ms,
            limit=FIRST_CHUNK,
            offers=self._claimer.offers,
        )
        if not due:
            return []
        with one_local_zone():
            decisions, _ = self._decide(due, at_ms)
        return decisions
