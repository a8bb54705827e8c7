"""Say in sentences what holds runs up: their engines, an earlier run, or a condition.

These sentences ask the database for more. Sentences that need no database are in `views`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Protocol

from edgecron.base.errors import NotFound
from edgecron.model.choices import COMMAND_QUEUE, Cause, Status
from edgecron.model.conditions import read_condition
from edgecron.model.engine import base_of
from edgecron.model.listing import ACTIVE_RUNS
from edgecron.supervisor.runner import THREADS
from edgecron.views.phrases import (
    due_words,
    failure_words,
    no_engine_words,
    place_words,
    runner_words,
    start_words,
    status_words,
    waiting_words,
)
from edgecron.views.run_words import no_output_words
from edgecron.views.schedule_words import removal_words, waits_words
from edgecron.views.times import distance, near_time, short_duration

if TYPE_CHECKING:
    from edgecron.client.engine_health import EngineState
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule
    from edgecron.views.outlook import ActiveRun


class FrontEnd(Protocol):
    """The command line or dashboard for which sentences are made."""

    def client(self) -> Client:
        """Return the open database."""

    def command(self, words: str) -> str:
        """Return an edgecron command for a person to copy, with this database."""


def absence_words(
    client: Client, schedule: Schedule, *, them: str = "it", since: str | None = None
) -> str:
    """Say that no working engine takes a schedule.

    `the program 'app' is not running and will run it when it starts`. `them` names the schedule,
    `since` the time at which it vanished.
    """
    queue = schedule.spec.placed_queue
    if base_of(queue) == COMMAND_QUEUE:
        return missing_words(client.engines(), queue)
    runner = runner_words(queue)
    if schedule.vanished_at is not None and since is not None:
        return f"{runner} has not declared {them} since {since}, so nothing runs {them}"
    if schedule.vanished_at is not None:
        return f"{runner} no longer declares {them}, so nothing runs {them}"
    if client.has_engine(queue):
        return f"{runner} is running a version that does not declare {them}"
    return f"{runner} is not running and will run {them} when it starts"


def absence_advice(front: FrontEnd, schedule: Schedule, *, zone: tzinfo, now: datetime) -> str:
    """Say that no working engine takes a schedule, since when, and what to do."""
    since = None
    if schedule.vanished_at is not None:
        time = near_time(schedule.vanished_at, zone=zone, now=now)
        since = f"{time} ({distance(schedule.vanished_at, now)})"
    if schedule.spec.queue == COMMAND_QUEUE:
        return missing_advice(front, schedule.spec.placed_queue)
    words = absence_words(front.client(), schedule, since=since)
    if schedule.vanished_at is not None:
        return f"{words}; {removal_words(schedule.name, command=front.command)}"
    return words


def missing_advice(front: FrontEnd, queue: str) -> str:
    """Say that no engine takes a queue of commands, and what to do."""
    states = front.client().engines()
    return f"{missing_words(states, queue)}; {remedy(states, queue, command=front.command)}"


def missing_words(states: Sequence[EngineState], queue: str) -> str:
    """Say why no engine takes a queue of commands: no engine is running, or it is drained."""
    drained = _find_drained(states, queue)
    return no_engine_words(queue) if drained is None else f"the engine of {drained} is drained"


def remedy(states: Sequence[EngineState], queue: str, *, command: Callable[[str], str]) -> str:
    """Return what lets an engine take a queue of commands: a start, or the end of a drain."""
    drained = _find_drained(states, queue)
    if drained is not None:
        return f"to undo: {command(f'engine resume {drained}')}"
    return f"start one{place_words(queue)}: {command(start_words(queue))}"


def _find_drained(states: Sequence[EngineState], queue: str) -> str | None:
    """Return the machine of a drained engine that would take a queue."""
    for one in states:
        info = one.info
        if one.is_alive and info.drained_at is not None and queue in info.former_queues:
            return info.name or str(info.pid)
    return None


def find_living(client: Client, schedule: Schedule | None) -> list[EngineState]:
    """Return the living engines that take a schedule (None: a command), stalled ones included."""
    queue = COMMAND_QUEUE if schedule is None else schedule.spec.placed_queue
    offer = None if schedule is None else schedule.offer
    return [one for one in client.engines() if one.is_alive and one.info.takes(queue, offer)]


def stalled_words(states: Sequence[EngineState]) -> str:
    """Say that all living engines are stalled."""
    if len(states) == 1:
        return f"the only engine, pid {states[0].info.pid}, is stalled: {states[0].why}"
    pids = ", ".join(str(state.info.pid) for state in states)
    return f"all {len(states)} engines are stalled (pids {pids})"


def stalled_engine_words(front: FrontEnd, execution: Execution) -> str | None:
    """Say that the engine of a run is stalled, so its end is not recorded; None if it is not."""
    for state in front.client().engines():
        if state.is_stalled and state.info.id == execution.engine_id:
            return (
                f"its engine, pid {state.info.pid}, is stalled: {state.why};"
                f" the end is recorded when the engine continues; see: {front.command('doctor')}"
            )
    return None


def find_place(client: Client, execution: Execution) -> str | None:
    """Find the machine that runs a running run; None if all engines run on this machine."""
    if execution.status is not Status.RUNNING:
        return None
    infos = [state.info for state in client.engines()]
    own = next((info for info in infos if info.id == execution.engine_id), None)
    if own is None or own.host is None:
        return None
    is_here = {info.host for info in infos} == {os.uname().nodename}
    return None if is_here else own.name


def follow_words(client: Client, execution: Execution) -> str | None:
    """Say where a running run is and when its output comes; None if all runs are here."""
    place = find_place(client, execution)
    if place is None or place == os.uname().nodename:
        return None
    return f"runs on {place}; its output comes about every second, or after its end"


def find_active(client: Client, execution: Execution) -> ActiveRun | None:
    """Return an active run with what it waits for; None if it is not among the first ones."""
    try:
        active = client.outlook(execution.schedule, upcoming=0).active
    except NotFound:
        return None  # Its schedule was removed meanwhile, and the run with it.
    return next((run for run in active if run.execution.id == execution.id), None)


def prints_elsewhere(execution: Execution) -> bool:
    """Whether the output of a run is not kept: it is a function within its program."""
    return execution.supervisor_id == THREADS


def state_words(front: FrontEnd, execution: Execution, *, zone: tzinfo) -> str:
    """Say the state of a run, beside its output or instead of the output."""
    if execution.status is Status.RUNNING:
        place = find_place(front.client(), execution)
        return "is still running" if place is None else f"is still running on {place}"
    if execution.status is Status.QUEUED:
        waits = waiting_words(execution, zone=zone, now=front.client().now())
        return "has not started yet" if waits is None else f"has not started yet: it {waits}"
    output = front.client().output(execution.id)
    return no_output_words(
        execution,
        spec=front.client().spec_of(execution),
        printed_bytes=0 if output is None else output.stdout_bytes + output.stderr_bytes,
        removed_at=None if output is None else output.removed_at,
        zone=zone,
    )


def end_words(front: FrontEnd, ended: Execution, *, zone: tzinfo) -> str:
    """Say how a run ended.

    `: failed (exit code 7), 1.2s; attempt 2 of 3 is run 42, due at 14:05:10, in 10s`.
    """
    client = front.client()
    why = f" ({failure_words(ended)})" if ended.error_msg else ""
    took = "" if ended.duration_ms is None else f", {short_duration(ended.duration_ms)}"
    following = client.next_attempt(ended)
    more = ""
    if following is not None:
        due = due_words(following, zone=zone, now=client.now())
        more = (
            f"; attempt {following.attempt} of {following.max_attempts}"
            f" is run {following.id}, {due}"
        )
    return f": {status_words(ended)}{why}{took}{more}"


def queued_words(front: FrontEnd, execution: Execution, *, zone: tzinfo) -> str:
    """Say what a queued run waits for: `waits: run 1 is still running`."""
    words = blocking_words(front, execution)
    if words is not None:
        return f"waits: {words}"
    client = front.client()
    found = find_active(client, execution)
    if found is None or found.waits_for is None:
        return "has not started yet"
    return f"is queued: {waits_words(found, zone=zone, now=client.now())}"


def blocking_words(front: FrontEnd, execution: Execution) -> str | None:
    """Say which earlier run of its schedule blocks a run, and what to do; None if none does."""
    client = front.client()
    before = [
        other
        for other in client.history(execution.schedule, choice=ACTIVE_RUNS, limit=1000)
        if other.id < execution.id
        # A backfill run that has not begun blocks nothing.
        and (other.status is Status.RUNNING or other.cause is not Cause.BACKFILL)
        and (other.scope_kind, other.scope_id) == (execution.scope_kind, execution.scope_id)
    ]
    running = [other for other in before if other.status is Status.RUNNING]
    if not before or (execution.status is Status.QUEUED and not running):
        return None  # A queued run blocks only runs that would be queued too.
    words = (
        f"run {running[-1].id} is still running" if running else f"run {before[-1].id} is queued"
    )
    schedule = _find_schedule(client, execution.schedule)
    states = find_living(client, schedule)
    if not states and schedule is not None and schedule.spec.queue != COMMAND_QUEUE:
        return f"{words}, and {absence_words(client, schedule)}"
    if not states:
        queue = COMMAND_QUEUE if schedule is None else schedule.spec.placed_queue
        return f"{words}, and {missing_advice(front, queue)}"
    if all(state.is_stalled for state in states):
        return f"{words}, and {stalled_words(states)}; see {front.command('doctor')}"
    queued = [other for other in before if other.status is Status.QUEUED]
    if execution.status is Status.SKIPPED and running and queued:
        return f"{words}, and run {queued[0].id} already waits for its end"
    waiting_for = before[0].waiting_for
    if execution.status is Status.SKIPPED and not running and waiting_for is not None:
        cancel = front.command(f"cancel {before[0].id}")
        return (
            f"run {before[0].id} waits for {read_condition(waiting_for).words()};"
            f" to start the job now, cancel that run first: {cancel}"
        )
    if execution.status is Status.SKIPPED:
        wait = front.command(f"edit {execution.schedule} --overlap queue")
        return f"{words}; to queue a run behind it: {wait}"
    return words


def _find_schedule(client: Client, name: str) -> Schedule | None:
    try:
        return client.schedule(name)
    except NotFound:
        return None  # It was removed meanwhile.
