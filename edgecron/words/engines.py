"""Who runs what is in a queue, and that nobody does; what keeps engines from their work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.queues import find_program, has_vanished

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgecron.engine.peers import EngineState
    from edgecron.model import Execution, Schedule
    from edgecron.remote import Face
    from edgecron.words.frontend import FrontEnd


def runner_words(queue: str) -> str:
    """Who runs what is in a queue: `an engine`, `the program 'app'`."""
    from edgecron.model import COMMAND_QUEUE

    if queue == COMMAND_QUEUE:
        return "an engine"
    program = find_program(queue)
    return f"the program of queue {queue!r}" if program is None else f"the program {program!r}"


def absence_words(queue: str, *, them: str = "it") -> str:
    """That nobody runs what is in a queue which no engine at work looks at; `them` is what.

    `the program 'app' is not at work, and runs it when it starts`.
    """
    from edgecron.model import COMMAND_QUEUE

    if queue == COMMAND_QUEUE:
        return "no engine is at work, and nothing runs"
    if has_vanished(queue):
        return f"{runner_words(queue)} declares {them} no more: nobody runs {them}"
    return f"{runner_words(queue)} is not at work, and runs {them} when it starts"


def removal_words(name: str, *, command: Callable[[str], str]) -> str:
    """What to do about a schedule that its program declares no more."""
    return f"remove it: {command(f'rm {name}')}, or the program's scheduler.prune()"


def absence_advice(front: FrontEnd, schedule: Schedule) -> str:
    """That nobody runs a schedule whose queue no engine at work looks at, and what to do."""
    from edgecron.model import COMMAND_QUEUE

    queue = schedule.spec.queue
    if queue == COMMAND_QUEUE:
        return f"{absence_words(queue)}: {front.command('daemon')}"
    if has_vanished(queue):
        return f"{absence_words(queue)}; {removal_words(schedule.name, command=front.command)}"
    return absence_words(queue)


def reverting_words(queue: str) -> str | None:
    """That a change by hand does not last; None where it does."""
    if find_program(queue) is None or has_vanished(queue):
        return None
    return f"{runner_words(queue)} brings this back to what its code says when it starts"


def find_living(client: Face, queue: str) -> list[EngineState]:
    """The engines that are alive and look at a queue, stalled ones included."""
    states = client.engines()
    return [state for state in states if state.is_alive and queue in state.info.queues]


def stalled_words(states: Sequence[EngineState]) -> str:
    """That there are engines, and that all of them are stalled."""
    if len(states) == 1:
        return f"the only engine, pid {states[0].info.pid}, is stalled: {states[0].why}"
    pids = ", ".join(str(state.info.pid) for state in states)
    return f"all {len(states)} engines are stalled (pids {pids})"


def stalled_engine_words(front: FrontEnd, execution: Execution) -> str | None:
    """That a run's end waits for its engine, which is stalled; None where it is not."""
    for state in front.client().engines():
        if state.is_stalled and state.info.id == execution.engine_id:
            return (
                f"its engine, pid {state.info.pid}, is stalled: {state.why};"
                f" its end waits until that goes on; see: {front.command('doctor')}"
            )
    return None
