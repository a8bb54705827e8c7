"""Turn rows into values and back."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any

from edgecron.base.checks import check_name
from edgecron.base.errors import SENSELESS, EdgecronError, InvalidInput, Unreadable
from edgecron.base.units import from_ms, to_ms
from edgecron.model.choices import Cause, JobKind, Reason, Status
from edgecron.model.engine import EngineInfo, base_of
from edgecron.model.job import Job
from edgecron.model.options import JOB_OPTIONS, POLICIES, Option, OptionType, Policies
from edgecron.model.run import Execution, OutputChunk, Stream, read_progress
from edgecron.model.schedule import Definition, Schedule, ScheduleSpec
from edgecron.planning.windows import Windows, excludes, find_windows
from edgecron.store.sql.connection import RESTORE

CHUNK = struct.Struct(">BqI")  # stream, instant in milliseconds, length; then the bytes
# Of the rows of a queue, with those of its placements: "command on web1".
PARTS_OF_QUEUE = ("queue = :queue", "queue > :queue || ' on ' AND queue < :queue || ' on!'")
OF_QUEUE = f"({' OR '.join(PARTS_OF_QUEUE)})"
# The columns of a definition. A revision's snapshot is a JSON object of them.
_JOB_COLUMNS = tuple(option.column for option in JOB_OPTIONS)
_PLAIN_JOB_COLUMNS = tuple(name for name in _JOB_COLUMNS if name != "env")
POLICY_COLUMNS = tuple(option.column for option in POLICIES)
SPEC_COLUMNS = (
    "name", "kind", "job", *_JOB_COLUMNS,
    "triggers", "compiled", "on_boot", "timezone", "from_at", "until_at", "max_runs",
    "after_end_ms", "queue", "group_name", "description", *POLICY_COLUMNS,
)  # fmt: skip
KEPT_COLUMNS = (
    "id", "enabled", "paused_until", "revision", "next_plan_at", "next_run_at", "next_source",
    "decided_until", "trigger_error", "last_execution_id", "last_status", "last_run_at",
    "last_success_at", "last_error", "run_count", "planned_count", "success_count", "failed_count",
    "skipped_count", "cancelled_count", "interrupted_count", "created_at", "updated_at",
    "pruned_until", "vanished_at",
)  # fmt: skip
EXECUTION_COLUMNS = (
    "id", "schedule_id", "revision", "scope_kind", "scope_id", "plan_at", "fire_key", "cause",
    "trigger_text", "payload", "due_at", "attempt", "max_attempts", "priority", "status", "reason",
    "flags", "waiting_for", "wait_until", "queued_at", "claimed_at", "engine_id", "supervisor_id",
    "cancel_requested_at", "progress", "started_at", "finished_at", "duration_ms", "exit_code",
    "result", "error_code", "error_msg", "missed_from_at", "missed_to_at", "missed_count",
    "fence", "timeout_s",
)  # fmt: skip
COUNTED = (
    Status.SUCCESS,
    Status.FAILED,
    Status.SKIPPED,
    Status.CANCELLED,
    Status.INTERRUPTED,
)
_COUNT_COLUMNS = tuple((status, f"{status}_count") for status in COUNTED)

Columns = Mapping[str, Any]
_policy_values = itemgetter(*POLICY_COLUMNS)
_plain_job_values = itemgetter(*_PLAIN_JOB_COLUMNS)
_NO_VALUES = (None,) * len(_PLAIN_JOB_COLUMNS)  # of nearly all jobs
_raw_decode = json.JSONDecoder().raw_decode
_job_kind = lru_cache(maxsize=8)(JobKind)  # An enumeration is slow to call.


def spec_columns(
    spec: ScheduleSpec, *, compiled: str, on_boot: bool, after_end_ms: int | None
) -> dict[str, Any]:
    """The columns of a specification. Its scopes are rows of another table."""
    job = spec.job
    return {
        "name": spec.name,
        "kind": job.kind.value,
        "job": _dump(job.argv) if job.kind is JobKind.COMMAND else job.argv[0],
        **{option.column: _column(option, option.value_of(spec)) for option in JOB_OPTIONS},
        "triggers": _dump(spec.triggers),
        "compiled": compiled,
        "on_boot": int(on_boot),
        "timezone": spec.timezone,
        "from_at": None if spec.from_at is None else to_ms(spec.from_at),
        "until_at": None if spec.until_at is None else to_ms(spec.until_at),
        "max_runs": spec.max_runs,
        "after_end_ms": after_end_ms,
        "queue": spec.placed_queue,
        "group_name": spec.group,
        "description": spec.description,
        **{option.column: _column(option, option.value_of(spec)) for option in POLICIES},
    }


def spec_of(
    columns: Columns,
    scopes: tuple[tuple[str, str], ...],
    policy_values: tuple[Any, ...] | None = None,
) -> ScheduleSpec:
    """The specification from its columns. Raises Unreadable if they make no sense.

    `policy_values`: those of POLICY_COLUMNS, if they are not among `columns`.
    """
    try:
        kind = _job_kind(columns["kind"])
        job_text: str = columns["job"]
        job_values = _plain_job_values(columns)
        more: dict[str, Any] = {}
        if job_values != _NO_VALUES:
            more = dict(zip(_PLAIN_JOB_COLUMNS, job_values, strict=True))
        return ScheduleSpec(
            name=columns["name"],
            triggers=_texts_in(columns["triggers"]),
            job=Job(
                kind=kind,
                argv=_texts_in(job_text) if kind is JobKind.COMMAND else (job_text,),
                env={} if columns["env"] == "{}" else _env_of(json.loads(columns["env"])),
                **more,
            ),
            timezone=columns["timezone"],
            queue=base_of(columns["queue"]),
            group=columns["group_name"],
            description=columns["description"],
            policies=_policies(*(policy_values or _policy_values(columns))),
            scopes=scopes,
            from_at=_instant(columns["from_at"]),
            until_at=_instant(columns["until_at"]),
            max_runs=columns["max_runs"],
        )
    except SENSELESS as error:
        raise unreadable("schedule", error, name=columns.get("name")) from error


def definition_of(
    columns: Columns, scopes: tuple[tuple[str, str], ...], policy_values: tuple[Any, ...]
) -> Definition:
    """Return a schedule as its document defines it. Raises Unreadable."""
    spec = spec_of(columns, scopes, policy_values)
    return Definition(spec, bool(columns["enabled"]), columns["group_max_running"])


def schedule_of(
    columns: Columns, scopes: tuple[tuple[str, str], ...], policy_values: tuple[Any, ...]
) -> Schedule:
    """A schedule from its columns and the limit of its group. Raises Unreadable."""
    spec = spec_of(columns, scopes, policy_values)
    try:
        return Schedule(
            id=columns["id"],
            spec=spec,
            enabled=bool(columns["enabled"]),
            paused_until=_instant(columns["paused_until"]),
            revision=columns["revision"],
            next_plan_at=_instant(columns["next_plan_at"]),
            next_run_at=_instant(columns["next_run_at"]),
            next_source=columns["next_source"],
            decided_until=_instant(columns["decided_until"]),
            trigger_error=columns["trigger_error"],
            last_execution_id=columns["last_execution_id"],
            last_status=_status(columns["last_status"]),
            last_run_at=_instant(columns["last_run_at"]),
            last_success_at=_instant(columns["last_success_at"]),
            last_error=columns["last_error"],
            run_count=columns["run_count"],
            planned_count=columns["planned_count"],
            group_max_running=columns["group_max_running"],
            counts={status: columns[name] for status, name in _COUNT_COLUMNS},
            created_at=from_ms(columns["created_at"]),
            updated_at=from_ms(columns["updated_at"]),
            pruned_until=_instant(columns["pruned_until"]),
            vanished_at=_instant(columns["vanished_at"]),
            is_done=bool(columns["is_done"]),
            is_active=bool(columns["is_active"]),
            gone_upstreams=tuple((columns["gone_upstreams"] or "").split()),
            is_excluded=columns["next_plan_at"] is not None
            and excludes(spec.policies, spec.timezone, columns["next_plan_at"]),
        )
    except SENSELESS as error:
        raise unreadable("schedule", error, name=spec.name) from error


def execution_of(row: tuple[Any, ...]) -> Execution:
    """A run from EXECUTION_COLUMNS and the name of its schedule. Raises Unreadable."""
    try:
        columns = dict(zip((*EXECUTION_COLUMNS, "schedule"), row, strict=True))
        for name in (
            "plan_at", "due_at", "wait_until", "queued_at", "claimed_at", "cancel_requested_at",
            "started_at", "finished_at", "missed_from_at", "missed_to_at",
        ):  # fmt: skip
            columns[name] = _instant(columns[name])
        columns["progress"] = read_progress(columns["progress"])
        columns["cause"] = Cause(columns["cause"])
        columns["status"] = Status(columns["status"])
        columns["reason"] = None if columns["reason"] is None else Reason(columns["reason"])
        columns["flags"] = tuple(json.loads(columns["flags"] or "[]"))
        return Execution(**columns)
    except SENSELESS as error:
        raise unreadable(f"run {row[0]}", error) from error


def chunks_of(execution_id: int, encoding: str, stored: bytes) -> tuple[OutputChunk, ...]:
    """What a run printed, from how it is stored. Raises Unreadable."""
    chunks: list[OutputChunk] = []
    at = 0
    try:
        packed = zlib.decompress(stored) if encoding == "zlib" else stored
        while at < len(packed):
            stream, at_ms, length = CHUNK.unpack_from(packed, at)
            at += CHUNK.size
            content = packed[at : at + length]
            chunks.append(OutputChunk(stream=Stream(stream), at_ms=at_ms, content=content))
            at += length
    except (zlib.error, struct.error, *SENSELESS) as error:
        raise unreadable(f"the output of run {execution_id}", error) from error
    return tuple(chunks)


def engine_of(row: tuple[Any, ...]) -> EngineInfo:
    """An engine from its columns, in the order of EngineInfo. Raises Unreadable."""
    try:
        return EngineInfo(
            id=row[0],
            key=row[1],
            pid=row[2],
            boot_id=row[3],
            queues=tuple(json.loads(row[4])),
            offers=None if row[5] is None else texts_of(json.loads(row[5])),
            version=row[6],
            supervisor_id=row[7],
            started_at=from_ms(row[8]),
            stopped_at=_instant(row[9]),
            max_running=row[10],
            local_timezone=row[11],
            written_bytes=row[12],
            written_at=_instant(row[13]),
            machine=row[14],
            is_stale=bool(row[15]),
            former_queues=tuple(json.loads(row[16] or "[]")),
            drained_at=_instant(row[17]),
        )
    except SENSELESS as error:
        raise unreadable(f"engine {row[0]}", error) from error


def needs_of(column: str) -> tuple[str, ...]:
    """The texts of a schedule's conditions; anything else than a list of texts as its own text."""
    if column == "[]":
        return ()
    try:
        needs = json.loads(column)
    except (ValueError, RecursionError):
        return (column[:200],)
    if not isinstance(needs, list):
        return (column,)
    return tuple(one if isinstance(one, str) else _dump(one) for one in needs)


