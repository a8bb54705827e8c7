"""Facts in sections, laid out to a width."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgecron.tui.text_line import Cells, Fact, Row, Title, laid_out
from edgecron.views.phrases import display_width

ROWS: list[Row] = [
    Fact("when", "every 15m"),
    Title("Next runs", (("f all", "dim"),)),
    Cells((("in 3 min", "accent"), ("  09:00", ""))),
    Fact("note", "clocks go forward from 02:00 to 03:00, and what lies between is not"),
]


def drawn(rows: list[Row], width: int) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in laid_out(rows, width)]


def test_labels_stand_in_a_column_and_long_words_are_folded_behind_them() -> None:
    assert drawn(ROWS, 60) == [
        " when            every 15m",
        "",
        " Next runs ────────────────────────────────────────── f all",
        "                 in 3 min  09:00",
        " note            clocks go forward from 02:00 to 03:00, and",
        "                 what lies between is not",
    ]


def test_where_there_is_little_room_labels_stand_above() -> None:
    assert drawn(ROWS, 30) == [
        " when",
        "  every 15m",
        "",
        " Next runs ──────────── f all",
        "  in 3 min  09:00",
        " note",
        "  clocks go forward from",
        "  02:00 to 03:00, and what",
        "  lies between is not",
    ]


def test_what_a_terminal_would_obey_is_shown_and_lines_are_kept() -> None:
    assert drawn([Fact("job", "echo \x1b]52;c;x\x07\n[bold]two")], 60) == [
        " job             echo \\x1b]52;c;x\\x07",
        "                 [bold]two",
    ]


@given(st.text(max_size=80), st.integers(1, 90))
def test_no_line_is_wider_than_there_is_room(text: str, width: int) -> None:
    rows: list[Row] = [Title("Next"), Fact("label", text), Cells((("in 3 min", ""),), "x")]

    for line in laid_out(rows, width):
        assert sum(display_width(part) for part, _ in line) <= max(width, 19)
