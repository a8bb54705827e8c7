"""Claim due runs for one engine, start them, and report them.

With it, the schedules as this engine knows them, compiled once for each revision.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import InvalidInput
from edgecron.base.values import NamedTuple, dataclass, replace
from edgecron.engine.conditions import ConditionWatch
from edgecron.engine.events import EventReporter
from edgecron.engine.other_engines import OtherEngines
from edgecron.engine.presence import EngineSettings, Registration
from edgecron.engine.runners import Runners
from edgecron.model.choices import Reason, Status, WaitsFor
from edgecron.model.engine import EACH, Offers, base_of, find_machine, place, placement_of
from edgecron.model.machine_conditions import NOTHING_KNOWN
from edgecron.model.run import Claim, Outcome
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.admission import Burst
from edgecron.planning.next_fire import Timing
from edgecron.planning.times import load_timing
from edgecron.store.contract import (
    BootDecision,
    Claimant,
    ClaimBatch,
    Decided,
    Decision,
    Granted,
    StoredSchedule,
    Waited,
)
from edgecron.supervisor.runner import RESERVE_MS

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

_MOST_CACHED = 20_000
# A row takes three times the memory of its entry, which is not given back to the system.
_LOADED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class CachedSchedule:
    """A schedule at one revision.

    If it can't be read, `error` says why and `timing` is None. So is `spec`, if that is unreadable.
    """

    spec: ScheduleSpec | None
    timing: Timing | None
    error: str | None = None

    @property
    def name(self) -> str | None:
        return None if self.spec is None else self.spec.name


class ScheduleCache:
    """Schedules by (id, revision), of which none goes stale. The cache is bounded."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[tuple[int, int], CachedSchedule] = OrderedDict()

    def load(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Load and compile the schedules that are not cached yet."""
        missing = [key for key in wanted if key not in self._known]
        for first in range(0, len(missing), _LOADED_AT_ONCE):
            for stored in self._read(missing[first : first + _LOADED_AT_ONCE]):
                self._known[stored.id, stored.revision] = self._compile(stored)
        while len(self._known) > _MOST_CACHED:
            self._known.popitem(last=False)

    def find(self, schedule_id: int, revision: int) -> CachedSchedule | None:
        """The schedule, loaded if necessary; None if its revision is gone."""
        key = (schedule_id, revision)
        if key not in self._known:
            self.load([key])
        return self._known.get(key)

    def forget(self) -> None:
        """Read all schedules again: others might have these revisions by now."""
        self._known.clear()

    def find_name(self, schedule_id: int, revision: int) -> str | None:
        """The schedule's name at a revision; None if that can't be read."""
        spec = self.find_spec(schedule_id, revision)
        return None if spec is None else spec.name

    def find_spec(self, schedule_id: int, revision: int) -> ScheduleSpec | None:
        """The schedule's specification at a revision; None if that can't be read."""
        found = self.find(schedule_id, revision)
        return None if found is None else found.spec

    def _read(self, keys: list[tuple[int, int]]) -> list[StoredSchedule]:
        try:
            return self._store.load_schedules(keys)
        except InvalidInput:
            # One row is invalid. Read one by one: the others must not fail with it.
            return [stored for key in keys for stored in self._read_one(key)]

    def _read_one(self, key: tuple[int, int]) -> list[StoredSchedule]:
        try:
            return self._store.load_schedules([key])
        except InvalidInput as error:
            self._known[key] = CachedSchedule(None, None, str(error))
            return []

    def _compile(self, stored: StoredSchedule) -> CachedSchedule:
        try:
            timing = load_timing(stored.spec, stored.compiled, seed=self._store.seed)
        except InvalidInput as error:
            return CachedSchedule(stored.spec, None, str(error))
        return CachedSchedule(stored.spec, timing)


class Core(NamedTuple):
    """Parts and settings that an engine has once."""

    settings: EngineSettings
    store: Store
    clock: Clock
    others: OtherEngines
    runners: Runners
    schedules: ScheduleCache
    events: EventReporter


class Claimer:
    """Say who claims, start what the store granted, and report both when the pass is done."""

    def __init__(
        self,
        core: Core,
        *,
        registration: Registration,
        conditions: ConditionWatch,
    ) -> None:
        self._settings = core.settings
        self._store = core.store
        self._clock = core.clock
        self._registration = registration
        self._runners = core.runners
        self._schedules = core.schedules
        self._events = core.events
        self._conditions = conditions
        self._burst = Burst(core.settings.burst)
        queues = core.settings.queues
        self._plain = tuple(queue for queue in queues if queue == base_of(queue))
        self._placed = tuple(queue for queue in queues if queue != base_of(queue))
        self._queues = queues  # the plain ones, and those with a placement that is used
        self._is_held_back = False  # the last claim started as many runs as the burst allows
        self._early: list[Claim] = []  # claimed before their time, and not started yet
        self._early_batches: list[ClaimBatch] = []  # these claims, since the last pass
        self._batches: list[ClaimBatch] = []  # of this pass
        self.has_started_early = False  # the first ones of this pass, before it
        self._unreported: list[ClaimBatch] = []
        # Runs that wait for a place of their runner: until when at most, and their grants, whose
        # start is reported once they have one.
        self._reserved_until_ms: dict[int, int] = {}
        self._reserved: dict[int, Granted] = {}

    @property
    def has_one_run(self) -> bool:
        """Whether this engine exists for one run."""
        return self._settings.is_for_one_run

    @property
    def offers(self) -> Offers | None:
        """The offers of its program's queue that the engine takes; None: all."""
        return self._registration.offers

    def open_queues(self) -> tuple[str, ...]:
        """The queues that can be claimed from now: of those with a placement, the used ones."""
        return self._runners.open_queues(self._queues)

    def _find_queues(self) -> None:
        """Read which placements have schedules: each queue costs statements in every pass.

        This machine joins schedules that run on each machine, unless the engine is for one run.
        """
        if self._registration.is_drained:
            self._queues = ()
        elif self._placed:
            used = self._store.find_placed(self._placed)
            each = tuple(queue for queue in used if placement_of(queue) == EACH)
            machine = find_machine(self._placed)
            if each and machine is not None and not self.has_one_run:
                self._store.join_machine(each, machine)
                used += tuple(place(base_of(queue), machine) for queue in each)
            self._queues = tuple(dict.fromkeys((*self._plain, *used)))
        else:
            self._queues = self._plain

    def claimant(self, decisions: Iterable[Decision | BootDecision] = ()) -> Claimant:
        """The engine as it claims now, with its limits and the facts that these fires need."""
        needs = [
            Waited(text, one.schedule_id, one.revision)
            for one in decisions
            for text in one.spec.all_needs
        ]
        has_asked = bool(self._conditions.asked)
        return Claimant(
            engine_id=self._registration.get_id(),
            supervisor_id=self._runners.own.id,
            queues=self.open_queues(),
            max_running=self._settings.places,
            reserve=self._reserve(),
            max_starts=self._burst.free(self._clock.monotonic_ms()),
            only=self._settings.only,
            offers=self._registration.offers,
            machine=(
                self._conditions.look(needs, is_for_claim=True)
                if needs or has_asked
                else NOTHING_KNOWN
            ),
        )

    def _reserve(self) -> int:
        # A burst limits starts, and a reserved run starts at a time of its own. On a machine that
        # is cut off from its server, no run starts.
        if self._settings.burst is not None or self._store.leases is not None:
            return 0
        return self._runners.reserve()

    def find_room(self) -> int | None:
        """How many more runs can be claimed, the reserve included; None if there is no reserve."""
        reserve = self._reserve()
        if not reserve:
            return None
        return max(0, self._settings.places + reserve - len(self._runners))

    def begin(self, *, has_changed: bool) -> None:
        """Begin a pass. `has_changed`: others have committed since the last one."""
        if has_changed:
            self._find_queues()
        self.has_started_early = bool(self._early_batches)
        self._batches, self._early_batches = self._early_batches, []
        self.start_early()  # if trouble kept them from being started at their time

    def start(self, batch: ClaimBatch, *, claimant: Claimant) -> None:
        """Start what a transaction granted. It is committed."""
        claims = self._complete(batch, claimant)
        self._runners.start(claims)
        beyond = max(0, self._runners.unended_count - self._settings.places)
        # A runner takes some time to give back what has waited for too long.
        until_ms = self._clock.monotonic_ms() + 2 * RESERVE_MS
        for claim in claims[max(0, len(claims) - beyond) :]:
            self._reserved_until_ms[claim.execution_id] = until_ms
        self._batches.append(batch)
        self._note(batch)

    def keep_early(self, batch: ClaimBatch, *, claimant: Claimant) -> None:
        """Note what was granted just before its time, for `start_early`."""
        self._early += self._complete(batch, claimant)
        self._early_batches.append(batch)
        self._note(batch)

    def start_early(self) -> None:
        """Start what was claimed before its time."""
        claims, self._early = self._early, []
        if claims:
            self._runners.start(claims)

    def take_batches(self) -> list[ClaimBatch]:
        """Return the claims of this pass, once."""
        batches = self._batches + self._early_batches
        self._batches, self._early_batches = [], []
        return batches

    def report(self) -> None:
        """Report the claims of a pass: after its starts, which so wait for no line of a log."""
        while self._unreported:
            batch = self._unreported.pop(0)
            for one in batch.decided:
                self._events.report_decided(one)
            for grant in batch.granted:
                if grant.execution_id in self._reserved_until_ms:
                    self._reserved[grant.execution_id] = grant
                else:
                    self._report_start(grant)
            for broken in batch.broken:
                self._events.report_broken(broken)
        now_ms = self._clock.monotonic_ms()
        while self._reserved_until_ms:
            execution_id, until_ms = next(iter(self._reserved_until_ms.items()))
            if until_ms > now_ms:
                break
            has_started = self._runners.find(execution_id) is not None
            self._leave_reserve(execution_id, has_started=has_started)

    def report_starts(self, outcomes: Iterable[Outcome]) -> set[int]:
        """Report the starts of runs that were reserved and have ended.

        Returns those of which nothing was reported because they were given back.
        """
        silent: set[int] = set()
        if not self._reserved_until_ms:
            return silent
        for outcome in outcomes:
            has_started = outcome.started_ms is not None
            if self._leave_reserve(outcome.execution_id, has_started=has_started):
                silent.add(outcome.execution_id)
        return silent

    def _leave_reserve(self, execution_id: int, *, has_started: bool) -> bool:
        """Report the start of a run that was reserved; whether it did not start."""
        self._reserved_until_ms.pop(execution_id, None)
        grant = self._reserved.pop(execution_id, None)
        if grant is None:
            return False
        if has_started:
            self._report_start(grant)
        elif grant.is_new:
            self._events.report_decided(_queued_again(grant))
        return not has_started

    def _report_start(self, grant: Granted) -> None:
        run = self._runners.find(grant.execution_id)
        if run is None:
            schedule = self._schedules.find_name(grant.schedule_id, grant.revision)
        else:
            schedule = run.schedule
        self._events.report_started(grant, schedule)

    def wait_ms(self) -> int | None:
        """How long until the burst allows another start, or a start is to be reported."""
        now_ms = self._clock.monotonic_ms()
        if self._is_held_back and self._store.has_queued():
            # What was not allowed at the claim might be allowed by now.
            return self._burst.wait_ms(now_ms) or 0  # There is no reserve then.
        for until_ms in self._reserved_until_ms.values():  # The first has waited longest.
            return max(0, until_ms - now_ms)
        return None

    def end_cancelled(self) -> None:
        """End our runs that a person cancelled or a newer fire replaces."""
        for execution_id in self._store.find_cancelled(self._registration.get_id()):
            self._runners.cancel(execution_id)

    def end_replaced(self) -> None:
        """End replaced runs: ours, and by waking the other engines, theirs."""
        self.end_cancelled()
        self._registration.ring_others()

    def _note(self, batch: ClaimBatch) -> None:
        self._unreported.append(batch)
        if batch.has_replaced:
            self.end_replaced()

    def _complete(self, batch: ClaimBatch, claimant: Claimant) -> list[Claim]:
        """The claims that the runners start; a grant that can't be read has failed."""
        self._burst.take(len(batch.granted), self._clock.monotonic_ms())
        self._is_held_back = len(batch.granted) == claimant.max_starts
        claims = []
        for grant in batch.granted:
            found = self._schedules.find(grant.schedule_id, grant.revision)
            error = found.error if found else None
            if found is not None and found.spec is not None:
                try:
                    claims.append(_claim_of(grant, found.spec))
                    continue
                except InvalidInput as invalid:
                    error = str(invalid)
            self._runners.fail(_unreadable(grant, error, now_ms=self._clock.now_ms()))
        return claims


def _claim_of(grant: Granted, spec: ScheduleSpec) -> Claim:
    """The claim of a granted row, with the specification of its revision.

    Raises InvalidInput if a value of the run's own is invalid: no edgecron wrote it.
    """
    job, policies = spec.job, spec.policies
    if grant.timeout_s is not None:
        policies = replace(policies, timeout_s=grant.timeout_s)
    if grant.payload is not None:
        job = replace(job, payload=grant.payload)
    return Claim(  # In their order: by name, a claim takes three times as long.
        grant.execution_id,
        grant.lease_token,
        grant.schedule_id,
        spec.name,
        job,
        grant.plan_ms,
        grant.due_ms,
        grant.fire_key,
        grant.cause,
        grant.attempt,
        grant.max_attempts,
        grant.scope_kind,
        grant.scope_id,
        policies,
        grant.fence,
        grant.upstream,
        grant.revision,
    )


def _queued_again(grant: Granted) -> Decided:
    """The decision about a granted run that its runner gave back."""
    return Decided(
        execution_id=grant.execution_id,
        schedule_id=grant.schedule_id,
        revision=grant.revision,
        plan_ms=grant.plan_ms,
        status=Status.QUEUED,
        cause=grant.cause,
        due_ms=grant.due_ms,
        attempt=grant.attempt,
        waits_for=WaitsFor.PLACE,
    )


def _unreadable(grant: Granted, error: str | None, *, now_ms: int) -> Outcome:
    """The outcome of a granted row whose specification can't be read: it failed."""
    return Outcome(
        execution_id=grant.execution_id,
        lease_token=grant.lease_token,
        status=Status.FAILED,
        reason=Reason.SPAWN,
        finished_ms=now_ms,
        error_msg=error or "the schedule's revision of this run is missing",
    )
