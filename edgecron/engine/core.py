"""The engine: `step()` is one pass over what is due, without sleeping.

A pass ends what has ended, decides what is due, starts what was claimed, and says when to come
back. It can be driven by hand with a fake clock through any story.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgecron.clock import Clock
from edgecron.engine.catalogue import Catalogue
from edgecron.engine.events import EventKind, Report
from edgecron.engine.handover import claim_of, unreadable
from edgecron.engine.liveness import Liveness
from edgecron.engine.recovery import recover
from edgecron.engine.telling import Teller
from edgecron.errors import DatabaseUnusable
from edgecron.model import Cause, Claim, Outcome
from edgecron.planning import Due, Fire, plan_fire
from edgecron.runners import Runner
from edgecron.store.contract import (
    BootDecision,
    ClaimBatch,
    Decision,
    Granted,
    Seat,
    Store,
)
from edgecron.supervisor.records import Flag

FIRST_CHUNK = 16  # small, so that the first starts are early
CHUNK = 256
_MOST_CHUNKS = 1024  # of one step: others get a turn even while a storm lasts
_RECOVER_MS = 30_000  # how often peers are looked at while any of them runs something
_ORPHAN_MS = 1_000  # and while runs are alive whose engine died
_HOLD_MS = 1_000  # how long nothing is claimed after a start was impossible


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a pass did. `wake_ms`: when the next one is due, None where nothing is to come."""

    claimed: int = 0
    decided: int = 0
    ended: int = 0
    wake_ms: int | None = None


