"""A topic's Markdown as blocks, and blocks as lines that fit a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import groupby, pairwise
from textwrap import wrap

from edgecron.base.values import NamedTuple
from edgecron.cli.screen import paint
from edgecron.views.phrases import display_width

WIDEST = 96  # of prose: longer lines are hard to read
_FENCE = "```"
_INDENT = "    "
_CODE = re.compile(r"`[^`]*`")
# In the place of a space that no line may end at.
_GLUE = "\N{NO-BREAK SPACE}"
_LONGEST_GLUED = 30
_NARROWEST = 30  # of the last column of a table


class BlockKind(StrEnum):
    HEADING = "heading"  # a line that begins with #
    PROSE = "prose"  # lines up to an empty one
    ITEM = "item"  # - and what is indented below it
    TABLE = "table"  # lines between |, its headings and their rule included
    CODE = "code"  # lines within a fence


class Block(NamedTuple):
    """Lines of one kind; `label` is what a fence is called, or a heading's number signs."""

    kind: BlockKind
    lines: tuple[str, ...]
    label: str = ""


def read_page(markdown: str) -> list[Block]:
    """The blocks of a text, top to bottom."""
    blocks: list[Block] = []
    lines = iter(markdown.splitlines())
    pending: list[str] = []
    for line in lines:
        if line.startswith(_FENCE):
            blocks += _texts(pending)
            pending = []
            code = tuple(iter(lambda: next(lines, _FENCE), _FENCE))
            blocks.append(Block(BlockKind.CODE, code, line.removeprefix(_FENCE).strip()))
        else:
            pending.append(line)
    return [*blocks, *_texts(pending)]


def page_lines(blocks: Sequence[Block], *, width: int, is_colored: bool = False) -> list[str]:
    """The page, an empty line between blocks; code is as it stands, whatever the width."""
    room = max(min(width, WIDEST), 1)
    lines: list[str] = []
    before: BlockKind | None = None
    for block in blocks:
        if before is not None and (before, block.kind) != (BlockKind.ITEM, BlockKind.ITEM):
            lines.append("")
        lines += _block_lines(block, room, is_colored=is_colored)
        before = block.kind
    return lines


def table_rows(block: Block) -> list[list[str]]:
    """The cells of a table, its headings first."""
    rows = [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        for line in block.lines
    ]
    return [rows[0], *rows[2:]]


def _texts(lines: Sequence[str]) -> Iterator[Block]:
    """Blocks of lines that stand in no fence."""
    for is_text, group in groupby(lines, key=lambda line: bool(line.strip())):
        if is_text:
            yield from _parts(list(group))


def _parts(lines: list[str]) -> Iterator[Block]:
    """Blocks of lines without an empty one among them."""
    for line in list(lines):
        if not line.startswith("#"):
            break
        signs, _, words = line.partition(" ")
        yield Block(BlockKind.HEADING, (words,), signs)
        lines = lines[1:]
    if not lines:
        return
    if lines[0].startswith("|"):
        yield Block(BlockKind.TABLE, tuple(lines))
        return
    starts = [number for number, line in enumerate(lines) if line.startswith("- ")]
    first = starts[0] if starts else len(lines)
    if first:
        yield Block(BlockKind.PROSE, tuple(lines[:first]))
    for start, end in pairwise([*starts, len(lines)]):
        yield Block(BlockKind.ITEM, (lines[start][2:], *lines[start + 1 : end]))


def _block_lines(block: Block, room: int, *, is_colored: bool) -> Iterator[str]:
    match block.kind:
        case BlockKind.HEADING:
            words = block.lines[0]
            if block.label != "#":
                words = " ".join(map(_shouted, words.split()))
            for line in _wrapped([words], room):
                yield paint(line, "bold", is_on=is_colored)
        case BlockKind.PROSE:
            yield from _wrapped(block.lines, room)
        case BlockKind.ITEM:
            yield from _wrapped(block.lines, room, first="- ", then="  ")
        case BlockKind.CODE:
            yield from (f"{_INDENT}{line}".rstrip() for line in block.lines)
        case BlockKind.TABLE:
            yield from _table_lines(table_rows(block), room, is_colored=is_colored)


def _table_lines(rows: list[list[str]], room: int, *, is_colored: bool) -> Iterator[str]:
    """Columns, the last one folded; where they leave it no room, a block for each row."""
    plain = [[*(_plain(cell).replace("`", "") for cell in row[:-1]), row[-1]] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*plain, strict=True)][:-1]
    before = sum(widths) + 2 * len(widths)
    is_narrow = room - before < _NARROWEST
    for number, (*cells, last) in enumerate(plain):
        style = "bold" if number == 0 else None
        if is_narrow and number == 0:
            continue  # It says nothing where the columns are gone.
        if is_narrow:
            for part in wrap("  ".join(cells), room, break_on_hyphens=False):
                yield paint(part, "bold", is_on=is_colored)
            yield from _wrapped([last], room, first=_INDENT, then=_INDENT)
            continue
        start = "".join(
            cell + " " * (width - display_width(cell) + 2)
            for cell, width in zip(cells, widths, strict=True)
        )
        for line in _wrapped([last], room, first=start, then=" " * before):
            yield paint(line.rstrip(), style, is_on=is_colored)


def _wrapped(lines: Sequence[str], room: int, *, first: str = "", then: str = "") -> list[str]:
    words = _plain(" ".join(line.strip() for line in lines))
    glued = _CODE.sub(_glued, words) if room > 2 * _LONGEST_GLUED else words
    found = wrap(
        glued,
        room,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_GLUE, " ") for line in found] or [first.rstrip()]


def _glued(code: re.Match[str]) -> str:
    text = code[0]
    return text.replace(" ", _GLUE) if len(text) <= _LONGEST_GLUED else text


def _shouted(word: str) -> str:
    """A word of a heading in capitals, but for options, which are other ones then."""
    return word if word.startswith("-") else word.upper()


def _plain(text: str) -> str:
    return text.replace("**", "")
