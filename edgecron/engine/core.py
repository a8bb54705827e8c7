"""The engine: `step()` is one pass over what is due, without sleeping.

A pass ends what has ended, decides what is due, starts what was claimed, and says when to come
back. It can be driven by hand with a fake clock through any story.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import DatabaseUnusable
from edgecron.base.values import dataclass
from edgecron.engine.adopted import Adopt
from edgecron.engine.batches import Batches
from edgecron.engine.burst import Burst
from edgecron.engine.catalogue import Catalogue
from edgecron.engine.claiming import Claiming
from edgecron.engine.ends import HOLD_MS, Ends
from edgecron.engine.events import Report
from edgecron.engine.firing import CHUNK, Firing
from edgecron.engine.liveness import Liveness
from edgecron.engine.liveruns import LiveRuns
from edgecron.engine.presence import Presence
from edgecron.engine.progress import ProgressWriter
from edgecron.engine.registration import Registration
from edgecron.engine.rescue import Rescue
from edgecron.engine.retaining import Retaining
from edgecron.engine.supervision import Supervision
from edgecron.engine.telling import Teller
from edgecron.engine.timekeeping import Timekeeping
from edgecron.model.choices import Hold
from edgecron.model.engine import EngineInfo, Offers
from edgecron.planning.retention import UNLIMITED, Retention
from edgecron.planning.trust import CLOCK_WAIT_MS
from edgecron.store.contract import ClaimBatch
from edgecron.supervisor.runner import Runner
from edgecron.triggers.zones import one_local_zone

if TYPE_CHECKING:
    from edgecron.store.protocol import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a pass did. `wake_ms`: when the next one is due, None where nothing is to come."""

    claimed: int = 0
    decided: int = 0
    ended: int = 0
    wake_ms: int | None = None


