"""Whole lives by their seeds; `python -m tests.simulation` lives many more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.simulation.judging import TABLE
from tests.simulation.lives import Figures
from tests.simulation.seeds import Kind, live, live_once
from tests.support.forms import tried

_FIRST, _LIVES = tried((2, 1), (1, 3))


def live_in(folder: Path, seed: int, for_ms: int) -> tuple[list[str], int, int, int]:
    folder.mkdir(mode=0o700)
    figures, machine = live(seed, folder, for_ms=for_ms, kind=Kind.COMPANY)
    return machine.trail, machine.digest, machine.reached, figures.fires


def live_until(
    is_enough: Callable[[Figures], bool], *, seeds: Iterable[int], for_ms: int, kind: Kind
) -> Figures:
    """Lives of these seeds until enough has gone wrong in them, which is up to their dice."""
    total = Figures()
    for seed in seeds:
        total.add(live_once(seed, for_ms=for_ms, kind=kind))
        if is_enough(total):
            return total
    raise AssertionError(f"too little goes wrong in lives: {total}")


@pytest.mark.failure(15)
@pytest.mark.failure(18)
@pytest.mark.failure(22)
@pytest.mark.failure(23)
@pytest.mark.failure(24)
@pytest.mark.failure(51)
def test_no_life_of_a_few_seeds_breaks_an_invariant() -> None:
    total = live_until(
        lambda total: (
            total.lives >= _LIVES and sum(total.kills.values()) > 3 and total.recoveries > 10
        ),
        seeds=range(_FIRST, 20),
        for_ms=60_000,
        kind=Kind.COMPANY,
    )

    assert total.fires > 50 * total.lives
    assert total.runs > 20 * total.lives
    assert total.punctual > 0


@pytest.mark.failure(3)
@pytest.mark.failure(4)
@pytest.mark.failure(5)
@pytest.mark.failure(6)
def test_no_life_in_strange_times_breaks_an_invariant() -> None:
    live_until(
        lambda total: (
            total.lives >= 2 and total.faults["clock set"] > 3 and total.faults["reboot"] > 0
        ),
        seeds=range(11, 24),
        for_ms=3_600_000,
        kind=Kind.CLOCKS,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_no_life_of_many_seeds_breaks_an_invariant(seed: int) -> None:
    live_once(seed)


def test_a_seed_tells_everything_that_happens(tmp_path: Path) -> None:
    lives = (live_in(tmp_path / f"{seed}", seed, 15_000) for seed in range(17, 40))
    seed, first = next((seed, life) for seed, life in enumerate(lives, 17) if life[0])
    again = live_in(tmp_path / "again", seed, 15_000)
    other = live_in(tmp_path / "other", 5, 2_000)

    assert first == again
    assert first[1] != other[1]


def test_each_invariant_of_the_catalogue_is_in_the_table() -> None:
    assert sorted(TABLE) == [*range(1, 24), 25]  # 24 is checked in the older worlds
