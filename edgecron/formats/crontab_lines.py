"""Bytes to lines, and a line to what it is: blank, comment, assignment or the rest.

Lines end in LF alone, as cron has it; one CR before it is taken off. The rules of an assignment
are those of Debian's cron and of cronie: quotes only round the whole, no expansion.
"""

from __future__ import annotations

import re

from edgecron.base.values import dataclass
from edgecron.formats.crontab_fields import Fault

BOM = b"\xef\xbb\xbf"
# The longest command that Debian's cron takes.
DEBIAN_COMMAND_MOST = 998
# Linux passes no single argument of 128 KiB or more to a program, a NUL included.
LINE_MOST_BYTES = 131_071

_ASSIGNMENT = re.compile(
    r"""(?:"(?P<double>[^"=]*)"|'(?P<single>[^'=]*)'|(?P<plain>(?!["'])[^\s=]*))"""
    r"""\s*=\s*(?P<value>.*)""",
    re.ASCII | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A numbered line (from 1) without its line end.

    `text` is None where it is not UTF-8, and `raw` shows such bytes as `\\xNN`. `is_ended` is
    False for a last line that no newline follows.
    """

    number: int
    raw: str
    text: str | None
    byte_count: int
    is_ended: bool
    has_cr: bool

    @property
    def is_comment(self) -> bool:
        return self.raw.lstrip(" \t").startswith("#")

    @property
    def is_blank(self) -> bool:
        return not self.raw.strip(" \t")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """`NAME = value`, quotes taken off."""

    name: str
    value: str


def split_lines(content: bytes) -> list[Line]:
    """The lines of a crontab; a byte order mark at its start is left out."""
    pieces = content.removeprefix(BOM).split(b"\n")
    last = pieces.pop()
    lines = [_read_line(number, piece, True) for number, piece in enumerate(pieces, 1)]
    if last:
        lines.append(_read_line(len(lines) + 1, last, False))
    return lines


def _read_line(number: int, piece: bytes, is_ended: bool) -> Line:
    body = piece.removesuffix(b"\r")
    raw = body.decode("utf-8", "backslashreplace")
    try:
        text: str | None = body.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    return Line(
        number=number,
        raw=raw,
        text=text,
        byte_count=len(body),
        is_ended=is_ended,
        has_cr=len(body) != len(piece),
    )


def read_assignment(text: str) -> Assignment | Fault | None:
    """The assignment that a line without leading blanks is; None where it is none.

    A Fault where it is plainly meant as one and cron would not read it so.
    """
    match = _ASSIGNMENT.fullmatch(text)
    if match is None:
        return None
    name = next(group for group in match.group("double", "single", "plain") if group is not None)
    value = match["value"]
    if not name:
        return Fault(message="the variable has no name", hint="write NAME = value")
    if not value:
        return Fault(
            message=f"variable {name[:60]!a} has no value, which cron refuses",
            hint='write NAME="" for an empty value',
        )
    quote = value[0]
    if quote not in "\"'":
        return Assignment(name=name, value=value.rstrip(" \t\n\v\f\r"))
    inner, closing, after = value[1:].partition(quote)
    if not closing or after.strip(" \t\n\v\f\r"):
        return Fault(
            message=f"the quotes of variable {name[:60]!a} do not enclose its whole value",
            hint="put the whole value in one pair of quotes, or in none",
        )
    return Assignment(name=name, value=inner)
