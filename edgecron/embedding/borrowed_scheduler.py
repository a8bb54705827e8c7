"""Move a Scheduler to another database and clock for a while, for tests of programs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.errors import Conflict
from edgecron.base.values import dataclass
from edgecron.embedding.pool import ClientPool
from edgecron.embedding.scheduler import Scheduler
from edgecron.embedding.serving import Serving

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.embedding.waiting import Waits
    from edgecron.engine.events import Event
    from edgecron.engine.host import EngineHost
    from edgecron.supervisor.call_reports import ReadState
    from edgecron.supervisor.callable_runner import Coroutine, Function


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """What an engine needs of a program. `deliver` tells its subscribers what was reported.

    Of the functions, those are `apart` whose runs are processes of their own.
    """

    functions: Mapping[str, Function]
    coroutines: Mapping[str, Coroutine]
    apart: Mapping[str, tuple[str, ...]]  # the commands of these, by the name of the job
    queues: tuple[str, ...]
    max_running: int | None
    report: Callable[[Event], None]
    deliver: Callable[[], object]
    read_state: ReadState


@contextmanager
def lend(
    scheduler: Scheduler,
    database: Path,
    *,
    clock: Clock,
    make_waits: Callable[[ClientPool], Waits],
) -> Iterator[Lent]:
    """Let a Scheduler use another database and clock while the block lasts.

    It counts as running, so that nobody starts its engine. Raises Conflict where it runs.
    """
    with scheduler._lock:
        if scheduler.is_running:
            raise Conflict(
                f"the engine of {scheduler.name!r} runs in this process",
                hint="let a test have a Scheduler that is not running, or stop it first",
            )
        scheduler._serving = Serving(
            _nobody_starts, monotonic_ms=clock.monotonic_ms, failed=lambda error: None
        )
    registry = scheduler._registry
    own = {name: getattr(scheduler, name) for name in _PLACE}
    try:
        scheduler._database = scheduler.path = database
        scheduler._clock = clock
        scheduler.pool = ClientPool(scheduler._open_client)
        scheduler.waits = make_waits(scheduler.pool)
        registry.forget_kept()
        scheduler._subscribers.is_by_hand = True
        scheduler._declare_all()
        yield Lent(
            functions=ChainMap(registry.functions, registry.apart.functions),
            coroutines=ChainMap(registry.coroutines, registry.apart.coroutines),
            apart=scheduler._processes.commands,
            queues=scheduler._queues,
            max_running=scheduler._max_running,
            report=scheduler._report,
            deliver=scheduler._subscribers.deliver,
            read_state=scheduler._read_state,
        )
    finally:
        scheduler._subscribers.stop()
        scheduler._subscribers.is_by_hand = False
        scheduler.pool.close()
        for name, value in own.items():
            setattr(scheduler, name, value)
        registry.forget_kept()
        scheduler._serving = None


_PLACE = ("_database", "path", "_clock", "pool", "waits")


def _nobody_starts() -> EngineHost:
    raise AssertionError("the engine of a journey is driven by hand")
