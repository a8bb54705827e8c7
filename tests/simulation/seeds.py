"""A life for each seed: which one, on which folder, and what is told when it goes wrong."""

from __future__ import annotations

import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from edgecron.model.schedule import ScheduleSpec
from tests.simulation.casts import START_MS, company, crowd, plain_crowd
from tests.simulation.clocks import come_to_senses, strange_times
from tests.simulation.lives import Figures, Life, maltreated
from tests.simulation.machine import Machine
from tests.simulation.points import watching

if TYPE_CHECKING:
    from tests.simulation.on_server import ServerSide

_MEMORY = Path("/dev/shm")
_LIFE_MS = 500_000
_STRANGE_MS = 14_400_000


class Violation(AssertionError):
    """An invariant did not hold in the life of a seed."""

    def __init__(self, seed: int | None, why: str, trail: list[str]) -> None:
        super().__init__(why if seed is None else f"seed {seed}: {why}")
        self.seed = seed
        self.why = why
        self.trail = trail

    def __reduce__(self) -> tuple[type[Violation], tuple[int | None, str, list[str]]]:
        return Violation, (self.seed, self.why, self.trail)


class Kind(StrEnum):
    """What a life is about."""

    CROWD = "crowd"  # many schedules that come due together
    COMPANY = "company"  # those of every kind, some of which follow others
    CLOCKS = "clocks"  # times in which the clock can't be relied on


_KINDS = (Kind.CROWD, Kind.CROWD, Kind.CROWD, Kind.COMPANY, Kind.CLOCKS)
_CASTS: dict[Kind, Callable[[Random], list[ScheduleSpec]]] = {
    Kind.CROWD: crowd,
    Kind.COMPANY: company,
    Kind.CLOCKS: plain_crowd,
}


def live(
    seed: int,
    folder: Path,
    *,
    for_ms: int | None = None,
    kind: Kind | None = None,
    server: ServerSide | None = None,
) -> tuple[Figures, Machine]:
    """The life of a seed, in an empty folder 0700, with what it has done. Raises Violation.

    Of that `kind`, else of one that the seed chooses.
    """
    before_s = time.process_time()
    dice = Random(f"{seed} cast")
    kind = kind or dice.choice(_KINDS)
    specs = _CASTS[kind](dice)
    machine = Machine(folder, seed=seed, start_ms=START_MS, server=server)
    try:
        with watching(machine):
            life = Life(machine, specs, is_exact=kind is not Kind.CLOCKS)
            try:
                if kind is Kind.CLOCKS:
                    strange_times(life, for_ms=for_ms or _STRANGE_MS)
                    come_to_senses(life)
                else:
                    maltreated(life, for_ms=for_ms or _LIFE_MS)
                    life.finish()
            finally:
                life.close()
    except Exception as error:
        raise Violation(seed, why_of(error), machine.trail) from error
    return life.figures(took_s=time.process_time() - before_s), machine


def live_once(
    seed: int, *, for_ms: int | None = None, kind: Kind | None = None, url: str | None = None
) -> Figures:
    """The same, in a folder in memory that is removed afterwards, or on a server's database."""
    with folder_in_memory() as folder:
        server = server_side(url, folder)
        return live(seed, folder, for_ms=for_ms, kind=kind, server=server)[0]


def server_side(url: str | None, folder: Path) -> ServerSide | None:
    """The empty database at `url`, for a machine in a folder; None is a file in there."""
    if url is None:
        return None
    from tests.simulation.on_server import ServerSide  # its driver is an extra

    return ServerSide(url, folder, start_ms=START_MS)


def why_of(error: Exception) -> str:
    """What did not hold; of an engine that ended by a defect also where."""
    is_judged = isinstance(error, AssertionError) and str(error)
    return str(error) if is_judged else "".join(traceback.format_exception(error)[-6:])


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """An empty folder 0700, in memory where that is possible, removed at the end."""
    where = _MEMORY if _MEMORY.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="edgecron-simulation-", dir=where))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
