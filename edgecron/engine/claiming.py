"""Claims of one engine: who claims, what was granted is started, and all of it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import DatabaseUnusable, InvalidInput
from edgecron.engine.burst import Burst
from edgecron.engine.catalogue import Catalogue
from edgecron.engine.handover import claim_of, unreadable
from edgecron.engine.liveruns import LiveRuns
from edgecron.engine.registration import Registration
from edgecron.engine.rescue import Rescue
from edgecron.engine.telling import Teller
from edgecron.model.claim import Claim, Outcome
from edgecron.store.contract import ClaimBatch, Granted, Seat

if TYPE_CHECKING:
    from edgecron.store.protocol import Store


class Claiming:
    """Claims for an engine's supervisor and its threads, within its places and its burst.

    `fail` is given the end of a granted execution that can't be read.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        registration: Registration,
        live: LiveRuns,
        catalogue: Catalogue,
        teller: Teller,
        rescue: Rescue,
        burst: Burst,
        queues: tuple[str, ...],
        max_running: int,
        only: int | None,
        fail: Callable[[Outcome], object],
    ) -> None:
        self._clock = clock
        self._registration = registration
        self._live = live
        self._catalogue = catalogue
        self._teller = teller
        self._rescue = rescue
        self._burst = burst
        self._queues = queues
        self._max_running = max_running
        self._only = only
        self._fail = fail
        self._taken: list[Claim] = []  # ahead, and not started yet
        self._is_kept_back = False  # as many have started as may, within a second

    def seat(self) -> Seat:
        """Who claims now, and how much."""
        return Seat(
            engine_id=self._registration.get_id(),
            supervisor_id=self._live.supervisor_id,
            queues=self.open_queues(),
            max_running=self._max_running,
            max_starts=self._burst.free(self._clock.monotonic_ms()),
            only=self._only,
            offers=self._registration.offers,
        )

    def open_queues(self) -> tuple[str, ...]:
        """The queues that may be claimed from now."""
        return self._live.open_queues(self._queues)

    def take(self, claim: Callable[[Seat, int], ClaimBatch]) -> ClaimBatch:
        """Run one claim transaction, and start what it granted."""
        batch, claims = self._take(claim)
        if claims:
            self._live.start(claims)
        return batch

    def take_ahead(self, claim: Callable[[Seat, int], ClaimBatch]) -> ClaimBatch:
        """As `take`, for what is due in a moment: `start_taken` is to start it."""
        batch, claims = self._take(claim)
        self._taken += claims
        return batch

    def start_taken(self) -> None:
        """Start what was taken ahead."""
        claims, self._taken = self._taken, []
        if claims:
            self._live.start(claims)

    def _take(self, claim: Callable[[Seat, int], ClaimBatch]) -> tuple[ClaimBatch, list[Claim]]:
        try:
            seat = self.seat()
            batch = claim(seat, self._clock.now_ms())
            self._burst.take(len(batch.granted), self._clock.monotonic_ms())
            self._is_kept_back = len(batch.granted) == seat.max_starts
            claims = [claim for grant in batch.granted for claim in self._complete(grant)]
        except DatabaseUnusable:
            # What it granted is not known here: nothing is started, and recovery reads again.
            self._rescue.suspect()
            raise
        return batch, claims

    def tell(self, batch: ClaimBatch) -> None:
        """Tell of what a claim decided and started; a queued row's decision was told before."""
        for one in batch.decided:
            self._teller.tell_decided(one)
        told = {one.execution_id for one in batch.decided}
        for grant in batch.granted:
            if grant.execution_id not in told:
                run = self._live.find(grant.execution_id)
                self._teller.tell_started(grant, run.schedule if run else None)
        for broken in batch.broken:
            self._teller.tell_broken(broken)

    def wait_ms(self, store: Store) -> int | None:
        """How long until the next start is allowed, where that keeps something back."""
        if not self._is_kept_back or not store.has_queued():
            return None
        # What was not allowed at the claim may be by now: then at once.
        return self._burst.wait_ms(self._clock.monotonic_ms()) or 0

    def _complete(self, grant: Granted) -> list[Claim]:
        """What the runner needs, from what the store granted; nothing where that can't be read."""
        entry = self._catalogue.find(grant.schedule_id, grant.revision)
        why = entry.error if entry else None
        if entry is not None and entry.spec is not None:
            try:
                return [claim_of(grant, entry.spec)]
            except InvalidInput as error:
                why = str(error)
        self._fail(unreadable(grant, why, now_ms=self._clock.now_ms()))
        return []
