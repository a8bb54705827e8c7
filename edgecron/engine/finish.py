"""Finish runs: collect outcomes, record them, start what their places and follow-ups allow.

And store the output so far of runs that other machines follow.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from edgecron.base.values import NamedTuple
from edgecron.engine.claim import Claimer, Core
from edgecron.engine.events import EventKind
from edgecron.engine.recovery import Recovery
from edgecron.engine.runners import is_unstarted
from edgecron.model.choices import Durability, Status
from edgecron.model.run import Outcome
from edgecron.supervisor.protocol import Flag

if TYPE_CHECKING:
    from edgecron.store.contract import FinishBatch

HOLD_MS = 1_000  # how long nothing is claimed after a start was impossible
_MOST_AT_ONCE = 256  # ends of one transaction


class Finished(NamedTuple):
    """The result of one transaction with ends.

    `ended` runs were recorded. `has_filled`: free places were given to queued runs.
    `has_replaced`: a follow-up replaces a run that is still running.
    """

    ended: int
    has_filled: bool
    has_replaced: bool
    has_waits: bool  # a follow-up waits for a condition


class Finishing:
    """Record the ends of one engine's runs."""

    def __init__(
        self,
        core: Core,
        *,
        claimer: Claimer,
        recovery: Recovery,
    ) -> None:
        self._store = core.store
        self._clock = core.clock
        self._runners = core.runners
        self._claimer = claimer
        self._recovery = recovery
        self._events = core.events
        self._others = core.others
        self._held_until_ms = 0  # by the monotonic clock

    @property
    def is_held(self) -> bool:
        """Whether a start was impossible a moment ago: the next would fail too."""
        return self._clock.monotonic_ms() < self._held_until_ms

    def finish(self, *, may_fill: bool) -> Finished:
        """Record collected outcomes, as many as one transaction takes, with their follow-ups.

        With `may_fill`, the same transaction gives their places to queued runs, which are started.
        If it raises, the outcomes are kept for the next time.
        """
        outcomes = self._runners.outcomes[:_MOST_AT_ONCE]
        unstarted = [one for one in outcomes if is_unstarted(one)]
        ends = [one for one in outcomes if not is_unstarted(one)] if unstarted else outcomes
        is_synced = bool(unstarted) or self._must_sync(ends)
        given_back = [one for one in unstarted if Flag.GIVEN_BACK in one.flags]
        # A start must be safe: the next pass claims, in a transaction that is.
        has_filled = may_fill and is_synced and len(given_back) == len(unstarted)
        # A run's start is reported before its end.
        silent = self._claimer.report_starts(outcomes)
        self._claimer.report()
        claimant = self._claimer.claimant() if has_filled else None
        done = self._store.finish_and_fill(
            [self._as_kept(one) for one in ends],
            unstarted=given_back,
            claimant=claimant,
            now_ms=self._clock.now_ms(),
            is_synced=is_synced,
        )
        if claimant is not None:
            self._claimer.start(done.batch, claimant=claimant)
        schedules = self._runners.settle(outcomes, may_lack=self._store.leases is not None)
        self._report(outcomes, schedules, done, silent=silent)
        if self._store.has_queued():
            # A place is free that another engine might wait for: a group's, or a schedule's.
            self._others.ring()
        ended = [row for row in done.ended if row is not None]
        return Finished(
            ended=len(done.ended),
            has_filled=has_filled,
            has_replaced=any(row.has_replaced for row in ended),
            has_waits=any(one.condition for row in ended for one in row.decided),
        )

    def _report(
        self,
        outcomes: Sequence[Outcome],
        schedules: Sequence[str | None],
        done: FinishBatch,
        *,
        silent: Collection[int],
    ) -> None:
        """Report what became of runs; after a start that was impossible, claim nothing for a while.

        Of `silent` runs, nothing was reported so far.
        """
        rows, requeued = iter(done.ended), iter(done.requeued)
        for outcome, schedule in zip(outcomes, schedules, strict=True):
            if not is_unstarted(outcome):
                self._events.report_end(outcome, schedule, next(rows))
            elif Flag.GIVEN_BACK in outcome.flags:
                again = next(requeued)
                is_silent = outcome.execution_id in silent
                if again is not None and not (is_silent and again.decided.status is Status.QUEUED):
                    self._events.report_requeued(again)
            else:
                self._hold(outcome, schedule)

    def record_stalls(self) -> None:
        """Record the runs that print nothing, for notices. If it raises, they are kept."""
        stalls = self._runners.stalls
        if not stalls:
            return
        self._store.note_stalls(stalls)
        self._runners.stalls = []
        for one in stalls:
            run = self._runners.find(one.execution_id)
            schedule = None if run is None else run.schedule
            self._events.report(EventKind.STALLED, one.execution_id, schedule)

    def _must_sync(self, ends: Sequence[Outcome]) -> bool:
        """Whether a power cut must not take these ends: the transaction waits for the disk."""
        for one in ends:
            run = self._runners.find(one.execution_id)
            if run is None or run.durability is Durability.FULL:
                return True
        return self._store.has_queued()  # Their places go to runs that wait.

    def _as_kept(self, outcome: Outcome) -> Outcome:
        """Drop the output of a successful run if its schedule does not store it."""
        if outcome.output is None or outcome.status is not Status.SUCCESS:
            return outcome
        run = self._runners.find(outcome.execution_id)
        if run is None or run.durability is not Durability.VOLATILE or run.is_manual:
            return outcome
        return outcome._replace(output=None, flags=(*outcome.flags, Flag.OUTPUT_NOT_STORED))

    def _hold(self, outcome: Outcome, schedule: str | None) -> None:
        """Claim nothing for a while: a run could not even be journalled. Recovery requeues it."""
        details: dict[str, object] = {"error_msg": outcome.error_msg}
        self._events.report(EventKind.NOT_STARTED, outcome.execution_id, schedule, details)
        self._recovery.suspect()
        self._held_until_ms = self._clock.monotonic_ms() + HOLD_MS


