"""Durations of runs: a line of small bars, and a chart with a scale."""

from __future__ import annotations

from edgecron.tui.schedule_list import sparkline
from edgecron.tui.schedule_screen import scale_words, trend_lines


def letters(*durations: int | None, width: int = 8) -> str:
    """Of durations from the oldest to the newest."""
    recent = [("success", ms) for ms in reversed(durations)]
    return "".join(letter for letter, _ in sparkline(recent, width))


def test_the_median_is_three_eighths_high_and_no_bar_more_than_six() -> None:
    assert letters(100, 100, 100, width=3) == "▃▃▃"
    assert letters(50, 100, 100, 130, 200, 100_000, width=6) == "▂▃▃▄▆▆"


def test_one_long_run_leaves_the_others_as_they_are() -> None:
    assert letters(90, 110, 100, 10_000_000, width=4) == "▃▃▃▆"


def test_too_few_stand_on_the_right_and_of_too_many_the_newest_are_shown() -> None:
    assert letters(400, 800, width=5) == "   ▃▆"
    assert letters(900_000, 400, 800, width=2) == "▃▆"
    assert letters(width=3) == "   "
    assert letters(1, width=0) == ""


def test_a_run_without_a_duration_is_a_dot_and_one_of_no_time_the_lowest_bar() -> None:
    assert letters(None, 0, 8, width=3) == "·▁▆"
    assert letters(None, None, width=2) == "··"
    assert letters(0, 0, width=2) == "▁▁"


def test_a_failed_run_has_another_shape_and_no_part_in_the_median() -> None:
    recent = [("failed", 1), ("failed", None), ("success", 100), ("interrupted", 1)]

    assert "".join(letter for letter, _ in sparkline(recent, 4)) == "✗▃✗✗"


def test_a_style_tells_how_each_ended() -> None:
    recent = [
        ("running", None),
        ("interrupted", 1),
        ("failed", 1),
        ("skipped", None),
        ("success", 1),
    ]

    assert [style for _, style in sparkline(recent, 6)] == [
        "dim", "quiet", "dim", "bad", "bad", "dim",
    ]  # fmt: skip


def drawn(*durations: int | None, width: int = 20, height: int = 4) -> list[str]:
    """Of durations from the oldest to the newest."""
    recent = [("success", ms) for ms in reversed(durations)]
    lines = trend_lines(recent, width=width, height=height)
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def test_the_longest_is_as_high_as_there_is_room_and_the_others_to_its_scale() -> None:
    assert drawn(3_000, 1_000, 2_000) == [
        " 3.0s │███",
        " 2.0s │███     ███",
        " 1.0s │███ ███ ███",
        "      └ ·   ·   ·",
    ]


def test_the_newest_are_shown_of_too_many_and_stand_close_together() -> None:
    shown = drawn(*range(1_000, 9_000, 100), width=20, height=3)

    assert shown == [
        " 8.9s │▆▇▇▇▇▇▇██████",
        "      │█████████████",
        "      └·············",
    ]


def test_how_a_run_ended_is_told_by_a_glyph_too() -> None:
    recent = [("failed", 500), ("success", 1_000), ("interrupted", None)]

    *_, below = trend_lines(recent, width=20, height=3)

    assert [(text.strip(), style) for text, style in below if text.strip()] == [
        ("└", "faint"),
        ("!", "bad"),
        ("·", "dim"),
        ("✗", "bad"),
    ]


def test_without_a_duration_there_is_nothing_to_show() -> None:
    assert drawn(None, None) == []
    assert drawn() == []
    assert drawn(1, 2, width=3) == []
    assert scale_words([("interrupted", None)]) == ""


def test_the_scale_is_told_in_words() -> None:
    recent = [("success", ms) for ms in (900, 2_000, 60_000)]

    assert scale_words(recent) == "min 900ms  median 2.0s  max 1m"
