"""Decide whether a fire can run now, waits or is skipped: overlap and limits. Pure."""

from __future__ import annotations

from enum import Enum

from edgecron.base.values import NamedTuple
from edgecron.model.choices import Cause, Overlap

# Only a few late runs run at once: so there are places for runs on time, and after a resume
# hundreds of late runs do not start together.
LATE_CAUSES = frozenset({Cause.CATCH_UP, Cause.BACKFILL})
_LATE_SHARE = 4


class Admission(Enum):
    RUN = "run"  # a place is free
    QUEUE = "queue"  # it waits for a place
    SKIP = "skip"  # the overlap policy forbids it
    REPLACE = "replace"  # it waits until the run that it replaces has been ended


class Occupancy(NamedTuple):
    """Active fires of one schedule and scope; `catching_up` late ones have started.

    `retrying` fires wait for their next attempt, and keep their places. `backfilling` of the
    running ones belong to a backfill, and `backfill_retrying` more wait for their next attempt.
    Backfill fires that have not started are not counted, as no other fire waits for them.
    """

    running: int = 0
    queued: int = 0
    retrying: int = 0
    catching_up: int = 0
    backfilling: int = 0
    backfill_retrying: int = 0

    @property
    def active(self) -> int:
        """How many fires are running, waiting or retrying, without those of a backfill."""
        return self.running - self.backfilling + self.queued + self.retrying


def running_limit(overlap: Overlap, max_running: int | None) -> int | None:
    """How many runs of one schedule and scope can run at the same time; None is unlimited."""
    if max_running is not None:
        return max_running
    return None if overlap is Overlap.ALLOW else 1


def late_limit(max_running: int) -> int:
    """How many of an engine's places late runs can have."""
    return max(1, max_running // _LATE_SHARE)


def admit_fire(
    *,
    overlap: Overlap,
    max_running: int | None,
    in_sequence: bool,
    occupancy: Occupancy,
    has_place: bool,
) -> Admission:
    """Decide about a new fire, given the active ones of its schedule and scope."""
    limit = running_limit(overlap, max_running)
    active = occupancy.active
    run_or_wait = Admission.RUN if has_place else Admission.QUEUE
    if in_sequence:
        # Overlap does not discard the fires of catch_up=all; they run one after the other.
        return run_or_wait if active + occupancy.backfilling == 0 else Admission.QUEUE
    if limit is None:
        return run_or_wait
    if active < limit:
        # It waits for a run of a backfill instead of being skipped.
        return run_or_wait if active + occupancy.backfilling < limit else Admission.QUEUE
    if overlap is Overlap.ALLOW:
        return Admission.QUEUE
    if overlap is Overlap.REPLACE:
        return Admission.REPLACE
    if overlap is Overlap.QUEUE and occupancy.queued == 0:
        return Admission.QUEUE
    return Admission.SKIP


def is_full(*, overlap: Overlap, max_running: int | None, occupancy: Occupancy) -> bool:
    """Whether a schedule and scope have as many runs as allowed, so that no other can start."""
    limit = running_limit(overlap, max_running)
    return limit is not None and occupancy.running >= limit


def is_behind(*, cause: Cause, occupancy: Occupancy) -> bool:
    """Whether a row of a backfill waits for the end of the one before it."""
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
    """Whether a queued row can run beside the running ones of its schedule and scope.

    `is_backfill`: it belongs to a backfill, with its first attempt or a later one.
    """
    limit = running_limit(overlap, max_running)
    if cause is Cause.CATCH_UP and occupancy.catching_up:
        # In sequence after the one before, but not after runs of other causes: a schedule that is
        # always running would never catch up.
        return False
    if is_backfill and is_behind(cause=cause, occupancy=occupancy):
        return False
    is_own = cause is Cause.RETRY and not is_backfill
    taken = occupancy.running + occupancy.retrying - is_own
    return limit is None or taken < limit
