"""A virtual world for engines: one real database, a clock moved by hand, processes as values.

Engines are steppers over the real store. What they call "started" is a Body here: it lives in a
supervisor that outlives its engine, keeps a journal, and can be killed like one. A crash can be
asked for at every call of the store, before it is made or after its effect is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from edgecron.base.errors import DatabaseBusy, DatabaseDamaged, DatabaseUnusable
from edgecron.engine.events import Event
from edgecron.engine.other_engines import Adoption
from edgecron.engine.presence import EngineIdentity, EngineSettings
from edgecron.engine.runners import Runners
from edgecron.engine.step import Engine, Hosting
from edgecron.model.choices import COMMAND_QUEUE, JobKind, Reason, Status
from edgecron.model.run import Claim, Outcome, Output, Reported, Stall
from edgecron.planning.corrections import CLOCK_WAIT_MS
from edgecron.planning.retention import UNLIMITED, Limits, Removed, Retention, limits_at
from edgecron.store.contract import ClaimBatch, RunningRow
from edgecron.store.sql.connection import Params
from edgecron.store.sql.retention import prune
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.store import SqliteStore
from edgecron.supervisor.journal import Exit, Interrupted, NeverStarted, Verdict
from edgecron.supervisor.protocol import EndCause, ExitRecord, Flag
from edgecron.supervisor.runner import RESERVE_MS, Lease
from tests.support.clock import FakeClock
from tests.support.stores import FileStores, Stores


class Crash(BaseException):
    """The engine's process is gone from here on. No handler of the engine may stop it."""


@dataclass
class Body:
    """A command that really ran: the effect, by which everything is judged."""

    execution_id: int
    token: str
    schedule: str
    scope: tuple[str, str]
    plan_ms: int
    due_ms: int
    fire_key: str
    attempt: int
    started_ms: int
    ends_ms: int
    exit_code: int
    is_cut_short: bool = False
    end_reason: Reason | None = None  # request or shutdown, where it was ended
    schedule_id: int = 0
    beside: tuple[int, ...] = ()  # executions of its schedule and scope that ran as it started
    has_ended: bool = False  # noted before the clock is set back
    suspended_ms: int | None = None  # since when its processes are stopped
    stops: list[tuple[int, int]] = field(default_factory=list)  # when they were, from and to
    stall_ms: int | None = None  # it prints nothing, so it stalls after so long

    def has_stalled(self, now_ms: int) -> bool:
        until_ms = min(self.ends_ms, now_ms)
        return self.stall_ms is not None and until_ms - self.started_ms >= self.stall_ms

    def is_over(self, now_ms: int) -> bool:
        return self.has_ended or (self.suspended_ms is None and self.ends_ms <= now_ms)

    def suspend(self, now_ms: int) -> None:
        if self.suspended_ms is None and not self.is_over(now_ms):
            self.suspended_ms = now_ms

    def resume(self, now_ms: int) -> None:
        if self.suspended_ms is not None:
            self.ends_ms += now_ms - self.suspended_ms
            self.stops.append((self.suspended_ms, now_ms))
            self.suspended_ms = None


