"""The core stories, each short enough that something can happen at every single point of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.model.choices import CatchUp, OnInterrupt, OnShutdown, Overlap
from edgecron.model.schedule import ScheduleSpec
from tests.simulation.casts import START_MS
from tests.simulation.lives import Life
from tests.simulation.machine import Machine
from tests.simulation.people import wish
from tests.simulation.points import Fault, Hit, watching
from tests.simulation.seeds import Violation, folder_in_memory, server_side, why_of

if TYPE_CHECKING:
    from tests.simulation.on_server import ServerSide


@dataclass(frozen=True, kw_only=True)
class Story:
    """Schedules, and what happens to them; `engines` is how many there are."""

    specs: tuple[ScheduleSpec, ...]
    tell: Callable[[Life], object]
    engines: int = 1
    on_shutdown: OnShutdown = OnShutdown.LEAVE
    pause_ms: int = 0  # between one removal and the next, at the end


def _one(name: str, period_s: int, **more: object) -> ScheduleSpec:
    return wish(name, periods_s=(period_s,), anchor_ms=START_MS, **more)  # type: ignore[arg-type]


def _after(name: str, trigger: str, **more: object) -> ScheduleSpec:
    return wish(name, trigger, anchor_ms=START_MS, **more)  # type: ignore[arg-type]


def _just_run(for_ms: int) -> Callable[[Life], object]:
    return lambda life: life.run(for_ms)


def _cancel(life: Life) -> None:
    life.run(6_500)
    life.people.cancel(0)
    life.run(1_000)
    life.people.cancel(1)
    life.run(6_000)


def _be_away(life: Life) -> None:
    life.run(6_000)
    life.be_away(95_000)
    life.run(100_000)


def _be_adopted(life: Life) -> None:
    life.run(6_000)
    life.kill_an_engine()
    life.run(7_000)
    life.kill_a_supervisor()
    life.run(6_000)


def _be_taken_over(life: Life) -> None:
    """An engine starts beside another one, which claims on, and dies."""
    life.run(7_000)
    life.engines_wanted = 2
    life.run(9_000)
    life.engines_wanted = 1
    for first in life.daemons[:1]:
        if first.is_alive:
            life.machine.kill(first.stepper)
    life.run(40_000)


def _lose_a_start(life: Life) -> None:
    """A supervisor does not hear of a claim before it dies with its engine; two engines find it."""
    life.run(9_000)
    machine = life.machine
    for one in machine.steppers:
        if one.name.startswith("supervisor"):
            one.stalled_until_ms = machine.true_ms + 60_000
    life.run(1_500)
    life.engines_wanted = 3
    life.run(10)
    for one in [one for one in machine.steppers if one.stalled_until_ms > machine.true_ms]:
        machine.kill(one)
    for first in life.daemons[:1]:
        if first.is_alive:
            machine.kill(first.stepper)
    life.engines_wanted = 2
    life.run(50_000)


def _start_late(life: Life) -> None:
    """A supervisor stands still while its engine claims and dies, and hears of the claim later."""
    life.run(9_000)
    machine = life.machine
    for one in machine.steppers:
        if one.name.startswith("supervisor"):
            one.stalled_until_ms = machine.true_ms + 8_000
    life.run(1_500)
    for first in life.daemons[:1]:
        if first.is_alive:
            machine.kill(first.stepper)
    life.run(30_000)


def _lose_all(life: Life) -> None:
    life.run(6_000)
    life.kill_a_supervisor()
    life.kill_an_engine()
    life.run(3_000)
    life.machine.reboot(down_ms=7_000)
    life.run(6_000)


def _backfill(life: Life) -> None:
    life.run(11_500)
    life.people.backfill("failing", last_s=60)
    life.run(9_000)


def _shut_down(life: Life) -> None:
    life.run(6_500)
    life.shut_down(is_judged=life.mishaps == 0)
    life.run(8_000)


def _change(life: Life) -> None:
    life.run(5_500)
    life.run_until_ahead()
    life.people.pause("plain")
    life.run(6_000)
    life.run_until_ahead()
    life.people.resume("plain")
    life.people.set_periods("other", (7,))
    life.run(3_000)
    life.run_until_ahead()
    life.people.reschedule("plain", in_ms=3_000)
    life.people.run("other")
    life.run(8_000)


def _enqueue(life: Life) -> None:
    """Programs call a task: now, later, in groups, and several times with one key."""
    people = life.people
    life.run(1_000)
    people.enqueue("task")
    people.enqueue("task", key="k")
    people.enqueue("task", key="k")
    people.enqueue("task", delay_s=4.0)
    life.run(1_500)
    people.enqueue("task", count=3)
    people.enqueue("one", count=3, delay_s=2.0)
    people.enqueue("task", key="k")
    life.run(3_000)
    people.enqueue("task", key="later", delay_s=3.0)
    people.enqueue("task", key="later", delay_s=3.0)
    life.run(9_000)


def _add(life: Life) -> None:
    """Programs add schedules, two of them the same one at the same time."""
    people = life.people
    life.run(1_000)
    people.add_by_program(_one("added", 4, lasts_s=1))
    people.add_by_program(_one("added", 4, lasts_s=1))
    life.run(2_500)
    people.add_by_program(_one("late", 3, lasts_s=1))
    life.run(3_000)
    people.add_by_program(_one("added", 4, lasts_s=1))
    life.run(6_000)


STORIES: Mapping[str, Story] = {
    "fire": Story(specs=(_one("plain", 5, lasts_s=1),), tell=_just_run(11_000)),
    "two-engines": Story(specs=(_one("plain", 5, lasts_s=2),), tell=_just_run(11_000), engines=2),
    "retry": Story(
        specs=(_one("failing", 10, lasts_s=1, code=1, retries=2, retry_delay_s=1.0,
                    retry_factor=1.0),),
        tell=_just_run(17_000),
    ),
    "queue": Story(
        specs=(_one("waiting", 3, lasts_s=4, overlap=Overlap.QUEUE),), tell=_just_run(11_000)
    ),
    "replace": Story(
        specs=(_one("replacing", 3, lasts_s=8, overlap=Overlap.REPLACE),), tell=_just_run(10_000)
    ),
    "cancel": Story(
        specs=(_one("long", 5, lasts_s=20, overlap=Overlap.QUEUE),), tell=_cancel
    ),
    "timeout": Story(
        specs=(_one("deaf", 10, lasts_s=9, is_deaf=True, timeout_s=2.0, kill_grace_s=2.0),),
        tell=_just_run(16_000),
    ),
    "downtime": Story(
        specs=(
            _one("all", 20, lasts_s=1, catch_up=CatchUp.ALL),
            _one("once", 15, lasts_s=1),
            _one("skip", 30, lasts_s=1, catch_up=CatchUp.SKIP),
        ),
        tell=_be_away,
    ),
    "chain": Story(
        specs=(
            _one("first", 8, lasts_s=1),
            _after("second", "after first", lasts_s=1, code=1),
            _after("third", "after second:failure", lasts_s=1),
            _after("poll", "every 6s after end", lasts_s=1),
        ),
        tell=_just_run(18_000),
        pause_ms=5_000,
    ),
    "adoption": Story(specs=(_one("long", 5, lasts_s=9),), tell=_be_adopted),
    "take-over": Story(
        specs=(
            _one("beside", 5, lasts_s=50, overlap=Overlap.ALLOW),
            _one("waiting", 7, lasts_s=3, overlap=Overlap.QUEUE),
        ),
        tell=_be_taken_over,
    ),
    "lost-start": Story(
        specs=(_one("long", 10, lasts_s=50), _one("waiting", 5, lasts_s=3, overlap=Overlap.QUEUE)),
        tell=_lose_a_start,
    ),
    "late-start": Story(specs=(_one("long", 10, lasts_s=20),), tell=_start_late),
    "interrupted": Story(
        specs=(
            _one("left", 5, lasts_s=9),
            _one("again", 5, lasts_s=9, on_interrupt=OnInterrupt.RETRY, retry_delay_s=1.0),
        ),
        tell=_lose_all,
    ),
    "backfill": Story(specs=(_one("failing", 5, lasts_s=1, code=1),), tell=_backfill),
    "enqueue": Story(
        specs=(
            _after("task", "on demand", lasts_s=1, overlap=Overlap.ALLOW, retries=1,
                   retry_delay_s=1.0, retry_factor=1.0),
            _after("one", "on demand", lasts_s=1, overlap=Overlap.ALLOW, max_running=1),
        ),
        tell=_enqueue,
    ),
    "add": Story(specs=(_one("plain", 5, lasts_s=1),), tell=_add),
    "people": Story(
        specs=(_one("plain", 5, lasts_s=1), _one("other", 6, lasts_s=1)), tell=_change
    ),
    **{
        f"shutdown-{policy}": Story(
            specs=(_one("long", 5, lasts_s=4), _one("waiting", 3, lasts_s=2)),
            tell=_shut_down,
            on_shutdown=policy,
        )
        for policy in OnShutdown
    },
}  # fmt: skip


def tell(
    name: str,
    folder: Path,
    *,
    hit: tuple[int, Hit | Fault] | None = None,
    server: ServerSide | None = None,
) -> Machine:
    """A story, with something at one of its points, to its end. Raises Violation.

    Where nothing happens, what may fail at each of its points is in `Machine.passed`.
    """
    story = STORIES[name]
    machine = Machine(folder, seed=f"{name} {hit}", start_ms=START_MS, server=server)
    try:
        with watching(machine):
            content = _beginning(name) if server is None else None
            life = Life(machine, story.specs, content=content)
            life.options = {"max_running": 4, "on_shutdown": story.on_shutdown}
            life.engines_wanted = story.engines
            machine.reached = 0
            machine.hit = hit
            machine.passed = [] if hit is None else None
            try:
                story.tell(life)
                machine.told = machine.reached
                machine.passed, passed = None, machine.passed
                is_even = hit is not None and hit[0] % 2 == 0
                # Engines ask a supervisor that did not answer again after up to half a minute.
                is_stall = any("stall supervisor" in line for line in machine.trail)
                life.finish_early(
                    pause_ms=story.pause_ms,
                    is_drained=is_even,
                    quiet_ms=35_000 if is_stall else 12_000,
                )
            finally:
                life.close()
    except Exception as error:
        told = "" if hit is None else f":{hit[1]}:{hit[0]}"
        raise Violation(None, f"story {name}{told}: {why_of(error)}", machine.trail) from error
    machine.passed = passed
    return machine


@cache
def _beginning(name: str) -> bytes:
    """The database in which the schedules of a story are, made once."""
    with folder_in_memory() as folder:
        machine = Machine(folder, seed=name, start_ms=START_MS)
        with watching(machine):
            Life(machine, STORIES[name].specs).close()
        return machine.path.read_bytes()


def tell_once(
    name: str, *, hit: tuple[int, Hit | Fault] | None = None, url: str | None = None
) -> Machine:
    """The same, in a folder in memory that is removed afterwards, or on a server's database."""
    with folder_in_memory() as folder:
        return tell(name, folder, hit=hit, server=server_side(url, folder))


def count_points(name: str, *, url: str | None = None) -> int:
    """How many points a story has where nothing happens."""
    return tell_once(name, url=url).told


def points_for(kind: Hit | Fault, name: str, *, url: str | None = None) -> list[int]:
    """The numbers of the points of a story at which this may happen."""
    passed = tell_once(name, url=url).passed
    assert passed is not None
    return [at for at, faults in enumerate(passed, 1) if isinstance(kind, Hit) or kind in faults]


def kind_of(text: str) -> Hit | Fault:
    return Hit(text) if text in list(Hit) else Fault(text)
