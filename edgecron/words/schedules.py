"""A schedule in words: what it is, how it behaves, and what is on record of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.words.phrases import count_words, group_words, job_words, last_words, needs_words
from edgecron.words.times import local_time, seconds_words

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from edgecron.model import Policies, Schedule
    from edgecron.remote import Face


def trigger_lines(client: Face, schedule: Schedule) -> list[tuple[str, str]]:
    """(text, words) of each trigger; where one can't be read, all of them and why."""
    from edgecron.errors import InvalidInput
    from edgecron.triggers import describe

    try:
        triggers = client.triggers(schedule)
    except InvalidInput as error:
        return [(", ".join(schedule.spec.triggers), f"broken: {error}")]
    return [(trigger.text, describe(trigger)) for trigger in triggers]


def job_lines(schedule: Schedule, *, mask: str | None = None) -> list[tuple[str, str]]:
    """(label, text): what it runs, and how.

    A mask stands for the values of environment, stdin and payload.
    """
    spec, job = schedule.spec, schedule.spec.job

    def shown(value: str | None) -> str | None:
        return value if mask is None or value is None else mask

    lines = [
        ("job", f"{job_words(spec)}  ({job.kind})"),
        ("folder", job.cwd),
        ("user", job.user),
        ("env file", job.env_file),
        ("env", "\n".join(f"{key}={shown(value)}" for key, value in job.env.items())),
        ("stdin", shown(job.stdin)),
        ("payload", shown(job.payload)),
    ]
    return [(label, text) for label, text in lines if text]


def bound_lines(schedule: Schedule, *, zone: tzinfo) -> list[tuple[str, str]]:
    """(label, text): what its runs share and need, and what bounds them."""
    spec = schedule.spec
    lines = [
        ("group", group_words(schedule)),
        ("needs", needs_words(spec.policies)),
        ("from", local_time(spec.from_at, zone=zone, absent="")),
        ("until", local_time(spec.until_at, zone=zone, absent="")),
        ("max runs", str(spec.max_runs or "")),
    ]
    if spec.scopes != (("global", ""),):
        lines.append(("scopes", ", ".join(f"{kind}:{id_}" for kind, id_ in spec.scopes)))
    return [(label, text) for label, text in lines if text]


def policy_words(policies: Policies) -> str:
    """How a schedule behaves beyond its times, in one line."""
    from edgecron.model import OnInterrupt

    words = [f"catch up {policies.catch_up}", f"overlap {policies.overlap}"]
    if policies.grace_s is not None:
        words.append(f"grace {seconds_words(policies.grace_s)}")
    if policies.max_running is not None:
        words.append(f"at most {policies.max_running} at once")
    timeout = "none" if policies.timeout_s is None else seconds_words(policies.timeout_s)
    words.append(f"timeout {timeout}")
    if policies.timeout_s is not None:
        words.append(f"kill grace {seconds_words(policies.kill_grace_s)}")
    if policies.retries:
        words += _retry_words(policies)
    if policies.on_interrupt is not OnInterrupt.LEAVE:
        words.append("run again after an interruption")
    if policies.jitter_s:
        words.append(f"jitter {seconds_words(policies.jitter_s)}")
    if policies.priority:
        words.append(f"priority {policies.priority}")
    if policies.ok_codes != (0,):
        words.append(f"ok codes {', '.join(map(str, policies.ok_codes))}")
    return ", ".join(words)


def _retry_words(policies: Policies) -> list[str]:
    delay = seconds_words(policies.retry_delay_s)
    if policies.retries == 1:
        return [f"1 retry after {delay}"]
    words = [f"{policies.retries} retries, the first after {delay}"]
    if policies.retry_factor != 1:
        most = seconds_words(policies.retry_max_delay_s)
        words.append(f"each {policies.retry_factor:g} times later, up to {most}")
    return words


def record_lines(schedule: Schedule, *, zone: tzinfo, now: datetime) -> list[tuple[str, str]]:
    """(label, text): how its last run ended, and how many there were."""
    from edgecron.standing import standing_of

    lines = [("last", last_words(standing_of(schedule), now=now))]
    if schedule.last_error:
        lines.append(("last error", schedule.last_error))
    counts = [f"{count} {status}" for status, count in schedule.counts.items() if count]
    lines.append(("so far", ", ".join([count_words(schedule.run_count, "run"), *counts])))
    if schedule.pruned_until is not None:
        until = local_time(schedule.pruned_until, zone=zone)
        lines.append(("history", f"retention has removed runs of times up to {until}"))
    return lines


def state_lines(count: int) -> list[tuple[str, str]]:
    """(label, text): of how many keys it remembers something, where it does."""
    return [("remembers", count_words(count, "key"))] if count else []
