"""Turn values into the JSON objects that scripts read. The field names are a contract."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from edgecron.base.units import format_instant, format_ms
from edgecron.base.window_texts import source_of
from edgecron.model.choices import JobKind
from edgecron.model.listing import idle_words, standing_of
from edgecron.model.options import JOB_OPTIONS, POLICIES

if TYPE_CHECKING:
    from edgecron.model.notices import Notice
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.planning.next_fire import Missed
    from edgecron.views.outlook import LatePlaces, Outlook


MASK = "***"  # replaces a value that only its owner may see


def instant(value: datetime | None) -> str | None:
    """Format an instant as RFC 3339 with Z; None stays None."""
    return None if value is None else format_instant(value)


def schedule_object(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as `list` shows it."""
    spec = schedule.spec
    is_command = spec.job.kind is JobKind.COMMAND
    return {
        "name": schedule.name,
        "kind": spec.job.kind.value,
        "job": list(spec.job.argv) if is_command else spec.job.argv[0],
        "triggers": list(spec.triggers),
        "timezone": spec.timezone or "UTC",
        **_fields(schedule, _STANDING),
        **{option.field or "": _plain(option.value_of(spec)) for option in POLICIES},
        "except_days": [source_of(text) for text in spec.policies.except_days],
        "group": spec.group,
        "group_max_running": schedule.group_max_running,
        "queue": spec.queue,
        "description": spec.description,
        "scopes": [{"kind": kind, "id": id_} for kind, id_ in spec.scopes],
        **_fields(spec, ("from_at", "until_at", "max_runs")),
        **_fields(schedule, _RECORD),
    }


_STANDING = (
    *("enabled", "paused_until", "next_plan_at", "next_run_at", "last_run_at", "last_status"),
    "run_count",
)
_RECORD = ("trigger_error", "vanished_at", "id", "revision", "created_at", "updated_at")


def _fields(value: object, names: Sequence[str]) -> dict[str, Any]:
    """Return fields of a value as JSON has them."""
    return {name: _plain(getattr(value, name)) for name in names}


def _plain(value: Any) -> Any:
    """Return the value of a field or an option as JSON has it."""
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, StrEnum):
        return value.value
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def schedule_details(schedule: Schedule, upcoming: Sequence[UpcomingFire]) -> dict[str, Any]:
    """Return a schedule as `show` shows it, with all details."""
    return {
        **schedule_object(schedule),
        **{option.name: _plain(option.value_of(schedule.spec)) for option in JOB_OPTIONS},
        "counts": {status.value: count for status, count in schedule.counts.items()},
        "last_success_at": instant(schedule.last_success_at),
        "last_error": schedule.last_error,
        "upcoming": [fire_object(fire) for fire in upcoming],
    }


def mask_values(value: Any) -> Any:
    """Hide the values of environment, payload and stdin at any depth of an object.

    The values that a job left (its result, its state) stay visible.
    """
    if isinstance(value, Mapping):
        return {key: _masked(key, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [mask_values(one) for one in value]
    return value


def _masked(key: str, value: Any) -> Any:
    if key in ("result", "state"):
        return value
    if key == "env" and isinstance(value, Mapping):
        return dict.fromkeys(value, MASK)
    if key in ("payload", "stdin"):
        return None if value is None else MASK
    return mask_values(value)


def fire_object(fire: UpcomingFire) -> dict[str, Any]:
    """Return a fire to come."""
    return _fields(fire, ("schedule", "plan_at", "due_at", "source", "is_moved"))


_RUN = (
    *("id", "schedule", "scope_kind", "scope_id", "plan_at", "due_at", "fire_key", "cause"),
    *("attempt", "max_attempts", "status", "reason", "exit_code", "started_at", "finished_at"),
    *("duration_ms", "engine_id", "missed_from_at", "missed_to_at", "missed_count", "error_msg"),
    *("flags", "result", "error_code", "trigger_text", "payload", "progress", "waiting_for"),
    "wait_until",
)


def execution_object(execution: Execution) -> dict[str, Any]:
    """Return a run as `history` shows it."""
    return _fields(execution, _RUN) | {
        "result": None if execution.result is None else json.loads(execution.result),
        "progress": execution.progress and _fields(execution.progress, ("fraction", "text")),
    }


def state_object(state: Mapping[str, str]) -> dict[str, Any]:
    """Return the state that a schedule keeps; a text that is not JSON stays a text."""
    return {key: _value_of(text) for key, text in state.items()}


def _value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def late_object(late: LatePlaces) -> dict[str, Any]:
    """Return which late runs hold the places for late runs."""
    return {
        "places": late.places,
        "held_by": [{"id": id_, "schedule": schedule} for id_, schedule in late.held_by],
        "waiting": late.waiting,
    }


def excluded_object(times: Missed) -> dict[str, Any]:
    """Return a range of times that windows exclude."""
    return {
        "from_at": format_ms(times.from_ms),
        "to_at": format_ms(times.to_ms),
        "count": times.count,
    }


def outlook_object(outlook: Outlook, *, now: datetime) -> dict[str, Any]:
    """Return what will happen next to a schedule, and why, as `show` and `why` show it."""
    held = outlook.held
    return {
        "next": fire_object(outlook.upcoming[0]) if outlook.upcoming else None,
        "idle": None if outlook.idle is None else outlook.idle.value,
        "idle_reason": idle_words(standing_of(outlook.schedule), now=now),
        "clock_changes": list(outlook.changes),
        "held_count": 0 if held is None else held.count,
        "held_from_at": None if held is None else format_ms(held.from_ms),
        "held_to_at": None if held is None else format_ms(held.to_ms),
        "excluded": [excluded_object(one) for one in outlook.excluded],
        "active_count": outlook.active_count,
        "active": [
            execution_object(run.execution)
            | {
                "waits_for": None if run.waits_for is None else run.waits_for.value,
                "waits_for_run": run.behind_id,
            }
            for run in outlook.active
        ],
        "fire_now": [
            {
                "scope_kind": fire.scope[0],
                "scope_id": fire.scope[1],
                "becomes": fire.admission.value,
                "because_of_run": fire.because_id,
            }
            for fire in outlook.fire_now
        ],
        "unmet_need": outlook.unmet,
        "clock_trusted": outlook.is_clock_trusted,
        "has_engine": outlook.has_engine,
        "late_places": None if outlook.late is None else late_object(outlook.late),
        "behind": (
            None
            if outlook.behind is None
            else _fields(outlook.behind, ("due_per_minute", "places", "skipped"))
            | {"since_at": format_instant(outlook.behind.since)}
        ),
        "last_not_run": (
            None if outlook.last_unrun is None else execution_object(outlook.last_unrun)
        ),
    }


def notice_object(notice: Notice) -> dict[str, object]:
    """Return a notice as JSON: what `notices` shows and what a message holds."""
    return {
        "id": notice.id,
        "rule": notice.rule,
        "event": notice.event.value,
        "at": format_ms(notice.at_ms),
        "schedule": notice.schedule,
        "run_id": notice.execution_id,
        "is_reminder": notice.is_reminder,
        "status": notice.status.value,
        "due_at": format_ms(notice.due_ms),
        "tries": notice.tries,
        "sent_at": format_ms(notice.sent_ms),
        "message": notice.message,
        "error": notice.error,
        **notice.detail,
    }
