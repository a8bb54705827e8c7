"""A schedule in words: what it is, how it behaves, and what is on record of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.views.phrases import count_words, group_words, job_words, last_words, needs_words
from edgecron.views.times import local_time

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from edgecron.client.protocol import Client
    from edgecron.model.options import Policies
    from edgecron.model.schedule import Schedule


def trigger_lines(client: Client, schedule: Schedule) -> list[tuple[str, str]]:
    """(text, words) of each trigger; where one can't be read, all of them and why."""
    from edgecron.base.errors import InvalidInput
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
    from edgecron.model.options import JOB_OPTIONS, OptionType

    spec, job = schedule.spec, schedule.spec.job

    def shown(value: str) -> str:
        return value if mask is None else mask

    lines = [("job", f"{job_words(spec)}  ({job.kind})")]
    for option in JOB_OPTIONS:
        value = option.value_of(spec)
        if option.type is OptionType.VARIABLES:
            text = "\n".join(f"{name}={shown(one)}" for name, one in value.items())
        elif value is None:
            continue
        else:
            text = str(shown(value) if option.name in ("stdin", "payload") else value)
        if text:
            lines.append((option.label or option.name.replace("_", " "), text))
    return lines


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


_ALWAYS_SHOWN = ("catch_up", "overlap", "timeout")


def policy_words(policies: Policies) -> str:
    """How a schedule behaves beyond its times, in one line: what differs from the defaults."""
    from edgecron.formats.document_writing import value_text
    from edgecron.model.options import POLICIES, OptionType

    words = []
    for option in POLICIES:
        value = getattr(policies, option.field or "")
        is_shown = option.name in _ALWAYS_SHOWN or value != option.default_value
        if is_shown and option.type is not OptionType.CONDITIONS:
            text = value_text(option, value)
            shown = ", ".join(map(str, text)) if isinstance(text, list) else str(text)
            words.append(f"{option.name.replace('_', ' ')} {shown}")
    return ", ".join(words)


def record_lines(schedule: Schedule, *, zone: tzinfo, now: datetime) -> list[tuple[str, str]]:
    """(label, text): how its last run ended, and how many there were."""
    from edgecron.model.listing import standing_of

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
