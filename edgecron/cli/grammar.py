"""The command line as values, read from its parsers: for completions and the manual.

What a word can be is told by its metavar: `skip|allow` is a closed choice, `NAME` a schedule.
"""

from __future__ import annotations

import argparse
import re
from enum import StrEnum

from edgecron.base.values import NamedTuple
from edgecron.cli.options import parser_of
from edgecron.cli.verbs import VERBS

_LITERAL = re.compile(r"[a-z][a-z0-9-]*")
_EVERYWHERE = "everywhere"  # the group of the global options


class Kind(StrEnum):
    """What a shell is to look up for a word."""

    NAME = "names"  # of schedules
    RUN = "runs"  # numbers of the newest runs
    ACTIVE = "active"  # numbers of runs that have not ended
    ZONE = "zones"
    FILE = "files"
    FOLDER = "folders"
    USER = "users"


class Words(NamedTuple):
    """What a value or an argument can be: closed choices, kinds to look up, or anything."""

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


class VerbGrammar(NamedTuple):
    """A verb: its options and arguments; `is_last_repeated` says so of the last argument."""

    verb: str
    summary: str
    options: tuple[Option, ...]
    arguments: tuple[Words, ...]
    is_last_repeated: bool
    takes_command: bool


# What the metavar alone does not tell.
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


def read_grammar() -> list[VerbGrammar]:
    """Every verb, in the order of help."""
    return [read_verb(verb) for verb in VERBS]


def global_options(grammar: list[VerbGrammar]) -> list[Option]:
    """The options that stand before a verb, too."""
    return [option for option in grammar[0].options if option.is_global]


def read_verb(verb: str) -> VerbGrammar:
    """A verb as its parser has it."""
    module, parser = parser_of(verb)
    options: list[Option] = []
    arguments: list[Words] = []
    is_last_repeated = False
    for group in parser._action_groups:
        for action in group._group_actions:
            if action.help == argparse.SUPPRESS:
                continue
            if action.option_strings:
                options.append(_option(verb, action, is_global=group.title == _EVERYWHERE))
            else:
                arguments.append(_words(verb, action, _metavar(action)))
                is_last_repeated = action.nargs in ("+", "*")
    return VerbGrammar(
        verb=verb,
        summary=VERBS[verb].summary,
        options=tuple(options),
        arguments=tuple(arguments),
        is_last_repeated=is_last_repeated,
        takes_command=getattr(module, "TAKES_ARGV", False),
    )


def _option(verb: str, action: argparse.Action, *, is_global: bool) -> Option:
    return Option(
        names=tuple(action.option_strings),
        help=(action.help or "").replace("%%", "%"),
        value=None if action.nargs == 0 else _words(verb, action, _metavar(action)),
        is_repeated=isinstance(action, argparse._AppendAction),
        is_global=is_global,
    )


def _metavar(action: argparse.Action) -> str:
    return action.metavar if isinstance(action.metavar, str) else action.dest.upper()


def _words(verb: str, action: argparse.Action, metavar: str) -> Words:
    option = action.option_strings[-1] if action.option_strings else ""
    choices = tuple(map(str, action.choices)) if action.choices is not None else ()
    for key in ((verb, option), (option, metavar), (verb, metavar)):
        if key in _KINDS:
            return Words(metavar, choices, _KINDS[key])
    if metavar == "STATUS":
        from edgecron.model.choices import Status

        return Words(metavar, tuple(status.value for status in Status))
    # What stands in brackets is added to a word: NAME[:success|failure|any].
    parts = re.sub(r"\[.*?\]", "", metavar).split("|")
    choices = choices or tuple(part for part in parts if _LITERAL.fullmatch(part))
    kinds = tuple(_KINDS_OF_PARTS[part] for part in parts if part in _KINDS_OF_PARTS)
    return Words(metavar, choices, kinds)
