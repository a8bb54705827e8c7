"""Text that comes from anybody, made harmless for a terminal: the one place that does it.

Names, commands, crontabs, file names, errors that quote them, and what jobs print: a terminal
obeys some of their letters (escape sequences, which can also write the clipboard), reorders by
others (right-to-left marks), and shows some not at all. Such letters are shown as `\\x1b`.
"""

from __future__ import annotations

from collections.abc import Callable

_MOST_MARKS = 4  # on one letter: more of them reach into the lines above and below
_MOST_KNOWN = 4096  # of the letters that a table remembers
# Printable by their category, and yet there is nothing to see: joiners, fillers, an empty braille.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


def clean(text: str, *, keep: str = "") -> str:
    """Text without anything that a terminal would obey; such letters are shown escaped.

    `keep` names control characters that are let through, such as a newline. What is clean already
    comes back as it is.
    """
    if text.isascii() and text.isprintable():
        return text
    return _bounded(_translated(text, keep, escape), escape, keep=keep)


def clean_json(text: str) -> str:
    """JSON that means the same, and that a terminal can be sent. Newlines stay."""
    if text.isascii() and "\x7f" not in text:
        return text  # JSON itself escapes all other control characters of ASCII.
    return _bounded(_translated(text, "\n", _json_escape), _json_escape, keep="\n")


class StreamCleaner:
    """What a job prints on one stream, for a terminal: bytes in, as they come; harmless text out.

    Lines and tabs stay. A carriage return begins a line too, so that each step of a progress bar
    is to be seen and nothing can be written over. What is no UTF-8 is shown as U+FFFD. A part may
    end anywhere, within a letter as well.
    """

    def __init__(self) -> None:
        from codecs import getincrementaldecoder

        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._is_after_return = False
        self._marks = _MOST_MARKS

    def feed(self, content: bytes) -> str:
        """The text of the next bytes, but for what those after it may still change."""
        return self._shown(self._decoder.decode(content))

    def end(self) -> str:
        """The text that was held back."""
        rest = self._shown(self._decoder.decode(b"", final=True))
        rest += "\n" if self._is_after_return else ""
        self._is_after_return = False
        return rest

    def _shown(self, text: str) -> str:
        if not text:
            return ""
        if self._is_after_return:
            text = "\r" + text
        self._is_after_return = text.endswith("\r")
        text = _lines_of(text)
        shown = _bounded(
            _translated(text, "\n\t", escape), escape, keep="\n\t", marks_before=self._marks
        )
        self._marks = _marks_at_end(text, before=self._marks)
        return shown


def escape(letter: str) -> str:
    """A letter by its number, as Python writes it."""
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


def _lines_of(text: str) -> str:
    """Text whose carriage returns are newlines; one at its end is left out, to be looked at later.

    Several before a newline are still one end of a line: terminals in between double them.
    """
    if "\r" not in text:
        return text
    import re

    return re.sub("\r+\n?", "\n", text.rstrip("\r"))


class _Table(dict[int, str]):
    """What stands for each letter, found when it first comes; for `str.translate`."""

    def __init__(self, keep: str, escape_letter: Callable[[str], str]) -> None:
        super().__init__({ord(letter): letter for letter in keep})
        self._escape = escape_letter

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        shown = letter if _is_harmless(letter) else self._escape(letter)
        if len(self) < _MOST_KNOWN:
            self[code] = shown
        return shown


_tables: dict[tuple[str, Callable[[str], str]], _Table] = {}


def _translated(text: str, keep: str, escape_letter: Callable[[str], str]) -> str:
    table = _tables.get((keep, escape_letter))
    if table is None:
        table = _tables[keep, escape_letter] = _Table(keep, escape_letter)
    return text.translate(table)


def _is_harmless(letter: str) -> bool:
    if letter in _INVISIBLE:
        return False
    # Not printable are Cc, Cf, Cs, Co, Cn, Zl and Zp, and the spaces of other widths, which
    # are only spaces.
    return letter.isprintable() or _category(letter) == "Zs"


def _bounded(
    text: str,
    escape_letter: Callable[[str], str],
    *,
    keep: str,
    marks_before: int = _MOST_MARKS,
) -> str:
    """Text with the marks escaped that are too many on one letter, or have no letter."""
    if text.isascii():
        return text
    marks = {letter for letter in set(text) if _is_mark(letter)}
    if not marks:
        return text
    shown = []
    count = marks_before
    for letter in text:
        if letter in marks:
            count += 1
        else:
            count = _MOST_MARKS if letter in keep else 0
        shown.append(
            letter if letter not in marks or count <= _MOST_MARKS else escape_letter(letter)
        )
    return "".join(shown)


def _marks_at_end(text: str, *, before: int) -> int:
    """How many marks the last letter has; a letter that a line begins with has no room for any."""
    count = 0
    for letter in reversed(text):
        if not _is_mark(letter):
            return _MOST_MARKS if letter in "\n\t" else count
        count += 1
        if count > _MOST_MARKS:
            return count
    return before + count


def _is_mark(letter: str) -> bool:
    return not letter.isascii() and _category(letter) in ("Mn", "Me")


def _category(letter: str) -> str:
    from unicodedata import category

    return category(letter)
