"""The script that lets a shell complete verbs, options, choices, schedules and runs.

    edgecron completion bash | sudo tee /etc/bash_completion.d/edgecron
    edgecron completion zsh > "${fpath[1]}/_edgecron"
    edgecron completion fish > ~/.config/fish/completions/edgecron.fish
    eval "$(edgecron completion bash)"                 in this shell alone

A shell that is started afterwards has it. For zsh take a folder of your own that fpath names before
compinit is called. For bash a user's own place is ~/.local/share/bash-completion/completions, with
the file named edgecron.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from edgecron.base.errors import EdgecronError, UsageError
from edgecron.base.values import NamedTuple
from edgecron.cli.commands import COMMANDS
from edgecron.cli.files import read_text
from edgecron.cli.grammar import CommandGrammar, Kind, Option, Words, read_command
from edgecron.cli.session import Session
from edgecron.cli.topics import TOPICS
from edgecron.store.sqlite.completion import glance_at_active_runs, glance_at_names, glance_at_runs
from edgecron.triggers.zones import zone_names

USAGE = "bash|zsh|fish [--json]"
_MOST_RUNS = 50

# Each script, `texts/completion.SHELL`, sends the words of the line up to the cursor to
# `edgecron completion --words`, one per line. An answer is a word and its description; or what the
# shell itself completes (:files).
_SHELLS = ("bash", "zsh", "fish")
_BY_SHELL = {
    Kind.FILE: ":files",
    Kind.FOLDER: ":folders",
    Kind.USER: ":users",
}
_ALWAYS = {"--help": "help", "--version": "version"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", nargs="?", metavar="bash|zsh|fish")
    parser.add_argument("--words", action="store_true", help=argparse.SUPPRESS)


def run(cli: Session, args: argparse.Namespace) -> int:
    if args.words:
        for line in _complete(cli, sys.stdin.read().split("\n")[:-1]):
            cli.put(line)
        return 0
    if args.shell is None:
        raise UsageError("the shell is missing, expected bash, zsh or fish")
    if args.shell not in _SHELLS:
        raise UsageError(f"shell is {args.shell!r}, expected bash, zsh or fish")
    script = read_text(f"texts/completion.{args.shell}").removesuffix("\n")
    if cli.is_json:
        cli.put_json([{"shell": args.shell, "script": script}])
    else:
        cli.put(script)
    return 0


class _Line(NamedTuple):
    """What the words before the cursor say.

    `option` is an option that waits for its value; `arguments` is how many arguments precede.
    """

    command: str | None = None
    option: Option | None = None
    arguments: int = 0
    database: str | None = None


def _complete(cli: Session, words: Sequence[str]) -> Iterator[str]:
    """Answer for the last of the words, which may be empty."""
    *before, current = words or [""]
    if "--" in before:
        yield ":commands" if before[-1] == "--" else ":files"
        return
    line = _read_line(before)
    cli.database = line.database or cli.database
    name, equals, value = current.partition("=")
    if current.startswith("-") and not equals and line.option is None:
        yield from _begun({**_options_of(line.command), **_ALWAYS}, current)
    elif current.startswith("-") and line.option is None:
        yield from _values(cli, _find_value(line.command, name), value)
    elif line.option is not None:
        yield from _values(cli, line.option.value, "" if current == "=" else current)
    elif line.command is None:
        summaries = {name: command.summary for name, command in COMMANDS.items()}
        yield from _begun({**summaries, "help": "tell more of a verb or a topic"}, current)
    elif line.command == "help" and not line.arguments:
        summaries = {name: command.summary for name, command in COMMANDS.items()}
        yield from _begun({**summaries, **TOPICS}, current)
    elif line.command in COMMANDS:
        yield from _values(cli, _argument(read_command(line.command), line.arguments), current)


def _read_line(words: Sequence[str]) -> _Line:
    line = _Line()
    for word in words:
        if line.option is not None:
            if word == "=":  # bash splits words at it.
                continue
            is_database = "--db" in line.option.names
            line = line._replace(option=None, database=word if is_database else line.database)
        elif word.startswith("-"):
            name, equals, value = word.partition("=")
            option = _grammar_option(line.command, name)
            if equals and name == "--db":
                line = line._replace(database=value)
            elif option is not None and option.value is not None and not equals:
                line = line._replace(option=option)
        elif line.command is None:
            line = line._replace(command=word)
        else:
            line = line._replace(arguments=line.arguments + 1)
    return line


def _grammar_options(command: str | None) -> tuple[Option, ...]:
    """The options of a command; before a command, those that can stand there."""
    if command in COMMANDS:
        return read_command(command).options
    any_command = read_command("completion")
    return tuple(option for option in any_command.options if option.is_global)


def _grammar_option(command: str | None, name: str) -> Option | None:
    return next((each for each in _grammar_options(command) if name in each.names), None)


def _options_of(command: str | None) -> dict[str, str]:
    return {name: each.help for each in _grammar_options(command) for name in each.names}


def _find_value(command: str | None, name: str) -> Words | None:
    option = _grammar_option(command, name)
    return None if option is None else option.value


def _argument(command: CommandGrammar, count: int) -> Words | None:
    if count < len(command.arguments):
        return command.arguments[count]
    return command.arguments[-1] if command.arguments and command.is_last_repeated else None


def _values(cli: Session, words: Words | None, current: str) -> Iterator[str]:
    if words is None:
        return
    yield from _begun(dict.fromkeys(words.choices, ""), current)
    for kind in words.kinds:
        if kind in _BY_SHELL:
            yield _BY_SHELL[kind]
        else:
            yield from _begun(dict(_find_words(cli, kind)), current)


def _begun(words: Mapping[str, str], current: str) -> Iterator[str]:
    """The words that begin with what is written so far, each with its description."""
    for word, description in words.items():
        if word.startswith(current):
            yield f"{word} {description}" if description else word


def _find_words(cli: Session, kind: Kind) -> Iterable[tuple[str, str]]:
    """Look up words with their descriptions; none if the database can't be read immediately."""
    if kind == Kind.ZONE:
        return [(name, "") for name in sorted(zone_names())]
    try:
        path = cli.database_path()
    except EdgecronError:
        return []
    if kind == Kind.NAME:
        return [(name, "") for name in glance_at_names(path) if _is_plain(name)]
    runs = (
        glance_at_active_runs(path)
        if kind == Kind.ACTIVE
        else glance_at_runs(path, most=_MOST_RUNS)
    )
    return [(str(number), f"{name} {status}") for number, name, status in runs if _is_plain(name)]


def _is_plain(name: str) -> bool:
    # The shell inserts these words: a name written by hand must not be more than a name.
    return name.isascii() and name.replace("-", "").replace("_", "").replace(".", "").isalnum()
