"""Engines that are alive, and what keeps them from their work."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgecron.engine.peers import EngineState
    from edgecron.model import Execution
    from edgecron.remote import Face
    from edgecron.words.frontend import FrontEnd


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
