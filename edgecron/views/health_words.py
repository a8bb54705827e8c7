"""Say what is wrong with a schedule, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Any

from edgecron.base.safetext import clean
from edgecron.model.choices import COMMAND_QUEUE, HealthCause, HealthState
from edgecron.views.json_objects import instant
from edgecron.views.phrases import count_words, runner_words
from edgecron.views.times import distance

if TYPE_CHECKING:
    from edgecron.views.schedule_health import ScheduleHealth, Unhealthy


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
    """Say of each state how many more schedules have it than `worst` covers."""
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
            "no engine is running"
            if one.queue == COMMAND_QUEUE
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
            f"start one: {command('daemon')}"
            if one.queue == COMMAND_QUEUE
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