def windows_in(
    between: str, not_between: str, except_days: str, timezone: str | None
) -> Windows | None:
    """The windows of a schedule from its columns; None if it can start at any time."""
    if between == not_between == except_days == "[]":
        return None
    return find_windows(needs_of(between), needs_of(not_between), needs_of(except_days), timezone)


def ok_codes_of(column: str) -> tuple[int, ...]:
    """The exit codes that are a success; 0, the default, if the column can't be read."""
    try:
        return tuple(int(code) for code in json.loads(column))
    except SENSELESS:
        return (0,)


@lru_cache(maxsize=256)  # Many schedules have the same policies.
def _policies(*values: Any) -> Policies:
    return Policies(
        **{
            option.field or "": _value(option, value)
            for option, value in zip(POLICIES, values, strict=True)
        }
    )


def _column(option: Option, value: Any) -> Any:
    """The column of an option's value."""
    match option.type:
        case OptionType.CODES | OptionType.RULES | OptionType.CONDITIONS:
            return _dump(value)
        case OptionType.WINDOWS | OptionType.DAYS:
            return _dump(value)
        case OptionType.VARIABLES:
            return _dump(dict(value))
        case OptionType.CHOICE:
            return value.value
        case OptionType.PRIORITY | OptionType.SWITCH:
            return int(value)
    return value


