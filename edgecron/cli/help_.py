"""Help: the overview, the help of a command or topic, and the manual page.

A topic is a longer text on one subject: `topics/NAME.md`, and a line of topics.toml.
`tests/test_examples.py` runs all code that topics show; the word after a fence says how: console,
sh, toml, python, crontab.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import NoReturn

from edgecron import __built__, __version__
from edgecron.base.checks import suggest
from edgecron.base.errors import EdgecronError, UsageError
from edgecron.base.files import fill_text, package_text
from edgecron.base.values import NamedTuple
from edgecron.cli.commands import COMMANDS, EXIT_CODES, GLOBALS, USAGE
from edgecron.cli.output import CANT_MOVE, terminal_columns
from edgecron.cli.parser import global_parser, parser_of
from edgecron.cli.session import Session
from edgecron.formats.config_files import example_text

_EVERYDAY = "cli/texts/everyday.txt"
_MAN = "--man"
_NO_PAGER = "--no-pager"
_ALL = "--all"  # advanced options, too
# As git has them for pagers that nothing was said to: what fits on the screen is only printed,
# colours are colours, and what was read stays there.
_PAGER_DEFAULTS = {"LESS": "FRX", "LV": "-c"}
_NO_PAGERS = ("cat", "")
_MAN_WIDTH = 76
_MAN_ESCAPES = str.maketrans(
    {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}
)
_TABLE: dict[str, dict[str, list[str]]] = tomllib.loads(package_text("cli/topics/topics.toml"))
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


class _Entry(NamedTuple):
    """A subject of help."""

    kind: str  # command, topic or manual
    name: str
    summary: str


def show_help(cli: Session, words: list[str]) -> int:
    """Show the overview, or the help of one command or topic; the exit code."""
    if words == [_MAN]:
        _put(cli, _Entry("manual", "edgecron", "the manual page"), manual_page())
        return 0
    named = [word for word in words if word not in ("help", "-h", "--help", _NO_PAGER, _ALL)]
    if len(named) > 1:
        raise UsageError(
            f"help covers one command or topic, not {' '.join(named)!r}",
            hint=f"for example: edgecron help {named[0]}",
        )
    if not named:
        if cli.is_json:
            cli.put_json(entry._asdict() for entry in _entries())
        else:
            cli.put(_overview())
        return 0
    entry = next((entry for entry in _entries() if entry.name == named[0]), None)
    if entry is None:
        _refuse_subject(named[0])
    text = _text(cli, entry, shows_all=_ALL in words)
    if cli.is_json or _NO_PAGER in words or not _has_paged(cli, text):
        _put(cli, entry, text)
    return 0


def _entries() -> list[_Entry]:
    """Return commands, then topics, in the order of help."""
    commands = [_Entry("command", name, command.summary) for name, command in COMMANDS.items()]
    return commands + [_Entry("topic", name, summary) for name, summary in TOPICS.items()]


def _put(cli: Session, entry: _Entry, text: str) -> None:
    if cli.is_json:
        cli.put_json([{**entry._asdict(), "text": text}])
    else:
        cli.put(text)


def _has_paged(cli: Session, text: str) -> bool:
    """Show a text in a pager; False without a pager or a terminal for it."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "") in CANT_MOVE:
        return False
    from edgecron.base.pager import page, pager_command

    try:
        command = pager_command(os.environ)
    except EdgecronError:
        return False
    if command[0] in _NO_PAGERS:
        return False
    try:
        page(command, f"{text}\n", defaults=_PAGER_DEFAULTS)
    except EdgecronError as error:
        cli.warn(error.message)
        return False
    return True


def _text(cli: Session, entry: _Entry, *, shows_all: bool) -> str:
    """Return the help of a command or topic; for JSON a topic stays Markdown."""
    if entry.kind == "command":
        return parser_of(entry.name, shows_all=shows_all)[1].format_help().rstrip("\n")

    markdown = read_topic(entry.name)
    if cli.is_json:
        return markdown

    width = terminal_columns(otherwise=80)
    return format_topic(markdown, width=width, is_colored=cli.use_color(sys.stdout))


