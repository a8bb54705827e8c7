"""What is to come of a schedule, and why nothing is. Pure."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from edgecron.model import Schedule


class Idle(StrEnum):
    """Why a schedule has no next time."""

    BROKEN = "broken"  # its trigger can't be read
    PAUSED = "paused"  # without end
    MAX_RUNS = "max_runs"  # it has had as many fires as it may have
    ENDED = "ended"  # its --until has passed, or none of its times lies before it
    OWN_END = "own_end"  # it waits for the end of its own run
    UPSTREAM = "upstream"  # it waits for the end of another schedule's run
    BOOT = "boot"  # it waits for the machine's next boot
    DONE = "done"  # its triggers have no more times


def find_idle(schedule: Schedule, *, now: datetime) -> Idle | None:
    """Why nothing is to come of a schedule by its own; None where its next time is known."""
    spec = schedule.spec
    if schedule.trigger_error is not None:
        return Idle.BROKEN
    if not schedule.enabled:
        return Idle.PAUSED
    if schedule.next_run_at is not None:
        return None
    if spec.max_runs is not None and schedule.planned_count >= spec.max_runs:
        return Idle.MAX_RUNS
    if spec.until_at is not None and spec.until_at <= now:
        return Idle.ENDED
    if any(text.endswith(" after end") for text in spec.triggers):
        return Idle.OWN_END
    if upstreams(schedule):
        return Idle.UPSTREAM
    if "on boot" in spec.triggers:
        return Idle.BOOT
    return Idle.DONE if spec.until_at is None else Idle.ENDED


def upstreams(schedule: Schedule) -> list[str]:
    """What a schedule follows, as its triggers say it: `backup`, `backup:any`."""
    return [text[6:] for text in schedule.spec.triggers if text.startswith("after ")]


def idle_words(schedule: Schedule, *, now: datetime) -> str | None:
    """Why nothing is to come of a schedule, in a few words."""
    idle = find_idle(schedule, now=now)
    if idle is None:
        return None
    follows = " or ".join(name.partition(":")[0] for name in upstreams(schedule))
    return {
        Idle.BROKEN: f"broken: {schedule.trigger_error}",
        Idle.PAUSED: "paused",
        Idle.MAX_RUNS: f"done: has had its {schedule.spec.max_runs} planned runs",
        Idle.ENDED: "done: its --until has passed",
        Idle.OWN_END: "after its run has ended",
        Idle.UPSTREAM: f"after {follows}",
        Idle.BOOT: "at boot",
        Idle.DONE: "done: no more times",
    }[idle]
