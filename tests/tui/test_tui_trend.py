"""Durations as tall bars with a scale."""

from __future__ import annotations

from edgecron.tui.durations import scale_words, trend_lines


def drawn(*durations: int | None, width: int = 20, height: int = 4) -> list[str]:
    """Of durations from the oldest to the newest."""
    recent = [("success", ms) for ms in reversed(durations)]
    lines = trend_lines(recent, width=width, height=height)
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def test_the_longest_is_as_high_as_there_is_room_and_the_others_to_its_scale() -> None:
    assert drawn(3_000, 1_000, 2_000) == [
        " 3.0 s │███",
        " 2.0 s │███     ███",
        " 1.0 s │███ ███ ███",
        "       └ ·   ·   ·",
    ]


def test_the_newest_are_shown_of_too_many_and_stand_close_together() -> None:
    shown = drawn(*range(1_000, 9_000, 100), width=20, height=3)

    assert shown == [
        " 8.9 s │▇▇▇▇▇▇██████",
        "       │████████████",
        "       └············",
    ]


def test_how_a_run_ended_is_told_by_a_glyph_too() -> None:
    recent = [("failed", 500), ("success", 1_000), ("interrupted", None)]

    *_, below = trend_lines(recent, width=20, height=3)

    assert [(text.strip(), look) for text, look in below if text.strip()] == [
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

    assert scale_words(recent) == "min 900 ms  median 2.0 s  max 1 min 0 s"
