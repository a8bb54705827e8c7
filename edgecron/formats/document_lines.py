"""At which line of a document a schedule's table or one of its keys stands."""

from __future__ import annotations

import re
import tomllib

from edgecron.formats.toml_nesting import find_too_deep

_HEADING = re.compile(r"\s*\[(?P<names>[^\[\]#]+)\]")
_KEY = re.compile(r"\s*(?P<key>[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')\s*[.=]")
_FENCES = ('"""', "'''")


def find_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line, from 1, of each table that a heading names, and of a heading and a key below it.

    It tells people where to look: a document that is written very strangely may have lines that
    are not found.
    """
    found: dict[tuple[str, ...], int] = {}
    heading: tuple[str, ...] = ()
    fence: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if fence is not None:
            fence = None if fence in line else fence
            continue
        if match := _HEADING.match(line):
            heading = _names(match["names"])
            for depth in range(1, len(heading) + 1):
                found.setdefault(heading[:depth], number)
        elif match := _KEY.match(line):
            found.setdefault((*heading, *_names(match["key"])), number)
        fence = _opened(line)
    return found


def _names(text: str) -> tuple[str, ...]:
    """The names of a dotted key, as TOML has them; none where it can't be read alone."""
    if find_too_deep(f"{text} = 0") is not None:
        return ()  # It only looks like a heading: it stands in a text of several lines.
    try:
        table = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    names = []
    inner: object = table
    while isinstance(inner, dict) and inner:
        name, inner = next(iter(inner.items()))
        names.append(name)
    return tuple(names)


def _opened(line: str) -> str | None:
    """The quotes of a text that goes on in the next line."""
    return next((fence for fence in _FENCES if line.count(fence) == 1), None)
