"""When the other schedules of a machine run: their next times, and minutes with many of them. Pure.

What counts from an event, such as a boot or the last run, has no time that can be known ahead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from edgecron.base.units import format_instant, from_ms, to_ms
from edgecron.base.values import dataclass
from edgecron.client.machine_files import Failure
from edgecron.client.machine_jobs import MachineJob
from edgecron.triggers import parse_trigger
from edgecron.triggers.several import Triggers, combine

AHEAD = timedelta(days=7)
PILE_UP = 3  # jobs that start in one minute
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PileUp:
    """Jobs that start in the same minute: the first such minute, and how many there are."""

    at: datetime
    names: tuple[str, ...]
    count: int


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
        if not job.is_enabled or (job.spec is not None and job.spec.policies.jitter_s):
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


def job_object(job: MachineJob, now: datetime, failure: Failure | None) -> dict[str, Any]:
    """Make the JSON object of a job."""
    at = next_time(job, now)
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
