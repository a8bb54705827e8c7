"""Parse command lines: one parser per command, its help, and hints for typos."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection
from functools import partial
from shlex import join
from types import ModuleType
from typing import Any, NoReturn

from edgecron import __version__
from edgecron.base.errors import Problems, UsageError
from edgecron.base.paths import HTTP_PLACE
from edgecron.cli.commands import (
    COLORS,
    COMMANDS,
    GLOBALS,
    USAGE,
    globals_of,
    load_command,
    refuse_unused,
    take_globals,
)
from edgecron.cli.output import find_unfit, terminal_columns
from edgecron.cli.session import OWN_ERROR, Session

GLOBAL_OPTIONS = "Global options"  # a group
ADVANCED = "Advanced"  # the group of options that only `help COMMAND --all` shows
_PREFIX, _COLUMNS = "usage: ", 80
_OF_OPTION = re.compile(r"(?P<option>-[^\s/]+)(?:/-\S+)? (?P<fault>needs a value|takes no value)")
# Whether an argument can be left out, and whether it can be repeated.
_NARGS = {(False, False): None, (True, False): "?", (False, True): "+", (True, True): "*"}
_NEGATIVE = re.compile(r"-\d", re.ASCII)
_WEEKDAYS = re.compile(r"(?:MON|TUE|WED|THU|FRI|SAT|SUN)(?:[-,][A-Z]{3})*", re.IGNORECASE)
# Sentences of argparse, and ours instead.
_SENTENCES = (
    (r"the following arguments are required: (.+)", r"missing \1"),
    (r"argument ([^:]+): expected (?:one|at least one) argument", r"\1 needs a value"),
    (
        r"argument ([^:]+): ignored explicit argument (.+)",
        r"\1 takes no value, but the value \2 is given",
    ),
    (
        r"argument ([^:]+): not allowed with argument (.+)",
        r"\1 and \2 are both given, expected one of them",
    ),
)


def add_http_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--http`, by which an engine also serves the HTTP API."""
    parser.add_argument(
        "--http",
        nargs="?",
        const=HTTP_PLACE,
        metavar="HOST:PORT|unix:PATH",
        help=f"also serve the HTTP API (default: {HTTP_PLACE})",
    )


