"""How a schedule stands, as a list shows it, and why nothing is to come of one. Pure.

A Standing is the narrow value of what a line of a list needs: a hundred thousand of them are
read at once, and a program that only lists schedules loads no more of the model.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from edgecron.values import NamedTuple

if TYPE_CHECKING:
    from edgecron.model import Schedule


class Idle(StrEnum):
    """Why nothing is to come of a schedule."""

    VANISHED = "vanished"  # no engine of its program offers it: nobody runs it
    BROKEN = "broken"  # its trigger can't be read
    PAUSED = "paused"  # without end
    MAX_RUNS = "max_runs"  # it has had as many fires as it may have
    ENDED = "ended"  # its --until has passed, or none of its times lies before it
    OWN_END = "own_end"  # it waits for the end of its own run
    UPSTREAM = "upstream"  # it waits for the end of another schedule's run
    BOOT = "boot"  # it waits for the machine's next boot
    DONE = "done"  # its triggers have no more times


class Standing(NamedTuple):
    """A schedule in a list. The fields are those of a Schedule and its specification.

    `last_status` is the value of a Status.
    """

    name: str
    triggers: tuple[str, ...]
    enabled: bool
    paused_until: datetime | None
    next_run_at: datetime | None
    trigger_error: str | None
    last_status: str | None
    last_run_at: datetime | None
    run_count: int
    planned_count: int
    max_runs: int | None
    until_at: datetime | None
    vanished_at: datetime | None


def standing_of(schedule: Schedule) -> Standing:
    """How a schedule that was read whole stands."""
    spec, last = schedule.spec, schedule.last_status
    return Standing(
        name=spec.name,
        triggers=spec.triggers,
        enabled=schedule.enabled,
        paused_until=schedule.paused_until,
        next_run_at=schedule.next_run_at,
        trigger_error=schedule.trigger_error,
        last_status=None if last is None else last.value,
        last_run_at=schedule.last_run_at,
        run_count=schedule.run_count,
        planned_count=schedule.planned_count,
        max_runs=spec.max_runs,
        until_at=spec.until_at,
        vanished_at=schedule.vanished_at,
    )


def find_idle(standing: Standing, *, now: datetime) -> Idle | None:
    """Why nothing is to come of a schedule by its own; None where its next time is known."""
    if standing.vanished_at is not None:
        return Idle.VANISHED
    if standing.trigger_error is not None:
        return Idle.BROKEN
    if not standing.enabled:
        return Idle.PAUSED
    if standing.next_run_at is not None:
        return None
    if standing.max_runs is not None and standing.planned_count >= standing.max_runs:
        return Idle.MAX_RUNS
    if standing.until_at is not None and standing.until_at <= now:
        return Idle.ENDED
    if any(text.endswith(" after end") for text in standing.triggers):
        return Idle.OWN_END
    if upstreams(standing):
        return Idle.UPSTREAM
    if "on boot" in standing.triggers:
        return Idle.BOOT
    return Idle.DONE if standing.until_at is None else Idle.ENDED


def upstreams(standing: Standing) -> list[str]:
    """The schedules that a schedule follows, by name."""
    texts = [text for text in standing.triggers if text.startswith("after ")]
    return [text[6:].partition(":")[0] for text in texts]


def idle_words(standing: Standing, *, now: datetime) -> str | None:
    """Why nothing is to come of a schedule, in a few words."""
    idle = find_idle(standing, now=now)
    if idle is None:
        return None
    return {
        Idle.VANISHED: "nobody runs it",
        Idle.BROKEN: f"broken: {standing.trigger_error}",
        Idle.PAUSED: "paused",
        Idle.MAX_RUNS: f"done: has had its {standing.max_runs} planned runs",
        Idle.ENDED: "done: its --until has passed",
        Idle.OWN_END: "after its run has ended",
        Idle.UPSTREAM: f"after {' or '.join(upstreams(standing))}",
        Idle.BOOT: "at boot",
        Idle.DONE: "done: no more times",
    }[idle]
