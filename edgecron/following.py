"""Reading what a run prints while it prints it, with an engine alive or without."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.engine.peers import follow_output, printed_so_far
from edgecron.errors import SupervisorUnavailable
from edgecron.model import ACTIVE, Execution, OutputChunk, Status
from edgecron.paths import state_dir
from edgecron.supervisor.control import rest_of
from edgecron.supervisor.output import Part

if TYPE_CHECKING:
    from edgecron.store import SqliteStore

_LOOK_S = 0.1
_LOOKS_PER_CHECK = 10  # of a run whose supervisor has nothing more to say


def output_so_far(store: SqliteStore, execution: Execution) -> list[OutputChunk]:
    """What a running execution has printed, as far as it is kept; [] where nobody can tell."""
    row = store.find_running_row(execution.id)
    if row is None:
        return []
    with suppress(SupervisorUnavailable):  # It has ended, or died: its row will say so.
        parts = list(printed_so_far(row, state_dir(store.path)))
        return [chunk for part in parts for chunk in part.chunks]
    return []


def follow_run(
    store: SqliteStore, execution_id: int, *, take_over: Callable[[], object]
) -> Iterator[tuple[int, OutputChunk]]:
    """What a run prints, from its beginning to its end; it waits for one that has not started.

    Each chunk comes once, with the number of bytes before it that were printed and not kept.
    `take_over` writes ends that no engine is there to write.
    """
    position = 0
    looks = 0
    while True:
        execution = store.find_execution(execution_id)
        if execution is None or execution.status not in ACTIVE:
            break
        row = store.find_running_row(execution_id) if execution.status is Status.RUNNING else None
        if row is not None:
            with suppress(SupervisorUnavailable):  # Its end, or the next engine, is waited for.
                for part in follow_output(row, state_dir(store.path), position=position):
                    yield from _with_gap(part, position)
                    position = part.next_position
            if looks % _LOOKS_PER_CHECK == 0:
                take_over()  # Its supervisor has told all, and perhaps there is no engine.
            looks += 1
        time.sleep(_LOOK_S)
    output = store.find_output(execution_id)
    while output is not None and (part := rest_of(output, position)).chunks:
        yield from _with_gap(part, position)
        position = part.next_position


def _with_gap(part: Part, position: int) -> Iterator[tuple[int, OutputChunk]]:
    for number, chunk in enumerate(part.chunks):
        yield (part.position - position if number == 0 else 0), chunk
