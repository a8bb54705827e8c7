"""The virtual world on a machine whose disk is logged, and whose power can be cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from edgecron.base.errors import DatabaseBusy, SupervisorUnavailable
from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.model.choices import Reason, Status
from edgecron.model.run import Claim, Outcome
from edgecron.store.sql.connection import Params
from edgecron.store.sql.writes import Writes
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.store import open_store
from edgecron.supervisor.journal import forget
from edgecron.supervisor.protocol import Flag
from edgecron.supervisor.state_files import prepare_state_dir
from tests.powerloss.faults import NO_FAULTS, Faults
from tests.powerloss.journals import KnownSupervisors, WrittenJournal, remember
from tests.powerloss.recorder import Logged, Mark, Recorder, recording
from tests.simulation.world import Body, Crash, SimRunner, SimSupervisor, World

# Engines and supervisors are numbered on after a cut: nobody is taken for one who died.
_NUMBERS_OF_A_BOOT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A claim was acted on. The body knows by now when it ended, had the power stayed."""

    body: Body
    supervisor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """A call of the store returned to an engine, or an answer to a person."""

    call: str


class _Bodies(list[Body]):
    """All bodies; `append` is the start of another one."""

    def __init__(self, note_start: Callable[[Body], None]) -> None:
        super().__init__()
        self._note_start = note_start

    def append(self, body: Body) -> None:
        super().append(body)
        self._note_start(body)


class PoweredRunner(SimRunner):
    """Tells too of what its supervisor could not put on record, and did not start."""

    def collect(self) -> list[Outcome]:
        refused, self._supervisor.refused = self._supervisor.refused, []
        for claim in refused:
            del self._leases[claim.lease_token]
        return [*(self._not_started(claim) for claim in refused), *super().collect()]

    def _not_started(self, claim: Claim) -> Outcome:
        return Outcome(
            execution_id=claim.execution_id,
            lease_token=claim.lease_token,
            status=Status.FAILED,
            reason=Reason.SPAWN,
            finished_ms=self._world.clock.now_ms(),
            error_code="EIO",
            error_msg="the journal can't be written, nothing was started",
            flags=(Flag.NOT_STARTED,),
        )


