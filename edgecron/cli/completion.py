"""Print a completion script for your shell.

    edgecron completion bash | sudo tee /etc/bash_completion.d/edgecron
    edgecron completion zsh > "${fpath[1]}/_edgecron"
    edgecron completion fish > ~/.config/fish/completions/edgecron.fish
    eval "$(edgecron completion bash)"                 only in this shell

New shells then complete edgecron. For zsh, take a folder of your own that fpath names before
compinit is called. For bash, your own folder is ~/.local/share/bash-completion/completions; name
the file edgecron there.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from edgecron.base.checks import suggest
from edgecron.base.errors import EdgecronError, UsageError
from edgecron.base.files import package_text
from edgecron.base.paths import ServerUrl
from edgecron.base.values import NamedTuple
from edgecron.base.zones import zone_names
from edgecron.cli.commands import COMMANDS
from edgecron.cli.parser import GLOBAL_OPTIONS, Parser, parser_of
from edgecron.cli.session import Session
from edgecron.model.choices import Status
from edgecron.store.sqlite.completion import (
    glance_at_active_runs,
    glance_at_names,
    glance_at_paused,
    glance_at_removed,
    glance_at_runs,
)

_MOST_RUNS = 50

# Each script, `texts/completion.SHELL`, sends the words of the line up to the cursor to
# `edgecron completion --words`, one per line. An answer is a word and its description; or what the
# shell itself completes (:files).
_SHELLS = ("bash", "zsh", "fish")
_LITERAL = re.compile(r"[a-z][a-z0-9-]*")


class Kind(StrEnum):
    """The words that a shell can complete."""

    NAME = "names"  # of schedules
    PAUSED = "paused"  # names of schedules
    REMOVED = "removed"  # names of schedules
    RUN = "runs"  # numbers of the newest runs
    ACTIVE = "active"  # numbers of runs that have not ended
    ZONE = "zones"
    FILE = "files"
    FOLDER = "folders"
    USER = "users"


class Words(NamedTuple):
    """Values of an option or argument: choices, kinds to look up; neither means any text."""

    choices: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()


class Option(NamedTuple):
    """An option. `value` is None if it takes no value."""

    names: tuple[str, ...]
    help: str
    value: Words | None
    is_global: bool


class CommandGrammar(NamedTuple):
    """A command: its options and arguments; `is_last_repeated` says so of the last argument."""

    name: str
    options: tuple[Option, ...]
    arguments: tuple[Words, ...]
    is_last_repeated: bool


# Exceptions to the metavar.
_KINDS = {
    ("add", "NAME"): (),  # a new one
    ("undo", "NAME|REVISION"): (Kind.NAME, Kind.REMOVED),
    ("resume", "NAME"): (Kind.PAUSED,),
    ("cancel", "RUN|NAME"): (Kind.ACTIVE, Kind.NAME),
    ("check", "--name"): (),
    ("--cwd", "PATH"): (Kind.FOLDER,),
    ("--user", "NAME"): (Kind.USER,),
    ("--group", "NAME[:N]"): (),
}
_GLANCES = {
    Kind.NAME: glance_at_names,
    Kind.PAUSED: glance_at_paused,
    Kind.REMOVED: glance_at_removed,
}
_KINDS_OF_PARTS = {
    "NAME": Kind.NAME,
    "RUN": Kind.RUN,
    "ZONE": Kind.ZONE,
    "PATH": Kind.FILE,
    "FILE": Kind.FILE,
    "FOLDER": Kind.FOLDER,
}


def read_grammar() -> list[CommandGrammar]:
    """Read the command line from its parsers, in the order of help.

    A metavar says what a word can be: `skip|allow` is a closed choice, `NAME` a schedule.
    """
    return [read_command(command) for command in COMMANDS]


def read_command(command: str) -> CommandGrammar:
    """Read one command from its parser."""
    _, parser = parser_of(command)
    options: list[Option] = []
    arguments: list[Words] = []
    is_last_repeated = False
    for group in parser._action_groups:
        for action in group._group_actions:
            if action.help == argparse.SUPPRESS:
                continue
            if action.option_strings:
                options.append(_option(command, action, is_global=group.title == GLOBAL_OPTIONS))
            else:
                arguments.append(_words(command, action, _metavar(action)))
                is_last_repeated = action.nargs in ("+", "*")
    return CommandGrammar(
        name=command,
        options=tuple(options),
        arguments=tuple(arguments),
        is_last_repeated=is_last_repeated,
    )


def _option(command: str, action: argparse.Action, *, is_global: bool) -> Option:
    return Option(
        names=tuple(action.option_strings),
        help=(action.help or "").replace("%%", "%"),
        value=None if action.nargs == 0 else _words(command, action, _metavar(action)),
        is_global=is_global,
    )


def _metavar(action: argparse.Action) -> str:
    return action.metavar if isinstance(action.metavar, str) else action.dest.upper()


def _words(command: str, action: argparse.Action, metavar: str) -> Words:
    option = action.option_strings[-1] if action.option_strings else ""
    choices = tuple(map(str, action.choices)) if action.choices is not None else ()
    for key in ((command, option), (option, metavar), (command, metavar)):
        if key in _KINDS:
            return Words(choices, _KINDS[key])
    if metavar == "STATUS":
        return Words(tuple(Status))
    # Drop optional parts in brackets: NAME[:success|failure|any].
    parts = re.sub(r"\[.*?\]", "", metavar).split("|")
    choices = choices or tuple(part for part in parts if _LITERAL.fullmatch(part))
    kinds = tuple(_KINDS_OF_PARTS[part] for part in parts if part in _KINDS_OF_PARTS)
    return Words(choices, kinds)


_BY_SHELL = {
    Kind.FILE: ":files",
    Kind.FOLDER: ":folders",
    Kind.USER: ":users",
}
_ALWAYS = {"--help": "help", "--version": "version"}


def add_arguments(parser: Parser) -> None:
    parser.add("[bash|zsh|fish]", "your shell", dest="shell")
    parser.add_argument("--words", action="store_true", help=argparse.SUPPRESS)


def run(cli: Session, args: argparse.Namespace) -> int:
    if args.words:
        for line in _complete(cli, sys.stdin.read().split("\n")[:-1]):
            cli.put(line)
        return 0
    if args.shell is None:
        raise UsageError(
            "the shell is missing, expected bash, zsh or fish",
            hint="for example: edgecron completion bash; see: edgecron completion --help",
        )
    if args.shell not in _SHELLS:
        raise UsageError(
            f"shell is {args.shell!r}, expected bash, zsh or fish",
            hint=f"for example: edgecron completion {suggest(args.shell, _SHELLS) or _SHELLS[0]}",
        )
    script = package_text(f"cli/texts/completion.{args.shell}").removesuffix("\n")
    if cli.is_json:
        cli.put_json([{"shell": args.shell, "script": script}])
    else:
        cli.put(script)
    return 0


class _Line(NamedTuple):
    """The command and options before the cursor.

    `option` is an option that waits for its value; `arguments` is how many arguments precede.
    """

    command: str | None = None
    option: Option | None = None
    arguments: int = 0
    database: str | None = None


def _complete(cli: Session, words: Sequence[str]) -> Iterator[str]:
    """Answer for the last of the words, which can be empty."""
    *before, current = words or [""]
    if "--" in before:
        yield ":commands" if before[-1] == "--" else ":files"
        return
    line = _read_line(before)
    summaries = {name: command.summary for name, command in COMMANDS.items()}
    cli.database = line.database or cli.database
    name, equals, value = current.partition("=")
    if current.startswith("-") and not equals and line.option is None:
        options = _options_of(line.command)
        names = {name: option.help for option in options for name in option.names}
        yield from _begun({**names, **_ALWAYS}, current)
    elif current.startswith("-") and line.option is None:
        option = _find_option(line.command, name)
        yield from _values(cli, None if option is None else option.value, value)
    elif line.option is not None:
        yield from _values(cli, line.option.value, "" if current == "=" else current)
    elif line.command is None:
        yield from _begun({**summaries, "help": "explain a command or a topic"}, current)
    elif line.command == "help" and not line.arguments:
        from edgecron.cli.help_ import TOPICS  # It reads TOML: 5 ms that other words don't need.

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
            option = _find_option(line.command, name)
            if equals and name == "--db":
                line = line._replace(database=value)
            elif option is not None and option.value is not None and not equals:
                line = line._replace(option=option)
        elif line.command is None:
            line = line._replace(command=word)
        else:
            line = line._replace(arguments=line.arguments + 1)
    return line


def _options_of(command: str | None) -> tuple[Option, ...]:
    """Return the options of a command; before a command, the global options."""
    if command in COMMANDS:
        return read_command(command).options
    # `add` has all of them.
    return tuple(option for option in read_command("add").options if option.is_global)


def _find_option(command: str | None, name: str) -> Option | None:
    return next((each for each in _options_of(command) if name in each.names), None)


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
        path = cli.location()
        if isinstance(path, ServerUrl):
            return _names_on_server(path) if kind == Kind.NAME else []
    except EdgecronError:
        return []
    if kind in _GLANCES:
        return [(name, "") for name in _GLANCES[kind](path) if _is_plain(name)]
    runs = (
        glance_at_active_runs(path)
        if kind == Kind.ACTIVE
        else glance_at_runs(path, most=_MOST_RUNS)
    )
    return [(str(number), f"{name} {status}") for number, name, status in runs if _is_plain(name)]


def _names_on_server(location: ServerUrl) -> list[tuple[str, str]]:
    from edgecron.client.schedules import Schedules  # A file is read without it, and faster.

    with Schedules(location, must_exist=True) as client:
        return [(name, "") for name in client.store.find_names() if _is_plain(name)]


def _is_plain(name: str) -> bool:
    # The shell inserts these words: a name written by hand must not be more than a name.
    return name.isascii() and name.replace("-", "").replace("_", "").replace(".", "").isalnum()
