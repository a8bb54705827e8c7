"""Text measured and cut in the columns of a terminal."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator


def display_width(text: str) -> int:
    """Columns that a text takes: wide letters two, marks on other letters none."""
    if text.isascii():
        return len(text)
    return sum(letter_width(letter) for letter in text)


def letter_width(letter: str) -> int:
    """Columns that a letter takes: none, one or two."""
    # The second and third part of a Hangul syllable are joined to the first one.
    if unicodedata.category(letter) in ("Mn", "Me") or "\u1160" <= letter <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def beginning(text: str, width: int) -> str:
    """As much of a text as fits into so many columns."""
    taken = 0
    for number, letter in enumerate(text):
        taken += letter_width(letter)
        if taken > width:
            return text[:number]
    return text


def fit(text: str, width: int) -> str:
    """A text filled up with blanks, or cut, to just so many columns."""
    if text.isascii() and len(text) <= width:
        return text.ljust(width)
    size = display_width(text)
    if size <= width:
        return text + " " * (width - size)
    kept = beginning(text, width - 1)
    return kept + glyph("…", "~") + " " * (width - 1 - display_width(kept))


def folded(text: str, width: int) -> Iterator[str]:
    """A text in parts that fit, broken between words where that is possible."""
    while display_width(text) > width:
        end = len(beginning(text, width)) or 1
        # A word that begins in the first half would leave more than half of the line empty.
        at = text.rfind(" ", end // 2, end + 1)
        yield text[: at if at > 0 else end].rstrip()
        text = text[at if at > 0 else end :].lstrip()
    yield text


def glyph(letter: str, plain: str) -> str:
    """A letter, or what stands for it where the output can't show it."""
    try:
        # The dashboard takes stdout over, and is refused where there is no UTF-8.
        letter.encode(getattr(sys.stdout, "encoding", "utf-8") or "ascii")
    except UnicodeEncodeError:
        return plain
    return letter
