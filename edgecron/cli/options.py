"""The parser: global options anywhere before `--`, one parser per verb, suggestions for typos."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from edgecron.base.errors import UsageError as UsageError
from edgecron.cli.session import Session
from edgecron.cli.verbs import OTHER_WORDS, VERBS
from edgecron.cli.width import terminal_columns
from edgecron.formats.option_texts import read_choice as read_choice
from edgecron.formats.option_texts import read_count as read_count

OWN_ERROR = 125  # of `run --wait`, where every other code is the job's
_COLORS = ("auto", "always", "never")
_USAGE, _COLUMNS = "usage: ", 80
_WITH_VALUE = ("--db", "--url", "--token-file", "--color", "--config")
_GLOBALS = (*_WITH_VALUE, "--json", "--help", "--version")
_ALIKE = 0.65  # of two options without their dashes: jsn is json, foo is not from


class _HelpFormatter(argparse.HelpFormatter):
    """Prose wrapped to the terminal; examples, the second paragraph, indented and as they are."""

    def __init__(self, prog: str) -> None:
        # Each parser makes one while it is built: told no width, it would load `shutil`.
        super().__init__(prog, width=terminal_columns(otherwise=80) - 2)

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
    """Raises UsageError instead of printing and leaving, and knows how options are misspelled."""

    def __init__(
        self, *, prog: str, description: str | None = None, usage: str | None = None
    ) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
            add_help=True,
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"see: {self.prog} --help")

    def format_help(self) -> str:
        """What it does and examples first, then every option."""
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        formatter.add_usage(
            _wrapped_usage(self.usage), self._actions, self._mutually_exclusive_groups
        )
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        return formatter.format_help()

    def parse_verb(self, argv: list[str]) -> argparse.Namespace:
        """Parse all of argv. An option that is not known gets a suggestion."""
        args, unknown = self.parse_known_args(argv)
        if unknown and unknown[0][:1] != "-":
            # A positional that can be left out ends at the first option: look behind options too.
            args, unknown = self.parse_known_intermixed_args(argv)
        if unknown:
            self._refuse(unknown[0], argv)
        return args

    def _refuse(self, word: str, argv: list[str]) -> NoReturn:
        known = [option for action in self._actions for option in action.option_strings]
        if word[:1] != "-":
            hint = _stray_hint(word, argv) if "--cron" in known else None
            raise UsageError(
                f"argument {word!r} is not known", hint=hint or f"see: {self.prog} --help"
            )
        _refuse_option(word, known, prog=self.prog)


def read_run(text: str) -> int:
    """The number of a run. Raises UsageError."""
    return read_count(text, what="RUN", most=2**63 - 1)


def parse(session: Session, argv: list[str]) -> tuple[ModuleType, argparse.Namespace]:
    """The module of the verb and its arguments; global options go to the session.

    What follows `--` is `args.argv`, untouched; None where there is no `--`.
    """
    before, after = _split(argv)
    # First, so that every error of what follows is told in JSON too.
    session.is_json = "--json" in before
    if "run" in before and "--wait" in before:
        session.error_exit = OWN_ERROR
    _check_encoding(argv)
    rest = _take_globals(session, before)
    if not rest:
        rest = [_default_verb(session)]
    verb = rest[0]
    if verb in ("-h", "--help", "help"):
        return import_module("edgecron.cli.help_"), argparse.Namespace(words=rest[1:])
    if verb == "--version":
        _show_version()
    if verb not in VERBS:
        refuse_verb(verb)
    session.verb = verb
    if verb != "run":
        session.error_exit = None
    module, parser = parser_of(verb)
    args = parser.parse_verb(rest[1:])
    if after is not None and not getattr(module, "TAKES_ARGV", False):
        raise UsageError(f"{verb} takes no command after --", hint=f"see: edgecron {verb} --help")
    args.argv = after
    return module, args


def _wrapped_usage(usage: str | None) -> str | None:
    """A usage in lines of 80 columns, broken only between its options and arguments."""
    if usage is None:
        return None
    words: list[str] = []
    for part in usage.split():
        if words and words[-1].count("[") > words[-1].count("]"):
            words[-1] += f" {part}"
        else:
            words.append(part)
    lines = [" ".join(words[:2])]
    indent = len(_USAGE) + len(lines[0])
    if indent + 1 + max(map(len, words[2:]), default=0) > _COLUMNS:
        indent = len(_USAGE)
    for word in words[2:]:
        begin = 0 if len(lines) > 1 else len(_USAGE)
        if begin + len(lines[-1]) + 1 + len(word) > _COLUMNS:
            lines.append(" " * indent)
        lines[-1] += f" {word}"
    return "\n".join(lines)


def _default_verb(session: Session) -> str:
    """With no verb: the dashboard on a terminal that can show it, else how it stands."""
    if session.is_json:
        return "status"
    from edgecron.cli.terminals import may_show_dashboard

    return "tui" if may_show_dashboard() else "status"


def parser_of(verb: str) -> tuple[ModuleType, Parser]:
    """The module of a verb and its parser, which shows its help too."""
    module = import_module(f"edgecron.cli.{VERBS[verb].module}")
    usage = f"edgecron {verb} {module.USAGE}" if hasattr(module, "USAGE") else None
    parser = Parser(prog=f"edgecron {verb}", description=module.__doc__, usage=usage)
    module.add_arguments(parser)
    _describe_globals(parser)
    return module, parser


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


def _take_globals(session: Session, argv: list[str]) -> list[str]:
    """Read the options that every verb has wherever they stand; what is left."""
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--json":
            continue
        if name in _WITH_VALUE:
            given = value if equals else next(words, None)
            if given is None or given == "":
                raise UsageError(f"{name} needs a value")
            if name == "--db":
                session.database = given
            elif name == "--url":
                session.url = given
            elif name == "--token-file":
                session.token_file = given
            elif name == "--config":
                session.config_path = given
            elif given in _COLORS:
                session.color = given
            else:
                raise UsageError(f"--color is {given!r}, expected auto, always or never")
        else:
            rest.append(word)
    return rest


def _describe_globals(parser: Parser) -> None:
    group = parser.add_argument_group("everywhere")
    group.add_argument("--db", metavar="PATH", help="the database file (or EDGECRON_DB)")
    group.add_argument(
        "--url", metavar="URL", help="the server of another machine instead (or EDGECRON_URL)"
    )
    group.add_argument(
        "--token-file", metavar="FILE", help="its token; of daemon --http, what others must carry"
    )
    group.add_argument("--json", action="store_true", help="output as JSON")
    group.add_argument(
        "--color", choices=_COLORS, metavar="auto|always|never", help="on a terminal (auto)"
    )
    group.add_argument(
        "--config", metavar="PATH|none", help="your configuration file (or EDGECRON_CONFIG)"
    )


def _stray_hint(word: str, argv: list[str]) -> str:
    """What a word was meant to be that stands where no word may: a part of a time, or of a job."""
    if word[:1] == "@" or len(word.split()) > 4:
        return f"a time is given with an option: --cron {word!r}"
    after = argv[argv.index("--cron") + 1 :] if "--cron" in argv else []
    if after and " " not in after[0] and word in after[1:6]:
        return "the shell took the cron text apart: put it in quotes, as in --cron '0 2 * * *'"
    return "the command comes last, after --"


def _refuse_option(word: str, known: Iterable[str], *, prog: str) -> NoReturn:
    from difflib import get_close_matches

    by_name = {option.lstrip("-"): option for option in known}
    name = word.partition("=")[0].lstrip("-")
    close = get_close_matches(name, by_name, n=1, cutoff=_ALIKE)
    hint = f"did you mean {by_name[close[0]]}?" if close else f"see: {prog} --help"
    raise UsageError(f"option {word!r} is not known", hint=hint)


def refuse_verb(verb: str) -> NoReturn:
    """Raise UsageError for a word that is no verb, with the one that was meant."""
    from difflib import get_close_matches

    from edgecron.cli.topics import TOPICS

    if verb[:1] == "-":
        _refuse_option(verb, _GLOBALS, prog="edgecron")
    close = [OTHER_WORDS[verb]] if verb in OTHER_WORDS else get_close_matches(verb, VERBS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "see: edgecron --help"
    if verb in TOPICS:
        hint = f"it is a topic of help: edgecron help {verb}"
    raise UsageError(f"{verb!r} is not a verb of edgecron", hint=hint)


def refuse_help(word: str) -> NoReturn:
    """Raise UsageError for what there is no help on, with the verb or topic that was meant."""
    from difflib import get_close_matches

    from edgecron.cli.topics import OTHER_TOPICS, TOPICS

    if word[:1] == "-":
        _refuse_option(word, (*_GLOBALS, "--man"), prog="edgecron help")
    other = OTHER_TOPICS.get(word) or OTHER_WORDS.get(word)
    close = [other] if other else get_close_matches(word, [*VERBS, *TOPICS], n=1)
    hint = f"did you mean {close[0]!r}?" if close else "see: edgecron help"
    raise UsageError(f"{word!r} is neither a verb nor a topic of edgecron", hint=hint)


def _show_version() -> NoReturn:
    from edgecron import __version__

    print(f"edgecron {__version__}")
    raise SystemExit(0)
