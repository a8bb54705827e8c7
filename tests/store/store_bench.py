"""A store with a clock, and the steps of an engine around it, each on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgecron.base.units import from_ms
from edgecron.model.choices import Cause, Reason, Status
from edgecron.model.run import Execution, Outcome
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.planning.catch_up import plan_fire
from edgecron.planning.next_fire import Due, Fire, FirePlan, next_fire
from edgecron.planning.times import compile_spec, load_timing
from edgecron.store.contract import BootDecision, Claimant, ClaimBatch, Decision, Granted
from edgecron.store.sql.manual_runs import Enqueued
from edgecron.store.sql.schedule_changes import Retiming
from edgecron.store.sqlite.store import SqliteStore
from tests.support.clock import FakeClock
from tests.support.specs import enqueue, make_spec

# Opens the store of the test once more, as another engine or person would.
OpenStore = Callable[..., SqliteStore]


class Bench:
    """One engine's hands: look, decide, claim, end. Nothing happens that is not asked for."""

    def __init__(self, open_store: OpenStore, clock: FakeClock, *, places: int = 100) -> None:
        self.store = open_store()
        self.clock = clock
        engine_id = self.store.register_engine(
            key=f"engine-{id(self)}", pid=1, boot_id="boot-1", queues=("command",), now_ms=self.now
        )
        self.claimant = Claimant(
            engine_id=engine_id, supervisor_id="s1", queues=("command",), max_running=places
        )

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    def add(self, spec: ScheduleSpec | None = None, *, origin: str = "test") -> Schedule:
        spec = spec or make_spec()
        compiled = compile_spec(spec, seed=self.store.seed, made_at=from_ms(self.now))
        retiming = Retiming(next=next_fire(compiled.timing, self.now), decided_until_ms=self.now)
        self.store.insert_schedules(
            [(compiled, retiming)], boot_id="boot-1", origin=origin, now_ms=self.now
        )
        return self.store.get_schedule(spec.name)

    def look(self, *, limit: int = 100) -> list[Due]:
        return self.store.find_due(self.claimant.queues, now_ms=self.now, limit=limit)

    def decide(self, due: Sequence[Due]) -> list[Decision]:
        return [Decision(plan=self._plan(one), spec=self._spec(one)) for one in due]

    def claim(self, decisions: Sequence[Decision]) -> ClaimBatch:
        return self.store.claim_due(decisions, claimant=self.claimant, now_ms=self.now)

    def fire(self) -> ClaimBatch:
        """Look, decide and claim at once."""
        return self.claim(self.decide(self.look()))

    def decide_boot(self, boot_id: str) -> list[BootDecision]:
        wanted = self.store.find_boot_due(self.claimant.queues, boot_id=boot_id)
        fire = Fire(
            plan_ms=self.now,
            due_ms=self.now,
            cause=Cause.BOOT,
            source="on boot",
            fire_key=f"boot:{boot_id}",
        )
        return [
            BootDecision(schedule_id=one.id, revision=one.revision, fire=fire, spec=one.spec)
            for one in self.store.load_schedules(wanted)
        ]

    def claim_boot(self, decisions: Sequence[BootDecision], boot_id: str) -> ClaimBatch:
        return self.store.claim_boot(
            decisions, boot_id=boot_id, claimant=self.claimant, now_ms=self.now
        )

    def fire_boot(self, boot_id: str) -> ClaimBatch:
        """Decide and claim at once."""
        return self.claim_boot(self.decide_boot(boot_id), boot_id)

    def fill(self) -> ClaimBatch:
        return self.store.claim_queued(claimant=self.claimant, now_ms=self.now)

    def run(self, name: str = "backup", *, key: str = "manual:1") -> list[int]:
        """Queue a run by hand; the ids of its rows."""
        fire = Fire(plan_ms=self.now, due_ms=self.now, cause=Cause.MANUAL, fire_key=key)
        return enqueue(self.store, self.store.get_schedule(name), fire, now_ms=self.now)

    def run_once(self, name: str = "backup", *, key: str = "once") -> list[int]:
        """The same with a key that others may have given."""
        fire_key = f"manual:{key:>32}"
        fire = Fire(plan_ms=self.now, due_ms=self.now, cause=Cause.MANUAL, fire_key=fire_key)
        wanted = Enqueued(self.store.get_schedule(name), (fire,), is_keyed=True)
        [found] = self.store.enqueue_together([wanted], now_ms=self.now)
        assert isinstance(found, list)
        return found

    def end(self, *granted: Granted, status: Status = Status.SUCCESS) -> list[bool]:
        """Write ends; whether each was ours."""
        outcomes = [outcome_of(grant, self.now, status) for grant in granted]
        return [one is not None for one in self.store.finish(outcomes, now_ms=self.now)]

    def rows(self, name: str | None = None) -> list[Execution]:
        """Every execution, oldest first."""
        schedule_id = None if name is None else self.store.get_schedule(name).id
        return self.store.find_executions(schedule_id=schedule_id, limit=100_000).runs[::-1]

    def statuses(self, name: str | None = None) -> list[str]:
        return [str(row.status) for row in self.rows(name)]

    def _plan(self, due: Due) -> FirePlan:
        [stored] = self.store.load_schedules([(due.schedule_id, due.revision)])
        timing = load_timing(stored.spec, stored.compiled, seed=self.store.seed)
        return plan_fire(timing, due, now_ms=self.now)

    def _spec(self, due: Due) -> ScheduleSpec:
        [stored] = self.store.load_schedules([(due.schedule_id, due.revision)])
        return stored.spec


def outcome_of(grant: Granted, now_ms: int, status: Status = Status.SUCCESS) -> Outcome:
    is_success = status is Status.SUCCESS
    return Outcome(
        execution_id=grant.execution_id,
        lease_token=grant.lease_token,
        status=status,
        reason=None if is_success else Reason.EXIT,
        exit_code=0 if is_success else 3,
        started_ms=now_ms,
        finished_ms=now_ms,
        duration_ms=0,
    )
