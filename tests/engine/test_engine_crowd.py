"""Many engines on one database do together what one of them does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from edgecron.engine.step import Engine
from edgecron.model.choices import Status
from tests.support.clock import FakeClock
from tests.support.story import START_MS, Story

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


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))]
)
def test_twenty_engines_start_what_one_starts_and_skip_nothing(tmp_path: Path, seed: int) -> None:
    one = outcomes(tmp_path / "one.db", engines=1, seed=seed)
    twenty = outcomes(tmp_path / "twenty.db", engines=20, seed=seed)

    assert one[Status.SKIPPED] == twenty[Status.SKIPPED] == 0
    assert twenty.total() == one.total()
    assert abs(twenty[Status.SUCCESS] - one[Status.SUCCESS]) <= SCHEDULES


def crowd(path: Path, count: int, clock: FakeClock) -> list[Engine]:
    """Engines that know each other, and a schedule that is due every second."""
    story = Story(path, clock=clock)
    engines = [story.engine]
    engines += [story.world.engines[story.world.start_engine()][0] for _ in range(count - 1)]
    story.add("often", "every 1s")
    for engine in engines:
        engine.step()
    for engine in engines:
        engine.recovery.suspect()  # The ring of a newcomer does that.
    return engines


def waits_ms(engines: list[Engine], now_ms: int) -> list[int]:
    """How long each engine sleeps after a step."""
    wakes_ms = [engine.step().wake_ms for engine in engines]
    return [wake_ms - now_ms for wake_ms in wakes_ms if wake_ms is not None]


def test_engines_wake_one_after_the_other_and_each_is_first_at_some_instant(
    tmp_path: Path,
) -> None:
    clock = FakeClock(START_MS)
    engines = crowd(tmp_path / "edge.db", 5, clock)
    firsts = set()
    for _ in range(5):
        clock.advance_ms(1_000)
        waits = waits_ms(engines, clock.now_ms())
        assert sorted(waits) == [1_000, 1_040, 1_080, 1_120, 1_160]
        firsts.add(waits.index(1_000))

    assert firsts == set(range(5))


def test_engines_that_offer_other_jobs_have_no_turn(tmp_path: Path) -> None:
    clock = FakeClock(START_MS)
    story = Story(tmp_path / "edge.db", clock=clock)
    keys = [
        story.world.start_engine(queues=("py:app",), offers=[offer])
        for offer in ("command often", "command seldom", "command never")
    ]
    engines = [story.world.engines[key][0] for key in keys]
    story.add("often", "every 1s", queue="py:app")
    for engine in engines:
        engine.step()
        engine.recovery.suspect()
    for _ in range(5):
        clock.advance_ms(1_000)
        assert waits_ms(engines[:1], clock.now_ms()) == [1_000]


def test_an_engine_that_is_stopped_delays_a_fire_by_its_turn(tmp_path: Path) -> None:
    clock = FakeClock(START_MS)
    engines = crowd(tmp_path / "edge.db", 3, clock)
    clock.advance_ms(1_000)
    waits = waits_ms(engines, clock.now_ms())

    clock.advance_ms(1_040)

    assert engines[waits.index(1_040)].step().decided == 1
