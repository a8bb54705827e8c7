"""Pure decisions about places: whether a fire may run now, waits, or is left out."""

from __future__ import annotations

from enum import Enum

from edgecron.base.values import NamedTuple
from edgecron.model.choices import Cause, Overlap

# Of what came late, only a few run at once: what is on time has places, and a resume with
# hundreds of them is no stampede.
LATE_CAUSES = frozenset({Cause.CATCH_UP, Cause.BACKFILL})
_LATE_SHARE = 4


class Admission(Enum):
    RUN = "run"  # a place is free
    QUEUE = "queue"  # it waits for one
    SKIP = "skip"  # overlap says no
    REPLACE = "replace"  # it waits for the end of the one it replaces, which is asked for


class Occupancy(NamedTuple):
    """Active executions of one schedule and scope; `catching_up` fires that came late have begun.

    `retrying` wait for their next attempt: their fires go on, and keep their places. Of a backfill
    are `backfilling` of those running and, besides the others, `backfill_retrying`; what is still
    to begin of it keeps nobody waiting, and is not counted.
    """

    running: int = 0
    queued: int = 0
    retrying: int = 0
    catching_up: int = 0
    backfilling: int = 0
    backfill_retrying: int = 0

    @property
    def active(self) -> int:
        """How many fires have begun or wait, and have not ended, but for those of a backfill."""
        return self.running - self.backfilling + self.queued + self.retrying


def running_limit(overlap: Overlap, max_running: int | None) -> int | None:
    """How many of one schedule and scope may run at once; None is unlimited."""
    if max_running is not None:
        return max_running
    return None if overlap is Overlap.ALLOW else 1


def late_limit(max_running: int) -> int:
    """How many of an engine's places may go to what came late."""
    return max(1, max_running // _LATE_SHARE)


def admit_fire(
    *,
    overlap: Overlap,
    max_running: int | None,
    in_sequence: bool,
    occupancy: Occupancy,
    has_place: bool,
) -> Admission:
    """What becomes of a new fire, given what is active of its schedule and scope."""
    limit = running_limit(overlap, max_running)
    active = occupancy.active
    run_or_wait = Admission.RUN if has_place else Admission.QUEUE
    if in_sequence:
        # Overlap does not discard what catch_up=all promised; it runs one after the other.
        return run_or_wait if active + occupancy.backfilling == 0 else Admission.QUEUE
    if limit is None:
        return run_or_wait
    if active < limit:
        # What a backfill runs is waited for: it leaves nothing out that is on time.
        return run_or_wait if active + occupancy.backfilling < limit else Admission.QUEUE
    if overlap is Overlap.ALLOW:
        return Admission.QUEUE
    if overlap is Overlap.REPLACE:
        return Admission.REPLACE
    if overlap is Overlap.QUEUE and occupancy.queued == 0:
        return Admission.QUEUE
    return Admission.SKIP


def is_full(*, overlap: Overlap, max_running: int | None, occupancy: Occupancy) -> bool:
    """Whether as many run of a schedule and scope as may, so that nothing of it can start."""
    limit = running_limit(overlap, max_running)
    return limit is not None and occupancy.running >= limit


def is_behind(*, cause: Cause, occupancy: Occupancy) -> bool:
    """Whether a row of a backfill has to wait for the end of the one before it."""
    begun = occupancy.backfilling + occupancy.backfill_retrying
    return begun > (cause is Cause.RETRY)


def may_start_queued(
    *,
    overlap: Overlap,
    max_running: int | None,
    cause: Cause,
    occupancy: Occupancy,
    is_backfill: bool = False,
) -> bool:
    """Whether a queued row may run beside what is running of its schedule and scope.

    `is_backfill`: it is of a backfill, be it its first attempt or a later one.
    """
    limit = running_limit(overlap, max_running)
    if cause is Cause.CATCH_UP and occupancy.catching_up:
        # In sequence: after the one before, but not after what runs for another cause. A schedule
        # that is always running something would never catch up.
        return False
    if is_backfill and is_behind(cause=cause, occupancy=occupancy):
        return False
    is_own = cause is Cause.RETRY and not is_backfill
    taken = occupancy.running + occupancy.retrying - is_own
    return limit is None or taken < limit