class _HelpFormatter(argparse.HelpFormatter):
    """Wrap prose to the terminal; indent the examples (second paragraph) and keep their lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        from textwrap import dedent, fill
        from textwrap import indent as indented

        paragraphs = text.strip().split("\n\n")
        for number, paragraph in enumerate(paragraphs):
            if number == 1:
                paragraphs[number] = indented(dedent(paragraph), "    ")
            else:
                words = " ".join(paragraph.split())
                paragraphs[number] = fill(
                    words, width, break_long_words=False, break_on_hyphens=False
                )
        return indented("\n\n".join(paragraphs), indent)


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of exiting, and suggests options for typos."""

    def __init__(
        self,
        *,
        prog: str,
        description: str | None = None,
        usage: str | None = None,
        width: int | None = None,
        add_help: bool = True,
    ) -> None:
        self._width = width  # argparse formats help while it adds --help
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            allow_abbrev=False,
            add_help=add_help,
        )

        self._positionals.title = "arguments"
        self._argv: list[str] = []
        self.shows_all = False
        self.globals_line = ""
        self.see_also = ""

    def add(self, form: str, words: str, **more: Any) -> None:
        """Add an argument or an option as usage lines write it, with `words` as its help.

        Arguments: `NAME`, `[NAME]`, `NAME...`, `[NAME...]`. Options: `--until TIME`; without a
        value, such as `-y --yes`, an option is a switch. `more` is for `add_argument`.
        """
        *names, value = form.split()
        if value.startswith("-"):
            self.add_argument(*names, value, action="store_true", help=words, **more)
        elif names:
            self.add_argument(*names, metavar=value, help=words, **more)
        else:
            name = value.strip("[.]")
            nargs = _NARGS[value.startswith("["), "..." in value]
            dest = more.pop("dest", name.lower())
            self.add_argument(dest, nargs=nargs, metavar=name, help=words, **more)

    def error(self, message: str) -> NoReturn:
        for theirs, ours in _SENTENCES:
            message = re.sub(f"^{theirs}$", ours, message)
        self._refuse_unknown_option()  # That is the cause of what is missing.
        found = _OF_OPTION.match(message)
        if found is None:
            hint = self._example() or f"see: {self.prog} --help"
        elif found["fault"] == "takes no value":
            hint = f"write only {found['option']}"
        else:
            hint = self._example(found["option"]) or self._form_of(found["option"])
        raise UsageError(message, hint=hint)

    def _example(self, option: str = "") -> str | None:
        """Return the first example of the help that has the option, as a hint; None without one."""
        for line in (self.description or "").splitlines():
            example = line.strip().split("   ")[0]
            if example.startswith(f"{self.prog} ") and option in ("", *example.split()):
                return f"for example: {example}"
        return None

    def _form_of(self, option: str) -> str:
        [action] = [one for one in self._actions if option in one.option_strings]
        return f"write {option} {action.metavar or action.dest.upper()}"

    def _get_formatter(self) -> argparse.HelpFormatter:
        # Without a width, argparse would load `shutil` for each parser.
        width = self._width or terminal_columns(otherwise=80) - 2
        return _HelpFormatter(self.prog, width=width)

    def format_help(self) -> str:
        """Put the description and its examples before the usage and the options."""
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        usage = self.usage or f"{self.prog} {self._usage_words()}"
        formatter.add_usage(_wrapped_usage(usage), self._actions, self._mutually_exclusive_groups)
        hidden = {
            None if self.shows_all else ADVANCED,
            GLOBAL_OPTIONS if self.globals_line else None,
        }
        for group in self._action_groups:
            if group.title not in hidden:
                formatter.start_section(group.title)
                formatter.add_text(group.description)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        if not self.shows_all and any(group.title == ADVANCED for group in self._action_groups):
            formatter.add_text(f"Advanced options: {self.prog.replace(' ', ' help ', 1)} --all")
        formatter.add_text(self.globals_line or None)
        formatter.add_text(f"See also: {self.see_also}" if self.see_also else None)
        return formatter.format_help()

    def _usage_words(self) -> str:
        """Return the arguments of a command, then its own options."""
        hidden = (GLOBAL_OPTIONS,) if self.shows_all else (GLOBAL_OPTIONS, ADVANCED)
        groups = (group for group in self._action_groups if group.title not in hidden)
        actions = [action for group in groups for action in group._group_actions]
        shown = [one for one in actions if one.dest != "help" and one.help != argparse.SUPPRESS]
        return " ".join(map(_usage_word, sorted(shown, key=lambda one: bool(one.option_strings))))

    def has_option(self, word: str) -> bool:
        """Return whether a word of a command line is an option of this command."""
        return word.partition("=")[0] in self._option_string_actions

    def parse_all(self, argv: list[str]) -> argparse.Namespace:
        """Parse all of argv. Raises UsageError, with a suggestion for an unknown option."""
        self._argv = argv = self._join_values(argv)
        args, unknown = self.parse_known_args(argv)
        if unknown and unknown[0][:1] != "-":
            # argparse ends an optional positional at the first option: look after options, too.
            args, unknown = self.parse_known_intermixed_args(argv)
        if unknown:
            self._refuse(unknown, argv)
        return args

    def _join_values(self, argv: list[str]) -> list[str]:
        """Join an option and a value such as -5m, which argparse takes for an option, and the two
        words of a window: --between 21:00-05:00 MON-FRI."""
        joined: list[str] = []
        for word in argv:
            action = self._option_string_actions.get(joined[-1]) if joined else None
            if action is not None and action.nargs is None and _NEGATIVE.match(word):
                joined[-1] += f"={word}"
            elif joined[-2:-1] in (["--between"], ["--not-between"]) and _is_rest(joined[-1], word):
                joined[-1] += f" {word}"
            else:
                joined.append(word)
        return joined

    def _refuse_unknown_option(self) -> None:
        """Raise UsageError if the command line has options that the command does not know."""
        from edgecron.cli.suggestions import refuse_option  # Only for errors.

        known, problems = self._option_string_actions, Problems()
        for word in self._argv:
            is_option = word[:1] == "-" and word != "-"
            # A value can follow its short option immediately: -n5.
            if not is_option or word.partition("=")[0] in known or word[:2] in known:
                continue
            # The value of an unknown option can be negative.
            if not (problems and _NEGATIVE.match(word)):
                problems.read(partial(refuse_option, word, known, prog=self.prog), None)
        problems.refuse()

    def _refuse(self, unknown: list[str], argv: list[str]) -> NoReturn:
        from edgecron.cli.suggestions import hint_for_stray  # Only for errors.

        self._refuse_unknown_option()
        hint = hint_for_stray(
            unknown, argv, prog=self.prog, has_job="--cron" in self._option_string_actions
        )
        if hint is None:
            taken = " ".join(map(_usage_word, self._get_positional_actions()))
            hint = f"write only {taken}" if taken else "leave it out"
            hint += f"; see: {self.prog} --help"
        raise UsageError(f"unexpected argument {unknown[0]!r}", hint=hint)


