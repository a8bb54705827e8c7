"""What a run printed, as lines for a viewer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecron.model.run import OutputChunk, Stream
from edgecron.tui.output_colors import PLAIN, style_of
from edgecron.tui.output_text import (
    OutputText,
    Place,
    Selection,
    find_matches,
    letter_at,
    selected_text,
    whole_text,
    wrap,
)
from edgecron.views.phrases import display_width

OUT, ERR = Stream.STDOUT, Stream.STDERR


def piece(
    content: str | bytes, stream: Stream = OUT, *, at_ms: int = 0, skipped: int = 0
) -> tuple[int, OutputChunk]:
    raw = content.encode() if isinstance(content, str) else content
    return skipped, OutputChunk(stream=stream, at_ms=at_ms, content=raw)


def printed(*pieces: tuple[int, OutputChunk], most_bytes: int = 10**6) -> OutputText:
    made = OutputText(most_bytes=most_bytes)
    for one in pieces:
        made.extend([one])
    return made


def texts(made: OutputText) -> list[str]:
    return [line.text for line in made.lines()]


def test_a_line_knows_its_stream_and_when_it_began() -> None:
    made = printed(
        piece("one\ntw", at_ms=5), piece("o\n\nthree", at_ms=7), piece("!", ERR, at_ms=9)
    )

    assert [(line.stream, line.at_ms, line.text) for line in made.lines()] == [
        (OUT, 5, "one"), (OUT, 5, "two"), (OUT, 7, ""), (OUT, 7, "three"), (ERR, 9, "!"),
    ]  # fmt: skip


def test_a_line_goes_on_where_its_own_stream_does() -> None:
    made = printed(piece("load"), piece("warn\nmo", ERR), piece("ing\nnext\n"), piece("re\n", ERR))

    assert texts(made) == ["loading", "warn", "more", "next"]


def test_what_terminals_obey_is_shown_and_letters_may_come_in_parts() -> None:
    made = printed(piece(b"\x1b[31Ared\r"), piece(b"\nna\xc3"), piece(b"\xafve \xff"))
    made.finish()

    assert texts(made) == ["\\x1b[31Ared", "naïve \ufffd"]


def colors(made: OutputText, number: int) -> list[tuple[str, str]]:
    """The parts of a line, and the style of each."""
    text, runs = made.rows_of(number, None)[0], [(0, PLAIN), *made.colors_of(number)]
    ends = [at for at, _ in runs[1:]] + [len(text)]
    parts = [
        (text[at:end], str(style_of(color, is_colored=True)))
        for (at, color), end in zip(runs, ends, strict=True)
    ]
    return [part for part in parts if part[0]]


@pytest.mark.parametrize(
    ("codes", "style"),
    [
        ("31", "color(1)"),
        ("97;44", "color(15) on color(4)"),
        ("1;2;3;4", "bold dim italic underline"),
        ("7;9", "reverse strike"),
        ("38;5;208", "color(208)"),
        ("38;2;1;2;3", "#010203"),
        ("48:2::1:2:3", "on #010203"),
        ("38:5:9;4:3", "underline color(9)"),
        ("31;39;1;22", "none"),
        ("38;5;999", "none"),
        ("38;2;1;2", "none"),
        ("4;58;2;255;0;1", "underline"),  # Without the colour of the underline.
        ("31;58:5:1", "color(1)"),
        ("5;8;73", "none"),  # Blinking, hidden and unknown ones.
        ("31;", "none"),
        ("99999999999999999999", "none"),
    ],
)
def test_codes_of_colours_become_styles(codes: str, style: str) -> None:
    made = printed(piece(f"a\x1b[{codes}mb\n"))

    assert texts(made) == ["ab"]
    shown = [("a", "none"), ("b", style)] if style != "none" else [("ab", "none")]
    assert colors(made, 0) == shown


def test_a_colour_lasts_over_lines_and_parts_until_it_is_reset() -> None:
    made = printed(
        *map(piece, ("\x1b[3", "1mre", "d\n\tstill\n", "\x1b[0mplain\n")), piece("other", ERR)
    )

    assert [colors(made, number) for number in range(4)] == [
        [("red", "color(1)")],
        [("        still", "color(1)")],
        [("plain", "none")],
        [("other", "none")],
    ]


def test_colours_stay_at_their_letters_between_tabs() -> None:
    made = printed(piece("a\x1b[31mb\tc\x1b[32m\td\t\x1b[0m\te\n"))

    assert colors(made, 0) == [
        ("a", "none"),
        ("b      c", "color(1)"),
        ("       d       ", "color(2)"),
        ("        e", "none"),
    ]


def test_a_progress_bar_keeps_the_colour_of_its_last_step() -> None:
    made = printed(piece("\x1b[31m10%\r\x1b[33m50"), piece("%\r\x1b[32m99%\x1b[0m done\n"))

    assert colors(made, 0) == [("99%", "color(2)"), (" done", "none")]
    assert made.printed_lines == 1


def test_a_divided_line_keeps_its_colours() -> None:
    made = printed(piece("a" * 4090 + "\x1b[31m" + "b" * 10 + "\x1b[0mc\n"))

    assert colors(made, 0)[1:] == [("b" * 6, "color(1)")]
    assert colors(made, 1) == [("b" * 4, "color(1)"), ("c", "none")]


def test_text_is_found_across_colours() -> None:
    made = printed(piece("er\x1b[31mror\x1b[0m: full\n"))

    assert made.search("error: full") == [0]


def test_without_colours_only_attributes_stay() -> None:
    [(_, color)] = printed(piece("\x1b[1;31;42mred\n")).colors_of(0)

    assert str(style_of(color, is_colored=False)) == "bold"


def test_an_escape_sequence_that_never_ends_is_shown() -> None:
    made = printed(piece("\x1b[" + "1;" * 100), piece("m\x1b["))
    made.finish()

    assert texts(made) == ["\\x1b[" + "1;" * 100 + "m\\x1b["]


def test_half_a_letter_at_the_end_is_shown_when_nothing_follows() -> None:
    made = printed(piece(b"a\xc3"))
    assert texts(made) == ["a"]

    made.finish()

    assert texts(made) == ["a\ufffd"]


def test_what_was_not_kept_is_one_line_and_ends_the_lines_before_it() -> None:
    made = printed(piece("begin"), piece("half", ERR), piece("end\n", skipped=40 * 1024, at_ms=3))

    assert texts(made) == ["begin", "half", "… 40 KiB dropped …", "end"]
    assert made.line(2).stream is None
    assert made.line(2).at_ms == 3


def test_a_progress_bar_is_its_last_step_however_it_comes() -> None:
    whole = printed(piece("begin\n10 %\r55 %\r100 %\nend\r\n"))
    parts = printed(piece("begin\n10 %\r"), piece("55"), piece(" %\r100"), piece(" %\nend\r\n"))

    assert texts(whole) == texts(parts) == ["begin", "100 %", "end"]
    assert whole.printed_lines == 3


def test_a_step_that_was_found_is_forgotten_when_another_one_replaces_it() -> None:
    made = printed(piece("10 %"))
    assert list(made.search("10")) == [0]

    made.extend([piece("\r20 %")])

    assert list(made.search("10")) == []


def test_the_lines_that_the_job_printed_are_counted_not_those_of_the_screen() -> None:
    made = printed(piece("begin\n"), piece("x" * 9000 + "\n"), piece("end\n", skipped=1024))

    assert made.printed_lines == 3
    assert made.dropped_bytes == 1024
    assert made.end > 4  # The long line was divided, and the gap has a line of its own.


def test_two_gaps_with_nothing_between_are_one_line() -> None:
    made = printed(
        piece("a\n"), piece("", skipped=1), piece("b", skipped=1023), piece("c", skipped=1)
    )

    assert texts(made) == ["a", "… 1 KiB dropped …", "b", "… 1 byte dropped …", "c"]


def test_a_line_without_end_goes_on_in_lines_of_its_own() -> None:
    made = printed(piece("x" * 4000), piece("y" * 10_000), piece("z\n"), piece("next"))

    assert [len(line.text) for line in made.lines()] == [4096, 4096, 4096, 1713, 4]
    assert [line.is_continued for line in made.lines()] == [False, True, True, True, False]
    assert "".join(texts(made)) == "x" * 4000 + "y" * 10_000 + "znext"


def test_where_there_is_too_much_the_oldest_lines_go_and_the_others_keep_their_numbers() -> None:
    made = OutputText(most_bytes=10_000)
    for number in range(1000):
        made.extend([piece(f"line {number}\n")])
        assert len(texts(made)) <= 100

    assert made.end == 1000
    assert made.first > 900
    assert made.line(made.first).text == f"line {made.first}"
    with pytest.raises(IndexError):
        made.line(made.first - 1)
    with pytest.raises(IndexError):
        made.line(1000)


@pytest.mark.parametrize(("letter", "size_bytes"), [("x", 1), ("ä", 1), ("漢", 2), ("🂡", 4)])
def test_what_is_kept_is_bounded_by_what_its_letters_take(letter: str, size_bytes: int) -> None:
    made = OutputText(most_bytes=200_000)
    for _ in range(200):
        made.extend([piece(letter * 2_000 + "\n")])

    kept_bytes = sum(len(text) for text in texts(made)) * size_bytes
    assert 120_000 < kept_bytes <= 200_000


def test_a_line_that_has_gone_goes_on_as_a_new_one() -> None:
    made = OutputText(most_bytes=5000)
    made.extend([piece("begun", ERR)])
    made.extend([piece("x\n" * 100)])
    made.extend([piece("goes on\n", ERR)])

    last = made.line(made.end - 1)
    assert (last.text, last.stream, last.is_continued) == ("goes on", ERR, True)


def test_lines_wrap_to_a_width_by_the_columns_of_letters() -> None:
    assert wrap("abcdef", 4) == ("abcd", "ef")
    assert wrap("日本語", 5) == ("日本", "語")
    assert wrap("a\tb", 6) == ("a     ", "  b")
    assert wrap("", 4) == ("",)
    assert wrap("日本", 1) == ("日", "本")
    assert wrap("é" * 3, 2) == ("éé", "é")


def test_rows_are_found_by_line_and_lines_by_row() -> None:
    made = printed(piece("ab\n" + "x" * 25 + "\n日本語日本語\n\n" + "y" * 10))

    assert made.height_at(10) == 1 + 3 + 2 + 1 + 1
    assert [made.locate(row, 10) for row in range(8)] == [
        (0, 0), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (3, 0), (4, 0),
    ]  # fmt: skip
    assert [made.row_of(number, 10) for number in range(5)] == [0, 1, 4, 6, 7]
    assert made.rows_of(1, 10) == ("x" * 10, "x" * 10, "x" * 5)
    assert made.rows_of(1, None) == ("x" * 25,)
    assert (made.height_at(None), made.locate(3, None), made.row_of(3, None)) == (5, (3, 0), 3)
    for row in (-1, 8):
        with pytest.raises(IndexError):
            made.locate(row, 10)


def test_heights_follow_lines_that_come_grow_and_go() -> None:
    made = OutputText(most_bytes=200_000)
    for number in range(3000):
        made.extend(
            [piece("w" * (number % 40) + "日", ERR), piece("\t" + "v" * (number % 90) + "\n")]
        )
        if number % 7 == 0:
            made.extend([piece("\n", ERR)])
        if number % 100 == 0:
            fresh = sum(len(made.rows_of(line.number, 20)) for line in made.lines())
            assert made.height_at(20) == fresh

    assert made.first > 0
    row = made.row_of(made.end - 1, 20)
    assert made.locate(row, 20) == (made.end - 1, 0)


def test_a_search_heeds_capitals_where_it_has_one() -> None:
    made = printed(piece("Error\nerror\nfine\nERRORS\n"))

    assert list(made.search("error")) == [0, 1, 3]
    assert list(made.search("Error")) == [0]
    assert list(made.search("")) == []
    assert list(made.search("none")) == []


def test_a_search_goes_on_with_what_is_printed_and_with_what_is_typed() -> None:
    made = printed(piece("warn", ERR), piece("alarm\nwax\n"))
    assert list(made.search("wa")) == [0, 2]

    made.extend([piece("alar\n"), piece("ed\n", ERR), piece("warned\n")])

    assert list(made.search("wa")) == [0, 2, 4]
    assert list(made.search("warne")) == [0, 4]
    assert list(made.search("ar")) == [0, 1, 3, 4]


def test_a_line_that_grows_to_match_is_found_in_its_place() -> None:
    made = printed(piece("half", ERR), piece("half done\n"))
    assert list(made.search("half done")) == [1]

    made.extend([piece(" done", ERR)])

    assert list(made.search("half done")) == [0, 1]


def test_a_search_forgets_lines_that_have_gone() -> None:
    made = OutputText(most_bytes=10_000)
    for number in range(500):
        made.extend([piece(f"line {number}\n")])
        found = made.search("line")
        assert list(found) == list(range(made.first, made.end))


def test_places_of_a_match_are_told_for_marking_them() -> None:
    assert find_matches("An error, an ERROR", "error") == [(3, 8), (13, 18)]
    assert find_matches("An error, an ERROR", "ERROR") == [(13, 18)]
    assert find_matches("aaaa", "aa") == [(0, 2), (2, 4)]
    assert find_matches("İstanbul i", "i") == [(9, 10)]
    assert find_matches("x", "") == []


CONTENTS = st.binary(max_size=12) | st.sampled_from([b"\n", b"\r\n", b"ab", "日\n".encode()])


@given(st.lists(st.tuples(CONTENTS, st.sampled_from(list(Stream)), st.integers(0, 1))))
def test_however_it_comes_the_lines_of_each_stream_are_the_same(
    came: list[tuple[bytes, Stream, int]],
) -> None:
    made = printed(*(piece(content, stream) for content, stream, _ in came))
    made.finish()

    for stream in Stream:
        alone = printed(
            piece(b"".join(content for content, own, _ in came if own is stream), stream)
        )
        alone.finish()
        assert [line.text for line in made.lines() if line.stream is stream] == texts(alone)


@given(st.text(), st.integers(2, 9))
def test_wrapping_loses_no_letter_and_fits(text: str, width: int) -> None:
    rows = wrap(text.replace("\t", ""), width)

    assert "".join(rows) == text.replace("\t", "")
    assert all(display_width(row) <= width for row in rows)


@pytest.mark.parametrize(
    ("text", "column", "letter"),
    [("abc", 1, 1), ("abc", 7, 3), ("漢b", 0, 0), ("漢b", 1, 0), ("漢b", 2, 1), ("漢b", 3, 2)],
)
def test_a_column_has_the_letter_that_is_drawn_there(text: str, column: int, letter: int) -> None:
    assert letter_at(text, column) == letter


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
    made = printed(piece("one\ntwo\nthree\n"))

    assert selected_text(made, Selection(anchor, head, is_lines)) == text


def test_a_line_that_was_too_long_is_one_again_when_it_is_taken() -> None:
    long = b"x" * 10_000
    made = printed(piece(long + b"\nnext\n"))

    assert made.end > 2
    assert whole_text(made) == long.decode() + "\nnext\n"


def test_nothing_that_a_terminal_obeys_is_taken() -> None:
    made = printed(piece(b"\x1b]52;c;aGk=\x07\x9b31m\xc2\x9b\xe2\x80\xaered\n"))

    assert all(letter.isprintable() or letter == "\n" for letter in whole_text(made))
