"""Write TOML 1.0, safe to show on a terminal; find lines and too deep nesting in TOML.

Writes what documents hold: text, booleans, finite numbers, lists, tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_ESCAPES = {
    "\\": "\\\\", '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r",
}  # fmt: skip
_WIDEST = 96  # of an array on one line


@lru_cache(maxsize=256)  # All tables have the same few keys.
def write_key(*names: str) -> str:
    """Write a key, dotted if there are several names."""
    return ".".join([name if _BARE.fullmatch(name) else _basic(name) for name in names])


def write_table(names: Sequence[str], table: Mapping[str, object]) -> str:
    """Write a table below its heading, with inner tables as dotted keys."""
    lines = [f"[{write_key(*names)}]"] if names else []
    for key, value in table.items():
        lines += write_pair((key,), value)
    return "\n".join(lines) + "\n"


def write_pair(names: tuple[str, ...], value: object) -> list[str]:
    """Write `key = value` as lines."""
    if not isinstance(value, str) and isinstance(value, Mapping) and value:
        return [line for key, one in value.items() for line in write_pair((*names, key), one)]
    return [f"{write_key(*names)} = {write_value(value)}"]


def write_value(value: object) -> str:
    """Write a value. Raises TypeError for a type that no document holds."""
    match value:
        case str():
            return write_text(value)
        case list() | tuple():  # First: most values that are not text are lists.
            return _array([write_value(one) for one in value])
        case bool():
            return "true" if value else "false"
        case int():
            return int.__repr__(value)
        case float():
            return float.__repr__(value)
        case Mapping():
            inner = ", ".join(
                f"{write_key(key)} = {write_value(one)}" for key, one in value.items()
            )
            return f"{{ {inner} }}" if inner else "{}"
        case Sequence():
            return _array([write_value(one) for one in value])
    raise TypeError(f"{type(value).__name__} has no place in a document")


def write_text(text: str) -> str:
    """Write text in the quotes that are easiest to read. Everything but newlines is printable."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    if "\n" in text.rstrip("\n"):
        if _is_plain(text, besides="\n") and "'''" not in text and not text.endswith("'"):
            return f"'''\n{text}'''"
        lines = "\n".join("".join(map(_escaped, line)) for line in text.split("\n"))
        return f'"""\n{lines}"""'
    if _is_plain(text) and ("\\" in text or '"' in text) and "'" not in text:
        return f"'{text}'"
    return _basic(text)


def _basic(text: str) -> str:
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_plain(text: str, *, besides: str = "") -> bool:
    return all(letter.isprintable() or letter in besides for letter in text)


def _array(parts: list[str]) -> str:
    line = f"[{', '.join(parts)}]"
    if len(line) <= _WIDEST and "\n" not in line:
        return line
    return "[\n" + "".join(f"    {part},\n" for part in parts) + "]"


MOST_LEVELS = 8  # a document needs four: schedules.NAME.env.KEY

# Everything else in a text is skipped. No alternative is tried twice, so that the time is linear.
_TOKEN = re.compile(
    r"""
      (?P<mark> [\n.=,\]{}] | \[ )
    | (?P<text> \"\"\"(?:[^"\\]++|\\.|"(?!""))*+"{3,5} | '''(?:[^']++|'(?!''))*+'{3,5}
              | "(?!"")(?:[^"\\\n]++|\\[^\n])*+" | '(?!'')[^'\n]*+' )
    | (?P<end> ["'] )
    | \#[^\n]*+
    """,
    re.VERBOSE | re.DOTALL,
)


def find_too_deep(text: str, *, most: int = MOST_LEVELS) -> int | None:
    """Find the first line that nests tables and arrays deeper than `most` levels, None if none.

    Each part of a header and of a key is a level, and so is each open array.
    """
    line, line_begin, is_first = 1, 0, True  # whether this is the first token of its line
    header, is_header = 0, False  # the parts of [a.b], and whether this is its line
    parts, pending = 1, 0  # of this key, and of the key whose value this is
    opened: list[int] = []  # the levels of each open bracket
    for token in _TOKEN.finditer(text):
        found = token[0]
        is_begin = is_first and not opened
        is_first = False
        if token.lastgroup == "mark":
            if found == "\n":
                line, line_begin, is_first = line + 1, token.end(), True
                if not opened:
                    is_header, parts, pending = False, 1, 0
                continue
            if found == "=":
                pending, parts = parts, 1
                continue
            if found == ".":
                parts += 1
                header = parts if is_header else header
            elif found == "[" and is_begin and not text[line_begin : token.start()].strip(" \t"):
                is_header, header = True, 1
            elif found in "[{" and not is_header:
                opened.append(pending + (found == "["))
                pending, parts = 0, 1
            elif found in "]}" and opened:
                opened.pop()
                pending, parts = 0, 1
            elif found == ",":
                pending, parts = 0, 1
            if header + sum(opened) + (0 if is_header else parts) > most:
                return line
        elif token.lastgroup == "text":
            line += found.count("\n")
        elif token.lastgroup == "end":
            return None  # A text that does not end: tomllib refuses it, and reads no further.
    return None


_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_HEADING = re.compile(r"\s*\[(?P<names>[^\[\]#]+)\]")
_KEY = re.compile(rf"\s*(?P<names>{_PART}(?:[ \t]*\.[ \t]*{_PART})*)[ \t]*=")
_FENCES = ('"""', "'''")
Lines = Mapping[tuple[str, ...], int]


def find_lines(text: str) -> Lines:
    """Find the line, from 1, of each table and key, by their names.

    People are shown these lines: in a document that is written very strangely, some are not found.
    """
    found: dict[tuple[str, ...], int] = {}
    heading: tuple[str, ...] = ()
    fence: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if fence is not None:
            fence = None if fence in line else fence
            continue
        names: tuple[str, ...] = ()
        if match := _HEADING.match(line):
            names = heading = _names(match["names"])
        elif match := _KEY.match(line):
            names = (*heading, *_names(match["names"]))
        for depth in range(1, len(names) + 1):
            found.setdefault(names[:depth], number)
        fence = next((each for each in _FENCES if line.count(each) == 1), None)
    return found


def _names(text: str) -> tuple[str, ...]:
    """Read the names of a dotted key; none if it only looks like one, within a long text."""
    import tomllib  # not for writers of documents: it takes as long to load as option_texts

    if find_too_deep(f"{text} = 0") is not None:
        return ()
    try:
        inner: object = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    names = []
    while isinstance(inner, dict) and inner:
        name, inner = next(iter(inner.items()))
        names.append(name)
    return tuple(names)
