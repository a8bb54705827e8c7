"""Rounds that alternate, and what is left of them when the machine has had its say."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """What neighbours took, ours and the reference's, in seconds or any other unit."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Ours by theirs, of each pair."""
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def middle(self) -> tuple[float, float]:
        """Between what half of the ratios lie."""
        return middle_of(self.ratios)

    @property
    def best_ratio(self) -> float:
        """Of the best of each: what else the machine does makes a round slower, never faster."""
        return min(self.ours) / min(self.theirs)

    @property
    def our_median(self) -> float:
        return statistics.median(self.ours)

    @property
    def their_median(self) -> float:
        return statistics.median(self.theirs)

    def figures(self) -> dict[str, object]:
        return {"ours": self.ours, "theirs": self.theirs, "best_ratio": self.best_ratio}


LEAST_ROUNDS = 3


def interleave(
    rounds: int,
    ours: Callable[[], float],
    theirs: Callable[[], float],
    *,
    within_s: float = 300.0,
) -> Pairs:
    """Measure both in turn; who begins takes turns, too.

    No further rounds begin when they have taken `within_s`, but for the first few.
    """
    mine: list[float] = []
    others: list[float] = []
    until = time.monotonic() + within_s
    for number in range(rounds):
        if number >= LEAST_ROUNDS and time.monotonic() > until:
            break
        if number % 2:
            others.append(theirs())
            mine.append(ours())
        else:
            mine.append(ours())
            others.append(theirs())
    return Pairs(ours=tuple(mine), theirs=tuple(others))


def seconds_of(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1)]


def middle_of(values: Sequence[float]) -> tuple[float, float]:
    """The quartiles, or both ends where there are only a few."""
    if len(values) < 4:
        return min(values), max(values)
    low, _, high = statistics.quantiles(values, n=4)
    return low, high
