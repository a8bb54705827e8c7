"""Topics of help: longer texts on one subject each.

A topic is NAME.md in this folder, and a line of topics.toml. `tests/test_examples.py` runs all code
that topics show; the word after a fence says how: console, sh, toml, python, crontab.
"""

from __future__ import annotations

import re
import tomllib

from edgecron.cli.files import read_text

_TABLE: dict[str, dict[str, list[str]]] = tomllib.loads(read_text("topics/topics.toml"))
TOPIC_GROUPS = {
    group: {name: summary for name, (summary, _) in topics.items()}
    for group, topics in _TABLE.items()
}
TOPICS = {name: summary for group in TOPIC_GROUPS.values() for name, summary in group.items()}
OTHER_TOPICS = {
    word: name
    for topics in _TABLE.values()
    for name, (_, words) in topics.items()
    for word in words.split()
}


def read_topic(name: str) -> str:
    """Return the Markdown of a topic."""
    return read_text(f"topics/{name}.md")


_WIDEST = 96  # columns of prose: longer lines are hard to read
_FENCE = re.compile(r"^```.*\n((?:.*\n)*?)```$", re.MULTILINE)
# Bold is readable on dark and on light terminals: manual pages mark names and headings by it, too.
_STYLES = {
    "markdown.table.border": "none",
    **dict.fromkeys(
        ("markdown.h1", "markdown.h2", "markdown.h3", "markdown.table.header", "markdown.code"),
        "bold",
    ),
}


def format_topic(markdown: str, *, width: int, is_colored: bool) -> str:
    """Format a topic for a screen; code keeps its lines, whatever the width."""
    # Only for topics: these load as long as all the rest of the command line.
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    console = Console(
        width=max(min(width, _WIDEST), 1),
        force_terminal=is_colored,
        color_system="standard" if is_colored else None,
        theme=Theme(_STYLES),
        legacy_windows=False,
        _environ={},
    )
    blocks = []
    for number, part in enumerate(_FENCE.split(markdown)):
        if number % 2:
            blocks.append("\n".join(f"    {line}".rstrip() for line in part.splitlines()))
            continue
        with console.capture() as shown:
            console.print(Markdown(part, hyperlinks=False))
        lines = [line.rstrip() for line in shown.get().splitlines()]
        blocks.append("\n".join(lines).strip("\n"))
    text = "\n\n".join(block for block in blocks if block)
    return re.sub(r"\n{3,}", "\n\n", text).lstrip()  # The first heading is centred.
