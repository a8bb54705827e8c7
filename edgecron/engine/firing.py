"""What is due is decided and claimed: boots, plan times chunk by chunk, then what is queued."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import SENSELESS, DatabaseUnusable, Unreadable
from edgecron.engine.catalogue import Catalogue
from edgecron.engine.events import EventKind
from edgecron.engine.presence import Presence
from edgecron.engine.telling import Teller
from edgecron.model.choices import Cause, Hold
from edgecron.model.engine import Offers
from edgecron.planning.catch_up import plan_fire
from edgecron.planning.next_fire import Due, Fire
from edgecron.store.contract import BootDecision, ClaimBatch, Decision, Seat
from edgecron.triggers.zones import one_local_zone

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

FIRST_CHUNK = 16  # small, so that the first starts are early
CHUNK = 256
_SHARE = 32  # of what is due that an engine takes while others are first
# One step decides due fires for at most this long, and at most this many. The rest is for the next
# step, which serves ends, cancels and waiting runs first.
STEP_MS = 50
_MOST_FIRES = 2048
# After a step that could not decide all that is due, runs that wait for a place have the engine to
# themselves for this many times as long: else the more is due, the less runs. At most for so long:
# fires that are due wait for it, also those of other schedules.
_REST = 4
_MOST_REST_MS = 1_000

Claim = Callable[[Callable[[Seat, int], ClaimBatch]], ClaimBatch]
Broken = Callable[[Due, str | None, str], object]  # a schedule's name and what is wrong with it


class Firing:
    """Decides for the queues of one engine: `queues` says which may be claimed from now, `offers`
    what of a program's; None is all that is there. `claim`
    runs a claim transaction and starts what it granted. `has_ends` says whether runs have ended
    whose ends are not written yet. `spread` is a number of its own for each
    engine. With `has_one_run` only what is queued is claimed, which the seat bounds to that run.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        catalogue: Catalogue,
        teller: Teller,
        queues: Callable[[], tuple[str, ...]],
        offers: Callable[[], Offers | None],
        claim: Claim,
        presence: Presence,
        has_ends: Callable[[], bool],
        has_one_run: bool,
        spread: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._catalogue = catalogue
        self._teller = teller
        self._queues = queues
        self._offers = offers
        self._claim = claim
        self._presence = presence
        self._has_ends = has_ends
        self._has_one_run = has_one_run
        self._spread = spread
        # The queues that it is decided for, and what of them.
        self._boot_decided: tuple[tuple[str, ...], Offers | None] = ((), None)
        self._rest_until_ms = 0  # monotonic
        self._is_behind = False  # the last step could not decide all that is due

    def claim_all(self, hold: Hold, *, has_filled: bool = False) -> list[ClaimBatch]:
        """Decide and claim all that is due now and not held.

        `has_filled`: free places were given to what is queued a moment ago.
        """
        if self._has_one_run or hold is Hold.ALL:
            return [self._fill(hold)]
        batches = [self._fire_boot()]
        if not self.rest_ms or not self._store.has_queued():
            batches += self._fire_due(hold)
        if has_filled and not any(one.advanced for one in batches):
            return batches
        return [*batches, self._fill(hold)]

    @property
    def rest_ms(self) -> int:
        """How long waiting runs still go before fires that are due; 0 if they do not."""
        return max(0, self._rest_until_ms - self._clock.monotonic_ms())

    def rehearse(self, seat: Seat, at_ms: int) -> bool:
        """Go through what will be due at an instant, and undo it: the fire itself finds all that
        it needs in memory. What can't be done now shows then.

        Whether, as things are, all of it would start.
        """
        decisions = self._decide_ahead(at_ms)
        if not decisions:
            return False
        with suppress(Unreadable, DatabaseUnusable):
            with self._store.rehearsal():
                batch = self._store.claim_due(decisions, seat=seat, now_ms=at_ms)
            return len(batch.granted) == len(batch.decided) and not batch.has_replaced
        return False

    def claim_ahead(self, at_ms: int, *, claim: Claim) -> ClaimBatch:
        """Claim what will be due at an instant that is about to come, as of that instant."""
        decisions = self._decide_ahead(at_ms)
        if not decisions:
            return ClaimBatch()
        try:
            return claim(
                lambda seat, _now_ms: self._store.claim_due(decisions, seat=seat, now_ms=at_ms)
            )
        except Unreadable:
            return ClaimBatch()  # It is said when it is due.

    def _decide_ahead(self, at_ms: int) -> list[Decision]:
        due = self._store.find_due(
            self._queues(), now_ms=at_ms, limit=FIRST_CHUNK, offers=self._offers()
        )
        if not due:
            return []
        with one_local_zone():
            return self._decide(due, at_ms, broken=_leave)

    def _fire_boot(self) -> ClaimBatch:
        """Decide `on boot` once for this boot."""
        queues, offers = self._queues(), self._offers()
        if self._boot_decided == (queues, offers):
            return ClaimBatch()
        boot_id = self._clock.boot_id()
        now_ms = self._clock.now_ms()
        decisions = []
        due = self._store.find_boot_due(queues, boot_id=boot_id, offers=offers)
        for schedule_id, revision in due:
            entry = self._catalogue.find(schedule_id, revision)
            if entry is None or entry.spec is None:
                continue
            fire = Fire(
                plan_ms=now_ms,
                due_ms=now_ms,
                cause=Cause.BOOT,
                source="on boot",
                fire_key=f"boot:{boot_id}",
            )
            decisions.append(
                BootDecision(schedule_id=schedule_id, revision=revision, fire=fire, spec=entry.spec)
            )
        batch = ClaimBatch()
        if decisions:
            batch = self._claim(
                lambda seat, now: self._store.claim_boot(
                    decisions, boot_id=boot_id, seat=seat, now_ms=now
                )
            )
        # What was edited meanwhile is not decided, and looked at again.
        if batch.advanced == len(due):
            self._boot_decided = (queues, offers)
        return batch

    def _fire_due(self, hold: Hold) -> list[ClaimBatch]:
        """Decide what is due as of now, chunk by chunk, within the bounds of one step.

        If runs end meanwhile, their ends and the runs that wait for their places come first: that
        is for the next step. If other engines were first, decide only a share of what is due,
        which differs from engine to engine: else all would decide the same, for one to have it.
        """
        batches = []
        queues, offers = self._queues(), self._offers()
        # One instant for all chunks: a schedule that is due every millisecond is decided once.
        now_ms, begun_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        # An engine that is behind has no early first start to win by a small chunk.
        limit = CHUNK if self._is_behind else FIRST_CHUNK
        self._is_behind = False
        losses = count = 0
        before: list[Due] = []
        while count < _MOST_FIRES:
            due = self._store.find_due(queues, now_ms=now_ms, limit=limit, hold=hold, offers=offers)
            if not due:
                break
            taken = self._share(due, losses) if losses else due
            with one_local_zone():
                decisions = self._decide(taken, now_ms, broken=self._break)
            batch = self._claim_due(decisions)
            batches.append(batch)
            losses = losses + 1 if 2 * batch.advanced < len(taken) else 0
            # Nothing may be ours where peers were first; the same again is for the next step.
            if not batch.advanced and due == before:
                break
            took_ms = self._clock.monotonic_ms() - begun_ms
            if len(due) == limit and (took_ms >= STEP_MS or self._is_room_awaited()):
                self._is_behind = True
                self._rest_until_ms = begun_ms + took_ms + min(took_ms * _REST, _MOST_REST_MS)
                break
            before = due
            count += len(due)
            limit = CHUNK
        return batches

    def _is_room_awaited(self) -> bool:
        """Whether runs wait for places and others have ended that leave them theirs."""
        return self._has_ends() and self._store.has_queued()

    def _share(self, due: list[Due], turn: int) -> list[Due]:
        """A few of what is due, from a place that is this engine's own at each turn."""
        start = self._spread * turn % len(due)
        return due[start : start + _SHARE]

    def _claim_due(self, decisions: list[Decision]) -> ClaimBatch:
        if not decisions:
            return ClaimBatch()
        try:
            return self._claim(
                lambda seat, now_ms: self._store.claim_due(decisions, seat=seat, now_ms=now_ms)
            )
        except Unreadable as error:
            return self._claim_alone(decisions, error)

    def _claim_alone(self, decisions: list[Decision], error: Unreadable) -> ClaimBatch:
        """Claim one after the other where one of them holds what no edgecron writes."""
        if len(decisions) > 1:
            batches = [self._claim_due([decision]) for decision in decisions]
            return ClaimBatch(
                granted=tuple(one for batch in batches for one in batch.granted),
                decided=tuple(one for batch in batches for one in batch.decided),
                advanced=sum(batch.advanced for batch in batches),
                has_replaced=any(batch.has_replaced for batch in batches),
                broken=tuple(one for batch in batches for one in batch.broken),
            )
        [decision] = decisions
        self._break(decision.plan.due, decision.spec.name, error.message)
        return ClaimBatch()

    def _fill(self, hold: Hold) -> ClaimBatch:
        """Give free places to what is queued."""
        return self._claim(
            lambda seat, now_ms: self._store.claim_queued(seat=seat, now_ms=now_ms, hold=hold)
        )

    def _decide(self, due: list[Due], now_ms: int, *, broken: Broken) -> list[Decision]:
        self._catalogue.load((one.schedule_id, one.revision) for one in due)
        decisions = []
        for one in due:
            entry = self._catalogue.find(one.schedule_id, one.revision)
            if entry is None:
                # Not on record; where it was only changed since we looked, this breaks nothing.
                broken(one, None, f"its revision {one.revision} is not on record")
                continue
            if entry.spec is None or entry.timing is None:
                broken(one, entry.name, entry.error or "")
                continue
            try:
                plan = plan_fire(entry.timing, one, now_ms=now_ms)
            except SENSELESS as error:
                # The others must not wait for a time that is out of all bounds.
                broken(one, entry.name, f"its stored times can't be read: {error!r}")
                continue
            plan = self._presence.explain(plan, now_ms=now_ms)
            decisions.append(Decision(plan=plan, spec=entry.spec))
        return decisions

    def _break(self, due: Due, schedule: str | None, error: str) -> None:
        now_ms = self._clock.now_ms()
        if self._store.mark_broken(
            due.schedule_id, revision=due.revision, error=error, now_ms=now_ms
        ):
            self._teller.tell(EventKind.BROKEN, None, schedule, {"error": error})


def _leave(due: Due, schedule: str | None, error: str) -> None:
    """It is said when it is due."""