def _value(option: Option, column: Any) -> Any:
    """An option's value from its column. Raises the errors in SENSELESS."""
    match option.type:
        case OptionType.CODES:
            return tuple(int(code) for code in json.loads(column))
        case OptionType.RULES | OptionType.WINDOWS | OptionType.DAYS:
            return () if column == "[]" else texts_of(json.loads(column))
        case OptionType.CONDITIONS:
            return needs_of(column)
        case OptionType.CHOICE:
            return type(option.default_value)(column)
        case OptionType.SWITCH:
            return bool(column)
    return column


@lru_cache(maxsize=4096)
def _texts_in(column: str) -> tuple[str, ...]:
    inner = column[2:-2]  # of a single text, as most are
    is_plain = '"' not in inner and "\\" not in inner and inner.isprintable()
    if is_plain and column == f'["{inner}"]':
        return (inner,)
    # Without the white space that `loads` allows, in half its time: 10,000 triggers are 30 ms.
    stored, end = _raw_decode(column)
    return texts_of(stored if end == len(column) else json.loads(column))


def _env_of(stored: object) -> dict[str, str]:
    if not isinstance(stored, dict):
        raise TypeError("expected an object of variables")
    texts_of(list(stored.values()))
    return stored


def _status(stored: str | None) -> Status | None:
    return None if stored is None else Status(stored)


