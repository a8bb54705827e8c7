"""Who is on the machine: the schedules of a life, by the seed's own dice."""

from __future__ import annotations

from random import Random
from typing import Any

from edgecron.model.choices import CatchUp, OnInterrupt, Overlap
from edgecron.model.schedule import ScheduleSpec
from tests.simulation.people import wish

START_MS = 1_773_000_000_000  # 2026-03-08T20:00:00Z
PERIODS_S = (5, 6, 7, 10, 11, 13, 15, 17, 20, 30)
ALIKE_S = (5, 10, 10, 15, 20, 30, 60)  # many of these come due at once
TWO = (("device", "a"), ("device", "b"))
# What follows others is made once and never changed, so that each end must be followed.
FOLLOWERS = ("follows", "follows-failures", "follows-scoped", "follows-follower")


def attempts(random: Random) -> dict[str, Any]:
    return {
        "retries": random.choice((0, 0, 1, 3)),
        "retry_delay_s": float(random.choice((1, 5))),
        "retry_factor": 1.0,
        "on_interrupt": random.choice(list(OnInterrupt)),
    }


def calendar(random: Random, name: str, *, is_alike: bool = False) -> ScheduleSpec:
    """A schedule with times of its own and random policies."""
    overlap = random.choice((Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE, Overlap.ALLOW))
    periods = ALIKE_S if is_alike else PERIODS_S
    return wish(
        name,
        periods_s=random.sample(periods, 1 if is_alike else random.choice((1, 1, 2))),
        anchor_ms=START_MS,
        lasts_s=random.choice((1, 1, 2, 4, 12)),
        code=random.choice((0, 0, 0, 1)),
        scopes=TWO if random.random() < 0.15 else (("global", ""),),
        from_ms_=START_MS + 31_000 if random.random() < 0.1 else None,
        until_ms=START_MS + 301_000 if random.random() < 0.1 else None,
        max_runs=random.choice((1, 5, 20)) if random.random() < 0.1 else None,
        is_deaf=random.random() < 0.1,
        overlap=overlap,
        max_running=3 if overlap is Overlap.ALLOW else None,
        catch_up=random.choice(list(CatchUp)),
        jitter_s=9.0 if random.random() < (0.05 if is_alike else 0.25) else 0.0,
        priority=random.choice((-10, 0, 10)),
        timeout_s=random.choice((None, None, None, 3.0)),
        kill_grace_s=2.0,
        **attempts(random),
    )


def company(random: Random) -> list[ScheduleSpec]:
    """Calendars with random policies; then what follows them, and what follows itself."""
    return [
        *(calendar(random, f"calendar{number}") for number in range(6)),
        *(calendar(random, f"alike{number}", is_alike=True) for number in range(14)),
        wish("first", periods_s=(13,), anchor_ms=START_MS, lasts_s=2, code=0),
        wish("flaky", periods_s=(20,), anchor_ms=START_MS, lasts_s=1, code=1, **attempts(random)),
        wish("pair", periods_s=(30,), anchor_ms=START_MS, lasts_s=1, scopes=TWO),
        wish("follows", "after first:any", anchor_ms=START_MS, lasts_s=1, **attempts(random)),
        wish("follows-failures", "after flaky:failure", "after first", anchor_ms=START_MS,
             lasts_s=3, overlap=random.choice(list(Overlap))),
        wish("follows-scoped", "after pair", anchor_ms=START_MS, lasts_s=1, scopes=TWO,
             overlap=Overlap.QUEUE),
        wish("follows-follower", "after follows:any", anchor_ms=START_MS, lasts_s=1),
        wish("poll", "every 9s after end", anchor_ms=START_MS, lasts_s=3,
             code=random.choice((0, 1)), **attempts(random)),
        wish("poll-scoped", "every 14s after end", anchor_ms=START_MS, lasts_s=2, scopes=TWO),
    ]  # fmt: skip


def crowd(random: Random) -> list[ScheduleSpec]:
    """Many schedules that come due together."""
    return [calendar(random, f"alike{number}", is_alike=True) for number in range(150)]


def plain_crowd(random: Random) -> list[ScheduleSpec]:
    """The same without jitter and bounds: whatever the clock does, it is plain what is owed."""
    return [
        wish(
            f"alike{number}",
            periods_s=(random.choice((60, 300, 900)),),
            anchor_ms=START_MS,
            lasts_s=random.choice((1, 2, 30)),
            code=random.choice((0, 0, 1)),
            catch_up=random.choice(list(CatchUp)),
            overlap=random.choice((Overlap.SKIP, Overlap.QUEUE, Overlap.ALLOW)),
            **attempts(random),
        )
        for number in range(30)
    ]
