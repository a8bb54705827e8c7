"""People at the command line of a virtual world, and a plain account of what they asked for.

The account shares no code with edgecron: by it `invariants` judges what became of each schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgecron.base.units import from_ms, to_ms
from edgecron.client import Client
from edgecron.model.choices import JobKind, OnInterrupt, Overlap, Status
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from tests.simulation.world import World

ACTIVE = (Status.QUEUED, Status.RUNNING)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a person wants of a schedule, from an instant on."""

    since_ms: int
    periods_s: tuple[int, ...]


@dataclass(kw_only=True)
class Life:
    """A schedule from its making to its removal. A name may have several lives."""

    schedule_id: int
    spec: ScheduleSpec
    made_ms: int
    wanted: list[Wanted]
    removed_ms: int | None = None
    specs: dict[int, ScheduleSpec] = field(default_factory=dict)  # by revision
    touched_ms: list[int] = field(
        default_factory=list
    )  # when a person changed anything, or a pause ended
    was_held: bool = False
    is_there: bool = True  # not removed

    def spec_at(self, revision: int) -> ScheduleSpec:
        """What it said at a revision. A pause has no definition of its own: the last one holds."""
        return self.specs[max(known for known in self.specs if known <= revision)]

    @property
    def is_lone(self) -> bool:
        """Whether no two runs of it may ever overlap, whatever its policies were."""
        return all(
            spec.policies.overlap is not Overlap.ALLOW and spec.policies.max_running in (None, 1)
            for spec in self.specs.values()
        )

    def plans(self, anchor_ms: int) -> set[int]:
        """Every plan time of this life: grids that all contain the anchor, era by era."""
        assert self.removed_ms is not None
        found: set[int] = set()
        for era, following in zip(self.wanted, [*self.wanted[1:], None], strict=True):
            until_ms = self.removed_ms if following is None else following.since_ms
            for period_s in era.periods_s:
                step = period_s * 1000
                first = anchor_ms + ((era.since_ms - anchor_ms) // step + 1) * step
                found.update(range(first, until_ms + 1, step))
        spec = self.spec
        return {
            at_ms
            for at_ms in found
            if (spec.from_at is None or at_ms >= to_ms(spec.from_at))
            and (spec.until_at is None or at_ms <= to_ms(spec.until_at))
        }


class People:
    """Makes, changes and removes schedules, and keeps account."""

    def __init__(self, world: World, *, anchor_ms: int) -> None:
        self.world = world
        self.anchor_ms = anchor_ms
        self.lives: dict[int, Life] = {}
        self.current: dict[str, Life] = {}
        self.highest_ms = world.clock.now_ms()  # that the wall clock has shown

    # What they can do.

    def add(self, spec: ScheduleSpec) -> None:
        with self._client() as client:
            schedule = client.add(spec)
        now_ms = self.world.clock.now_ms()
        life = Life(
            schedule_id=schedule.id,
            spec=spec,
            made_ms=now_ms,
            wanted=[Wanted(since_ms=now_ms, periods_s=periods_of(spec.triggers))],
        )
        self.lives[schedule.id] = self.current[spec.name] = life
        self._note(spec.name)

    def remove(self, name: str) -> None:
        with self._client() as client:
            client.remove(name)
        self.current.pop(name).removed_ms = self.world.clock.now_ms()
        self.world.trail.append(f"remove {name}")

    def pause(self, name: str, *, for_ms: int | None = None) -> None:
        until = None if for_ms is None else from_ms(self.world.clock.now_ms() + for_ms)
        self.current[name].was_held = True
        if until is not None:
            self.current[name].touched_ms.append(to_ms(until))
        with self._client() as client:
            client.pause(name, until=until)
        self._note(name)

    def resume(self, name: str) -> None:
        with self._client() as client:
            client.resume(name)
        self._note(name)

    def run(self, name: str) -> None:
        with self._client() as client:
            client.run_now(name)

    def set_periods(self, name: str, periods_s: Sequence[int]) -> None:
        """Give a schedule other triggers."""
        texts = triggers_of(periods_s, anchor_ms=self.anchor_ms)
        life = self.current[name]
        with self._client() as client:
            client.edit(name, lambda spec: replace(spec, triggers=texts))
        # The same triggers are no change of them, and say the same.
        life.wanted.append(Wanted(since_ms=self.world.clock.now_ms(), periods_s=tuple(periods_s)))
        self._note(name)

    def set_policies(self, name: str, **changes: Any) -> None:
        with self._client() as client:
            client.edit(
                name, lambda spec: replace(spec, policies=replace(spec.policies, **changes))
            )
        self._note(name)

    def cancel(self) -> None:
        """End any run that is active, or withdraw it."""
        world = self.world
        with self._client() as client:
            active = [run for run in client.history(limit=200) if run.status in ACTIVE]
            if not active:
                return
            run = world.random.choice(active)
            now_ms = world.clock.now_ms()
            if run.status is Status.QUEUED:
                client.cancel(run.id)
                return
            row = client.store.request_cancel(run.id, now_ms=now_ms)
        if row is not None:
            world.end_body(row)

    # The account.

    def note_clock(self) -> None:
        self.highest_ms = max(self.highest_ms, self.world.clock.now_ms())

    def is_behind(self) -> bool:
        """Whether the wall clock shows what it has shown before."""
        return self.world.clock.now_ms() < self.highest_ms

    def _note(self, name: str) -> None:
        life = self.current[name]
        with self._client() as client:
            schedule = client.schedule(name)
        life.specs[schedule.revision] = schedule.spec
        life.touched_ms.append(self.world.clock.now_ms())
        self.world.trail.append(f"{name} revision {schedule.revision}")

    def _client(self) -> Client:
        return Client(self.world.path, clock=self.world.clock)


def triggers_of(periods_s: Sequence[int], *, anchor_ms: int) -> tuple[str, ...]:
    """Grids of these periods through the anchor; of those that a minute holds, in cron's words."""
    since = f"{from_ms(anchor_ms):%Y-%m-%dT%H:%M:%SZ}"
    return tuple(
        f"*/{period_s} * * * * *" if 60 % period_s == 0 else f"every {period_s}s from {since}"
        for period_s in periods_s
    )


def periods_of(triggers: Sequence[str]) -> tuple[int, ...]:
    """The other way round; triggers that follow events have none."""
    found = []
    for text in triggers:
        if text.startswith("*/"):
            found.append(int(text.split()[0][2:]))
        elif text.startswith("every") and "after" not in text:
            found.append(int(text.split()[1][:-1]))
    return tuple(found)


def wish(
    name: str,
    *triggers: str,
    periods_s: Sequence[int] = (),
    anchor_ms: int,
    lasts_s: int,
    code: int = 0,
    scopes: tuple[tuple[str, str], ...] = (("global", ""),),
    from_ms_: int | None = None,
    until_ms: int | None = None,
    max_runs: int | None = None,
    is_deaf: bool = False,
    **policies: object,
) -> ScheduleSpec:
    """A schedule in one line. A deaf job does not hear TERM."""
    argv = ("job", str(lasts_s), str(code), *(("deaf",) if is_deaf else ()))
    return ScheduleSpec(
        name=name,
        triggers=(*triggers_of(periods_s, anchor_ms=anchor_ms), *triggers),
        job=Job(kind=JobKind.COMMAND, argv=argv),
        scopes=scopes,
        from_at=None if from_ms_ is None else from_ms(from_ms_),
        until_at=None if until_ms is None else from_ms(until_ms),
        max_runs=max_runs,
        policies=Policies(**policies),  # type: ignore[arg-type]
    )


def attempts_of(spec: ScheduleSpec) -> tuple[int, bool]:
    """How often a failed fire may be tried again, and whether an interrupted one is."""
    return spec.policies.retries, spec.policies.on_interrupt is OnInterrupt.RETRY
