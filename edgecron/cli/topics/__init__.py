"""Topics of help: longer texts on one subject each, read when they are asked for.

A topic is NAME.md in this folder: plain Markdown, of which `page.py` knows headings, paragraphs,
lists, tables and fenced code. All that it shows is run by `tests/test_examples.py`; what a fence is
called says how: console, sh, toml, python, crontab.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import groupby, pairwise
from textwrap import wrap
from typing import Any

from edgecron.base.values import NamedTuple
from edgecron.cli.screen import paint
from edgecron.views.phrases import display_width

# In the order in which help shows them.
TOPICS: dict[str, str] = {
    "triggers": "when a schedule fires: texts, zones, clock changes, jitter",
    "policies": "late, overlapping, failing, waiting, too many: what then",
    "jobs": "what a command finds, and what is kept of it",
    "recovery": "kill -9, power cuts, full disks, wrong clocks: what happens",
    "backups": "copies, the way back, and what is kept at all",
    "security": "files, users, what a job sees, who may ask a server",
    "flash": "SD cards: what is written, how often, and how to write less",
    "settings": "the configuration, and where files are",
    "monitoring": "being told when something is wrong",
    "sql": "read and change schedules with any SQL shell",
    "embedding": "schedules within a Python program",
    "web": "FastAPI, Flask, Django, gunicorn, multiprocessing",
    "http": "what the command line can do, for programs in any language",
    "remote": "the command line and the dashboard of another machine",
    "assistants": "tools for AI, over the Model Context Protocol",
    "cron": "moving from cron, and from anacron",
    "systemd": "moving from systemd timers",
    "apscheduler": "moving from APScheduler, and from Celery beat",
}

# What people say instead.
OTHER_TOPICS = {
    "crontab": "cron", "anacron": "cron", "timers": "systemd", "timer": "systemd",
    "celery": "apscheduler", "beat": "apscheduler", "time": "triggers", "times": "triggers",
    "when": "triggers", "dst": "triggers", "timezone": "triggers", "timezones": "triggers",
    "zones": "triggers", "jitter": "triggers", "policy": "policies", "catch-up": "policies",
    "overlap": "policies", "retries": "policies", "retry": "policies", "timeout": "policies",
    "needs": "policies", "groups": "policies", "limits": "policies", "job": "jobs",
    "command": "jobs", "commands": "jobs", "environment": "jobs", "env": "jobs", "result": "jobs",
    "crash": "recovery", "clock": "recovery", "corrupt": "recovery", "power": "recovery",
    "retention": "backups", "copies": "backups", "users": "security", "user": "security",
    "secrets": "security", "permissions": "security", "sdcard": "flash", "wear": "flash",
    "sd": "flash", "configuration": "settings", "files": "settings", "paths": "settings",
    "exit-codes": "settings", "alerts": "monitoring", "health": "monitoring",
    "sqlite": "sql", "views": "sql",
    "python": "embedding", "api": "embedding", "embed": "embedding", "fastapi": "web",
    "flask": "web", "django": "web", "gunicorn": "web", "rest": "http", "curl": "http",
    "url": "remote", "ssh": "remote", "ai": "assistants", "claude": "assistants",
}  # fmt: skip


def read_topic(name: str) -> str:
    """The Markdown of a topic."""
    # As the migrations are read: `importlib.resources` takes longer to load than all the rest.
    assert __spec__ is not None
    loader: Any = __spec__.loader
    content: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), f"{name}.md"))
    return content.decode("utf-8")


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