def _is_rest(times: str, word: str) -> bool:
    """Whether a word is the weekdays of the window that begins with these times."""
    return times[:1].isdigit() and _WEEKDAYS.fullmatch(word) is not None


def parse(
    session: Session, argv: list[str]
) -> tuple[ModuleType | type[Any] | None, argparse.Namespace]:
    """Return the module of the command and its arguments; global options go to the session.

    For help the module is None and the arguments have `words`, what help is asked for. For an
    unknown command they have the word as `unknown`. The words after `--` are `args.argv`; None if
    there is no `--`.
    """
    before, after = _split(argv)
    # Set this first: errors in the other options must come as JSON, too.
    session.is_json = "--json" in before
    if "run" in before and "--wait" in before:
        session.error_exit = OWN_ERROR
    _check_encoding(argv)
    rest, given = take_globals(session, before)
    if not rest:
        rest = [_default_command(session)]
    command = rest[0]
    if command in ("-h", "--help", "help"):
        return None, argparse.Namespace(words=rest[1:], unknown=None)
    if command in ("-V", "--version"):
        _show_version()
    if command not in COMMANDS:
        _refuse_option_before_command(rest)
        return None, argparse.Namespace(words=[], unknown=command)
    session.command_name = command
    refuse_unused(command, given)
    if command != "run":
        session.error_exit = None
    module, parser = parser_of(command)
    args = parser.parse_all(rest[1:])
    if after is not None and not getattr(module, "TAKES_ARGV", False):
        raise UsageError(
            f"edgecron {command} takes no words after --", hint=f"see: edgecron {command} --help"
        )
    args.argv = after
    return module, args


def _refuse_option_before_command(words: list[str]) -> None:
    """Raise UsageError if an option of a command stands before the command."""
    option = words[0]
    command = next((word for word in words if word in COMMANDS), None)
    if command is None or not parser_of(command)[1].has_option(option):
        return
    others = list(words)
    others.remove(command)
    raise UsageError(
        f"{option} stands before the command, expected after it",
        hint=join(["edgecron", command, *others]),
    )


def _usage_word(action: argparse.Action) -> str:
    """Return how an argument or an option is given: `NAME...`, `[-n N]`."""
    value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    value += "..." if action.nargs in ("*", "+") else ""
    if not action.option_strings:
        return f"[{value}]" if action.nargs in ("*", "?") else value
    value = f"[{value}]" if action.nargs == "?" else value
    return f"[{' '.join([action.option_strings[0], value]).rstrip()}]"