def _instant(instant_ms: int | None) -> Any:
    return None if instant_ms is None else from_ms(instant_ms)


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_MOST_SHOWN = 200


def unreadable(what: str, error: BaseException, *, name: object = None) -> Unreadable:
    """The error for stored values that can't be read; `name` is that of a schedule, if known."""
    if isinstance(error, Unreadable) and error.__cause__ is not None:
        error = error.__cause__  # It names the value; its message names only the database.
    reason = error.message if isinstance(error, EdgecronError) else repr(error)
    if len(reason) > _MOST_SHOWN:
        reason = f"{reason[:_MOST_SHOWN]}..."
    hint = RESTORE
    if isinstance(name, str):
        what = f"{what} {name[:60]!r}"
        if _is_name(name):
            hint = f"to remove it: edgecron rm {name}; {RESTORE}"
    return Unreadable(f"the stored values of {what} can't be read: {reason}", hint=hint)


def texts_of(stored: object) -> tuple[str, ...]:
    """A JSON array of texts. Raises TypeError for anything else."""
    if not isinstance(stored, list) or not {*map(type, stored)} <= {str}:
        raise TypeError("expected an array of texts")
    return tuple(stored)


def _is_name(text: str) -> bool:
    try:
        check_name(text, what="schedule name")
    except InvalidInput:
        return False
    return True


# The columns of options that are not given.
DEFAULT_COLUMNS: Columns = {
    "env": "{}",
    **dict.fromkeys(_PLAIN_JOB_COLUMNS),
    **{option.column: _column(option, option.default_value) for option in POLICIES},
}