@dataclass
class SimSupervisor:
    """What a supervisor knows: journal entries, and the bodies that live under it.

    A token has no body in the journal while it waits to be started, and is not in the journal while
    it waits for a place.
    """

    key: str
    boot_id: str
    engine_key: str | None  # None once its engine has gone
    places: int | None = None
    is_alive: bool = True
    is_stopped: bool = False  # by SIGSTOP: it ends nobody, and answers nobody
    journal: dict[str, Body | None] = field(default_factory=dict)
    waiting: dict[str, Claim] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    reserve: dict[str, tuple[Claim, int]] = field(default_factory=dict)  # and since when
    given_back: list[str] = field(default_factory=list)
    unbegun: dict[str, Reason] = field(default_factory=dict)  # ended while they waited for a place
    refused: list[Claim] = field(default_factory=list)

    def fill(self, now_ms: int) -> None:
        """Give the free places to what waits for one, and give back what has waited too long."""
        while self.reserve and (
            self.places is None or len(self.live(now_ms)) + len(self.waiting) < self.places
        ):
            token = next(iter(self.reserve))
            claim, _ = self.reserve.pop(token)
            try:
                self.journal[token] = None
            except OSError:  # a journal on a disk that is full
                self.refused.append(claim)
            else:
                self.waiting[token] = claim
        if self.engine_key is not None:
            self.give_back(since_ms=now_ms - RESERVE_MS)

    def give_back(self, *, since_ms: int) -> None:
        overdue = [token for token, (_, at_ms) in self.reserve.items() if at_ms <= since_ms]
        for token in overdue:
            del self.reserve[token]
        self.given_back += overdue

    def live(self, now_ms: int) -> list[Body]:
        return [body for body in self.journal.values() if body and not body.is_over(now_ms)]

    def end(self, token: str, reason: Reason, now_ms: int) -> None:
        """TERM, for which a body takes no time; what has a place is started first, to be simple."""
        if not self.is_stopped and self.reserve.pop(token, None) is not None:
            self.unbegun[token] = reason
        body = self.journal.get(token)
        if body is not None and not body.is_over(now_ms) and not self.is_stopped:
            body.resume(now_ms)  # TERM, then CONT
            body.ends_ms, body.exit_code, body.end_reason = now_ms, 143, reason

    def revoke(self, token: str) -> bool:
        """Whether it will never start."""
        self.reserve.pop(token, None)
        if self.waiting.pop(token, None) is not None:
            del self.journal[token]
        if token not in self.journal:
            self.revoked.add(token)
        return token in self.revoked