def _wrapped_usage(usage: str) -> str:
    """Break a usage into lines of 80 columns, only between options and arguments."""
    words: list[str] = []
    for part in usage.split():
        if words and words[-1].count("[") > words[-1].count("]"):
            words[-1] += f" {part}"
        else:
            words.append(part)
    lines = [" ".join(words[:2])]
    indent = len(_PREFIX) + len(lines[0])
    if indent + 1 + max(map(len, words[2:]), default=0) > _COLUMNS:
        indent = len(_PREFIX)
    for word in words[2:]:
        begin = 0 if len(lines) > 1 else len(_PREFIX)
        if begin + len(lines[-1]) + 1 + len(word) > _COLUMNS:
            lines.append(" " * indent)
        lines[-1] += f" {word}"
    return "\n".join(lines)


def _default_command(session: Session) -> str:
    """Choose the dashboard on a terminal that can show it, else `status`."""
    if session.is_json:
        return "status"
    return "tui" if find_unfit() is None else "status"


def parser_of(
    command: str, *, width: int | None = None, shows_all: bool = False
) -> tuple[ModuleType | type[Any], Parser]:
    """Load a command; return its module and its parser, which also formats its help.

    Help has `width` columns (default: those of the terminal). It names the global options that
    work with the command. With `shows_all`, it has the advanced options, too.
    """
    module = load_command(command)
    usage = f"edgecron {command} {module.USAGE}" if hasattr(module, "USAGE") else None
    parser = Parser(
        prog=f"edgecron {command}",
        description=module.__doc__,
        usage=usage,
        width=width,
    )
    module.add_arguments(parser)
    used = globals_of(command)
    _describe_globals(parser, used)
    parser.shows_all = shows_all
    parser.globals_line = f"Global options: {', '.join(used)} (see: edgecron help)"
    parser.see_also = COMMANDS[command].see
    return module, parser


def global_parser(*, width: int) -> Parser:
    """Return a parser of the global options, which formats their help."""
    parser = Parser(prog="edgecron", usage=USAGE, width=width, add_help=False)
    _describe_globals(parser, GLOBALS)
    return parser


def _check_encoding(argv: list[str]) -> None:
    for word in argv:
        try:
            word.encode()
        except UnicodeEncodeError:
            # Neither the database nor JSON could hold it.
            raise UsageError(f"argument {word!a} is not UTF-8") from None


def _split(argv: list[str]) -> tuple[list[str], list[str] | None]:
    if "--" not in argv:
        return argv, None
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def _describe_globals(parser: Parser, used: Collection[str]) -> None:
    """Add the global options whose long names are in `used`."""
    group = parser.add_argument_group(GLOBAL_OPTIONS)

    def add(*names: str, **properties: Any) -> None:
        if names[-1] in used:
            group.add_argument(*names, **properties)

    add("--db", metavar="PATH|URL", help="use this file, or postgresql://... (or EDGECRON_DB)")
    add("--url", metavar="URL", help="use the server of another machine (or EDGECRON_URL)")
    add(
        "--token-file",
        metavar="FILE",
        help="read the token of that server from this file; with daemon --http, require it",
    )
    add("--json", action="store_true", help="print JSON")
    add("-q", "--quiet", action="store_true", help="print only errors, no confirmation or note")
    add(
        "--color",
        choices=COLORS,
        metavar="auto|always|never",
        help="use colors (default: auto, on a terminal)",
    )
    add(
        "--config",
        metavar="PATH|none",
        help="read this configuration file instead of yours (or EDGECRON_CONFIG)",
    )
    add("-h", "--help", action="store_true", help="show help")
    add("-V", "--version", action="store_true", help="show the version")


def _show_version() -> NoReturn:
    print(f"edgecron {__version__}")
    raise SystemExit(0)
