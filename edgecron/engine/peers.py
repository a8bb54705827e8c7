"""The engines of a database, seen by who is none: who lives, and the ends that the dead left."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import Conflict, SupervisorUnavailable
from edgecron.base.values import dataclass
from edgecron.engine.health import PATIENCE_S, EngineHealth, diagnose
from edgecron.engine.liveness import KernelLiveness, engine_lock_path
from edgecron.engine.owner import owner_of
from edgecron.engine.recovery import NOBODY, recover
from edgecron.engine.wake import ring_engines
from edgecron.model.choices import JobKind
from edgecron.model.engine import EngineInfo
from edgecron.store.contract import RunningRow
from edgecron.supervisor.control import Control
from edgecron.supervisor.files import lock_is_held
from edgecron.supervisor.output import Part
from edgecron.supervisor.protocol import Phase
from edgecron.supervisor.runner import THREADS

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

_TRIES = 40
_PAUSE_S = 0.05
_OVERDUE_MS = 2_000  # an engine that is awake has begun what is due long before


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """An engine and how it does; `why` says in words how that shows, where it is not plain.

    `is_stopped`: its process is, and SIGCONT lets it go on.
    """

    info: EngineInfo
    health: EngineHealth
    why: str = ""
    is_stopped: bool = False

    @property
    def is_alive(self) -> bool:
        """Whether its lock is held: then nobody else touches its runs."""
        return self.health is not EngineHealth.GONE

    @property
    def is_stalled(self) -> bool:
        """Whether it is alive and surely makes no progress."""
        return self.health is EngineHealth.STALLED

    @property
    def is_working(self) -> bool:
        """Whether it can be counted on to run what is due."""
        return self.is_alive and not self.is_stalled


def find_states(store: Store, state_dir: Path, *, clock: Clock) -> list[EngineState]:
    """The engines that have not said goodbye, oldest first."""
    return [
        find_state(info, store, state_dir=state_dir, clock=clock, patience_s=PATIENCE_S)
        for info in store.find_engines()
    ]


def find_state(
    info: EngineInfo, store: Store, *, state_dir: Path, clock: Clock, patience_s: float
) -> EngineState:
    """How one engine does; a silence of less than `patience_s` is none."""

    def is_overdue() -> bool:
        now_ms = clock.now_ms()
        offers = None if info.offers is None else frozenset(info.offers)
        due_ms = store.next_due_ms(info.queues, now_ms=now_ms, offers=offers)
        return due_ms is not None and due_ms < now_ms - _OVERDUE_MS

    diagnosis = diagnose(
        info.pid,
        info.key,
        state_dir=state_dir,
        lock=engine_lock_path(state_dir, info.key),
        is_overdue=is_overdue,
        patience_s=patience_s,
    )
    return EngineState(
        info=info,
        health=diagnosis.health,
        why=diagnosis.why,
        is_stopped=diagnosis.is_stopped,
    )


def end_run(row: RunningRow, state_dir: Path) -> None:
    """Ask the supervisor of a running execution to end it: TERM, its grace, KILL.

    A function of a program is asked by its engine, which is woken. The end is written by its
    engine, or by the next one. Raises SupervisorUnavailable where the supervisor, or that engine,
    has gone, Conflict where it has not been told of the run yet.
    """
    if row.kind == JobKind.CALLABLE or row.supervisor_id == THREADS:
        key = row.engine_key
        if key is None or not lock_is_held(engine_lock_path(state_dir, key)):
            raise SupervisorUnavailable(f"the program that runs {row.execution_id} has gone")
        ring_engines(state_dir)
        return
    with Control(state_dir, row.supervisor_id) as control:
        for _ in range(_TRIES):
            phase = control.cancel([row.lease_token])[row.lease_token]
            if phase is not Phase.UNKNOWN:
                return
            # Claimed an instant ago, and on its way to the supervisor.
            time.sleep(_PAUSE_S)
    raise Conflict(f"run {row.execution_id} is just being started", hint="try again")


def printed_so_far(row: RunningRow, state_dir: Path, *, position: int = 0) -> Iterator[Part]:
    """What is kept of a running execution's output, from a position on; nothing of a function's.

    Raises SupervisorUnavailable.
    """
    if row.supervisor_id == THREADS:
        return
    with Control(state_dir, row.supervisor_id) as control:
        while True:
            _, part = control.output(row.lease_token, position)
            if not part.chunks:
                return
            yield part
            position = part.next_position


def take_over_ends(store: Store, state_dir: Path, *, clock: Clock) -> None:
    """Write the ends that dead engines left; nothing where the state folder is another user's."""
    if owner_of(state_dir) not in (None, os.geteuid()):
        return
    liveness = KernelLiveness(state_dir, boot_id=clock.boot_id())
    recover(store, liveness, NOBODY, now_ms=clock.now_ms)
