"""Make text from anybody harmless for a terminal. This is the only place that does so.

Such text is in names, commands, crontabs, file names, errors that quote them, and the output of
jobs. A terminal obeys some of its letters (escape sequences, which can also write the clipboard),
reorders by others (right-to-left marks), and does not show some at all. Such letters are shown as
`\\x1b`.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable
from unicodedata import category

JOINER = "\u200d"  # between emoji that are one picture; harmless in what a person pastes
_MOST_MARKS = 4  # on one letter: more of them reach into the lines above and below
# Printable by their category, but invisible: joiners, fillers, an empty braille pattern.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
# Colours and weight of text (SGR of ECMA-48), and the beginning of one that is not whole yet.
COLOR_CODES = re.compile("\x1b\\[([0-9;:]{0,64})m")
_BEGUN_CODE = re.compile("\x1b(\\[[0-9;:]{0,64})?\\Z")
# Harmless ASCII as long as it lasts, or one other letter: 6 times as fast as letter by letter.
_PARTS = re.compile("[ -~]+|.", re.DOTALL)


def clean(text: str, *, keep: str = "") -> str:
    """Escape every letter that a terminal would obey, except those in `keep`, such as a newline."""
    if text.isascii() and text.isprintable():
        return text
    return _escaped(text, escape, keep=keep)[0]


def clean_json(text: str) -> str:
    """Escape such letters in JSON, which means the same afterwards. Newlines stay."""
    if text.isascii() and "\x7f" not in text:
        return text  # JSON itself escapes all other control characters of ASCII.
    return _escaped(text, _json_escape, keep="\n")[0]


class StreamCleaner:
    """Clean what a job prints on one stream: bytes in, as they come; harmless text out.

    Lines and tabs stay. A carriage return begins a line, so each step of a progress bar is visible
    and nothing can be overwritten. Bytes that are not UTF-8 are shown as U+FFFD. A part can end
    anywhere, also within a letter. With `keeps_returns`, a carriage return stays what it is, for
    readers that show the last step only. With `keeps_colors`, escape sequences of colours also
    stay, for readers that take them out: see `COLOR_CODES`.
    """

    def __init__(self, *, keeps_returns: bool = False, keeps_colors: bool = False) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._return = "\r" if keeps_returns else "\n"
        self._is_after_return = False
        self._marks = _MOST_MARKS
        self._keeps_colors = keeps_colors
        self._begun = ""  # of an escape sequence

    def feed(self, content: bytes) -> str:
        """Clean the next bytes, except an end that later bytes can still change."""
        text = self._begun + self._decoder.decode(content)
        begun = _BEGUN_CODE.search(text) if self._keeps_colors else None
        self._begun = "" if begun is None else begun[0]
        return self._clean(text[: len(text) - len(self._begun)])

    def end(self) -> str:
        """Clean the end that was held back."""
        rest = self._clean(self._begun + self._decoder.decode(b"", final=True))
        self._begun = ""
        rest += "\n" if self._is_after_return else ""
        self._is_after_return = False
        return rest

    def _clean(self, text: str) -> str:
        if not text:
            return ""
        if self._is_after_return:
            text = "\r" + text
        self._is_after_return = text.endswith("\r")
        # Several returns before a newline are one end of a line: terminals in between double them.
        lines = re.sub("\r+\n", "\n", text.rstrip("\r"))
        lines = re.sub("\r+", self._return, lines)
        if not self._keeps_colors or "\x1b" not in lines:
            return self._shown(lines)
        parts, begin = [], 0
        for code in COLOR_CODES.finditer(lines):
            parts += [self._shown(lines[begin : code.start()]), code[0]]
            begin = code.end()
        return "".join([*parts, self._shown(lines[begin:])])

    def _shown(self, text: str) -> str:
        shown, self._marks = _escaped(text, escape, keep="\r\n\t", marks=self._marks)
        return shown


def escape(letter: str) -> str:
    """Write a letter by its number, as Python does."""
    code = ord(letter)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(letter: str) -> str:
    code = ord(letter)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _escaped(
    text: str, escape_letter: Callable[[str], str], *, keep: str, marks: int = _MOST_MARKS
) -> tuple[str, int]:
    """Escape letters that are not harmless, and marks that are too many on one letter.

    `marks` is how many the letter before the text has; return how many the last letter has. The
    beginning of a line has no letter, so no mark is allowed there.
    """
    shown = []
    for letter in _PARTS.findall(text):
        if letter in keep:
            marks, is_harmless = _MOST_MARKS, True
        elif letter.isascii():
            marks, is_harmless = 0, letter.isprintable()
        elif letter not in _INVISIBLE and category(letter) in ("Mn", "Me"):
            marks, is_harmless = marks + 1, marks < _MOST_MARKS
        else:
            marks, is_harmless = 0, _is_visible(letter)
        shown.append(letter if is_harmless else escape_letter(letter))
    return "".join(shown), marks


def _is_visible(letter: str) -> bool:
    # Not printable are Cc, Cf, Cs, Co, Cn, Zl, Zp, and spaces of other widths, which are harmless.
    return letter not in _INVISIBLE and (letter.isprintable() or category(letter) == "Zs")
