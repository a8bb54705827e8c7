"""Say in sentences what is wrong with the engines of a database."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Protocol

from edgecron.model.choices import COMMAND_QUEUE, Status
from edgecron.model.engine import base_of
from edgecron.views.phrases import no_engine_words, place_words, runner_words, start_words
from edgecron.views.schedule_words import removal_words
from edgecron.views.times import distance, near_time

if TYPE_CHECKING:
    from edgecron.client.engine_health import EngineState
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule


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


class FrontEnd(Protocol):
    """The command line or dashboard for which sentences are made."""

    def client(self) -> Client:
        """Return the open database."""

    def command(self, words: str) -> str:
        """Return an edgecron command for a person to copy, with this database."""
