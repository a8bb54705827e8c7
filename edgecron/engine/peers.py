"""The engines of a database, seen by who is none: who lives, and the ends that the dead left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgecron.clock import Clock
from edgecron.engine.liveness import KernelLiveness
from edgecron.engine.recovery import recover
from edgecron.model import EngineInfo
from edgecron.store.contract import Store


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
