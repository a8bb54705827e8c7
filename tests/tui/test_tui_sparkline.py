"""Durations as a line of small bars."""

from __future__ import annotations

from edgecron.tui.durations import BARS, PLAIN_BARS, sparkline


def letters(*durations: int | None, width: int = 8, is_plain: bool = False) -> str:
    """Of durations from the oldest to the newest."""
    recent = [("success", ms) for ms in reversed(durations)]
    return "".join(letter for letter, _ in sparkline(recent, width, is_plain=is_plain))


def test_bars_are_eighths_of_the_longest_with_the_oldest_on_the_left() -> None:
    assert letters(*(100 * n for n in range(1, 9))) == BARS
    assert letters(10, 10, 10, width=3) == "███"


def test_too_few_stand_on_the_right_and_of_too_many_the_newest_are_shown() -> None:
    assert letters(400, 800, width=5) == "   ▄█"
    assert letters(900_000, 400, 800, width=2) == "▄█"
    assert letters(width=3) == "   "
    assert letters(1, width=0) == ""


def test_very_different_durations_are_shown_by_their_magnitude() -> None:
    assert letters(1, 10, 100, 1_000, 10_000_000, width=5) == "▁▂▃▄█"


def test_up_to_fifty_times_apart_the_steps_are_equal() -> None:
    assert letters(100, 2_500, 5_000, width=3) == "▁▄█"
    assert letters(99, 2_500, 5_000, width=3) == "▁▇█"


def test_a_run_without_a_duration_is_a_dot_and_one_of_no_time_the_lowest_bar() -> None:
    assert letters(None, 0, 8, width=3) == "·▁█"
    assert letters(None, None, width=2) == "··"
    assert letters(0, 0, width=2) == "▁▁"


def test_a_style_tells_how_each_ended() -> None:
    recent = [
        ("running", None),
        ("interrupted", 1),
        ("failed", 1),
        ("skipped", None),
        ("success", 1),
    ]

    assert [style for _, style in sparkline(recent, 6)] == [
        "other", "ok", "other", "failed", "failed", "other",
    ]  # fmt: skip


def test_plain_letters_are_ascii_and_all_different() -> None:
    shown = letters(None, *(100 * n for n in range(1, 9)), width=9, is_plain=True)

    assert shown == "." + PLAIN_BARS
    assert shown.isascii()
    assert len(set(shown)) == 9
