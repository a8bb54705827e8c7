"""Whole lives by their seeds; `python -m tests.simulation` lives many more."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulation.judging import TABLE
from simulation.lives import Figures
from simulation.seeds import Kind, live, live_once


def live_in(folder: Path, seed: int, for_ms: int) -> tuple[list[str], int, int, int]:
    folder.mkdir(mode=0o700)
    figures, machine = live(seed, folder, for_ms=for_ms, kind=Kind.COMPANY)
    return machine.trail, machine.digest, machine.reached, figures.fires


@pytest.mark.failure(15)
@pytest.mark.failure(18)
@pytest.mark.failure(22)
@pytest.mark.failure(23)
@pytest.mark.failure(24)
@pytest.mark.failure(51)
def test_no_life_of_a_few_seeds_breaks_an_invariant() -> None:
    total = Figures()

    for seed in range(1, 4):
        total.add(live_once(seed, for_ms=60_000, kind=Kind.COMPANY))

    assert total.fires > 500
    assert total.runs > 300
    assert sum(total.kills.values()) > 5
    assert total.recoveries > 10


@pytest.mark.failure(3)
@pytest.mark.failure(4)
@pytest.mark.failure(5)
@pytest.mark.failure(6)
def test_no_life_in_strange_times_breaks_an_invariant() -> None:
    figures = live_once(5, for_ms=3_600_000, kind=Kind.CLOCKS)

    assert figures.faults["clock set"] > 3
    assert figures.faults["reboot"] > 0
    assert figures.runs > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_no_life_of_many_seeds_breaks_an_invariant(seed: int) -> None:
    live_once(seed)


def test_a_seed_tells_everything_that_happens(tmp_path: Path) -> None:
    first = live_in(tmp_path / "1", 5, 15_000)
    again = live_in(tmp_path / "2", 5, 15_000)
    other = live_in(tmp_path / "3", 6, 15_000)

    assert first == again
    assert first[1] != other[1]
    assert first[0], "nothing went wrong in it: it tells little"


def test_each_invariant_of_the_catalogue_is_in_the_table() -> None:
    assert sorted(TABLE) == list(range(1, 23))
