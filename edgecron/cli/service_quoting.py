"""Words as systemd reads them, after `man 5 systemd.service`, "Command lines"."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from edgecron.base.errors import InvalidInput

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+", re.ASCII)


def exec_line(words: Sequence[str]) -> str:
    """The value of ExecStart= that runs these words as they are: no letter in them but printable
    ones, which `Service` sees to. Raises InvalidInput for a program path that systemd refuses.
    """
    if any(letter in words[0] for letter in "\"'\\"):
        raise InvalidInput(
            f"program {words[0]!r} has a quote or backslash in its path, which systemd refuses",
            hint="make a link to it, and give that as --program",
        )
    # ':' leaves '$' alone, which else names a variable, in the path as in the other words.
    prefix = ":" if any("$" in word for word in words) else ""
    return prefix + " ".join(quoted(word) for word in words)


def quoted(word: str) -> str:
    """One word of a list, such as of ReadWritePaths= or ExecStart=."""
    # A specifier, %h, is one within quotes too.
    word = word.replace("%", "%%")
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def read_exec_line(line: str) -> tuple[str, ...]:
    """The words of an `exec_line`; of what a person wrote, as near as can be told."""
    try:
        return tuple(word.replace("%%", "%") for word in shlex.split(line.lstrip(":@+!-")))
    except ValueError:
        return tuple(line.split())