class PoweredWorld(World):
    """The virtual world on a machine whose disk is logged, and whose power may have been cut.

    `synchronous` is set in place of what the store chooses.
    """

    def __init__(
        self, path: Path, *, random: Random, start_ms: int, synchronous: str | None = None
    ) -> None:
        super().__init__(path, random=random, start_ms=start_ms)
        self.recorder: Recorder | None = None
        self.bodies = _Bodies(self.note_start)
        self.supervisors = KnownSupervisors(state_dir(path))
        self._synchronous = synchronous

    def fix_seed(self) -> None:
        """The same by writes of SQLite, which the disk logs."""
        seed = self.random.randbytes(16)
        open_store(self.path, now_ms=self.clock.now_ms(), seed=seed).close()

    def look(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """The same with a connection that closes: one that stays would keep the log there."""
        with closing(Database(self.path)) as database:
            return database.rows(sql, params)

    def mark(self, what: object) -> None:
        if self.recorder is not None:
            self.recorder.mark(what)

    def maybe_crash(self, where: str) -> None:
        if where.startswith("after "):  # The store's call has returned, whoever may die now.
            self.mark(Returned(call=where))
        super().maybe_crash(where)

    def note_start(self, body: Body) -> None:
        [supervisor] = [
            key for key, one in self.supervisors.items() if one.journal.get(body.token) is body
        ]
        self.mark(Started(body=body, supervisor=supervisor))

    def start_engine(self, **settings: Any) -> str:
        key = super().start_engine(**settings)
        _, store = self.engines[key]
        self._choose_sync(store)
        return key

    def start_runner(self, engine_key: str, *, places: int) -> SimRunner:
        folder = prepare_state_dir(state_dir(self.path))
        self.made += 1
        # A name that files may have.
        key, boot_id = f"{self.made:016x}", self.clock.boot_id()
        supervisor = SimSupervisor(key, boot_id, engine_key=engine_key, places=places)
        try:
            supervisor.journal = WrittenJournal(folder, key, boot_id=boot_id)
        except OSError as error:
            with suppress(OSError):  # It has said so, and is gone.
                forget(folder, key)
            raise SupervisorUnavailable(f"supervisor can't be started: {error}") from error
        self.supervisors[key] = supervisor
        return PoweredRunner(self, supervisor)

    def step(self, key: str) -> bool:
        self.write_exits()
        return super().step(key)

    def kill_supervisor(self, key: str) -> None:
        self.write_exits()
        super().kill_supervisor(key)
        self._let_go(self.supervisors[key])

    def write_exits(self) -> None:
        """Let supervisors put on record what has ended since."""
        for supervisor in self.supervisors.values():
            if isinstance(supervisor.journal, WrittenJournal):
                supervisor.journal.write_exits(self.clock.now_ms())

    def ask(self, question: Callable[[Client], object]) -> None:
        """Let a person change something: once that is answered, it must not be lost."""
        with Client(self.path, clock=self.clock) as client:
            self._choose_sync(client.store)
            question(client)
            self.mark(Returned(call="answer"))

    def prune(self) -> None:
        """Nobody does: what was removed can't be told from what was lost."""

    def _choose_sync(self, store: Writes) -> None:
        if self._synchronous is not None:
            store.rows(f"PRAGMA synchronous = {self._synchronous}")

    def tidy(self, key: str) -> None:
        """What an engine does before it sleeps, and the checkpoint that a long log gets."""
        engine, store = self.engines[key]
        try:
            engine.prepare()
        except DatabaseBusy:
            return
        except Crash:
            self.kill_engine(key)
            return
        store.move_log()
        self.mark(Returned(call="checkpoint"))

    def take_up(self, *, for_ms: int) -> None:
        """Two engines meet what is there, and go on for a while."""
        self.start_engine(max_running=3)
        self.start_engine(max_running=2)
        self.settle(for_ms=for_ms)

    def come_to_rest(self, *, for_ms: int) -> int:
        """No more schedules, and time for what runs to end; when there were none."""
        with Client(self.path, clock=self.clock) as client:
            for schedule in client.schedules():
                client.remove(schedule.name)
        removed_ms = self.clock.now_ms()
        self.settle(for_ms=for_ms)
        self.shut_down()
        return removed_ms

    def shut_down(self) -> None:
        """Let go of the databases."""
        for _, store in self.engines.values():
            store.close()
        self.engines.clear()
        for supervisor in self.supervisors.values():
            self._let_go(supervisor)

    def _let_go(self, supervisor: SimSupervisor) -> None:
        if isinstance(supervisor.journal, WrittenJournal):
            supervisor.journal.die()


@dataclass(kw_only=True)
class Seen:
    """What the world knows at a cut: the bodies as it ended them, by supervisor too."""

    at_ms: int
    boot_id: str
    bodies: list[Body] = field(default_factory=list)
    journals: dict[str, tuple[str, list[Body]]] = field(default_factory=dict)  # boot, bodies


def seen_at(log: Sequence[Logged], cut: int, *, before: Seen | None = None) -> Seen:
    """The world after the first `cut` entries. `before`: what an earlier cut had left."""
    last = log[cut - 1]
    seen = Seen(at_ms=last.at_ms, boot_id=last.boot_id)
    if before is not None:
        seen.bodies.extend(before.bodies)
        seen.journals.update(before.journals)
    for logged in log[:cut]:
        match logged.entry:
            case Mark(what=Started(body=whole, supervisor=supervisor)):
                body = replace(whole)
                if body.ends_ms > seen.at_ms:
                    body.ends_ms, body.is_cut_short = seen.at_ms, True
                seen.bodies.append(body)
                seen.journals.setdefault(supervisor, (logged.boot_id, []))[1].append(body)
    return seen


def record(
    world: PoweredWorld,
    story: Callable[[PoweredWorld], None],
    *,
    faults: Faults = NO_FAULTS,
) -> list[Logged]:
    """Tell a story; what was done to its disk, the same for the same dice but for WAL salts."""
    folder = world.path.parent
    with (
        pytest.MonkeyPatch.context() as patch,
        recording(world.clock, folder, faults=faults) as recorder,
    ):
        patch.setattr("os.urandom", world.random.randbytes)  # Tokens and ids.
        world.recorder = recorder
        try:
            story(world)
        finally:
            world.shut_down()
    return recorder.log


def come_back(
    path: Path, seen: Seen, *, random: Random, synchronous: str | None = None
) -> PoweredWorld:
    """The world on an image, once the power is there again: the clock goes on, nobody lives."""
    world = PoweredWorld(path, random=random, start_ms=seen.at_ms, synchronous=synchronous)
    boots = int(seen.boot_id.removeprefix("boot-"))
    for _ in range(boots):
        world.clock.reboot()
    world.clock.advance_ms(random.choice((200, 3000, 90_000, 7_200_000)))
    world.made = boots * _NUMBERS_OF_A_BOOT
    world.bodies.extend(replace(body) for body in seen.bodies)
    for key, (_, bodies) in seen.journals.items():
        left = remember(state_dir(path), key, bodies, boot_id=world.clock.boot_id())
        if left is not None:
            world.supervisors[key] = left
    return world
