"""The disk refuses the Nth write, sync, truncation or opening, once or for a while.

Nothing is lost and nothing runs twice, nothing starts without a committed claim, the engine says
so, and is well again soon after the disk is.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.powerloss.faults import Duration, Faults, Op, Trouble
from tests.powerloss.laboratory import cuts
from tests.powerloss.recorder import SyncFailed
from tests.powerloss.refusing import (
    COUNTS,
    DATABASES,
    EVERYTHING,
    JOURNALS,
    REFUSED,
    Names,
    live_through,
)
from tests.powerloss.trials import LOSSES, Trials, added_at
from tests.support.forms import tried

_FIRST, _EACH = tried((1, 3), (0, 1))

KINDS = [
    (DATABASES, Op.WRITE, Trouble.FULL, Duration.LASTING, 83),
    (DATABASES, Op.WRITE, Trouble.FULL, Duration.ONCE, 97),
    (DATABASES, Op.WRITE, Trouble.IOERR, Duration.ONCE, 89),
    (DATABASES, Op.SYNC, Trouble.IOERR, Duration.ONCE, 7),
    (DATABASES, Op.SYNC, Trouble.IOERR, Duration.LASTING, 13),
    (DATABASES, Op.OPEN, Trouble.IOERR, Duration.ONCE, 5),
    (DATABASES, Op.OPEN, Trouble.IOERR, Duration.LASTING, 7),
    (JOURNALS, Op.WRITE, Trouble.FULL, Duration.ONCE, 14),
    (JOURNALS, Op.WRITE, Trouble.SHORT, Duration.LASTING, 8),
    (JOURNALS, Op.OPEN, Trouble.IOERR, Duration.LASTING, 1),
    (EVERYTHING, Op.WRITE, Trouble.FULL, Duration.LASTING, 131),
    (EVERYTHING, Op.WRITE, Trouble.READONLY, Duration.LASTING, 101),
]


@pytest.mark.failure(51)
@pytest.mark.parametrize(("names", "op", "trouble", "duration", "step"), KINDS)
def test_a_disk_that_refuses_costs_nothing_but_time(
    tmp_path: Path, names: Names, op: Op, trouble: Trouble, duration: Duration, step: int
) -> None:
    met = 0

    points = range(1, COUNTS[names][op] + 1, step)
    for nth in points[_FIRST::_EACH] or points:
        refusing = Faults(trouble=trouble, op=op, nth=nth, duration=duration, names=names)
        met += live_through(tmp_path / str(nth), refusing).met

    assert met > 0


@pytest.mark.failure(51)
@pytest.mark.slow
@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize("duration", Duration)
@pytest.mark.parametrize(("names", "op"), [(n, op) for n in COUNTS for op in COUNTS[n]])
def test_each_operation_may_be_the_one_that_is_refused(
    tmp_path: Path, names: Names, op: Op, trouble: Trouble, duration: Duration
) -> None:
    for nth in range(1, COUNTS[names][op] + 1):
        refusing = Faults(trouble=trouble, op=op, nth=nth, duration=duration, names=names)
        live_through(tmp_path / str(nth), refusing)


@pytest.mark.failure(16)
@pytest.mark.failure(51)
@pytest.mark.parametrize("nth", [4, 11, 19])
def test_what_a_refused_sync_left_unsure_was_acted_on_by_nobody(tmp_path: Path, nth: int) -> None:
    refusing = Faults(trouble=Trouble.IOERR, op=Op.SYNC, nth=nth, names=DATABASES)
    lived = live_through(tmp_path / "story", refusing)
    trials = Trials(REFUSED, lived.log, tmp_path)

    refused = next(i for i, one in enumerate(lived.log, 1) if isinstance(one.entry, SyncFailed))
    later = range(max(refused, added_at(lived.log)), min(refused + 400, len(lived.log)))
    numbers = sorted(Random(nth).sample(later, 20))
    for cut in cuts(lived.log, numbers, losses=LOSSES, seed=nth):
        trials.verify(cut)

    assert lived.met == 1
    assert trials.bench.looked_at > 10


def test_a_story_on_a_disk_that_never_refuses_is_told_without_trouble(tmp_path: Path) -> None:
    never = Faults(trouble=Trouble.IOERR, op=Op.WRITE, nth=10**9, names=DATABASES)

    lived = live_through(tmp_path / "story", never)

    assert lived.met == 0
    assert set(lived.told) == {"engine_started", "engine_stopped"}
    assert lived.fires > 12
    assert all(lived.counts[op] > 0.5 * count for op, count in COUNTS[DATABASES].items()), (
        lived.counts
    )