_FOLLOWED_MS = 12_000  # how long output is stored after another machine has asked for it
_STORE_MS = 1_000  # between two times, at least
_SHARE = 20  # at most a twentieth of the time goes into that


class FollowedOutput:
    """Store the output so far of runs that other machines follow, while they do."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._clock = core.clock
        self._runners = core.runners
        self._others = core.others
        self._until_ms: dict[int, int] = {}  # of each run, by the monotonic clock
        self._stored: dict[int, int] = {}  # of each run, how many bytes
        self._next_ms = 0

    def follow(self, execution_ids: Collection[int]) -> None:
        """Store the output of these runs, if they run here, for some seconds."""
        own = [one for one in execution_ids if self._runners.find(one) is not None]
        until_ms = self._clock.monotonic_ms() + _FOLLOWED_MS
        self._until_ms.update((one, until_ms) for one in own)

    @property
    def wake_ms(self) -> int | None:
        """Time in ms until the next call of `store`; None if no run is followed."""
        return max(0, self._next_ms - self._clock.monotonic_ms()) if self._until_ms else None

    def store(self, engine_id: int) -> None:
        """Store what the followed runs have printed since the last time, if it is time."""
        begun_ms = self._clock.monotonic_ms()
        if not self._until_ms or begun_ms < self._next_ms or self._store.leases is None:
            return
        for execution_id in self._until_ms:
            run = self._runners.find(execution_id)
            if run is None:
                continue
            output = self._others.find_printed(run.supervisor_id, run.token)
            if output is None:
                continue
            size = output.stdout_bytes + output.stderr_bytes
            if size != self._stored.get(execution_id, 0):
                self._store.leases.store_printed(execution_id, output, engine_id=engine_id)
                self._stored[execution_id] = size
        now_ms = self._clock.monotonic_ms()
        self._until_ms = {
            one: until_ms
            for one, until_ms in self._until_ms.items()
            if until_ms > now_ms and self._runners.find(one) is not None
        }
        self._stored = {one: self._stored.get(one, 0) for one in self._until_ms}
        self._next_ms = now_ms + max(_STORE_MS, _SHARE * (now_ms - begun_ms))