class Engine:
    """One scheduler loop over a store. For one thread; the store's connection is its own.

    `start_runner` starts the runner, and another one whenever it has died; `ring_peers` wakes the
    other engines of the database. With `only` it takes that one execution and nothing else, and
    is not counted on: it is recorded as looking at no queue.
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
        only: int | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._start_runner = start_runner
        self._liveness = liveness
        self._key = key
        self._pid = pid
        self._queues = queues
        self._max_running = max_running
        self._teller = Teller(report, clock)
        self._ring_peers = ring_peers
        self._only = only
        self._catalogue = Catalogue(store)
        self._runner = start_runner()
        self._engine_id: int | None = None
        # Ours from the grant until the end is committed, by execution id: (token, schedule).
        self._live: dict[int, tuple[str, str]] = {}
        self._unsaved: list[Outcome] = []
        self._is_boot_decided = False
        self._recover_at_ms = 0
        self._has_orphans = False
        self._held_until_ms = 0
        self._in_doubt = False
        self._change_mark = -1

    @property
    def engine_id(self) -> int | None:
        """The id in the database, None before the first step."""
        return self._engine_id

    @property
    def runner(self) -> Runner:
        return self._runner

    @property
    def max_running(self) -> int:
        """How many executions this engine runs at once, at most."""
        return self._max_running

    @property
    def live_count(self) -> int:
        """How many executions this engine runs now."""
        return len(self._live)

    def step(self) -> Step:
        """One pass. Raises DatabaseUnusable, or SupervisorUnavailable where none can be started.

        The next pass then takes up where it was.
        """
        self._register()
        ended = self._end()
        self._mind_runner()
        self._recover()
        batches = [] if self._is_held() else self._claim_all()
        self._change_mark = self._store.change_mark
        return Step(
            claimed=sum(len(batch.granted) for batch in batches),
            decided=sum(len(batch.decided) for batch in batches),
            ended=ended,
            wake_ms=self._next_wake_ms(),
        )

    def has_changed(self) -> bool:
        """Whether somebody else has committed since the last step: the net under lost wake-ups."""
        return self._store.change_mark != self._change_mark or self._recover_is_due()

    def prepare(self) -> None:
        """Load and compile what fires next, so that the fire itself need not; tidy up."""
        self._store.tidy()
        self._catalogue.load(self._store.upcoming(self._queues, limit=CHUNK))

    def retire(self) -> None:
        """Write the last ends and leave the database; what runs goes on under its supervisor."""
        self._end()
        if self._engine_id is not None:
            self._store.retire_engine(self._engine_id, now_ms=self._clock.now_ms())

    def _register(self) -> None:
        if self._engine_id is None:
            self._engine_id = self._store.register_engine(
                key=self._key,
                pid=self._pid,
                boot_id=self._clock.boot_id(),
                queues=self._queues if self._only is None else (),
                now_ms=self._clock.now_ms(),
            )

    # Ends.

    def _end(self) -> int:
        """Commit the ends that came in; those that can't be written stay until they can."""
        self._unsaved.extend(self._runner.collect())
        if not self._unsaved:
            return 0
        taken = self._unsaved[:CHUNK]
        outcomes = [outcome for outcome in taken if Flag.NOT_STARTED not in outcome.flags]
        changed = self._store.finish(outcomes, now_ms=self._clock.now_ms())
        del self._unsaved[: len(taken)]
        self._runner.acknowledge([outcome.lease_token for outcome in outcomes])
        for outcome, ok in zip(outcomes, changed, strict=True):
            known = self._live.pop(outcome.execution_id, None)
            self._teller.tell_end(outcome, known[1] if known else None, is_ours=ok)
        for outcome in taken:
            if Flag.NOT_STARTED in outcome.flags:
                self._hold(outcome)
        if self._store.has_queued():
            # A place is free that a peer may be waiting for (a group's, or a schedule's).
            self._ring_peers()
        return len(outcomes) + (self._end() if self._unsaved else 0)

    def _hold(self, outcome: Outcome) -> None:
        """Take back a run that could not even be journalled: recovery queues it again.

        Nothing else is claimed for a while, since it would fare no better.
        """
        _, schedule = self._live.pop(outcome.execution_id, ("", None))
        self._teller.tell(
            EventKind.NOT_STARTED, outcome.execution_id, schedule, {"error": outcome.error_msg}
        )
        self._in_doubt = True
        self._held_until_ms = self._clock.monotonic_ms() + _HOLD_MS

    # Recovery.

    def _mind_runner(self) -> None:
        """Replace a runner that died; what it ran is judged by its journal like any other's."""
        if not self._runner.is_alive:
            runner = self._start_runner()  # Where it raises, nothing is judged before it does not.
            self._teller.tell(EventKind.SUPERVISOR_DIED, details={"runs": len(self._live)})
            self._runner.close()
            self._live.clear()
            self._runner = runner
            self._in_doubt = True

    def _recover_is_due(self) -> bool:
        return self._in_doubt or self._clock.monotonic_ms() >= self._recover_at_ms

    def _recover(self) -> None:
        if not self._recover_is_due():
            return
        done = recover(
            self._store,
            self._liveness,
            engine_id=self._seat().engine_id,
            supervisor_id=self._runner.supervisor_id,
            live={execution_id: token for execution_id, (token, _) in self._live.items()},
            now_ms=self._clock.now_ms,
        )
        for row, outcome in done.ended:
            self._teller.tell_end(outcome, row.schedule, is_ours=True)
        for row in done.requeued:
            self._teller.tell(EventKind.REQUEUED, row.execution_id, row.schedule)
        for engine in self._store.find_engines():
            if engine.id != self._engine_id and not self._liveness.engine_is_alive(engine.key):
                self._store.retire_engine(engine.id, now_ms=self._clock.now_ms())
                self._liveness.forget_engine(engine.key)
        self._in_doubt = False
        self._has_orphans = done.left_running > 0
        wait_ms = _ORPHAN_MS if self._has_orphans else _RECOVER_MS
        self._recover_at_ms = self._clock.monotonic_ms() + wait_ms

    # Fires.

    def _is_held(self) -> bool:
        return self._clock.monotonic_ms() < self._held_until_ms

    def _claim_all(self) -> list[ClaimBatch]:
        if self._only is not None:
            return [self._fill()]
        return [self._fire_boot(), *self._fire_due(), self._fill()]

    def _fire_boot(self) -> ClaimBatch:
        """Decide `on boot` once for this boot."""
        if self._is_boot_decided:
            return ClaimBatch()
        boot_id = self._clock.boot_id()
        now_ms = self._clock.now_ms()
        decisions = []
        due = self._store.find_boot_due(self._queues, boot_id=boot_id)
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
        self._is_boot_decided = batch.advanced == len(due)
        return batch

    def _fire_due(self) -> list[ClaimBatch]:
        """Decide everything that is due, chunk by chunk."""
        batches = []
        limit = FIRST_CHUNK
        before: list[Due] = []
        for _ in range(_MOST_CHUNKS):
            now_ms = self._clock.now_ms()
            due = self._store.find_due(self._queues, now_ms=now_ms, limit=limit)
            if not due:
                break
            batch = self._claim_due(self._decide(due, now_ms))
            batches.append(batch)
            # Nothing may be ours where peers were first; the same again is for the next step.
            if not batch.advanced and due == before:
                break
            before = due
            limit = CHUNK
        return batches

    def _claim_due(self, decisions: list[Decision]) -> ClaimBatch:
        if not decisions:
            return ClaimBatch()
        return self._claim(
            lambda seat, now_ms: self._store.claim_due(decisions, seat=seat, now_ms=now_ms)
        )

    def _fill(self) -> ClaimBatch:
        """Give free places to what is queued."""
        return self._claim(lambda seat, now_ms: self._store.claim_queued(seat=seat, now_ms=now_ms))

    def _decide(self, due: list[Due], now_ms: int) -> list[Decision]:
        self._catalogue.load((one.schedule_id, one.revision) for one in due)
        decisions = []
        for one in due:
            entry = self._catalogue.find(one.schedule_id, one.revision)
            if entry is None:
                # Not on record; where it was only changed since we looked, this breaks nothing.
                self._break(one, None, f"its revision {one.revision} is not on record")
                continue
            if entry.spec is None or entry.timing is None:
                self._break(one, entry.name, entry.error or "")
                continue
            plan = plan_fire(entry.timing, one, now_ms=now_ms)
            decisions.append(Decision(plan=plan, spec=entry.spec))
        return decisions

    def _break(self, due: Due, schedule: str | None, error: str) -> None:
        now_ms = self._clock.now_ms()
        if self._store.mark_broken(
            due.schedule_id, revision=due.revision, error=error, now_ms=now_ms
        ):
            self._teller.tell(EventKind.BROKEN, None, schedule, {"error": error})

    def _claim(self, claim: Callable[[Seat, int], ClaimBatch]) -> ClaimBatch:
        """Run one claim transaction, and start what it granted."""
        try:
            batch = claim(self._seat(), self._clock.now_ms())
            claims = [claim for grant in batch.granted for claim in self._complete(grant)]
        except DatabaseUnusable:
            # What it granted is not known here: nothing is started, and recovery reads again.
            self._in_doubt = True
            raise
        if claims:
            self._live.update((c.execution_id, (c.lease_token, c.schedule)) for c in claims)
            self._runner.start(claims)
        self._tell_claims(batch)
        return batch

    def _tell_claims(self, batch: ClaimBatch) -> None:
        """A decision may have been granted at once; a queued row's was told before."""
        for one in batch.decided:
            entry = self._catalogue.find(one.schedule_id, one.revision)
            self._teller.tell_decided(one, entry.name if entry else None)
        told = {one.execution_id for one in batch.decided}
        for grant in batch.granted:
            if grant.execution_id not in told:
                live = self._live.get(grant.execution_id)
                self._teller.tell_started(grant, live[1] if live else None)

    def _complete(self, grant: Granted) -> list[Claim]:
        """What the runner needs, from what the store granted; nothing where that can't be read."""
        entry = self._catalogue.find(grant.schedule_id, grant.revision)
        if entry is not None and entry.spec is not None:
            return [claim_of(grant, entry.spec)]
        why = entry.error if entry else None
        self._unsaved.append(unreadable(grant, why, now_ms=self._clock.now_ms()))
        return []

    def _seat(self) -> Seat:
        assert self._engine_id is not None
        return Seat(
            engine_id=self._engine_id,
            supervisor_id=self._runner.supervisor_id,
            queues=self._queues,
            max_running=self._max_running,
            only=self._only,
        )

    def _next_wake_ms(self) -> int | None:
        now_ms = self._clock.now_ms()
        due_ms = self._store.next_due_ms(self._queues, now_ms=now_ms)
        if self._is_held():
            return now_ms + _HOLD_MS
        if self._has_orphans:
            return min(now_ms + _ORPHAN_MS, due_ms or now_ms + _ORPHAN_MS)
        return due_ms
