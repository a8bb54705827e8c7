"""Questions whose answers are whole values, where a Client gives an iterator, a function's work or
something that waits. Each looks once and comes back: who waits asks again, at their own pace."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from edgecron.base.checks import check_range
from edgecron.base.values import NamedTuple
from edgecron.client.follow import LaterRuns, LaterTold
from edgecron.model.choices import Status
from edgecron.model.claim import OutputChunk
from edgecron.model.run import Execution

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.client import Client
    from edgecron.formats.document_plan import Step
    from edgecron.model.filters import Filter
    from edgecron.model.schedule import Schedule, ScheduleSpec
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.views.busy import WeekHeat

MOST_FIRES = 10_000
_MOST_SKIPPED = 1_000_000
_MOST_BYTES = 512 * 1024  # of output in one answer, but for a chunk that is longer by itself


class Printed(NamedTuple):
    """What a run has printed from a position on, each chunk with the number of bytes before it
    that were not kept. `run` is as it was on record before that was read; `has_more`: of what it
    printed by then this is not all."""

    run: Execution
    pieces: tuple[tuple[int, OutputChunk], ...]
    has_more: bool


class Begun(NamedTuple):
    """A run that has begun, and what has been told of the others with it."""

    run: Execution
    told: LaterTold


def now(client: Client) -> datetime:
    return client.now()


def next_fires(
    client: Client, name: str | None, matches: Filter | None, skip: int, limit: int
) -> list[UpcomingFire]:
    """`limit` fires to come, after the first `skip` of them."""
    check_range("skip", skip, 0, _MOST_SKIPPED)
    check_range("limit", limit, 1, MOST_FIRES)
    return list(islice(client.next_fires(name, matches=matches), skip, skip + limit))


def edit_once(
    client: Client, schedule: Schedule, spec: ScheduleSpec, origin: str
) -> Schedule | None:
    return client.edit_once(schedule, spec, origin=origin)


def check(client: Client, step: Step) -> None:
    client.check(step)


def week_heat(client: Client, zone: str | None) -> WeekHeat:
    """The heat at the end of all slices."""
    for found in client.week_heat(zone):
        if found is not None:
            return found
    raise AssertionError("a week has no end")


def printed(client: Client, execution_id: int, position: int) -> Printed:
    """What a run has printed from a position on, as far as it is kept. Raises NotFound."""
    check_range("position", position, 0, 2**62)
    run = client.execution(execution_id)
    pieces: list[tuple[int, OutputChunk]] = []
    size_bytes = 0
    with client.follower(execution_id, position=position) as follower:
        for skipped, chunk in follower.read_kept(run, most_bytes=_MOST_BYTES):
            if pieces and size_bytes + len(chunk.content) > _MOST_BYTES:
                return Printed(run, tuple(pieces), has_more=True)
            pieces.append((skipped, chunk))
            size_bytes += len(chunk.content)
    return Printed(run, tuple(pieces), has_more=size_bytes >= _MOST_BYTES)


def await_printed(
    client: Client, execution_id: int, position: int, status: Status
) -> Printed | None:
    """The same, where there is anything new of a run that was in a status; else None."""
    found = printed(client, execution_id, position)
    return found if found.pieces or found.run.status is not status else None


def await_begun(client: Client, told: LaterTold) -> Begun | None:
    """The first run that has begun and was not told; None where none has."""
    later = LaterRuns(client.store, told)
    found = later.find_next()
    return None if found is None else Begun(found, later.told)


def change_mark(client: Client) -> int:
    return client.change_mark()


def await_change(client: Client, mark: int) -> int | None:
    """The mark, where it is another one than it was; else None. Of one Client alone: a server
    answers for all that it has."""
    found = client.change_mark()
    return None if found == mark else found
