"""Specifications and timings in one line each."""

from __future__ import annotations

from typing import Any

from edgecron.base.units import parse_instant, to_ms
from edgecron.model.choices import CatchUp, JobKind
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.planning.next_fire import Due, Fire, Timing
from edgecron.store.sql.manual_runs import Enqueued
from edgecron.store.sql.writes import Writes
from edgecron.triggers import OnceInTrigger, combine, parse_trigger

SEED = bytes(range(16))


def ms(text: str) -> int:
    """Milliseconds since 1970 of an RFC 3339 text."""
    return to_ms(parse_instant(text))


def make_spec(
    name: str = "backup",
    *triggers: str,
    queue: str = "command",
    group: str | None = None,
    timezone: str | None = None,
    scopes: tuple[tuple[str, str], ...] = (("global", ""),),
    max_runs: int | None = None,
    **policies: Any,
) -> ScheduleSpec:
    """A schedule that runs /bin/true; without a trigger it is due on every minute."""
    return ScheduleSpec(
        name=name,
        triggers=triggers or ("* * * * *",),
        job=Job(kind=JobKind.COMMAND, argv=("/bin/true",)),
        timezone=timezone,
        queue=queue,
        group=group,
        scopes=scopes,
        max_runs=max_runs,
        policies=Policies(**policies),
    )


def make_timing(
    *triggers: str,
    name: str = "backup",
    catch_up: CatchUp = CatchUp.ONCE,
    max_late_s: float | None = None,
    jitter_s: float = 0,
    start: str | None = None,
    end: str | None = None,
    max_runs: int | None = None,
) -> Timing:
    """A timing over real triggers; `start` and `end` are the bounds, as texts."""
    read = [parse_trigger(text, None, name, seed=SEED) for text in triggers]
    return Timing(
        name=name,
        times=combine(read),
        seed=SEED,
        catch_up=catch_up,
        max_late_ms=None if max_late_s is None else round(max_late_s * 1000),
        jitter_ms=round(jitter_s * 1000),
        from_ms=None if start is None else ms(start),
        until_ms=None if end is None else ms(end),
        max_runs=max_runs,
        once_in=tuple(one for one in read if isinstance(one, OnceInTrigger)),
    )


def make_due(
    plan: str,
    *,
    run: str | None = None,
    decided: str | None = None,
    paused_until: str | None = None,
    planned_count: int = 0,
) -> Due:
    """A due schedule; its due time is its plan time unless `run` says otherwise."""
    plan_ms = ms(plan)
    return Due(
        schedule_id=1,
        revision=1,
        plan_ms=plan_ms,
        due_ms=plan_ms if run is None else ms(run),
        decided_until_ms=plan_ms - 1 if decided is None else ms(decided),
        paused_until_ms=None if paused_until is None else ms(paused_until),
        planned_count=planned_count,
        source=None,
    )


def enqueue(store: Writes, schedule: Schedule, fire: Fire, *, now_ms: int) -> list[int]:
    """Queue a fire of a schedule; the ids of its rows."""
    [found] = store.enqueue_together([Enqueued(schedule, (fire,))], now_ms=now_ms)
    assert isinstance(found, list), found
    return found
