"""Decide which schedules are not healthy and why, and say what a person can do about it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import SENSELESS
from edgecron.base.safetext import clean
from edgecron.base.units import format_duration_ms, from_ms
from edgecron.base.values import NamedTuple, dataclass, field
from edgecron.model.choices import (
    COMMAND_QUEUE,
    HealthCause,
    HealthState,
    JobKind,
    Reason,
    Status,
    WaitsFor,
)
from edgecron.model.engine import base_of
from edgecron.views.json_objects import instant
from edgecron.views.phrases import (
    count_words,
    no_engine_words,
    place_words,
    runner_words,
    start_words,
)
from edgecron.views.times import distance

if TYPE_CHECKING:
    from edgecron.model.listing import Streak, Suspect
    from edgecron.model.run import Execution
    from edgecron.model.schedule import ScheduleSpec
    from edgecron.views.outlook import ActiveRun

LATE_MS = 60_000  # what is due for less long is not overdue
_MOST_LETTERS = 100  # of an error
_EXIT_NOT_EXECUTABLE, _EXIT_NOT_FOUND, _EXIT_KILLED = 126, 127, 137
_WAITS = {
    WaitsFor.EARLIER_RUN: HealthCause.EARLIER_RUN,
    WaitsFor.REPLACED_RUN: HealthCause.EARLIER_RUN,
    WaitsFor.GROUP: HealthCause.GROUP,
    WaitsFor.PLACE: HealthCause.PLACE,
    WaitsFor.ENGINE: HealthCause.NO_ENGINE,
    WaitsFor.PROGRAM: HealthCause.NO_ENGINE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhealthy:
    """A schedule that is not healthy.

    `since` is the first failure in a row, or since when it is due. `count` is how many fires failed
    in a row, or how many times were skipped; if `is_at_least`, there were more. `run_id` is its
    last failed run, or the run that waits. `subject` is what the advice names: a command, a file,
    a folder, a timeout, a group or the number of a run. If many schedules have one
    cause that is not theirs, the first stands for `others`.
    """

    schedule: str
    queue: str
    state: HealthState
    cause: HealthCause
    since: datetime | None = None
    count: int = 0
    is_at_least: bool = False
    last_success_at: datetime | None = None
    run_id: int | None = None
    error: str | None = None
    subject: str | None = None
    others: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleHealth:
    """How many schedules are not healthy, by state, and the worst of them."""

    counts: dict[HealthState, int] = field(default_factory=dict)
    worst: tuple[Unhealthy, ...] = ()


class Ranked(NamedTuple):
    """A schedule that is not healthy. `general` is its cause if that is not its own: then it stands
    for `others` of its queue."""

    suspect: Suspect
    state: HealthState
    general: HealthCause | None = None
    others: int = 0


def rank(suspects: Iterable[Suspect]) -> list[Ranked]:
    """Return the schedules that are not healthy, the worst first.

    Failing ones come first, the one without a success for the longest time before the others. Then
    come overdue ones, and those that never succeeded.
    """
    found = []
    for one in suspects:
        if one.last_status in (Status.FAILED, Status.INTERRUPTED):
            found.append((0, one.last_success_ms or 0, one.name, Ranked(one, HealthState.FAILING)))
        elif one.due_ms is not None:
            found.append((1, one.due_ms, one.name, Ranked(one, HealthState.OVERDUE)))
        elif not one.has_succeeded and one.skipped_count and not one.is_active:
            found.append((2, 0, one.name, Ranked(one, HealthState.NEVER_SUCCEEDED)))
    return [ranked for *_, ranked in sorted(found, key=lambda each: each[:3])]


def count_states(ranked: Sequence[Ranked]) -> dict[HealthState, int]:
    """Return how many schedules have each state."""
    counts = Counter(one.state for one in ranked)
    return {state: counts[state] for state in HealthState if counts[state]}


def choose(
    ranked: Iterable[Ranked], general: Mapping[str, HealthCause], *, limit: int
) -> list[Ranked]:
    """Return at most `limit` schedules of each state.

    `general` are causes by queue that are not a schedule's: no engine, a stalled one, the clock,
    the disk. One overdue schedule of such a queue stands for the others.
    """
    chosen: dict[object, Ranked] = {}
    counts: Counter[HealthState] = Counter()
    for one in ranked:
        cause = general.get(one.suspect.queue) if one.state is HealthState.OVERDUE else None
        key: object = one.suspect.id if cause is None else one.suspect.queue
        if key in chosen:
            chosen[key] = chosen[key]._replace(others=chosen[key].others + 1)
        elif counts[one.state] < limit:
            counts[one.state] += 1
            chosen[key] = one._replace(general=cause)
    return list(chosen.values())


def _instant(at_ms: int) -> datetime | None:
    """Return an instant; None for one that is out of all bounds, which a person may have stored."""
    try:
        return from_ms(at_ms)
    except SENSELESS:
        return None


def judge_failing(
    suspect: Suspect, streak: Streak, run: Execution | None, spec: ScheduleSpec | None
) -> Unhealthy:
    """Judge a failing schedule by its last run; None if that run was removed."""
    cause, subject = (HealthCause.FAILED, None) if run is None else _failure_cause(run, spec)
    last_ms, since_ms = suspect.last_success_ms, streak.since_ms
    return Unhealthy(
        schedule=suspect.name,
        queue=suspect.queue,
        state=HealthState.FAILING,
        cause=cause,
        since=None if since_ms is None or streak.is_at_least else _instant(since_ms),
        count=max(1, streak.fires),
        is_at_least=streak.is_at_least,
        last_success_at=None if last_ms is None else _instant(last_ms),
        run_id=None if run is None else run.id,
        error=None if run is None else _one_line(run.error_msg or run.error_code or ""),
        subject=subject,
    )


def judge_overdue(one: Ranked, waits: ActiveRun | None, spec: ScheduleSpec | None) -> Unhealthy:
    """Judge an overdue schedule. `waits` is its run that waits; None if none is queued."""
    suspect = one.suspect
    assert suspect.due_ms is not None
    cause, subject = one.general or HealthCause.UNKNOWN, None
    if waits is not None and waits.waits_for is not None and one.general is None:
        cause = _WAITS.get(waits.waits_for, cause)
        if cause is HealthCause.EARLIER_RUN:
            subject = None if waits.behind_id is None else str(waits.behind_id)
        elif cause is HealthCause.GROUP:
            subject = None if spec is None else spec.group
    return Unhealthy(
        schedule=suspect.name,
        queue=suspect.queue,
        state=HealthState.OVERDUE,
        cause=cause,
        since=_instant(suspect.due_ms),
        run_id=suspect.waiting_id,
        subject=subject,
        others=one.others,
    )


def judge_never_succeeded(suspect: Suspect) -> Unhealthy:
    return Unhealthy(
        schedule=suspect.name,
        queue=suspect.queue,
        state=HealthState.NEVER_SUCCEEDED,
        cause=HealthCause.SKIPPED,
        count=suspect.skipped_count,
    )


def _failure_cause(run: Execution, spec: ScheduleSpec | None) -> tuple[HealthCause, str | None]:
    """Find why a run failed, and what the advice names."""
    argv = () if spec is None else spec.job.argv
    command = argv[0] if argv else None
    if run.status is Status.INTERRUPTED:
        return HealthCause.INTERRUPTED, None
    if run.reason is Reason.TIMEOUT:
        return HealthCause.TIMEOUT, _doubled(None if spec is None else spec.policies.timeout_s)
    if run.reason is Reason.STALLED:
        limit_s = None if spec is None else spec.policies.stall_timeout_s
        return HealthCause.SILENT, _doubled(limit_s)
    if run.reason is Reason.SPAWN:
        return _spawn_cause(run, spec, command)
    causes = {
        _EXIT_NOT_FOUND: HealthCause.SHELL_COMMAND_MISSING,
        _EXIT_NOT_EXECUTABLE: HealthCause.NOT_EXECUTABLE,
        _EXIT_KILLED: HealthCause.KILLED,  # also what a shell returns for a killed command
    }
    if run.reason in (Reason.EXIT, Reason.SIGNAL) and run.exit_code in causes:
        return causes[run.exit_code], None
    return HealthCause.FAILED, None


def _doubled(limit_s: float | None) -> str | None:
    return None if limit_s is None else format_duration_ms(round(2000 * limit_s))


def _spawn_cause(
    run: Execution, spec: ScheduleSpec | None, command: str | None
) -> tuple[HealthCause, str | None]:
    # The supervisor's sentence begins with what is wrong; its error code is the system's.
    error, job = run.error_msg or "", None if spec is None else spec.job
    if error.startswith("folder "):
        return HealthCause.FOLDER, None if job is None else job.cwd
    if error.startswith("environment file "):
        return HealthCause.ENV_FILE, None if job is None else job.env_file
    if error.startswith("user ") or " can't run as " in error:
        return HealthCause.USER, None if job is None else job.user
    if job is not None and job.kind is JobKind.CALLABLE and run.error_code == "ImportError":
        return HealthCause.NOT_IMPORTABLE, command
    if run.error_code == "ENOENT":
        return HealthCause.COMMAND_MISSING, command
    if run.error_code in ("EACCES", "EPERM", "ENOEXEC"):
        return HealthCause.NOT_EXECUTABLE, command
    return HealthCause.FAILED, None


def _one_line(error: str) -> str:
    """Return the beginning of an error: its first line, without a list of folders behind it."""
    line = clean(error.partition("\n")[0])
    if len(line) > _MOST_LETTERS:
        line = line.partition(" (")[0]
    return line if len(line) <= _MOST_LETTERS else f"{line[:_MOST_LETTERS].rstrip()}..."


def health_words(one: Unhealthy, *, now: datetime) -> str:
    """Say what is wrong with a schedule, since when and why, in one line."""
    name = clean(one.schedule)
    if one.state is HealthState.NEVER_SUCCEEDED:
        times = "time was" if one.count == 1 else "times were"
        return f"{name} has never succeeded: {one.count:,} {times} skipped"
    if one.state is HealthState.OVERDUE:
        due = "" if one.since is None else f", due {distance(one.since, now)}"
        others = "" if not one.others else f" and {count_words(one.others, 'other schedule')}"
        verb = "are" if one.others else "is"
        return f"{name}{others} {verb} overdue{due}: {_overdue_words(one)}"
    times = ""
    if one.count > 1:
        times = f" {'at least ' if one.is_at_least else ''}{one.count:,} times in a row"
    error = f": {one.error}" if one.error else ""
    return f"{name} failed{times}{error} ({_since_words(one, now=now)})"


def _since_words(one: Unhealthy, *, now: datetime) -> str:
    ever = (
        "never succeeded"
        if one.last_success_at is None
        else f"last success {distance(one.last_success_at, now)}"
    )
    if one.since is None:
        return ever
    first = "first " if one.count > 1 else ""
    return f"{first}{distance(one.since, now)}, {ever}"


STATE_WORDS = {
    HealthState.FAILING: "failing",
    HealthState.OVERDUE: "overdue",
    HealthState.NEVER_SUCCEEDED: "no success",
}


def left_out_words(health: ScheduleHealth, *, command: Callable[[str], str]) -> list[str]:
    """Count, for each state, the schedules that `worst` does not cover."""
    found = []
    for state, count in health.counts.items():
        more = count - sum(1 + one.others for one in health.worst if one.state is state)
        if more > 0:
            words = {
                HealthState.FAILING: f"are failing; see: {command('list --failed')}",
                HealthState.OVERDUE: f"are overdue; see: {command('next')}",
                HealthState.NEVER_SUCCEEDED: f"never succeeded; see: {command('list')}",
            }[state]
            named = count_words(more, "more schedule")
            found.append(f"{named} {words if more > 1 else words.replace('are ', 'is ', 1)}")
    return found


def _overdue_words(one: Unhealthy) -> str:
    run = "" if one.run_id is None else f"run {one.run_id} waits for "
    return {
        HealthCause.NO_ENGINE: (
            no_engine_words(one.queue)
            if base_of(one.queue) == COMMAND_QUEUE
            else f"{runner_words(one.queue)} is not running"
        ),
        HealthCause.STALLED: "its engine is stalled",
        HealthCause.CLOCK: "the clock can't be trusted",
        HealthCause.DISK: "the disk is full, so no start can be recorded",
        HealthCause.EARLIER_RUN: f"{run}the end of run {one.subject}",
        HealthCause.GROUP: f"{run}a place in the group {one.subject}",
        HealthCause.PLACE: f"{run}a place on its engine",
    }.get(one.cause, "an engine is running, but has not started it")


def advise(one: Unhealthy, *, command: Callable[[str], str]) -> tuple[str, ...]:
    """Return what to do about a schedule: each step ends with a command to paste.

    `command` turns words into a command line of edgecron.
    """
    name, subject = one.schedule, one.subject
    again = f"then try it: {command(f'run {name} --wait')}"
    logs, why = f"see its output: {command(f'logs {name}')}", f"see: {command(f'why {name}')}"
    edit = command(f"edit {name}")
    if one.state is HealthState.NEVER_SUCCEEDED:
        return why, f"try it: {command(f'run {name} --wait')}"
    steps: dict[HealthCause, tuple[str, ...]] = {
        HealthCause.COMMAND_MISSING: (*_command_steps(one, command=command), again),
        HealthCause.SHELL_COMMAND_MISSING: (
            f"see which command is missing: {command(f'logs {name}')}",
            f'write its full path, or give the job your PATH: {edit} --env "PATH=$PATH"',
            again,
        ),
        HealthCause.NOT_EXECUTABLE: (
            f"make it executable: chmod +x {quote(subject)}"
            if subject is not None and "/" in subject
            else f"see which file is not executable: {command(f'logs {name}')}",
            again,
        ),
        HealthCause.NOT_IMPORTABLE: (
            f"see why {runner_words(one.queue)} can't import {subject}: {command(f'logs {name}')}",
            f"or remove the schedule: {command(f'rm {name}')}",
        ),
        HealthCause.FOLDER: (
            f"create it: mkdir -p {quote(subject or 'FOLDER')}",
            f"or use another folder: {edit} --cwd FOLDER",
        ),
        HealthCause.ENV_FILE: (
            f"check it: ls -l {quote(subject or 'FILE')}",
            f"or do without it: {edit} --env-file none",
        ),
        HealthCause.USER: (
            f"check the user: id {quote(subject or 'USER')}",
            f"or run it as the engine's user: {edit} --user none",
        ),
        HealthCause.TIMEOUT: (
            f"see how far it got: {command(f'logs {name}')}",
            f"allow more time: {edit} --timeout {subject or 'DURATION'}",
        ),
        HealthCause.SILENT: (
            f"see its last output: {command(f'logs {name}')}",
            f"allow longer silence: {edit} --stall-timeout {subject or 'DURATION'}",
        ),
        HealthCause.KILLED: (
            "see if the kernel ended it for lack of memory: journalctl -k --grep 'out of memory'",
            logs,
        ),
        HealthCause.INTERRUPTED: (
            f"run it again: {command(f'run {name} --wait')}",
            f"let edgecron do so next time: {edit} --on-interrupt retry",
        ),
        HealthCause.FAILED: (logs, again),
        HealthCause.NO_ENGINE: (
            f"start one{place_words(one.queue)}: {command(start_words(one.queue))}"
            if base_of(one.queue) == COMMAND_QUEUE
            else "start that program",
        ),
        HealthCause.EARLIER_RUN: (
            f"see what that run does: {command(f'logs {subject} -f')}",
            f"or end it: {command(f'cancel {subject}')}",
        ),
        HealthCause.GROUP: (f"see who has the places: {command('history --status running')}",),
        HealthCause.PLACE: (f"see who has the places: {command('status')}",),
    }
    for cause in (HealthCause.STALLED, HealthCause.CLOCK, HealthCause.DISK):
        steps[cause] = (f"see: {command('doctor')}",)
    return steps.get(one.cause, (why,))


def _command_steps(one: Unhealthy, *, command: Callable[[str], str]) -> tuple[str, ...]:
    subject = one.subject or "COMMAND"
    if "/" in subject:
        return (f"check its path and its first line: head -1 {quote(subject)}",)
    edit = command(f"edit {one.schedule}")
    return (
        f"find it: command -v {quote(subject)}",
        f"give its full path: {edit} -- /FULL/PATH/{subject} ARGUMENTS",
        f'or the job your PATH: {edit} --env "PATH=$PATH"',
    )


def health_object(
    one: Unhealthy, *, command: Callable[[str], str], now: datetime
) -> dict[str, Any]:
    """Return a schedule that is not healthy as `status` shows it."""
    return {
        "schedule": one.schedule,
        "state": one.state.value,
        "cause": one.cause.value,
        "since_at": instant(one.since),
        "count": one.count,
        "is_at_least": one.is_at_least,
        "last_success_at": instant(one.last_success_at),
        "run": one.run_id,
        "error": one.error,
        "others": one.others,
        "message": health_words(one, now=now),
        "advice": list(advise(one, command=command)),
    }
