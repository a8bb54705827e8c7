"""The manual page, for man(7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap

from edgecron import __built__, __version__
from edgecron.cli.commands import COMMANDS, EVERYDAY, EXIT_CODES, USAGE
from edgecron.cli.files import fill_text
from edgecron.cli.parser import global_parser, parser_of
from edgecron.cli.topics import TOPICS
from edgecron.formats.config_settings import example_text

_WIDTH = 76
_ESCAPES = str.maketrans(
    {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}
)


def manual_page() -> str:
    """Return the page: `texts/edgecron.1` with the help of each command as it is."""
    commands: list[str] = []
    for command in COMMANDS:
        _, parser = parser_of(command, width=_WIDTH, shows_all=True)
        commands += [f".SS {_escaped(command)}", *_verbatim(parser.format_help())]
    topics = ((name, f"{summary}.") for name, summary in TOPICS.items())
    parts: dict[str, Iterable[str]] = {
        "usage": _lines(USAGE),
        "examples": _verbatim(EVERYDAY),
        "options": _verbatim(global_parser(width=_WIDTH).format_help()),
        "commands": commands,
        "settings": _verbatim(example_text()),
        "topics": _items(topics),
        "exit_codes": _items((str(code), meaning) for code, meaning in EXIT_CODES.items()),
    }
    filled = {name: "\n".join(lines) for name, lines in parts.items()}
    page = fill_text("edgecron.1", date=__built__, version=__version__, **filled)
    return page.removesuffix("\n")


def _items(items: Iterable[tuple[str, str]]) -> Iterator[str]:
    for label, meaning in items:
        yield from (".TP", f".B {_escaped(label)}", *_lines(meaning))


def _verbatim(text: str) -> Iterator[str]:
    lines = text.strip("\n").splitlines()
    yield from (".EX", *(_guarded(_escaped(line)) for line in lines), ".EE")


def _lines(text: str) -> Iterator[str]:
    words = " ".join(text.split())
    for line in wrap(words, _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield _guarded(_escaped(line))


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _guarded(line: str) -> str:
    """Return a line that is no request, whatever it begins with."""
    return rf"\&{line}" if line.startswith(".") else line
