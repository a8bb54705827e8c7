"""Parts of the output: what stands in which columns, what is selected, what stands out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecron.model.claim import OutputChunk, Stream
from edgecron.tui.output_text import OutputText, Place, Selection, selected_text, whole_text
from edgecron.tui.wrapping import Mark, letter_at, marked, window
from edgecron.views.phrases import display_width

LETTERS = st.text(st.sampled_from("ab漢e\u0301 "), max_size=30)


def printed_of(*contents: bytes) -> OutputText:
    printed = OutputText()
    printed.extend(
        (0, OutputChunk(stream=Stream.STDOUT, at_ms=0, content=content)) for content in contents
    )
    printed.finish()
    return printed


@pytest.mark.parametrize(
    ("text", "left", "shown"),
    [
        ("abcdef", 0, "abc"),
        ("abcdef", 4, "ef"),
        ("abcdef", 9, ""),
        ("a漢字b", 0, "a漢"),
        ("a漢字b", 2, " 字"),
        ("a漢字b", 3, "字b"),
    ],
)
def test_a_long_line_is_looked_at_through_a_window(text: str, left: int, shown: str) -> None:
    first, end, blank = window(text, left, 3)

    assert " " * blank + text[first:end] == shown


@given(LETTERS, st.integers(0, 40), st.integers(1, 20))
def test_a_window_is_never_wider_than_it_is(text: str, left: int, width: int) -> None:
    first, end, blank = window(text, left, width)

    assert 0 <= first <= end <= len(text)
    assert blank + display_width(text[first:end]) <= width


@pytest.mark.parametrize(
    ("text", "column", "letter"),
    [("abc", 1, 1), ("abc", 7, 3), ("漢b", 0, 0), ("漢b", 1, 0), ("漢b", 2, 1), ("漢b", 3, 2)],
)
def test_a_column_has_the_letter_that_is_drawn_there(text: str, column: int, letter: int) -> None:
    assert letter_at(text, column) == letter


@given(LETTERS, st.integers(0, 9), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))))
def test_what_stands_out_loses_no_letter(
    text: str, start: int, bounds: list[tuple[int, int]]
) -> None:
    spans = marked(text, start, [Mark(*sorted(two), "hit") for two in bounds], "")  # type: ignore[arg-type,call-arg]

    assert "".join(part for part, _ in spans) == text


def test_of_marks_over_each_other_the_last_is_seen() -> None:
    marks = [Mark(1, 4, "hit"), Mark(3, 6, "selected")]

    assert marked("abcdef", 0, marks, "") == [
        ("a", ""),
        ("bc", "hit"),
        ("d", "selected"),
        ("ef", "selected"),
    ]


@pytest.mark.parametrize(
    ("anchor", "head", "is_lines", "text"),
    [
        (Place(0, 1), Place(0, 3), False, "ne"),
        (Place(0, 1), Place(2, 2), False, "ne\ntwo\nth"),
        (Place(2, 2), Place(0, 1), False, "ne\ntwo\nth"),
        (Place(1, 0), Place(1, 0), True, "two\n"),
        (Place(2, 0), Place(1, 0), True, "two\nthree\n"),
        (Place(0, 0), Place(9, 9), False, "one\ntwo\nthree"),
    ],
)
def test_what_is_selected_is_the_same_in_both_directions(
    anchor: Place, head: Place, is_lines: bool, text: str
) -> None:
    printed = printed_of(b"one\ntwo\nthree\n")

    assert selected_text(printed, Selection(anchor, head, is_lines)) == text


def test_a_line_that_was_too_long_is_one_again_when_it_is_taken() -> None:
    long = b"x" * 10_000
    printed = printed_of(long + b"\nnext\n")

    assert printed.end > 2
    assert whole_text(printed) == long.decode() + "\nnext\n"


def test_nothing_that_a_terminal_obeys_is_taken() -> None:
    printed = printed_of(b"\x1b]52;c;aGk=\x07\x9b31m\xc2\x9b\xe2\x80\xaered\n")

    assert all(letter.isprintable() or letter == "\n" for letter in whole_text(printed))
