"""Colours of an output: escape sequences of SGR to values and styles. Pure.

Known are 16, 256 and 16 million colours, bold, dim, italic, underline, reverse, strike and reset.
Other codes are dropped: blinking disturbs, and hidden text must be seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from rich.style import Style

from edgecron.base.safetext import COLOR_CODES
from edgecron.base.values import NamedTuple

_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike", 21: "underline"}
_OFF = {
    22: ("bold", "dim"),
    23: ("italic",),
    24: ("underline",),
    27: ("reverse",),
    29: ("strike",),
}


class TextColor(NamedTuple):
    """How a job wants its text: colours by Rich's names, '' for the default; and attributes."""

    color: str = ""
    ground: str = ""
    attributes: frozenset[str] = frozenset()


PLAIN = TextColor()
# From a letter on, text has a colour; up to the next one.
Run = tuple[int, TextColor]


def split_colors(text: str, color: TextColor) -> tuple[str, list[Run], TextColor]:
    """Take the escape sequences out of a text that begins in a colour.

    Return the text, the places where its colours begin, and the colour at its end.
    """
    runs: list[Run] = [] if color == PLAIN else [(0, color)]
    if "\x1b" not in text:
        return text, runs, color
    parts, length, begin = [], 0, 0
    for code in COLOR_CODES.finditer(text):
        parts.append(text[begin : code.start()])
        length += code.start() - begin
        begin = code.end()
        color = _changed(color, code[1])
        while runs and runs[-1][0] == length:
            runs.pop()
        if color != (runs[-1][1] if runs else PLAIN):
            runs.append((length, color))
    return "".join([*parts, text[begin:]]), runs, color


def cut_runs(runs: Sequence[Run], start: int, end: int) -> tuple[Run, ...]:
    """Return the runs of a part of their text."""
    found = []
    for (begin, color), (following, _) in pairwise([*runs, (end, PLAIN)]):
        if begin < end and following > start:
            found.append((max(0, begin - start), color))
    return tuple(found)


def join_runs(first: Sequence[Run], length: int, second: Sequence[Run]) -> tuple[Run, ...]:
    """Return the runs of a text of a length and another one after it."""
    found = [*first]
    following = list(second)
    if not following or following[0][0] > 0:
        following.insert(0, (0, PLAIN))
    for begin, color in following:
        if color != (found[-1][1] if found else PLAIN):
            found.append((length + begin, color))
    return tuple(found)


@lru_cache(maxsize=4096)
def _changed(color: TextColor, codes: str) -> TextColor:
    """Return a colour after the codes of an escape sequence."""
    numbers = iter(
        [_number(code) for code in codes.split(";")] if ":" not in codes else _parts(codes)
    )
    for number in numbers:
        if number == 0:
            color = PLAIN
        elif number in _ON:
            color = color._replace(attributes=color.attributes | {_ON[number]})
        elif number in _OFF:
            color = color._replace(attributes=color.attributes - set(_OFF[number]))
        elif 30 <= number <= 37 or 90 <= number <= 97:
            color = color._replace(color=f"color({_basic(number - 30)})")
        elif 40 <= number <= 47 or 100 <= number <= 107:
            color = color._replace(ground=f"color({_basic(number - 40)})")
        elif number in (38, 48, 58):
            named = _extended(numbers)  # 58 colours an underline: its numbers are no other codes.
            if named and number == 38:
                color = color._replace(color=named)
            elif named and number == 48:
                color = color._replace(ground=named)
        elif number == 39:
            color = color._replace(color="")
        elif number == 49:
            color = color._replace(ground="")
    return color


def _basic(number: int) -> int:
    return number if number < 8 else number - 52  # 90 is the first of the bright ones.


def _number(code: str) -> int:
    return int(code or 0) if len(code) < 4 else -1


def _parts(codes: str) -> Iterator[int]:
    """Yield numbers of codes with colons, such as 38:2::255:0:0 or 4:3."""
    for code in codes.split(";"):
        first, *others = code.split(":")
        if first in ("38", "48", "58"):
            # There can be a number of a colour space before red.
            kind, *levels = others or [""]
            yield from map(_number, (first, kind, *(levels[-3:] if kind == "2" else levels[:1])))
        else:
            yield 24 if (first, *others[:1]) == ("4", "0") else _number(first)


def _extended(numbers: Iterator[int]) -> str:
    """Read the rest of a colour of 256 or 16 million; '' if it is none."""
    kind = next(numbers, -1)
    if kind == 5:
        index = next(numbers, -1)
        return f"color({index})" if 0 <= index <= 255 else ""
    if kind == 2:
        levels = [next(numbers, -1) for _ in range(3)]
        if all(0 <= level <= 255 for level in levels):
            return "#{:02x}{:02x}{:02x}".format(*levels)
    return ""


def style_of(color: TextColor, *, is_colored: bool) -> Style:
    """Return the style of a colour; without colours, only its attributes."""
    words = sorted(color.attributes)
    if is_colored:
        words += [color.color] if color.color else []
        words += [f"on {color.ground}"] if color.ground else []
    return Style.parse(" ".join(words))
