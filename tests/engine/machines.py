"""Virtual machines with an engine each, over one database of a server."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from edgecron.base.units import from_ms
from edgecron.base.values import replace
from edgecron.engine.events import Event
from edgecron.engine.presence import EngineIdentity, EngineSettings
from edgecron.engine.runners import Runners
from edgecron.engine.step import Engine, Hosting
from edgecron.model.choices import CatchUp, OnInterrupt, OnLost
from edgecron.model.options import Policies
from edgecron.planning.next_fire import next_fire
from edgecron.planning.times import compile_spec
from edgecron.store.contract import LEASE_MS
from edgecron.store.sql.schedule_changes import Retiming
from tests.simulation.world import SimEngines, World
from tests.support.story import START_MS, a_spec

if TYPE_CHECKING:
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule
    from edgecron.store.postgres.store import PostgresStore


class EnginesOfMachine(SimEngines):
    """The engines of a virtual machine; those of others can't be seen from it."""

    def __init__(self, world: World, key: str, machine: str) -> None:
        super().__init__(world, key)
        self._own_machine = machine

    def is_elsewhere(self, machine: str | None) -> bool:
        return machine != self._own_machine


class Machine:
    """A virtual machine with one engine over the database of a server."""

    def __init__(
        self,
        name: str,
        url: str,
        folder: Path,
        *,
        on_lost: OnLost = OnLost.END,
        labels: tuple[str, ...] = (),
        world: World | None = None,
        hosting: Hosting = Hosting(),  # noqa: B008  # It is frozen.
    ) -> None:
        from edgecron.store.postgres.store import open_store

        self.name = name
        self.world = world or World(folder / name, random=Random(0), start_ms=START_MS)
        self.events: list[Event] = []
        self.store = open_store(url, now_ms=START_MS)
        key = f"engine-{name}"
        self.engine = Engine(
            EngineSettings(max_running=4, on_lost=on_lost, labels=labels),
            EngineIdentity(key, 1, machine=name),
            store=self.store,
            clock=self.world.clock,
            others=EnginesOfMachine(self.world, key, name),
            runners=Runners(lambda: self.world.start_runner(key, places=4), clock=self.world.clock),
            report=self.events.append,
            hosting=hosting,
        )
        self.world.engines[key] = self.engine, self.store  # type: ignore[assignment]

    def add(
        self,
        name: str,
        trigger: str,
        *,
        lasts_s: int = 0,
        retries: bool = False,
        on: str = "any",
        catch_up: CatchUp = CatchUp.ONCE,
        needs: tuple[str, ...] = (),
        needs_deadline_s: float = 0,
        max_runs: int | None = None,
    ) -> None:
        on_interrupt = OnInterrupt.RETRY if retries else OnInterrupt.LEAVE
        policies = Policies(
            on_interrupt=on_interrupt,
            retries=int(retries),
            retry_delay_s=0,
            on=on,
            catch_up=catch_up,
            needs=needs,
            needs_deadline_s=needs_deadline_s,
        )
        spec = a_spec(name, trigger, lasts_s=lasts_s, policies=policies, max_runs=max_runs)
        now_ms = self.world.clock.now_ms()
        compiled = compile_spec(spec, seed=self.store.seed, made_at=from_ms(now_ms))
        retiming = Retiming(next=next_fire(compiled.timing, now_ms), decided_until_ms=now_ms)
        self.store.insert_schedules(
            [(compiled, retiming)], boot_id="boot-1", origin="test", now_ms=now_ms
        )

    def place(self, schedule: Schedule, *, on: str, trigger: str | None = None) -> None:
        """Change on which machine a schedule runs, and its trigger."""
        triggers = schedule.spec.triggers if trigger is None else (trigger,)
        policies = replace(schedule.spec.policies, on=on)
        spec = replace(schedule.spec, policies=policies, triggers=triggers)
        now_ms = self.world.clock.now_ms()
        compiled = compile_spec(spec, seed=self.store.seed, made_at=from_ms(now_ms))
        self.store.update_schedule(
            schedule, compiled, retiming=None, boot_id="boot-1", origin="test", now_ms=now_ms
        )

    @property
    def engine_id(self) -> int:
        assert self.engine.engine_id is not None
        return self.engine.engine_id

    def after_s(self, seconds: int) -> None:
        """Let time pass on this machine, and do a pass."""
        self.world.clock.advance_ms(1000 * seconds)
        self.engine.step()

    def runs(self, name: str) -> list[Execution]:
        schedule = self.store.get_schedule(name)
        return self.store.find_executions(schedule_id=schedule.id, limit=100).runs[::-1]

    def statuses(self, name: str) -> list[str]:
        return [
            f"{run.status}:{run.reason}" if run.reason else str(run.status)
            for run in self.runs(name)
        ]

    def live_bodies(self) -> int:
        now_ms = self.world.clock.now_ms()
        return sum(not body.is_over(now_ms) for body in self.world.bodies)


def expire(store: PostgresStore, machine: str) -> None:
    """Let the lease of a machine end, as if it had been out of reach for a term."""
    with store.transaction():
        store.change(
            "UPDATE engines SET stale_after = heartbeat_at - :term WHERE machine = :machine",
            {"machine": machine, "term": LEASE_MS},
        )
