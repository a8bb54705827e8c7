"""Text from anybody: what comes out is nothing that a terminal obeys, and says the same."""

from __future__ import annotations

import json
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgecron.base.safetext import StreamCleaner, clean, clean_json

HOSTILE = st.sampled_from(
    [
        *("\x1b[2J", "\x1b]52;c;aGk=\x07", "\x1b]0;title\x1b\\", "\x1bP1$r\x1b\\", "\x9b31m"),
        *("\x90", "\x9d0;x\x9c", "\u202egpj.exe", "\u2066", "\u200b", "\ufeff", "\u2028", "\x85"),
        *("\ud800", "\udcff", "\U000e0041", "\ue000", "\u0378", "\u3164", "\u0301" * 9, "\x7f"),
        *("\r", "\r\n", "\n", "\t", "\0", "\b"),
    ]
)
TEXTS = st.lists(st.one_of(HOSTILE, st.text(max_size=8)), max_size=12).map("".join)
BYTES = st.lists(
    st.one_of(
        st.binary(max_size=6),
        TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.sampled_from([b"\x9b31m", b"\xc2", b"\xe2\x80", b"\xf0\x9f\x8e\x89"]),
    ),
    max_size=12,
).map(b"".join)


def is_seen(text: str, *, keep: str = "") -> bool:
    """Whether a text is made of what is to be seen, and marks at most four to a letter."""
    marks = [unicodedata.category(letter) in ("Mn", "Me") for letter in text]
    return all(
        letter in keep or unicodedata.category(letter)[0] in "LNPS" or letter_is_mark
        or unicodedata.category(letter) in ("Mc", "Zs")
        for letter, letter_is_mark in zip(text, marks, strict=True)
    ) and not any(all(marks[at : at + 5]) for at in range(len(marks) - 4))  # fmt: skip


@pytest.mark.failure(72)
@given(TEXTS)
def test_nothing_but_what_is_to_be_seen_is_left(text: str) -> None:
    shown = clean(text)
    lines = clean(text, keep="\n\t")

    assert is_seen(shown)
    assert is_seen(lines, keep="\n\t")
    assert clean(shown) == shown
    shown.encode()


@given(st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=40))
@example("Grüße, 日本, 🎉, שלום, नमस्ते, e\u0301, ສະບາຍດີ")
def test_letters_of_every_language_stay_as_they_are(text: str) -> None:
    unseen = set("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")

    assert clean(text) == text or unseen & set(text)


def test_marks_need_a_letter_and_are_bounded() -> None:
    assert clean("a" + "\u0301" * 6) == "a" + "\u0301" * 4 + "\\u0301" * 2
    assert clean("\u0338x") == "\\u0338x"
    assert clean("a\n\u0338", keep="\n") == "a\n\\u0338"


@pytest.mark.failure(72)
@given(st.recursive(TEXTS, lambda inner: st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6))
def test_cleaned_json_means_the_same(value: object) -> None:
    shown = clean_json(json.dumps(value, ensure_ascii=False, indent=2))

    assert json.loads(shown) == json.loads(json.dumps(value))
    assert is_seen(shown, keep="\n")
    shown.encode()


@pytest.mark.failure(45)
@pytest.mark.failure(72)
@given(BYTES, st.lists(st.integers(0, 60), max_size=8))
def test_output_is_cleaned_alike_however_it_is_cut(content: bytes, cuts: list[int]) -> None:
    whole, parts = StreamCleaner(), StreamCleaner()
    ends = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]

    at_once = whole.feed(content) + whole.end()
    in_parts = "".join(parts.feed(content[a:b]) for a, b in pairwise(ends)) + parts.end()

    assert in_parts == at_once
    assert is_seen(at_once, keep="\n\t")


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"a\r\r\nb", "a\nb"),
        (b"10%\r20%\r100%\n", "10%\n20%\n100%\n"),
        (b"10%\r", "10%\n"),
        (b"rm -rf /\rls", "rm -rf /\nls"),
        (b"a\tb\x0b\x0c\x08", "a\tb\\x0b\\x0c\\x08"),
        (b"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        (b"\x9b31m\xc2\x9b31m\xff", "\ufffd31m\\x9b31m\ufffd"),
        (b"\xe2\x82", "\ufffd"),
    ],
)
def test_output_keeps_its_lines_and_shows_the_rest(printed: bytes, shown: str) -> None:
    cleaner = StreamCleaner()

    assert cleaner.feed(printed) + cleaner.end() == shown


def test_an_escape_sequence_that_is_cut_stays_harmless() -> None:
    cleaner = StreamCleaner()

    parts = [cleaner.feed(part) for part in (b"\x1b", b"]52;c;aGk=", b"\x07", b"\xc2", b"\x9b")]

    assert parts == ["\\x1b", "]52;c;aGk=", "\\x07", "", "\\x9b"]
