"""Who may run now: overlap, limits and sequence, as tables."""

from __future__ import annotations

import pytest

from edgecron.model.choices import Cause, Overlap
from edgecron.planning.admission import (
    Admission,
    Occupancy,
    admit_fire,
    may_start_queued,
    running_limit,
)

RUN, QUEUE, SKIP = Admission.RUN, Admission.QUEUE, Admission.SKIP


@pytest.mark.parametrize(
    ("overlap", "max_running", "expected"),
    [
        (Overlap.SKIP, None, 1),
        (Overlap.QUEUE, None, 1),
        (Overlap.REPLACE, None, 1),
        (Overlap.ALLOW, None, None),
        (Overlap.SKIP, 3, 3),
        (Overlap.ALLOW, 3, 3),
    ],
)
def test_one_runs_at_once_unless_told_otherwise(
    overlap: Overlap, max_running: int | None, expected: int | None
) -> None:
    assert running_limit(overlap, max_running) == expected


@pytest.mark.parametrize(
    ("overlap", "max_running", "running", "queued", "expected"),
    [
        (Overlap.SKIP, None, 0, 0, RUN),
        (Overlap.SKIP, None, 1, 0, SKIP),
        (Overlap.SKIP, None, 0, 1, SKIP),  # a queued row is active too
        (Overlap.SKIP, 2, 1, 0, RUN),
        (Overlap.SKIP, 2, 1, 1, SKIP),
        (Overlap.QUEUE, None, 0, 0, RUN),
        (Overlap.QUEUE, None, 1, 0, QUEUE),
        (Overlap.QUEUE, None, 1, 1, SKIP),  # one waits, no more
        (Overlap.QUEUE, None, 0, 1, SKIP),
        (Overlap.QUEUE, 2, 2, 0, QUEUE),
        (Overlap.QUEUE, 2, 2, 1, SKIP),
        (Overlap.ALLOW, None, 0, 0, RUN),
        (Overlap.ALLOW, None, 50, 50, RUN),
        (Overlap.ALLOW, 2, 1, 0, RUN),
        (Overlap.ALLOW, 2, 2, 0, QUEUE),
        (Overlap.ALLOW, 2, 2, 50, QUEUE),
    ],
)
def test_a_new_fire_meets_what_is_active(
    overlap: Overlap, max_running: int | None, running: int, queued: int, expected: Admission
) -> None:
    admission = admit_fire(
        overlap=overlap,
        max_running=max_running,
        in_sequence=False,
        occupancy=Occupancy(running=running, queued=queued),
        has_place=True,
    )

    assert admission is expected


@pytest.mark.parametrize("overlap", Overlap)
def test_a_new_fire_waits_where_no_place_is_free(overlap: Overlap) -> None:
    admission = admit_fire(
        overlap=overlap,
        max_running=None,
        in_sequence=False,
        occupancy=Occupancy(),
        has_place=False,
    )

    assert admission is QUEUE


@pytest.mark.failure(28)
@pytest.mark.parametrize("overlap", Overlap)
def test_overlap_does_not_discard_what_runs_in_sequence(overlap: Overlap) -> None:
    behind_another = admit_fire(
        overlap=overlap,
        max_running=None,
        in_sequence=True,
        occupancy=Occupancy(running=1, queued=7),
        has_place=True,
    )
    alone = admit_fire(
        overlap=overlap,
        max_running=None,
        in_sequence=True,
        occupancy=Occupancy(),
        has_place=True,
    )

    assert behind_another is QUEUE
    assert alone is RUN


@pytest.mark.parametrize(
    ("overlap", "max_running", "cause", "running", "catching_up", "expected"),
    [
        (Overlap.SKIP, None, Cause.SCHEDULE, 0, 0, True),
        (Overlap.SKIP, None, Cause.SCHEDULE, 1, 0, False),
        (Overlap.QUEUE, None, Cause.SCHEDULE, 0, 0, True),
        (Overlap.QUEUE, None, Cause.MANUAL, 1, 0, False),
        (Overlap.QUEUE, 2, Cause.SCHEDULE, 1, 0, True),
        (Overlap.ALLOW, None, Cause.SCHEDULE, 9, 0, True),
        (Overlap.ALLOW, 9, Cause.SCHEDULE, 9, 0, False),
        (Overlap.SKIP, None, Cause.CATCH_UP, 0, 0, True),
        # Catch-ups run one after the other, however many places there are...
        (Overlap.SKIP, 3, Cause.CATCH_UP, 1, 1, False),
        (Overlap.ALLOW, None, Cause.CATCH_UP, 1, 1, False),
        # ...but do not wait for what runs for another cause, which might never pause.
        (Overlap.SKIP, 3, Cause.CATCH_UP, 1, 0, True),
        (Overlap.ALLOW, None, Cause.CATCH_UP, 4, 0, True),
        (Overlap.ALLOW, 4, Cause.CATCH_UP, 4, 0, False),
    ],
)
def test_a_queued_row_meets_what_is_running(
    overlap: Overlap,
    max_running: int | None,
    cause: Cause,
    running: int,
    catching_up: int,
    expected: bool,
) -> None:
    may = may_start_queued(
        overlap=overlap,
        max_running=max_running,
        cause=cause,
        occupancy=Occupancy(running=running, catching_up=catching_up, queued=1),
    )

    assert may is expected


@pytest.mark.parametrize(
    ("overlap", "running", "backfilling", "expected"),
    [
        (Overlap.SKIP, 1, 1, QUEUE),  # waited for: nothing on time is left out for it
        (Overlap.REPLACE, 1, 1, QUEUE),  # and it is not replaced
        (Overlap.QUEUE, 1, 1, QUEUE),
        (Overlap.ALLOW, 1, 1, RUN),
    ],
)
def test_a_new_fire_waits_for_the_run_of_a_backfill(
    overlap: Overlap, running: int, backfilling: int, expected: Admission
) -> None:
    admission = admit_fire(
        overlap=overlap,
        max_running=None,
        in_sequence=False,
        occupancy=Occupancy(running=running, backfilling=backfilling),
        has_place=True,
    )

    assert admission is expected


@pytest.mark.parametrize(
    ("cause", "is_backfill", "occupancy", "expected"),
    [
        (Cause.BACKFILL, True, Occupancy(running=1, backfilling=1), False),
        (Cause.BACKFILL, True, Occupancy(backfill_retrying=1), False),  # its fire goes on
        (Cause.BACKFILL, True, Occupancy(running=1), True),
        (Cause.RETRY, True, Occupancy(backfill_retrying=1), True),  # itself
        (Cause.RETRY, True, Occupancy(running=1, backfilling=1, backfill_retrying=1), False),
        (Cause.SCHEDULE, False, Occupancy(running=1, backfilling=1), True),
        (Cause.SCHEDULE, False, Occupancy(backfill_retrying=1), True),
    ],
)
def test_a_backfill_runs_one_after_the_other_beside_what_is_on_time(
    cause: Cause, is_backfill: bool, occupancy: Occupancy, expected: bool
) -> None:
    may_start = may_start_queued(
        overlap=Overlap.ALLOW,
        max_running=None,
        cause=cause,
        occupancy=occupancy,
        is_backfill=is_backfill,
    )

    assert may_start is expected
