"""Distances and durations as short words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from edgecron.views.times import distance, short_duration

NOW = datetime(2026, 11, 20, 13, 32, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "now"),
        (0.4, "now"),
        (50, "in 50s"),
        (-59, "59s ago"),
        (60, "in 1m"),
        (100, "in 2m"),
        (3569, "in 59m"),
        (3570, "in 1h"),
        (-7500, "2h 5m ago"),
        (86369, "in 23h 59m"),
        (86370, "in 1d"),
        (3 * 86400 + 14 * 3600, "in 3d 14h"),
    ],
)
def test_a_distance_has_at_most_two_units(seconds: float, words: str) -> None:
    assert distance(NOW + timedelta(seconds=seconds), NOW) == words


def test_a_distance_is_held_if_the_clock_can_not_be_trusted() -> None:
    assert distance(NOW, NOW, is_clock_trusted=False) == "held"


@pytest.mark.parametrize(
    ("duration_ms", "words"),
    [
        (None, "-"),
        (0, "0ms"),
        (999, "999ms"),
        (1000, "1.0s"),
        (59_949, "59.9s"),
        (59_950, "1m"),
        (108_000, "1m 48s"),
        (3_599_600, "1h"),
        (7_500_000, "2h 5m"),
        (86_369_000, "23h 59m"),
        (86_370_000, "1d"),
        (309_600_000, "3d 14h"),
    ],
)
def test_a_duration_has_at_most_two_units(duration_ms: int | None, words: str) -> None:
    assert short_duration(duration_ms) == words
