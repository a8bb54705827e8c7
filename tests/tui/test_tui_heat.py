"""Shades of busy hours."""

from __future__ import annotations

from edgecron.tui.heat import SHADES, shade


def test_nothing_is_blank_and_the_busiest_hour_darkest() -> None:
    assert shade(0, 100) == 0
    assert shade(0, 0) == 0
    assert shade(100, 100) == SHADES
    assert shade(1, 1) == SHADES


def test_one_run_is_to_be_seen_beside_many() -> None:
    assert shade(1, 1_000_000) == 1


def test_hours_of_different_magnitude_have_different_shades() -> None:
    assert [shade(count, 1000) for count in (1, 10, 100, 1000)] == [1, 2, 3, 4]


def test_a_busier_hour_is_never_lighter() -> None:
    shades = [shade(count, 5000) for count in range(5001)]

    assert shades == sorted(shades)
    assert set(shades) == {0, 1, 2, 3, 4}
