"""Read the command line from its parsers as values, for completions and the manual.

The metavar says what a word can be: `skip|allow` is a closed choice, `NAME` a schedule.
"""

from __future__ import annotations

import argparse
import re
from enum import StrEnum

from edgecron.base.values import NamedTuple
from edgecron.cli.commands import COMMANDS
from edgecron.cli.parser import parser_of
from edgecron.model.choices import Status

_LITERAL = re.compile(r"[a-z][a-z0-9-]*")
_EVERYWHERE = "everywhere"  # the group of the global options


class Kind(StrEnum):
    """What a shell looks up to complete a word."""

    NAME = "names"  # of schedules
    RUN = "runs"  # numbers of the newest runs
    ACTIVE = "active"  # numbers of runs that have not ended
    ZONE = "zones"
    FILE = "files"
    FOLDER = "folders"
    USER = "users"


class Words(NamedTuple):
    """Values of an option or argument: choices, kinds to look up; neither means any text."""

    label: str
    choices: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()


class Option(NamedTuple):
    """An option; `value` None is a switch."""

    names: tuple[str, ...]
    help: str
    value: Words | None
    is_repeated: bool
    is_global: bool


class CommandGrammar(NamedTuple):
    """A command: its options and arguments; `is_last_repeated` says so of the last argument."""

    name: str
    summary: str
    options: tuple[Option, ...]
    arguments: tuple[Words, ...]
    is_last_repeated: bool
    takes_command: bool


# Exceptions to the metavar.
_KINDS = {
    ("add", "NAME"): (),  # a new one
    ("cancel", "RUN"): (Kind.ACTIVE,),
    ("check", "--name"): (),
    ("--cwd", "PATH"): (Kind.FOLDER,),
    ("--user", "NAME"): (Kind.USER,),
    ("--group", "NAME[:N]"): (),
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
    """Read every command, in the order of help."""
    return [read_command(command) for command in COMMANDS]


def global_options(grammar: list[CommandGrammar]) -> list[Option]:
    """Return the options that can also stand before a command."""
    return [option for option in grammar[0].options if option.is_global]


def read_command(command: str) -> CommandGrammar:
    """Read one command from its parser."""
    module, parser = parser_of(command)
    options: list[Option] = []
    arguments: list[Words] = []
    is_last_repeated = False
    for group in parser._action_groups:
        for action in group._group_actions:
            if action.help == argparse.SUPPRESS:
                continue
            if action.option_strings:
                options.append(_option(command, action, is_global=group.title == _EVERYWHERE))
            else:
                arguments.append(_words(command, action, _metavar(action)))
                is_last_repeated = action.nargs in ("+", "*")
    return CommandGrammar(
        name=command,
        summary=COMMANDS[command].summary,
        options=tuple(options),
        arguments=tuple(arguments),
        is_last_repeated=is_last_repeated,
        takes_command=getattr(module, "TAKES_ARGV", False),
    )


def _option(command: str, action: argparse.Action, *, is_global: bool) -> Option:
    return Option(
        names=tuple(action.option_strings),
        help=(action.help or "").replace("%%", "%"),
        value=None if action.nargs == 0 else _words(command, action, _metavar(action)),
        is_repeated=isinstance(action, argparse._AppendAction),
        is_global=is_global,
    )


def _metavar(action: argparse.Action) -> str:
    return action.metavar if isinstance(action.metavar, str) else action.dest.upper()


def _words(command: str, action: argparse.Action, metavar: str) -> Words:
    option = action.option_strings[-1] if action.option_strings else ""
    choices = tuple(map(str, action.choices)) if action.choices is not None else ()
    for key in ((command, option), (option, metavar), (command, metavar)):
        if key in _KINDS:
            return Words(metavar, choices, _KINDS[key])
    if metavar == "STATUS":
        return Words(metavar, tuple(status.value for status in Status))
    # Drop optional parts in brackets: NAME[:success|failure|any].
    parts = re.sub(r"\[.*?\]", "", metavar).split("|")
    choices = choices or tuple(part for part in parts if _LITERAL.fullmatch(part))
    kinds = tuple(_KINDS_OF_PARTS[part] for part in parts if part in _KINDS_OF_PARTS)
    return Words(metavar, choices, kinds)