def _overview() -> str:
    lines = ["edgecron: cron that you can see, trust and embed", ""]
    lines += [f"  {line}" for line in package_text(_EVERYDAY).splitlines()]
    lines += ["", f"usage: {USAGE}"]
    group = None
    for name, command in COMMANDS.items():
        if command.group != group:
            group = command.group
            lines += ["", f"{group}:"]
        lines.append(f"  {name:<12} {command.summary}")
    for title, topics in TOPIC_GROUPS.items():
        lines += ["", f"Topics: {title}"]
        lines += [f"  {name:<12} {summary}" for name, summary in topics.items()]
    options = global_parser(width=78).format_help().partition("Global options:\n")[2]
    lines += ["", "Global options:", *options.rstrip("\n").splitlines()]
    codes = [f"{code} {meaning}" for code, meaning in EXIT_CODES.items()]
    lines += [
        "",
        "edgecron help COMMAND or help TOPIC shows more, in $PAGER (without: --no-pager);",
        "help --man prints the manual page.",
        f"exit codes: {', '.join(codes[:4])},",
        f"            {', '.join(codes[4:])}",
    ]
    return "\n".join(lines)


def manual_page() -> str:
    """Return the page for man(7): `texts/edgecron.1` with the help of each command as it is."""
    commands: list[str] = []
    for command in COMMANDS:
        _, parser = parser_of(command, width=_MAN_WIDTH, shows_all=True)
        commands += [f".SS {_man_escaped(command)}", *_man_verbatim(parser.format_help())]
    topics = ((name, f"{summary}.") for name, summary in TOPICS.items())
    parts: dict[str, Iterable[str]] = {
        "usage": _man_lines(USAGE),
        "examples": _man_verbatim(package_text(_EVERYDAY)),
        "options": _man_verbatim(global_parser(width=_MAN_WIDTH).format_help()),
        "commands": commands,
        "settings": _man_verbatim(example_text()),
        "topics": _man_items(topics),
        "exit_codes": _man_items((str(code), meaning) for code, meaning in EXIT_CODES.items()),
    }
    filled = {name: "\n".join(lines) for name, lines in parts.items()}
    page = fill_text("cli/texts/edgecron.1", date=__built__, version=__version__, **filled)
    return page.removesuffix("\n")


def _man_items(items: Iterable[tuple[str, str]]) -> Iterator[str]:
    for label, meaning in items:
        yield from (".TP", f".B {_man_escaped(label)}", *_man_lines(meaning))


def _man_verbatim(text: str) -> Iterator[str]:
    lines = text.strip("\n").splitlines()
    yield from (".EX", *(_man_guarded(_man_escaped(line)) for line in lines), ".EE")


def _man_lines(text: str) -> Iterator[str]:
    words = " ".join(text.split())
    for line in wrap(words, _MAN_WIDTH, break_long_words=False, break_on_hyphens=False):
        yield _man_guarded(_man_escaped(line))


def _man_escaped(text: str) -> str:
    return text.translate(_MAN_ESCAPES)


def _man_guarded(line: str) -> str:
    """Return the line so that roff does not read it as a request."""
    return rf"\&{line}" if line.startswith(".") else line


def read_topic(name: str) -> str:
    """Return the Markdown of a topic."""
    return package_text(f"cli/topics/{name}.md")


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


# Commands that replace or remove things, and how alike a word must be to mean one of them.
_RISKY, _RISKY_ALIKE = ("prune", "restore", "rm", "self"), 0.85


def refuse_command(command: str) -> NoReturn:
    """Raise UsageError for an unknown command, with the command that was probably meant."""
    from edgecron.cli.suggestions import OTHER_WORDS, find_habit, refuse_option  # Only for errors.

    if command[:1] == "-":
        refuse_option(command, GLOBALS, prog="edgecron")
    close = OTHER_WORDS.get(command) or _suggest_command(command)
    hint = f"did you mean {close!r}?" if close else "see: edgecron --help"
    if command in TOPICS:
        hint = f"see: edgecron help {command}"
    raise UsageError(f"unknown command {command!r}", hint=find_habit("", command) or hint)


def _suggest_command(word: str) -> str | None:
    """Return the command that was probably meant; a risky one only if it surely was."""
    harmless = ["help", *(command for command in COMMANDS if command not in _RISKY)]
    return suggest(word, _RISKY, cutoff=_RISKY_ALIKE) or suggest(word, harmless)


def _refuse_subject(word: str) -> NoReturn:
    """Raise UsageError for an unknown subject of help, with the probable one."""
    from edgecron.cli.suggestions import OTHER_WORDS, refuse_option  # Only for errors.

    if word[:1] == "-":
        refuse_option(word, (*GLOBALS, "--man"), prog="edgecron help")
    other = OTHER_TOPICS.get(word) or OTHER_WORDS.get(word)
    close = other or suggest(word, [*COMMANDS, *TOPICS])
    hint = f"did you mean {close!r}?" if close else "see: edgecron help"
    raise UsageError(f"unknown command or topic {word!r}", hint=hint)
