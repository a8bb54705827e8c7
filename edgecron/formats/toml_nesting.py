"""The nesting of TOML text, checked before anything is built of it.

tomllib makes a table for each part of a dotted key: a header of 100 KB takes it minutes and
gigabytes. One pass over the text finds such keys first.
"""

from __future__ import annotations

import re

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
