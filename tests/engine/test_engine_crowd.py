"""Many engines on one database do together what one of them does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from edgecron.model.choices import Status
from tests.support.story import Story

SCHEDULES = 12
SECONDS = 60


def outcomes(path: Path, *, engines: int, seed: int) -> Counter[str]:
    """How the fires of a minute ended, beside so many engines that step in any order."""
    story, random = Story(path), Random(seed)
    keys = [story.key, *(story.world.start_engine() for _ in range(engines - 1))]
    for number in range(SCHEDULES):
        story.add(f"often{number}", f"every {2 + number % 4}s", lasts_s=1)
    for _ in range(SECONDS):
        story.world.clock.advance_ms(1_000)
        random.shuffle(keys)
        for key in keys:
            story.world.step(key)
    found = Counter[str]()
    for number in range(SCHEDULES):
        found.update(run.status.value for run in story.runs(f"often{number}"))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_twenty_engines_start_what_one_starts_and_skip_nothing(tmp_path: Path, seed: int) -> None:
    one = outcomes(tmp_path / "one.db", engines=1, seed=seed)
    twenty = outcomes(tmp_path / "twenty.db", engines=20, seed=seed)

    assert one[Status.SKIPPED] == twenty[Status.SKIPPED] == 0
    assert twenty.total() == one.total()
    assert abs(twenty[Status.SUCCESS] - one[Status.SUCCESS]) <= SCHEDULES
