"""Say in a sentence what a command did to a schedule or run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime, tzinfo
from shlex import quote
from typing import TYPE_CHECKING

from edgecron.base.safetext import clean
from edgecron.base.units import from_ms, to_ms
from edgecron.formats.document_tables import FieldChange, may_be_secret
from edgecron.model.choices import Status
from edgecron.planning.forecast import is_moved
from edgecron.planning.windows import windows_of
from edgecron.views.phrases import count_words, next_sentence, status_words, windows_words
from edgecron.views.times import full_time, local_time

if TYPE_CHECKING:
    from edgecron.model.job import Job
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule
    from edgecron.planning.forecast import Backfill

# Of a shell, and no programs on most systems.
_BUILTINS = frozenset({"cd", "source", ".", "export", "alias", "ulimit", "umask", "set", "unset"})


def is_held(schedule: Schedule, now: datetime) -> bool:
    """Return whether `resume` has something to do: a pause, or a trigger that could not be read."""
    until = schedule.paused_until
    is_paused = not schedule.enabled or (until is not None and until > now)
    return is_paused or schedule.trigger_error is not None


def paused_words(
    before: Schedule,
    schedule: Schedule,
    *,
    zone: tzinfo,
    now: datetime,
    is_clock_trusted: bool,
) -> str:
    """`paused backup until 2026-11-21 09:00:00; next 2026-11-22 02:00:00 (in 1.5 d)`.

    Also say if the pause cancels a move of the next run.
    """
    until, name = schedule.paused_until, schedule.name
    end = "" if until is None else f" until {local_time(until, zone=zone)}"
    is_changed = (schedule.enabled, until) != (before.enabled, before.paused_until)
    words = f"paused {name}{end}" if is_changed else f"{name} was already paused{end}"
    words = _with_next(words, schedule, zone=zone, now=now, is_clock_trusted=is_clock_trusted)
    moved = before.next_run_at
    if moved is None or not is_moved(before) or moved == schedule.next_run_at:
        return words
    return f"{words}; the move of its next run to {local_time(moved, zone=zone)} is cancelled"


def resumed_words(
    schedule: Schedule, *, was_held: bool, zone: tzinfo, now: datetime, is_clock_trusted: bool
) -> str:
    """`resumed backup; next 2026-11-22 02:00:00 (in 11 h)`."""
    name = schedule.name
    words = f"resumed {name}" if was_held else f"{name} was not paused"
    return _with_next(words, schedule, zone=zone, now=now, is_clock_trusted=is_clock_trusted)


def rescheduled_words(
    before: Schedule, schedule: Schedule, *, zone: tzinfo, now: datetime, is_clock_trusted: bool
) -> str:
    """`rescheduled backup; next .., instead of ..`."""
    was = before.next_run_at
    instead = ""
    if was is not None and was != schedule.next_run_at:
        instead = f", instead of {full_time(was, schedule.spec.timezone, zone=zone)}"
    when = next_sentence(schedule, zone=zone, now=now, is_clock_trusted=is_clock_trusted)
    return f"rescheduled {schedule.name}; {when}{instead}"


def closed_words(schedule: Schedule, *, zone: tzinfo) -> str | None:
    """Say that the next run waits because it is due outside its windows; None if it does not."""
    if schedule.next_run_at is None:
        return None
    windows = windows_of(schedule.spec.policies, schedule.spec.timezone)
    due_ms = to_ms(schedule.next_run_at)
    if windows is None or windows.is_open(due_ms):
        return None
    time = full_time(schedule.next_run_at, schedule.spec.timezone, zone=zone)
    outside = f"{time} is outside the windows of {schedule.name}"
    outside += f" ({windows_words(schedule.spec.policies)})"
    opens_ms = windows.next_open_ms(due_ms)
    if opens_ms is None:
        return f"{outside}: the run will be skipped"
    opens = full_time(from_ms(opens_ms), schedule.spec.timezone, zone=zone)
    return f"{outside}: the run waits until {opens}"


def fired_words(execution: Execution) -> str:
    """`run 41 of backup: queued`."""
    return f"run {execution.id} of {execution.schedule}: {status_words(execution)}"


def cancelled_words(execution: Execution) -> str:
    """Say `cancelling run 41 of backup`, or that it was cancelled before it started."""
    name = execution.schedule
    if execution.status is Status.CANCELLED and execution.started_at is None:
        return f"cancelled run {execution.id} of {name} before it started"
    return f"cancelling run {execution.id} of {name}"


def queued_words(name: str, ids: list[int]) -> str:
    """`queued 3 runs of backup: runs 41 to 43`."""
    if not ids:
        return f"nothing to backfill for {name}"
    runs = f"run {ids[0]}" if len(ids) == 1 else f"runs {ids[0]} to {ids[-1]}"
    return f"queued {count_words(len(ids), 'run')} of {name}: {runs}"


def left_lines(command: Callable[[str], str], plan: Backfill, *, zone: tzinfo) -> list[str]:
    """Say which times a backfill skips, and why."""
    lines = []
    if plan.succeeded:
        lines.append(f"skipped: {len(plan.succeeded)} with a success")
    if plan.active:
        lines.append(f"skipped: {len(plan.active)} already queued or running")
    return lines + undecided_lines(command, plan, zone=zone)


def undecided_lines(command: Callable[[str], str], plan: Backfill, *, zone: tzinfo) -> list[str]:
    """Say which times a backfill skips because they are undecided, forgotten or out of bounds."""
    lines = []
    if plan.undecided_count:
        why = "an engine will decide them"
        if not plan.schedule.enabled:
            why = f"the schedule is paused; first: {command(f'resume {plan.schedule.name}')}"
        lines.append(f"skipped: {plan.undecided_count} not decided yet: {why}")
    if plan.forgotten_count:
        assert plan.schedule.pruned_until is not None
        until = full_time(plan.schedule.pruned_until, plan.schedule.spec.timezone, zone=zone)
        lines.append(
            f"skipped: {plan.forgotten_count} up to {until}: retention removed the runs of that"
            " time, so their results are unknown"
        )
    if plan.out_of_bounds_count:
        lines.append(f"skipped: {plan.out_of_bounds_count} before --from or after --until")
    return lines


def _with_next(
    words: str, schedule: Schedule, *, zone: tzinfo, now: datetime, is_clock_trusted: bool
) -> str:
    if not schedule.enabled:
        return words
    when = next_sentence(schedule, zone=zone, now=now, is_clock_trusted=is_clock_trusted)
    return f"{words}; {when}"


def secret_words(name: str) -> str:
    """Warn about a variable whose name looks like a secret."""
    return f"the database stores {name} in plain text; put secrets in a file and use --env-file"


def kept_words(changes: Iterable[FieldChange], *, forget: str) -> str | None:
    """Name the former values that can be secret and stay in the database; None if there are none.

    `forget` is the command line that removes them.
    """
    keys = [one.key for one in changes if one.old is not None and may_be_secret(one)]
    if not keys:
        return None
    named = clean(" and ".join(keys))
    return (
        f"the database keeps the former {named} for runs that started with it; to remove it:"
        f" {forget}"
    )


def find_missing_command(job: Job) -> str | None:
    """Say that a command would not be found; None if it would be."""
    command = job.argv[0]
    if os.path.isabs(command) or command.startswith("~"):
        if not os.path.exists(command):
            return f"command {command!r} does not exist yet"
        if os.path.isdir(command):
            return f"command {command!r} is a folder"
        return None if os.access(command, os.X_OK) else f"command {command!r} is not executable"
    if "/" in command:
        folder = job.cwd or "HOME"
        return f"command {command!r} is relative to {folder}; an absolute path is safer"
    from shutil import which  # loads three compressors

    if which(command):
        return None
    if command in _BUILTINS:
        line = quote(" ".join(job.argv))
        return f"command {command!r} is a part of a shell: use --shell {line}"
    return f"command {command!r} is not in your PATH"


def find_missing_folder(job: Job) -> str | None:
    """Say that the folder of a job does not exist yet; None if it exists, or if this is unknown."""
    # A relative path counts from the job's HOME, which can differ from ours.
    if job.cwd is None or not job.cwd.startswith("/") or os.path.isdir(job.cwd):
        return None
    return f"folder {job.cwd!r} does not exist yet"
