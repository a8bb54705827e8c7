"""Ends of one engine's runs: taken from the runners, and committed with what follows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.engine.batches import Batches
from edgecron.engine.claiming import Claiming
from edgecron.engine.events import EventKind
from edgecron.engine.firing import CHUNK
from edgecron.engine.liveruns import LiveRuns
from edgecron.engine.rescue import Rescue
from edgecron.engine.telling import Teller
from edgecron.model.claim import Outcome
from edgecron.store.contract import ClaimBatch, Ended, Seat
from edgecron.supervisor.flags import Flag

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

HOLD_MS = 1_000  # how long nothing is claimed after a start was impossible


class Ends:
    """Ends that came in and are not on record yet.

    `may_fill` says whether the places that they leave may be given away with them, and `batches`
    hears of what was claimed so, and tells of it before its ends are told.
    `has_replaced`: ends were written whose followers replace what runs; who has seen to that takes
    it back.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        live: LiveRuns,
        claiming: Claiming,
        rescue: Rescue,
        teller: Teller,
        may_fill: Callable[[], bool],
        batches: Batches,
        ring_peers: Callable[[], object],
    ) -> None:
        self.has_replaced = False
        self._store = store
        self._clock = clock
        self._live = live
        self._claiming = claiming
        self._rescue = rescue
        self._teller = teller
        self._may_fill = may_fill
        self._batches = batches
        self._ring_peers = ring_peers
        self._unsaved: list[Outcome] = []
        self._held_until_ms = 0

    def __len__(self) -> int:
        return len(self._unsaved)

    @property
    def is_held(self) -> bool:
        """Whether a start was impossible a moment ago: the next would fare no better."""
        return self._clock.monotonic_ms() < self._held_until_ms

    def add(self, outcome: Outcome) -> None:
        """Have an end written that no runner tells of."""
        self._unsaved.append(outcome)

    def collect(self) -> None:
        """Take in what the runners tell."""
        self._unsaved.extend(self._live.collect())

    def has_come(self) -> bool:
        """Take in what the runners tell; whether an end is to be written."""
        self.collect()
        return bool(self._unsaved)

    def write(self) -> int:
        """Commit the ends that came in, and how many; those that can't be written stay until they
        can."""
        ended = 0
        self.collect()
        while self._unsaved:
            # Also what was claimed with these ends and can't be read: not by calling ourselves,
            # there may be any number of them.
            ended += self._write_some()
        return ended

    def _write_some(self) -> int:
        """Commit as many of them as one transaction takes; how many."""
        taken = self._unsaved[:CHUNK]
        outcomes = [outcome for outcome in taken if Flag.NOT_STARTED not in outcome.flags]
        batch = None
        if len(outcomes) == len(taken) and self._may_fill():
            written, batch = self._finish_and_fill(outcomes)
        else:
            written = self._store.finish(outcomes, now_ms=self._clock.now_ms())
        del self._unsaved[: len(taken)]
        self._batches.tell()
        schedules = self._live.settle(outcomes)
        for outcome, schedule, ended in zip(outcomes, schedules, written, strict=True):
            self._teller.tell_end(outcome, schedule, ended)
            self.has_replaced |= ended is not None and ended.has_replaced
        for outcome in taken:
            if Flag.NOT_STARTED in outcome.flags:
                self._hold(outcome)
        if batch is not None:
            self._batches.note_filled(batch)
        if self._store.has_queued():
            # A place is free that a peer may be waiting for (a group's, or a schedule's).
            self._ring_peers()
        return len(outcomes)

    def _finish_and_fill(self, outcomes: list[Outcome]) -> tuple[list[Ended | None], ClaimBatch]:
        """Commit ends, and at once give their places to what is queued."""
        written: list[Ended | None] = []

        def claim(seat: Seat, now_ms: int) -> ClaimBatch:
            ended, batch = self._store.finish_and_fill(outcomes, seat=seat, now_ms=now_ms)
            written.extend(ended)
            return batch

        return written, self._claiming.take(claim)

    def _hold(self, outcome: Outcome) -> None:
        """Take back a run that could not even be journalled: recovery queues it again.

        Nothing else is claimed for a while.
        """
        run = self._live.forget(outcome.execution_id)
        schedule = None if run is None else run.schedule
        self._teller.tell(
            EventKind.NOT_STARTED, outcome.execution_id, schedule, {"error": outcome.error_msg}
        )
        self._rescue.suspect()
        self._held_until_ms = self._clock.monotonic_ms() + HOLD_MS
