"""Write TOML 1.0, safe to show on a terminal; find lines in TOML, and why a text is not TOML.

Writes what documents hold: text, booleans, finite numbers, lists, tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from edgecron.base.values import NamedTuple

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_ESCAPES = {
    "\\": "\\\\", '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r",
}  # fmt: skip
_WIDEST = 96  # of an array on one line


@lru_cache(maxsize=256)  # All tables have the same few keys.
def write_key(*names: str) -> str:
    """Write a key, dotted if there are several names."""
    return ".".join(map(_write_name, names))


def _write_name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _basic(name)


def write_table(names: Sequence[str], table: Mapping[str, object]) -> str:
    """Write a table below its heading, with inner tables as dotted keys."""
    lines = [f"[{'.'.join(map(_write_name, names))}]"] if names else []
    for key, value in table.items():
        if isinstance(value, str):  # Most values are, or lists.
            lines.append(f"{write_key(key)} = {write_text(value)}")
        elif isinstance(value, list):
            lines.append(f"{write_key(key)} = {write_value(value)}")
        else:
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


_CRON_LINE = re.compile(r"\s*(@[a-z]+|[\d*][\d*/,-]*(\s+[\w*/,-]+){4})\s", re.ASCII)
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_PAIR = re.compile(r"\s*(?P<key>[^=\s][^=]*?)\s*=\s*(?P<value>[^\"'\\\[\]{},=]+?)\s*(?: #.*)?$")
_LONGEST = 60  # of a line that a hint repeats


class Fault(NamedTuple):
    """Why a text is not TOML. `column` is None at the end of the text, `line` if unknown."""

    words: str
    line: int | None = None
    column: int | None = None
    hint: str | None = None


_TWICE = "a table or key is given twice"
_EXAMPLE = 'for example: timeout = "1h"'
_QUOTE = "put it in quotes"  # the hint shows how
_ARRAY = "an array lacks a comma or its closing ]"
_ITEMS = "put a comma between two items, and ] after the last one"
_TABLE = "a table in braces lacks a comma or its closing }"
_PAIRS = "put a comma between two pairs, and } after the last one in the same line"
# The message of tomllib, the line with NUL at the place of the fault, our words, and the hint.
_FAULTS: tuple[tuple[str, str, str, str | None], ...] = (
    ("annot (declare|overwrite)", "", _TWICE, "remove one of them"),
    ("", r"\0//", "a comment begins with //", "write # before a comment"),
    ("^Expected '='", r"\0:", "a colon stands in place of =", _EXAMPLE),
    ("^Expected '='", "", "= is missing after a key", _EXAMPLE),
    ("^Unclosed array", "", _ARRAY, _ITEMS),
    ("^Invalid value", r"[\[,]\s*\0\s*$", _ARRAY, _ITEMS),
    ("^Unclosed inline table", "", _TABLE, _PAIRS),
    ("", r"{\s*\0\s*$", _TABLE, _PAIRS),
    ("^Invalid initial character", r"\0}", "a comma stands before }", "remove this comma"),
    ("^Invalid value", r"\0=", "= is written twice", "write a single ="),
    ("^Invalid value", r"\0\s*([#,\]}]|$)", "a value is missing", _EXAMPLE),
    (
        *("^Invalid value", r"(?i)\0(true|yes|on|false|no|off)\b"),
        *("a switch is neither true nor false", "write true or false"),
    ),
    ("^Invalid value", "", "a text has no quotes", _QUOTE),
    (
        "^Expected newline",
        r"^\s*\[",
        "more text follows after a heading",
        "begin a new line after it",
    ),
    ("^Expected newline", r"=\s*0\0\d", "a number begins with 0", "remove this 0"),
    (
        *("^Expected newline", r"=\s*[^\s\"'\[{]"),
        *("a value is neither a number nor text in quotes", _QUOTE),
    ),
    (
        *("^Expected newline", ""),
        *("more text follows after a value", "begin a new line after each value"),
    ),
    (
        *("^Unescaped", "", "a backslash in double quotes begins an escape"),
        "put the text in single quotes, or write each backslash twice",
    ),
    (
        *(r"^Illegal character '\\[nr]'", ""),
        *("a text has no closing quote in its line", "put a quote at the end of the text"),
    ),
    (
        *("^Illegal character", "", "a control character stands in a text"),
        "write it as an escape, such as \\t or \\u001b",
    ),
    (
        *("^Unterminated string|^Expected (\"'|'\")", "", "a text has no closing quote"),
        "look for the quote that opens it, and close it",
    ),
    (
        *("^Expected ']'|^Invalid initial character", r"^\s*\["),
        "a heading has no closing ], or a name that needs quotes",
        "write [schedules.NAME], in a configuration [notify.NAME], the name of a-z, 0-9, - and _",
    ),
    ("^Invalid statement", "", "a line begins with neither a key nor a heading", None),
)


def explain_fault(error: ValueError, text: str) -> Fault:
    """Explain an error of `tomllib.loads`; an unknown fault has its words, and no hint."""
    message = str(error)
    place = _PLACE.search(message)
    if place is None:  # a number out of all bounds
        is_number = "int_max_str_digits" in message
        return Fault("a number in it is too long" if is_number else message)
    lines = text.rstrip("\n").split("\n")
    line = int(place[1] or len(lines))
    column = int(place[2]) if place[2] else None
    message = message[: place.start()]
    if text.lstrip()[:1] == "{":
        return Fault("it looks like JSON", line, column, 'write it as TOML: timeout = "1h"')
    written = lines[line - 1] if line <= len(lines) else ""
    if _CRON_LINE.match(written):
        return Fault("it looks like a crontab", line, column, "edgecron import crontab FILE")
    at = len(written) if column is None else column - 1
    marked = f"{written[:at]}\0{written[at:].lstrip()}"
    for of_message, of_line, words, hint in _FAULTS:
        if re.search(of_message, message) and re.search(of_line, marked):
            first = _find_first(lines[: line - 1], written) if words == _TWICE else None
            if first is not None:
                words = f"{words}, first in line {first}"
            return Fault(words, line, column, _quoted(written) if hint == _QUOTE else hint)
    return Fault(f"{message[:1].lower()}{message[1:]}", line, column)


def _find_first(before: list[str], written: str) -> int | None:
    """Find the line that gave a key or table before `written` gives it again."""
    name = written.partition("=")[0].strip()
    is_table = name.startswith("[")
    for number in range(len(before), 0, -1):
        line = before[number - 1].strip()
        if line.partition("=")[0].strip() == name:
            return number
        if not is_table and line.startswith("["):
            return None  # The key was given in another way, such as a.b.
    return None


def _quoted(written: str) -> str:
    """Suggest the line with its value in quotes, if that is sure to be right."""
    pair = _PAIR.match(written) if len(written) <= _LONGEST else None
    if pair is None:
        return 'put text in quotes: timeout = "1h"'
    return f'{_QUOTE}: {pair["key"]} = "{pair["value"]}"'