class Engine:
    """One scheduler loop over a store. For one thread; the store's connection is its own. `live` is
    what it runs: to be asked, and to be stopped, for the next steps to write the ends.

    `start_runner` starts the runner, and another one whenever it has died; `ring_peers` wakes the
    other engines of the database; `announce` tells them that it has come; `adopt` makes a dead
    engine's supervisor ours. After `clock_wait_ms` what counts elapsed time goes by a clock that
    can't be trusted; None never. With `only` it takes that one execution and nothing else, adopts
    nobody, and is not counted on: it is recorded as looking at no queue. `callables` runs the
    functions of the program that it is part of; then the runner is started when there is a command
    to run, and where it can't be, functions are run all the same. `offers` says what it takes of
    that program's queue, as other versions of it may have others; None is whatever is there.
    With `finds_subjects` each event has its subject, which is one read of the store for each.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        start_runner: Callable[[], Runner],
        liveness: Liveness,
        key: str,
        pid: int,
        queues: tuple[str, ...],
        max_running: int,
        report: Report,
        ring_peers: Callable[[], object],
        announce: Callable[[], object],
        adopt: Adopt,
        burst: int | None = None,
        clock_wait_ms: int | None = CLOCK_WAIT_MS,
        retention: Retention = UNLIMITED,
        only: int | None = None,
        callables: Runner | None = None,
        offers: Callable[[], Offers] | None = None,
        finds_subjects: bool = False,
    ) -> None:
        self._store = store
        self._clock = clock
        self._queues = queues
        self._max_running = max_running
        self._ring_peers = ring_peers
        self._only = only
        self._registration = Registration(
            store=store,
            clock=clock,
            key=key,
            pid=pid,
            queues=queues if only is None else (),
            max_running=max_running,
            find_offers=offers,
            announce=announce,
        )
        self._catalogue = Catalogue(store)
        self._teller = Teller(
            report, clock, self._catalogue, store.find_subject if finds_subjects else None
        )
        self._presence = Presence(
            store=store, clock=clock, queues=queues, is_alive=liveness.engine_is_alive
        )
        self._firing = Firing(
            store=store,
            clock=clock,
            catalogue=self._catalogue,
            teller=self._teller,
            queues=lambda: self._claiming.open_queues(),
            offers=lambda: self._registration.offers,
            claim=lambda claim: self._batches.claim(claim),
            presence=self._presence,
            has_ends=lambda: self._ends.has_come(),
            has_one_run=only is not None,
            spread=int.from_bytes(key.encode()[-6:], "big"),
        )
        self._timekeeping = Timekeeping(
            store=store,
            clock=clock,
            catalogue=self._catalogue,
            teller=self._teller,
            presence=self._presence,
            clock_wait_ms=clock_wait_ms,
        )
        self._retaining = Retaining(
            store=store, clock=clock, teller=self._teller, retention=retention
        )
        self.live = LiveRuns(start_runner, clock=clock, callables=callables)
        self._supervision = Supervision(store=store, live=self.live, teller=self._teller)
        self._progress = ProgressWriter(store=store, clock=clock, live=self.live)
        self._rescue = Rescue(
            store=store,
            clock=clock,
            liveness=liveness,
            live=self.live,
            teller=self._teller,
            adopt=adopt if only is None else None,
        )
        self._claiming = Claiming(
            clock=clock,
            registration=self._registration,
            live=self.live,
            catalogue=self._catalogue,
            teller=self._teller,
            rescue=self._rescue,
            burst=Burst(burst),
            queues=queues,
            max_running=max_running,
            only=only,
            fail=lambda outcome: self._ends.add(outcome),
        )
        self._batches = Batches(self._claiming, replaced=self._end_replaced)
        self._ends = Ends(
            store=store,
            clock=clock,
            live=self.live,
            claiming=self._claiming,
            rescue=self._rescue,
            teller=self._teller,
            may_fill=self._may_fill,
            batches=self._batches,
            ring_peers=ring_peers,
        )
        self._last_hold = Hold.ALL  # what the last look at the clock said
        self._is_draining = False
        self._change_mark = -1
        self._is_prepared = False  # what fires next is loaded

    @property
    def engine_id(self) -> int | None:
        """The id in the database, None before the first step."""
        return self._registration.engine_id

    @property
    def max_running(self) -> int:
        """How many executions this engine runs at once, at most."""
        return self._max_running

    @property
    def peers(self) -> tuple[EngineInfo, ...]:
        """The other engines that were alive when it was looked last."""
        return self._rescue.peers

    def filenos(self) -> list[int]:
        """Descriptors that are readable when a step has an end to write."""
        return self.live.filenos()

    def step(self) -> Step:
        """One pass. Raises DatabaseUnusable, or SupervisorUnavailable where none can be started.

        The next pass then takes up where it was.
        """
        try:
            with one_local_zone():  # Our own, whatever zone this thread had for local.
                return self._pass()
        except DatabaseUnusable:
            # It may have been committed all the same that something runs in another's place.
            self._ends.has_replaced = True
            raise
        finally:
            self._batches.tell()

    def _pass(self) -> Step:
        engine_id = self._registration.keep()
        if self._only is None:
            self._presence.begin(engine_id)
        # Before anything is claimed: what comes due within the pass is not taken to wait for a
        # place, but has another one.
        begun_ms = self._clock.now_ms()
        self._batches.begin()
        ended = self._ends.write()
        if self._supervision.drop_dead():
            self._rescue.suspect()
        may_have_looked = self._rescue.is_due()
        looked = self._rescue.look(engine_id)
        if looked.has_adopted:
            # What ended before it was adopted is there to be collected.
            ended += self._ends.write()
        self.live.let_go()
        if looked.has_queued and self._is_draining:
            self._ring_peers()  # It is for them: we claim nothing more.
        change_mark = self._store.change_mark
        # Our own commits do not show in the mark.
        if looked.has_replaced or self._ends.has_replaced:
            self._end_replaced()
        elif looked.has_adopted or change_mark != self._change_mark:
            self._end_cancelled()
        self._ends.has_replaced = False
        batches: list[ClaimBatch] = []
        hold = Hold.NOTHING
        if self._only is None:
            has_changed = change_mark != self._change_mark
            hold = self._timekeeping.look(has_changed=has_changed)
            self._registration.note_zone(self._timekeeping.local_timezone)
        self._last_hold = hold
        if not self._is_draining:
            # Only now: ends that were written in this pass may have queued a first command.
            is_new = ended > 0 or may_have_looked or change_mark != self._change_mark
            self._supervision.mind(engine_id, is_new=is_new)
        if self._may_claim():
            has_filled = self._batches.has_filled and not looked.has_queued
            batches = self._firing.claim_all(hold, has_filled=has_filled)
        batches += self._batches.take_batches()
        is_busy = ended > 0 or any(one.decided for one in batches)
        if self._only is None:
            self._timekeeping.note_mark(is_busy=is_busy)
            if is_busy:
                self._presence.note_busy(engine_id)
        self._registration.beat(is_running=bool(self.live))
        self._progress.write()
        if self._only is None and not self._is_draining:
            self._retaining.work(is_busy=is_busy, is_trusted=hold is Hold.NOTHING)
        if change_mark != self._change_mark or any(one.advanced for one in batches):
            self._is_prepared = False  # Something else may be next.
        # As it was: what others have committed since is for the next pass.
        self._change_mark = change_mark
        return Step(
            claimed=sum(len(batch.granted) for batch in batches),
            decided=sum(len(batch.decided) for batch in batches),
            ended=ended,
            wake_ms=self._next_wake_ms(hold, begun_ms=begun_ms),
        )

    def has_changed(self) -> bool:
        """Whether somebody else has committed since the last step, the net under lost wake-ups; or
        the clock was set, or the machine asleep; or, asked now and then, something has aged."""
        if self._timekeeping.has_news() or self._store.change_mark != self._change_mark:
            return True
        if not self._rescue.is_due():
            return False
        # Nearly always there is nothing, and to see that costs a third of a whole step.
        is_at_work = bool(self.live or self._ends) or self._timekeeping.is_outdated()
        return is_at_work or self._rescue.has_work(self._registration.get_id())

    def has_ends(self) -> bool:
        """Take in what the runners tell; whether a step has ends, or how far a run is, to write,
        or one of them died."""
        self._ends.collect()
        return bool(self._ends) or self.live.has_dead or self._progress.look()

    def tidy(self) -> None:
        """Move what the log holds into the database, once that is much."""
        self._store.tidy()

    def prepare(self) -> None:
        """Load and compile what fires next, so that the fire itself need not."""
        if not self._is_prepared and not self._firing.rest_ms:
            offers = self._registration.offers
            self._catalogue.load(self._store.upcoming(self._queues, limit=CHUNK, offers=offers))
            self._is_prepared = True

    def rehearse(self, at_ms: int) -> bool:
        """Go through what fires at an instant that is to come in a moment, and undo it; whether,
        as things are, all of it would start."""
        return self._may_look_ahead() and self._firing.rehearse(self._claiming.seat(), at_ms)

    def claim_ahead(self, at_ms: int) -> None:
        """Claim what fires at an instant that is about to come, as of then. `start_claimed` is to
        follow at that instant, whatever happens. Raises DatabaseUnusable, as `step`."""
        if not self._may_look_ahead():
            return
        try:
            self._firing.claim_ahead(at_ms, claim=self._batches.claim_ahead)
        except DatabaseUnusable:
            self._ends.has_replaced = True  # See `step`.
            raise

    def start_claimed(self) -> None:
        """Start what was claimed ahead."""
        self._claiming.start_taken()

    def _may_look_ahead(self) -> bool:
        return self._may_fill() and self._store.change_mark == self._change_mark

    def suspect(self) -> None:
        """Have the next step look at once for what died."""
        self._rescue.suspect()

    def drain(self) -> None:
        """Claim and adopt nothing more: further steps only write ends."""
        self._is_draining = True
        self._rescue.adopt_nobody()

    def note_draining(self) -> None:
        """Put on record that this engine is not to be counted on for what is due."""
        self._registration.close_queues()

    def retire(self) -> None:
        """Write the last ends and leave the database; what runs goes on under its supervisor."""
        self._ends.write()
        self._registration.end()

    def close(self) -> None:
        """Let go of the supervisors; what runs goes on under them."""
        self.live.close()

    def _end_cancelled(self) -> None:
        """Have what runs here ended whose end was asked for: on request, or for a newer fire."""
        for execution_id in self._store.find_cancelled(self._registration.get_id()):
            self.live.cancel(execution_id)

    def _end_replaced(self) -> None:
        """Have what is replaced ended; some of what so makes room may be our peers'."""
        self._end_cancelled()
        self._ring_peers()

    # Fires.

    def _may_claim(self) -> bool:
        return self.live.may_take and not self._is_draining and not self._ends.is_held

    def _may_fill(self) -> bool:
        """Whether what is queued may be claimed for our runners as they were at the last look.

        Not by a clock that was set since: whether it can be trusted is not known yet, and a wrong
        one would give up what waits for a condition.
        """
        return (
            self._may_claim()
            and self._only is None
            and self._last_hold is Hold.NOTHING
            and not self._timekeeping.has_news()
            and self._supervision.is_settled
        )

    def _next_wake_ms(self, hold: Hold, *, begun_ms: int) -> int | None:
        now_ms = self._clock.now_ms()
        queues = self._claiming.open_queues()
        offers = self._registration.offers
        due_ms = self._store.next_due_ms(queues, now_ms=begun_ms, hold=hold, offers=offers)
        if self._ends.is_held:
            return now_ms + HOLD_MS
        if self._ends:
            return now_ms  # They came while fires were decided.
        if due_ms is not None and due_ms <= now_ms and self._firing.rest_ms:
            due_ms = now_ms + self._firing.rest_ms
        # Of what else is urgent: orphans, another runner, a clock that may be trusted by now.
        waits = (
            *(self._rescue.wake_ms, self.live.wake_ms, self._timekeeping.wake_ms),
            *(self._retaining.wake_ms, self._progress.wake_ms),
        )
        wakes = [
            now_ms + wait
            for wait in (*waits, self._claiming.wait_ms(self._store))
            if wait is not None
        ]
        return min(wakes if due_ms is None else [*wakes, due_ms], default=None)
