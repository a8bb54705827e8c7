"""The engines of a database, seen by who is none: who lives, and the ends that the dead left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgecron.clock import Clock
from edgecron.engine.liveness import KernelLiveness
from edgecron.engine.recovery import recover
from edgecron.errors import Conflict
from edgecron.model import EngineInfo
from edgecron.store.contract import RunningRow, Store
from edgecron.supervisor.control import Control
from edgecron.supervisor.output import Part
from edgecron.supervisor.protocol import Phase

_TRIES = 40
_PAUSE_S = 0.05
_SILENCE_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """An engine and whether its process lives, as the kernel says."""

    info: EngineInfo
    is_alive: bool


def find_states(store: Store, state_dir: Path, *, boot_id: str) -> list[EngineState]:
    """The engines that have not said goodbye, oldest first."""
    liveness = KernelLiveness(state_dir, boot_id=boot_id)
    return [
        EngineState(info=info, is_alive=liveness.engine_is_alive(info.key))
        for info in store.find_engines()
    ]


def end_run(row: RunningRow, state_dir: Path) -> None:
    """Ask the supervisor of a running execution to end it: TERM, its grace, KILL.

    The end is written by its engine, or by the next one. Raises SupervisorUnavailable where the
    supervisor has gone, Conflict where it has not been told of the run yet.
    """
    with Control(state_dir, row.supervisor_id) as control:
        for _ in range(_TRIES):
            phase = control.cancel([row.lease_token])[row.lease_token]
            if phase is not Phase.UNKNOWN:
                return
            # Claimed an instant ago, and on its way to the supervisor.
            time.sleep(_PAUSE_S)
    raise Conflict(f"run {row.execution_id} is just being started", hint="try again")


def printed_so_far(row: RunningRow, state_dir: Path, *, position: int = 0) -> Iterator[Part]:
    """What is kept of a running execution's output, from a position on.

    Raises SupervisorUnavailable.
    """
    with Control(state_dir, row.supervisor_id) as control:
        while True:
            _, part = control.output(row.lease_token, position)
            if not part.chunks:
                return
            yield part
            position = part.next_position


def follow_output(row: RunningRow, state_dir: Path, *, position: int = 0) -> Iterator[Part]:
    """What a running execution prints, as it comes, until it runs no longer.

    Raises SupervisorUnavailable, also after a silence of seconds: whoever reads slowly may have
    been let go, so ask again from where you are.
    """
    with Control(state_dir, row.supervisor_id) as control:
        for _, part in control.follow(row.lease_token, position, timeout_s=_SILENCE_S):
            yield part


def take_over_ends(store: Store, state_dir: Path, *, clock: Clock) -> None:
    """Write the ends that dead engines left."""
    recover(
        store,
        KernelLiveness(state_dir, boot_id=clock.boot_id()),
        engine_id=0,  # of nobody: there is no row that is ours
        supervisor_id="",
        live={},
        now_ms=clock.now_ms,
    )
