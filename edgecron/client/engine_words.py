"""Say in sentences what is wrong with the engines of a database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Protocol

from edgecron.model.choices import COMMAND_QUEUE
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
        drained = _find_drained(client, queue)
        return no_engine_words(queue) if drained is None else f"the engine of {drained} is drained"
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
    words = absence_words(front.client(), schedule, since=since)
    if schedule.spec.queue == COMMAND_QUEUE:
        drained = _find_drained(front.client(), schedule.spec.placed_queue)
        if drained is not None:
            return f"{words}; to undo: {front.command(f'engine resume {drained}')}"
        start = front.command(start_words(schedule.spec.placed_queue))
        return f"{words}; start one{place_words(schedule.spec.placed_queue)}: {start}"
    if schedule.vanished_at is not None:
        return f"{words}; {removal_words(schedule.name, command=front.command)}"
    return words


def _find_drained(client: Client, queue: str) -> str | None:
    """Return the machine of a drained engine that would take a queue."""
    for one in client.engines():
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


class FrontEnd(Protocol):
    """The command line or dashboard for which sentences are made."""

    def client(self) -> Client:
        """Return the open database."""

    def command(self, words: str) -> str:
        """Return an edgecron command for a person to copy, with this database."""
