"""When the other schedules of a machine run: their next times, and minutes with many of them.

What counts from an event, such as a boot or the last run, has no time that can be known ahead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from edgecron.base.units import format_instant, from_ms, to_ms
from edgecron.base.values import dataclass
from edgecron.client.machine_files import Failure, MachineJob, find_failures, is_this_system
from edgecron.client.machine_scan import scan_machine
from edgecron.planning.forecast import UpcomingFire
from edgecron.triggers import parse_trigger
from edgecron.triggers.base import Triggers, combine
from edgecron.views.phrases import count_words
from edgecron.views.times import near_time

AHEAD = timedelta(days=7)
DAY = timedelta(days=1)
MOST_STARTS = 1500  # of the next day
PILE_UP = 3  # jobs that start in one minute
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PileUp:
    """Jobs that start in the same minute: the first such minute, and how many there are."""

    at: datetime
    names: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedJob:
    """A job, its next time by the calendar, and its failures that the journal has recorded."""

    job: MachineJob
    next_at: datetime | None
    failure: Failure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTimeline:
    """The jobs of a machine in the order of their next times, and what stands out.

    `moved_count`: how many jobs edgecron has now. `unread` says what could not be read.
    """

    jobs: tuple[TimedJob, ...]
    pile_ups: tuple[PileUp, ...]
    moved_count: int
    unread: tuple[str, ...]


def read_timeline(root: Path, now: datetime) -> MachineTimeline:
    """Read the other schedules below a root folder, with their times after now."""
    found = scan_machine(root)
    failures = find_failures() if is_this_system(root) else {}
    jobs = [
        TimedJob(
            job=job,
            next_at=next_time(job, now),
            failure=failures.get(job.service or ""),
        )
        for job in found.jobs
    ]
    jobs.sort(key=lambda one: (not one.job.is_enabled, one.next_at is None, one.next_at or now))
    return MachineTimeline(
        jobs=tuple(jobs),
        pile_ups=tuple(find_pile_ups(found.jobs, now)),
        moved_count=len(found.moved),
        unread=found.unread,
    )


def next_time(job: MachineJob, now: datetime) -> datetime | None:
    """Find the next time of a job that runs by the calendar; None if it has none."""
    found_ms = _calendar(job).next_after_ms(to_ms(now)) if job.is_enabled else None
    return None if found_ms is None else from_ms(found_ms)


def find_pile_ups(jobs: Sequence[MachineJob], now: datetime) -> list[PileUp]:
    """Find minutes of the next week in which three or more jobs start, each set of jobs once.

    Jobs with a random delay spread by themselves and do not count.
    """
    until_ms = to_ms(now + AHEAD)
    minutes: defaultdict[int, list[str]] = defaultdict(list)
    for job in jobs:
        if not job.is_enabled or job.is_spread:
            continue
        triggers, at_ms = _calendar(job), to_ms(now)
        minute = -1
        while (found_ms := triggers.next_after_ms(at_ms)) is not None:
            if found_ms > until_ms:
                break
            at_ms = found_ms
            if found_ms // _MINUTE_MS != minute:
                minute = found_ms // _MINUTE_MS
                minutes[minute].append(job.name)
    sets: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for minute in sorted(minutes):
        if len(minutes[minute]) >= PILE_UP:
            sets[tuple(minutes[minute])].append(minute)
    found = [
        PileUp(at=from_ms(times[0] * _MINUTE_MS), names=names, count=len(times))
        for names, times in sets.items()
    ]
    return sorted(found, key=lambda one: (-len(one.names), one.at))


def find_starts(jobs: Sequence[MachineJob], now: datetime) -> tuple[UpcomingFire, ...]:
    """Find the starts of jobs in the next day, by time, at most MOST_STARTS."""
    until_ms = to_ms(now + DAY)
    starts: list[tuple[int, str]] = []
    for job in jobs:
        triggers, at_ms, count = _calendar(job), to_ms(now), 0
        while job.is_enabled and count < MOST_STARTS:
            found_ms = triggers.next_after_ms(at_ms)
            if found_ms is None or found_ms > until_ms:
                break
            at_ms, count = found_ms, count + 1
            starts.append((found_ms, job.name))
    return tuple(
        UpcomingFire(schedule=name, plan_at=from_ms(at_ms), due_at=from_ms(at_ms), source=None)
        for at_ms, name in sorted(starts)[:MOST_STARTS]
    )


def failure_words(failure: Failure, *, zone: tzinfo, now: datetime) -> str:
    """Say how often a job failed, and when last."""
    last = near_time(from_ms(failure.last_at_us // 1000), zone=zone, now=now)
    return f"{count_words(failure.count, 'time')}, last at {last}"


def pile_up_words(pile_up: PileUp, *, zone: tzinfo) -> str:
    """Say which jobs start in the same minute, and how often in a week."""
    words = f"{pile_up.at.astimezone(zone):%b %d %H:%M}: {', '.join(pile_up.names)}"
    return words + (f" ({pile_up.count} times in 7 days)" if pile_up.count > 1 else "")


def job_object(timed: TimedJob) -> dict[str, Any]:
    """Make the JSON object of a job."""
    job, at, failure = timed.job, timed.next_at, timed.failure
    return {
        "name": job.name,
        "origin": job.origin.value,
        "source": job.source,
        "line": job.line,
        "job": job.command,
        "triggers": list(job.triggers),
        "timezone": job.timezone,
        "next_run_at": None if at is None else format_instant(at),
        "enabled": job.is_enabled,
        "caught_up": job.is_caught_up,
        "can_adopt": job.spec is not None,
        "reason": job.reason,
        "notes": list(job.notes),
        "failures": 0 if failure is None else failure.count,
        "last_failure_at": None
        if failure is None
        else format_instant(from_ms(failure.last_at_us // 1000)),
    }


def _calendar(job: MachineJob) -> Triggers:
    texts = [text for text in job.triggers if not text.startswith(("every ", "on boot"))]
    return combine([parse_trigger(text, job.timezone, job.name) for text in texts])
