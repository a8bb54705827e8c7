"""Answer requests about runs, their output, engines and the database.

As in `schedule_questions`. To wait for news, a client asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from edgecron.base.checks import check_range
from edgecron.base.values import NamedTuple, dataclass
from edgecron.model.choices import Status
from edgecron.model.claim import OutputChunk
from edgecron.model.listing import RunBounds
from edgecron.model.run import Execution
from edgecron.planning.corrections import ClockState
from edgecron.views.outlook import LatePlaces

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.client import Client
    from edgecron.client.follow import LaterTold
    from edgecron.engine.health import EngineState
    from edgecron.engine.other_engines import DatabaseCopy
    from edgecron.model.choices import Cause
    from edgecron.model.claim import Output
    from edgecron.model.listing import RunPage
    from edgecron.model.schedule import ScheduleSpec

_MOST_BYTES = 512 * 1024  # of output in one answer, unless a single chunk is longer


def execution(client: Client, *, execution_id: int) -> Execution:
    """A run."""
    return client.execution(execution_id)


def history_page(
    client: Client,
    *,
    schedule: str | None = None,
    status: tuple[Status, ...] = (),
    cause: tuple[Cause, ...] = (),
    before: int | None = None,
    limit: int = 100,
    former: bool = False,
) -> RunPage:
    """Runs, newest first, and the ids of unreadable ones."""
    return client.history_page(
        schedule,
        statuses=status,
        causes=cause,
        before_id=before,
        limit=limit,
        with_former=former,
    )


def run_page(
    client: Client,
    *,
    before_id: int | None = None,
    after_id: int | None = None,
    limit: int = 100,
    statuses: tuple[Status, ...] = (),
    schedule_ids: Sequence[int] | None = None,
    causes: tuple[str, ...] = (),
    reasons: tuple[str | None, ...] = (),
) -> RunPage:
    """Runs before or after a run, newest first, as a list shows them."""
    return client.run_page(
        before_id=before_id,
        after_id=after_id,
        limit=limit,
        statuses=statuses,
        schedule_ids=schedule_ids,
        causes=causes,
        reasons=reasons,
    )


def run_bounds(client: Client) -> RunBounds:
    """The first and the last id of all runs."""
    return client.run_bounds()


def waiting_runs(client: Client, *, limit: int = 20) -> list[Execution]:
    """Queued runs, in their order."""
    return client.waiting_runs(limit=limit)


def last_failure(client: Client) -> Execution | None:
    """The newest run that failed or was interrupted."""
    return client.last_failure()


def next_attempt(client: Client, *, execution_id: int) -> Execution | None:
    """The retry of a run, or null."""
    return client.next_attempt(client.execution(execution_id))


def spec_of(client: Client, *, execution_id: int) -> ScheduleSpec | None:
    """What its schedule said when it was decided; null if that was pruned."""
    return client.spec_of(client.execution(execution_id))


def is_supervised(client: Client, *, execution_id: int) -> bool:
    """Whether a supervisor looks after it."""
    return client.is_supervised(client.execution(execution_id))


def output(client: Client, *, execution_id: int) -> Output | None:
    """What is stored of its output, after its end."""
    return client.output(execution_id)


class Piece(NamedTuple):
    """A chunk, and the number of bytes before it that were printed and not kept."""

    dropped_bytes: int
    chunk: OutputChunk


class Printed(NamedTuple):
    """What a run printed from a position on.

    `run` is as it was before the output was read; `has_more`: it has printed more by now.
    """

    run: Execution
    chunks: tuple[Piece, ...]
    has_more: bool


def printed(client: Client, *, execution_id: int, position: int = 0) -> Printed:
    """What it has printed from a position on, stored or live."""
    check_range("position", position, 0, 2**62)
    run = client.execution(execution_id)
    pieces: list[Piece] = []
    size_bytes = 0
    with client.follower(execution_id, position=position) as follower:
        for skipped, chunk in follower.read_kept(run, most_bytes=_MOST_BYTES):
            if pieces and size_bytes + len(chunk.content) > _MOST_BYTES:
                return Printed(run, tuple(pieces), has_more=True)
            pieces.append(Piece(skipped, chunk))
            size_bytes += len(chunk.content)
    return Printed(run, tuple(pieces), has_more=size_bytes >= _MOST_BYTES)


def await_printed(
    client: Client, *, execution_id: int, position: int, status: Status
) -> Printed | None:
    """The same as soon as there is anything new, or its status is another one."""
    found = printed(client, execution_id=execution_id, position=position)
    return found if found.chunks or found.run.status is not status else None


def told_before(client: Client, *, name: str, known: int | None = None) -> LaterTold:
    """A cursor behind the runs of a schedule that have begun by now."""
    run = None if known is None else client.execution(known)
    return client.told_before(name, known=run)


class Begun(NamedTuple):
    """A run that has begun, and the cursor behind it."""

    run: Execution
    told: LaterTold


def await_begun(client: Client, *, told: LaterTold) -> Begun | None:
    """The first run that begins after a cursor, and the cursor behind it."""
    from edgecron.client.follow import LaterRuns  # loads the store, which a remote client has not

    later = LaterRuns(client.store, told)
    found = later.find_next()
    return None if found is None else Begun(found, later.told)


def run_once(
    client: Client,
    *,
    name: str,
    key: str,
    payload_text: str | None = None,
    asked_at: datetime | None = None,
) -> list[Execution]:
    """Run a schedule now, once for a key."""
    return client.run_once(name, key=key, payload=payload_text, asked_at=asked_at)


def cancel(client: Client, *, execution_id: int) -> Execution:
    """Cancel a queued run, or end a running one."""
    return client.cancel(execution_id)


# About the database and its engines.


class ScheduleCounts(NamedTuple):
    """How many schedules there are, and how many of them are broken or run by no program."""

    schedules: int
    broken: int
    vanished: int


class Sizes(NamedTuple):
    """Sizes of the database and of its write-ahead log."""

    database_bytes: int
    wal_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseStatus:
    """The parts that were asked for; the others are null."""

    now: datetime
    counts: ScheduleCounts | None = None
    active: dict[Status, int] | None = None
    late_places: LatePlaces | None = None
    clock: ClockState | None = None
    local_zone: str | None = None
    sizes: Sizes | None = None
    disk_problem: str | None = None


def status(client: Client, *, only: tuple[str, ...] = ()) -> DatabaseStatus:
    """Engines, clock, counts and sizes: the parts that are asked for."""
    read: dict[str, Callable[[], Any]] = {
        "counts": lambda: ScheduleCounts(*client.count_schedules()),
        "active": client.active_counts,
        "late_places": client.late_places,
        "clock": client.clock_state,
        "local_zone": client.local_zone,
        "sizes": lambda: Sizes(*client.database_sizes()),
        "disk_problem": client.disk_problem,
    }
    wanted = set(only) or set(read)
    found: dict[str, Any] = {name: one() for name, one in read.items() if name in wanted}
    return DatabaseStatus(now=client.now(), **found)


def engines(client: Client) -> list[EngineState]:
    """Engines of the database, and how each does."""
    return client.engines()


def twins(client: Client) -> list[DatabaseCopy]:
    """Other databases that engines of this machine's user have open under the same path."""
    return client.twins()


def has_engine(client: Client, *, queue: str, offer: str | None = None) -> bool:
    """Whether a running engine takes runs of a queue."""
    return client.has_engine(queue, offer=offer)


def take_over(client: Client) -> None:
    """Record the ends of runs whose engine has died."""
    client.take_over()


def change_mark(client: Client) -> int:
    """A number that is another one after each change of the database."""
    return client.change_mark()


def await_change(client: Client, *, mark: int) -> int | None:
    """The number as soon as it is another one than `mark`."""
    found = client.change_mark()
    return None if found == mark else found