class SimRunner:
    """The engine's end of a SimSupervisor."""

    kinds = frozenset({JobKind.COMMAND, JobKind.SHELL})
    failure = None
    wake_ms = None

    def __init__(
        self, world: World, supervisor: SimSupervisor, leases: Sequence[Lease] = ()
    ) -> None:
        self._world = world
        self._supervisor = supervisor
        self.supervisor_id = supervisor.key
        self._leases = {lease.lease_token: lease.execution_id for lease in leases}
        self._stalled: set[str] = set()  # tokens that this link has reported

    @property
    def is_alive(self) -> bool:
        return self._supervisor.is_alive

    @property
    def places(self) -> int | None:
        return self._supervisor.places

    @property
    def live_count(self) -> int:
        return len(self._leases)

    def fileno(self) -> int:
        return -1  # News never come by themselves: a step collects them.

    def start(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self._world.maybe_crash("start")
            if self._supervisor.is_alive:
                self._leases[claim.lease_token] = claim.execution_id
                self._world.take(self._supervisor, claim)

    def collect(self) -> list[Outcome]:
        if not self._supervisor.is_alive:
            return []
        outcomes = []
        self._world.turn_sometimes(self._supervisor)
        given_back, self._supervisor.given_back = self._supervisor.given_back, []
        for token in given_back:
            outcomes.append(given_back_of(token, self._leases.pop(token)))
        for token in sorted(self._leases.keys() & self._supervisor.unbegun.keys()):
            reason = self._supervisor.unbegun.pop(token)
            outcomes.append(unbegun_of(token, self._leases.pop(token), reason))
        for token, execution_id in list(self._leases.items()):
            body = self._supervisor.journal.get(token)
            if body is not None and body.is_over(self._world.clock.now_ms()):
                outcomes.append(outcome_of(body, execution_id))
                del self._leases[token]
        return outcomes

    def take_progress(self) -> list[Reported]:
        return []

    def take_stalls(self) -> list[Stall]:
        now_ms, stalls = self._world.clock.now_ms(), []
        for token, execution_id in self._leases.items():
            body = self._supervisor.journal.get(token)
            if body is None or token in self._stalled or not body.has_stalled(now_ms):
                continue
            self._stalled.add(token)
            stalls.append(Stall(execution_id, now_ms))
        return stalls

    def acknowledge(self, tokens: Sequence[str]) -> None:
        for token in tokens:
            self._supervisor.journal.pop(token, None)

    def cancel(self, token: str) -> None:
        self._supervisor.end(token, Reason.REQUEST, self._world.clock.now_ms())

    def lose(self, token: str, message: str) -> None:
        self._supervisor.end(token, Reason.CONDITION, self._world.clock.now_ms())

    def suspend(self, token: str) -> None:
        body = self._supervisor.journal.get(token)
        if body is not None:
            body.suspend(self._world.clock.now_ms())

    def resume(self, token: str) -> None:
        body = self._supervisor.journal.get(token)
        if body is not None:
            body.resume(self._world.clock.now_ms())

    def stop(self) -> None:
        self._supervisor.give_back(since_ms=self._world.clock.now_ms())
        for token in list(self._supervisor.journal):
            self._supervisor.end(token, Reason.SHUTDOWN, self._world.clock.now_ms())

    def close(self) -> None:
        self._supervisor.engine_key = None


class SimEngines:
    """Locks and journals of the virtual processes."""

    def __init__(self, world: World, key: str) -> None:
        self._world = world
        self._key = key

    def ring(self) -> None:
        """Virtual engines are stepped by hand."""

    def announce(self) -> None:
        """Virtual engines are stepped by hand."""

    def adopt(self, supervisor_id: str, rows: Sequence[RunningRow]) -> Adoption | None:
        return self._world.adopt(self._key, supervisor_id, rows)

    def engine_is_alive(self, key: str) -> bool:
        return key in self._world.engines

    def is_elsewhere(self, machine: str | None) -> bool:
        return False

    def find_printed(self, supervisor_id: str, token: str) -> Output | None:
        return None  # Bodies print nothing.

    def supervisor_is_alive(self, supervisor_id: str) -> bool:
        self._world.let_others_ask(self._key)
        supervisor = self._world.supervisors.get(supervisor_id)
        return supervisor is not None and self._world.is_alive(supervisor)

    def dead_supervisors(self) -> list[str]:
        return [
            key
            for key, supervisor in sorted(self._world.supervisors.items())
            if not self._world.is_alive(supervisor)
        ]

    def judge(self, supervisor_id: str, tokens: Iterable[str]) -> dict[str, Verdict]:
        self._world.let_others_ask(self._key)
        supervisor = self._world.supervisors.get(supervisor_id)
        return {token: self._judge(supervisor, token) for token in tokens}

    def _judge(self, supervisor: SimSupervisor | None, token: str) -> Verdict:
        if supervisor is None:
            return Interrupted(reason=Reason.LOST)
        body = supervisor.journal.get(token)
        if body is not None and not body.is_cut_short and body.is_over(self._world.clock.now_ms()):
            return Exit(
                record=ExitRecord(token=token, cause=EndCause.EXIT, finished_ms=body.ends_ms)
            )
        if supervisor.boot_id != self._world.clock.boot_id():
            return Interrupted(reason=Reason.REBOOT)
        if token not in supervisor.journal:
            return NeverStarted()
        return Interrupted(reason=Reason.LOST)

    def outcome_of(self, verdict: Exit, row: RunningRow) -> Outcome:
        body = self._world.supervisors[row.supervisor_id].journal[verdict.record.token]
        assert body is not None
        return outcome_of(body, row.execution_id)

    def find_output(self, token: str) -> tuple[Output, bool] | None:
        return None

    def end_what_is_left(self, verdict: Interrupted, token: str) -> None:
        """The bodies of a dead supervisor end with it: see `World.kill_supervisor`."""

    def find_unattended(self) -> dict[str, list[str]]:
        now_ms, found = self._world.clock.now_ms(), {}
        for key, one in sorted(self._world.supervisors.items()):
            if self._world.is_alive(one) and one.engine_key is None:
                live = [body.token for body in one.live(now_ms)]
                found[key] = [*live, *one.waiting, *one.reserve]
        self._world.let_others_ask(self._key)
        return found

    def end_forgotten(self, supervisor_id: str, tokens: Sequence[str]) -> bool:
        for token in tokens:
            now_ms = self._world.clock.now_ms()
            self._world.supervisors[supervisor_id].end(token, Reason.REQUEST, now_ms)
        return True

    def forget_engine(self, key: str) -> None:
        assert key not in self._world.engines

    def remove_dead_files(self, *, known: Collection[str], now_ms: int) -> None:
        """Virtual engines have no files."""

    def forget_supervisor(self, supervisor_id: str) -> None:
        supervisor = self._world.supervisors.pop(supervisor_id, None)
        assert supervisor is None or not self._world.is_alive(supervisor)


class CrashingStore:
    """The real store, with a crash or a fault possible at each call, and others between them."""

    def __init__(self, world: World, store: SqliteStore, key: str) -> None:
        self._world = world
        self._store = store
        self._key = key

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            self._world.let_others_act(self._key)
            self._world.maybe_crash(f"before {name}")
            self._world.maybe_fault(f"before {name}")
            answer = value(*args, **kwargs)
            self._world.look_at_claim(self._key, answer)
            self._world.maybe_crash(f"after {name}")
            # COMMIT raised although it took effect: the caller can't know.
            self._world.maybe_fault(f"after {name}")
            return answer

        return call

    def begin_pruning(
        self, limits: Limits, *, is_early: bool = False
    ) -> Iterator[Removed | None] | None:
        slices = self._store.begin_pruning(limits, is_early=is_early)
        return None if slices is None else self._world.archiving(slices)


class World:
    """Everything there is, moved by a seeded random source or by a test."""

    def __init__(
        self,
        path: Path,
        *,
        random: Random,
        start_ms: int,
        clock: FakeClock | None = None,
        stores: Stores | None = None,
    ) -> None:
        """`stores` is the database; None is the file at `path`."""
        self.path = path
        self.stores = stores or FileStores(path)
        self.location = self.stores.location  # of the database, for clients
        self.random = random
        self.clock = clock or FakeClock(start_ms)
        self.hosting = Hosting()  # of the engines that start from now on
        self.engines: dict[str, tuple[Engine, SqliteStore]] = {}
        self.places: dict[str, set[str]] = {}  # of schedules that each engine may run: their `on`
        self.supervisors: dict[str, SimSupervisor] = {}
        self.bodies: list[Body] = []
        self._live: list[Body] = []  # when the last of them started
        self.events: list[Event] = []
        self.trail: list[str] = []
        self.crash_chance = 0.0
        self.fault_chance = 0.0
        self.stalls_ms: dict[str, int] = {}  # of schedules whose jobs print nothing
        self.wait_chance = 0.0  # of a start that waits for the next turn of its supervisor
        self.crash_at: int | None = None
        self.archive: dict[int, dict[str, Any]] = {}  # what retention has removed
        self.peer_chance = 0.0  # that somebody else moves between two calls of the store
        self.ask_chance = 0.0  # likewise, as an engine asks who lives and what journals say
        self._in_step: set[str] = set()
        self.calls = 0
        self.made = 0
        self._mended: set[str] = set()
        self._reader: Database | None = None  # opened by the first look

    def fix_seed(self) -> None:
        """Make the database with a seed out of our own dice: jitter is the same in each replay."""
        seed = self.random.randbytes(16)
        self.stores.create(now_ms=self.clock.now_ms(), seed=seed)

    def look(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """Rows of the database, for who judges. One connection reads all: opening takes longer."""
        return self.reader.rows(sql, params)

    @property
    def reader(self) -> Database:
        """The connection of who judges."""
        if self._reader is None:
            self._reader = self.stores.open_reader()
        return self._reader

    def close(self) -> None:
        """End all engines, and let go of the database."""
        for key in list(self.engines):
            self.kill_engine(key)
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # Retention.

    def prune(self) -> None:
        """A person prunes, by random limits; half of them lose patience."""
        retention = Retention(
            output_age_s=self.random.choice((None, 60)),
            history_age_s=self.random.choice((None, 30, 300, 3000)),
            history_count=self.random.choice((None, 1, 3, 20)),
        )
        limits = limits_at(retention, self.clock.now_ms(), is_trusted=True)
        store = self.stores.open(now_ms=self.clock.now_ms())
        try:
            for _ in self.archiving(prune(store, limits, schedule_id=None, is_trial=False)):
                if self.random.random() < 0.1:
                    return
        finally:
            store.close()

    def archiving(self, slices: Iterator[Removed | None]) -> Iterator[Removed | None]:
        """Keep what each slice removes, as it was: everything is judged as if it were there."""
        from tests.simulation.invariants import read_rows

        while True:
            before = {row["id"]: row for row in read_rows(self)}
            removed = next(slices, self)
            left = {row["id"] for row in read_rows(self)}
            gone = {id_: row for id_, row in before.items() if id_ not in left}
            assert all(row["status"] not in ("queued", "running") for row in gone.values()), "I10"
            assert not set(gone) & set(self.archive), "I10 an id came back"
            self.archive |= gone
            if isinstance(removed, World):
                return
            assert len(gone) == (removed.count if removed and removed.kind == "run" else 0), "I10"
            yield removed

    # Faults.

    def maybe_crash(self, where: str) -> None:
        """Die here, where the plan or the dice say so."""
        self.calls += 1
        if self.crash_at == self.calls or self.random.random() < self.crash_chance:
            self.trail.append(f"crash {where}")
            raise Crash(where)

    def maybe_fault(self, where: str) -> None:
        if self.random.random() < self.fault_chance:
            self.trail.append(f"fault {where}")
            raise DatabaseBusy(f"fault {where}")

    # Processes.

    def is_alive(self, supervisor: SimSupervisor) -> bool:
        """Alive, or gone with its last run, its engine being gone too."""
        has_more = supervisor.waiting or supervisor.reserve
        if supervisor.is_alive and supervisor.engine_key is None and not has_more:
            supervisor.is_alive = bool(supervisor.live(self.clock.now_ms()))
        return supervisor.is_alive

    def start_engine(
        self,
        *,
        max_running: int = 4,
        burst: int | None = None,
        clock_wait_ms: int | None = CLOCK_WAIT_MS,
        retention: Retention = UNLIMITED,
        queues: tuple[str, ...] = (COMMAND_QUEUE,),
        machine: str = "",
        labels: tuple[str, ...] = (),
        offers: Collection[str] | None = None,
        own_clock: FakeClock | None = None,
    ) -> str:
        """A new engine process with its supervisor; its key.

        On a machine of its own, the engine asks the store for the clock that decides.
        """
        self.made += 1
        key = f"engine{self.made}"
        store = self.stores.open(now_ms=self.clock.now_ms())
        settings = EngineSettings(
            max_running=max_running,
            burst=burst,
            clock_wait_ms=clock_wait_ms,
            retention=retention,
            queues=queues,
            labels=labels,
        )
        self.places[key] = {"any", machine, *(f"label:{label}" for label in labels)}
        engine = Engine(
            settings,
            EngineIdentity(key, self.made, machine),
            store=CrashingStore(self, store, key),
            clock=self.clock if own_clock is None else store.clock_for(own_clock),
            others=SimEngines(self, key),
            runners=Runners(
                lambda: self.start_runner(key, places=settings.places), clock=self.clock
            ),
            report=self.events.append,
            hosting=self.hosting._replace(
                find_offers=None if offers is None else lambda: frozenset(offers)
            ),
        )
        self.engines[key] = (engine, store)
        return key

    def step(self, key: str) -> bool:
        """One step of an engine; False where it crashed."""
        engine, _ = self.engines[key]
        self._in_step.add(key)
        try:
            engine.step()
        except DatabaseDamaged:
            raise
        except DatabaseUnusable as error:
            self.trail.append(f"trouble {type(error).__name__}")
            return True
        except Crash:
            self.kill_engine(key)
            return False
        finally:
            self._in_step.discard(key)
        return True

    def fire_ahead(self, key: str, at_ms: int) -> bool:
        """Have an engine claim what is due at an instant before that comes, which then does, and
        start it; False where it crashed. See `engine.ahead`."""
        engine, _ = self.engines[key]
        try:
            if engine.rehearse(at_ms):
                engine.claim_early(at_ms)
            self.clock.advance_ms(at_ms - self.clock.now_ms())
            engine.start_early()
        except DatabaseBusy:
            return True
        except Crash:
            self.kill_engine(key)
            return False
        return True

    def let_others_act(self, key: str) -> None:
        """Let somebody else move while an engine is between two calls of its store."""
        if self.random.random() >= self.peer_chance:
            return
        others = sorted(self.engines.keys() - self._in_step - {key})
        if others:
            other = self.random.choice(others)
            self.step(other)
            if other in self.engines and self.random.random() < 0.3:
                self.kill_engine(other)
        if self.supervisors:  # After a crash of the machine there is none.
            self.turn(self.supervisors[self.random.choice(sorted(self.supervisors))])

    def let_others_ask(self, key: str) -> None:
        """Let somebody else move while an engine asks about the others."""
        if self.ask_chance and self.random.random() < self.ask_chance:
            others = sorted(self.engines.keys() - self._in_step - {key})
            if others:
                self.step(self.random.choice(others))
            elif self.supervisors:
                supervisor = self.supervisors[self.random.choice(sorted(self.supervisors))]
                self.turn(supervisor)

    def look_at_claim(self, key: str, answer: object) -> None:
        """Judge what a call of the store has just granted, if it was a claim."""
        from tests.simulation.claimed import check_claim

        for batch in answer if isinstance(answer, tuple) else (answer,):
            if isinstance(batch, ClaimBatch) and key in self.engines:
                engine = self.engines[key][0]
                most = engine.settings.places + engine.runners.reserve()
                check_claim(self, batch, most=most, places=self.places[key])

    def kill_engine(self, key: str) -> None:
        """kill -9: its supervisors go on with what runs."""
        _, store = self.engines[key]
        store.close()
        self.lose_engine(key)

    def lose_engine(self, key: str) -> None:
        """Its lock and its links are gone, whatever it may still believe itself."""
        del self.engines[key]
        for supervisor in self.supervisors.values():
            if supervisor.engine_key == key:
                supervisor.engine_key = None
        self.trail.append(f"kill {key}")

    def kill_supervisor(self, key: str) -> None:
        """kill -9 of a supervisor: its guardian ends what it ran."""
        supervisor = self.supervisors[key]
        supervisor.is_alive = False
        supervisor.waiting.clear()
        supervisor.reserve.clear()
        for body in supervisor.live(self.clock.now_ms()):
            body.resume(self.clock.now_ms())
            body.ends_ms = self.clock.now_ms()
            body.is_cut_short = True
        self.trail.append(f"kill supervisor {key}")

    def reboot(self) -> None:
        """Everything ends at once, and the boot id changes."""
        for key in list(self.engines):
            self.kill_engine(key)
        for key in list(self.supervisors):
            self.kill_supervisor(key)
        self.clock.reboot()
        self.trail.append("reboot")

    def take(self, supervisor: SimSupervisor, claim: Claim) -> None:
        """Journal the token if there is a place, then start, at once or in the next turn."""
        supervisor.reserve[claim.lease_token] = claim, self.clock.now_ms()
        supervisor.fill(self.clock.now_ms())
        self.turn_sometimes(supervisor)

    def turn_sometimes(self, supervisor: SimSupervisor) -> None:
        """Let a supervisor have its turn, unless it is slow."""
        if not self.wait_chance or self.random.random() >= self.wait_chance:
            self.turn(supervisor)

    def turn(self, supervisor: SimSupervisor) -> None:
        """Start what waits; a crash of the engine stops none of it."""
        if self.is_alive(supervisor):
            supervisor.fill(self.clock.now_ms())
            for claim in supervisor.waiting.values():
                self._start_body(supervisor, claim)
            supervisor.waiting.clear()
            self._check_places(supervisor)

    def _check_places(self, supervisor: SimSupervisor) -> None:
        """Raise AssertionError if it has more live commands than it may."""
        live = len(supervisor.live(self.clock.now_ms()))
        assert supervisor.places is None or live <= supervisor.places, (
            f"I7 {live} commands live, and there are {supervisor.places} places"
        )

    def _start_body(self, supervisor: SimSupervisor, claim: Claim) -> None:
        now_ms = self.clock.now_ms()
        self._live = [body for body in self._live if not body.is_over(now_ms)]
        job_s, exit_code = claim.job.argv[1:3]
        body = Body(
            execution_id=claim.execution_id,
            token=claim.lease_token,
            schedule=claim.schedule,
            scope=(claim.scope_kind, claim.scope_id),
            plan_ms=claim.plan_ms,
            due_ms=claim.due_ms,
            fire_key=claim.fire_key,
            attempt=claim.attempt,
            started_ms=now_ms,
            ends_ms=now_ms + int(job_s) * 1000,
            exit_code=0 if claim.schedule in self._mended else int(exit_code),
            schedule_id=claim.schedule_id,
            stall_ms=self.stalls_ms.get(claim.schedule),
            beside=tuple(
                other.execution_id
                for other in self._live
                if (other.schedule_id, other.scope)
                == (claim.schedule_id, (claim.scope_kind, claim.scope_id))
            ),
        )
        supervisor.journal[claim.lease_token] = body
        self.bodies.append(body)
        self._live.append(body)

    def start_runner(self, engine_key: str, *, places: int) -> SimRunner:
        """A new supervisor of an engine."""
        self.made += 1
        supervisor = SimSupervisor(
            f"{self.made:08x}", self.clock.boot_id(), engine_key=engine_key, places=places
        )
        self.supervisors[supervisor.key] = supervisor
        return SimRunner(self, supervisor)

    def adopt(
        self, engine_key: str, supervisor_id: str, rows: Sequence[RunningRow]
    ) -> Adoption | None:
        """What `adopt_supervisor` does, of a supervisor that may not answer."""
        self.maybe_crash("before the revocation")
        supervisor = self.supervisors.get(supervisor_id)
        if supervisor is None or not self.is_alive(supervisor) or supervisor.is_stopped:
            return None
        if self.random.random() < self.fault_chance:
            return None
        revoked = tuple(row for row in rows if supervisor.revoke(row.lease_token))
        self.maybe_crash("after the revocation")
        started = tuple(row for row in rows if row not in revoked)
        if supervisor.engine_key is not None or self.random.random() < self.fault_chance:
            return Adoption(runner=None, started=started, revoked=revoked)
        leases = [
            Lease(execution_id=row.execution_id, lease_token=row.lease_token, ok_codes=(0,))
            for row in started
        ]
        supervisor.engine_key = engine_key
        return Adoption(
            runner=SimRunner(self, supervisor, leases), started=started, revoked=revoked
        )

    def step_clock(self, by_ms: int) -> None:
        """Set the wall clock; what has ended stays ended, what waits is started before."""
        for supervisor in list(self.supervisors.values()):
            self.turn(supervisor)
        for body in self.bodies:
            body.has_ended = body.is_over(self.clock.now_ms())
        self.clock.step_ms(by_ms)
        self.trail.append(f"clock {by_ms:+}")

    def end_body(self, row: RunningRow) -> None:
        """What a person's `cancel` asks a supervisor for, where it lives."""
        supervisor = self.supervisors.get(row.supervisor_id)
        if supervisor is not None and self.is_alive(supervisor):
            supervisor.end(row.lease_token, Reason.REQUEST, self.clock.now_ms())

    def mend(self, schedule: str) -> None:
        """From now on the job of a schedule ends well."""
        self._mended.add(schedule)

    # Quiet.

    def settle(self, *, for_ms: int = 120_000, every_ms: int = 1000) -> None:
        """No more faults; one engine, and time until everything that was begun has ended."""
        self.crash_chance = self.fault_chance = self.wait_chance = self.peer_chance = 0.0
        self.ask_chance = 0.0
        self.crash_at = None
        if not self.engines:
            self.start_engine()
        for left in range(for_ms // every_ms, 0, -1):
            for supervisor in list(self.supervisors.values()):
                self.turn(supervisor)
            for key in list(self.engines):
                assert self.step(key)
            if self._is_empty():
                self.clock.advance_ms(left * every_ms)
                break
            self.clock.advance_ms(every_ms)
        for key in list(self.engines):
            assert self.step(key)

    def _is_empty(self) -> bool:
        """Whether nothing can come any more: no schedule is left, and no run is active."""
        left = self.look(
            """SELECT 1 FROM schedules WHERE deleted_at IS NULL
               UNION ALL SELECT 1 FROM executions WHERE status IN ('queued', 'running') LIMIT 1"""
        )
        return not left


def given_back_of(token: str, execution_id: int) -> Outcome:
    return Outcome(
        execution_id=execution_id,
        lease_token=token,
        status=Status.FAILED,
        reason=Reason.SPAWN,
        finished_ms=0,
        flags=(Flag.GIVEN_BACK,),
    )


def unbegun_of(token: str, execution_id: int, reason: Reason) -> Outcome:
    return Outcome(
        execution_id=execution_id,
        lease_token=token,
        status=Status.CANCELLED,
        reason=reason,
        finished_ms=0,
    )


# What a function decides by raising an exception. In these worlds, a body says it by its exit code.
ASKS_AGAIN, GIVES_UP, DECLINES = 101, 102, 103
ASKED_MS = 7_000  # the delay that is asked for


def outcome_of(body: Body, execution_id: int) -> Outcome:
    is_well = body.exit_code == 0
    status = Status.SUCCESS if is_well else Status.FAILED
    reason = None if is_well else Reason.EXIT
    if body.exit_code == DECLINES:
        status, reason = Status.SKIPPED, Reason.DECLINED
    if body.end_reason is not None:
        status, reason = Status.CANCELLED, body.end_reason
    asks_again = status is Status.FAILED and body.exit_code == ASKS_AGAIN
    flags = (Flag.STALLED,) if body.has_stalled(body.ends_ms) else ()
    if status is Status.FAILED and body.exit_code == GIVES_UP:
        flags = (*flags, Flag.GAVE_UP)
    return Outcome(
        execution_id=execution_id,
        lease_token=body.token,
        status=status,
        reason=reason,
        exit_code=body.exit_code,
        started_ms=body.started_ms,
        finished_ms=body.ends_ms,
        duration_ms=max(0, body.ends_ms - body.started_ms),  # monotonic, in truth
        flags=flags,
        state={str(execution_id): "1"},
        retry_after_ms=ASKED_MS if asks_again else None,
        asks_again=asks_again,
    )


Action = Callable[[World], None]
