"""Help: the overview, the help of a command or topic, and the manual page."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from textwrap import dedent, wrap

from edgecron import __built__, __version__
from edgecron.base.errors import EdgecronError, UsageError
from edgecron.base.values import NamedTuple
from edgecron.cli.commands import COMMANDS, EVERYDAY, EXIT_CODES, USAGE
from edgecron.cli.grammar import CommandGrammar, Option, global_options, read_grammar
from edgecron.cli.parser import parser_of, refuse_help
from edgecron.cli.session import Session
from edgecron.cli.terminal import CANT_MOVE, terminal_columns
from edgecron.cli.topics import TOPICS, page_lines, read_page, read_topic
from edgecron.formats.config_settings import SECTIONS, SETTINGS

_MAN = "--man"
_NO_PAGER = "--no-pager"
# As git has them for pagers that nothing was said to: what fits on the screen is only printed,
# colours are colours, and what was read stays there.
_PAGER_DEFAULTS = {"LESS": "FRX", "LV": "-c"}
_NO_PAGERS = ("cat", "")


class _Entry(NamedTuple):
    """What there is help on."""

    kind: str  # verb (a command), topic or manual
    name: str
    summary: str


def show_help(cli: Session, words: list[str]) -> int:
    """Show the overview, or the help of one command or topic; the exit code."""
    if words == [_MAN]:
        _put(cli, _Entry("manual", "edgecron", "the manual page"), manual_page())
        return 0
    named = [word for word in words if word not in ("-h", "--help", _NO_PAGER)]
    if len(named) > 1:
        raise UsageError(f"help is of one verb or topic, not of {' '.join(named)!r}")
    if not named:
        if cli.is_json:
            cli.put_json(entry._asdict() for entry in _entries())
        else:
            cli.put(_overview())
        return 0
    entry = next((entry for entry in _entries() if entry.name == named[0]), None)
    if entry is None:
        refuse_help(named[0])
    text = _text(cli, entry)
    if cli.is_json or _NO_PAGER in words or not _has_paged(cli, text):
        _put(cli, entry, text)
    return 0


def _entries() -> list[_Entry]:
    """Return commands, then topics, in the order of help."""
    commands = [_Entry("verb", name, command.summary) for name, command in COMMANDS.items()]
    return commands + [_Entry("topic", name, summary) for name, summary in TOPICS.items()]


def _put(cli: Session, entry: _Entry, text: str) -> None:
    if cli.is_json:
        cli.put_json([{**entry._asdict(), "text": text}])
    else:
        cli.put(text)


def _has_paged(cli: Session, text: str) -> bool:
    """Show a text in a pager; False where there is none, or no terminal for it."""
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


def _text(cli: Session, entry: _Entry) -> str:
    """Return the help of a command or topic; for JSON a topic stays Markdown."""
    if entry.kind == "verb":
        return parser_of(entry.name)[1].format_help().rstrip("\n")

    markdown = read_topic(entry.name)
    if cli.is_json:
        return markdown

    width = terminal_columns(otherwise=80)
    lines = page_lines(read_page(markdown), width=width, is_colored=cli.use_color(sys.stdout))
    return "\n".join(lines)


def _overview() -> str:
    lines = ["edgecron: cron that you can see, trust and embed", ""]
    lines += [f"  {line}" for line in EVERYDAY.splitlines()]
    lines += ["", f"usage: {USAGE}"]
    group = None
    for name, command in COMMANDS.items():
        if command.group != group:
            group = command.group
            lines += ["", f"{group}:"]
        lines.append(f"  {name:<11} {command.summary}")
    lines += ["", "Topics:"]
    lines += [f"  {name:<11} {summary}" for name, summary in TOPICS.items()]
    codes = [f"{code} {meaning}" for code, meaning in EXIT_CODES.items()]
    lines += [
        "",
        "edgecron help VERB or help TOPIC tells more, in $PAGER unless with --no-pager;",
        "help --man prints the manual page.",
        f"exit codes: {', '.join(codes[:4])},",
        f"            {', '.join(codes[4:])}",
    ]
    return "\n".join(lines)


_WIDTH = 76
_ESCAPES = str.maketrans(
    {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}
)
_DESCRIPTION = """
One SQLite file holds every schedule and every run, and one small program, edgecron daemon, fires
them. Every due time is decided exactly once and leaves a row that says what became of it: the
machine asleep, switched off or crashed, the clock wrong, the disk full. What runs next, what ran,
what it printed and why it did not run is one verb away.

Global options stand anywhere before --. What follows -- is the command of a schedule. Data goes to
stdout, words go to stderr; with --json data is an array of objects, and an error is the object
{"error": {"code", "message", "hint"}} on stderr.

Durations are 90s, 15m, 6h, 2d, 1h30m. Times are RFC 3339, or local without an offset, or as in
"in 20m" and "tomorrow 09:00". Names are 1 to 128 letters, digits, _, - and ., starting with a
letter or digit, and not digits alone.
"""
_FILES = (
    (
        "~/.local/share/edgecron/edgecron.db",
        "The database of a user; XDG_DATA_HOME names another folder for it.",
    ),
    ("/var/lib/edgecron/edgecron.db", "The database of root."),
    (
        "~/.config/edgecron/config.toml",
        "Settings of a user; XDG_CONFIG_HOME names another folder for it. See config show.",
    ),
    ("/etc/edgecron/config.toml", "Settings of the machine, and those of root."),
    (
        "edgecron.db.state/",
        "Beside the database: what runs now, its output, and locks. Not for editing.",
    ),
)
_ENVIRONMENT = (
    ("EDGECRON_DB", "The database file, where --db names none."),
    ("EDGECRON_CONFIG", "The configuration file of the user, where --config names none."),
    ("EDGECRON_SECTION_KEY", "Any other setting, such as EDGECRON_LIMITS_BURST: see config show."),
    (
        "NO_COLOR",
        "Where it is not empty there are no colours, unless --color always asks for them.",
    ),
    ("TERM", "There are no colours either where it is dumb."),
    ("COLUMNS", "The width that tables and help have to fit; else it is the terminal's."),
    ("VISUAL, EDITOR", "What edit NAME opens."),
    (
        "PAGER",
        "What help and the dashboard page in; by sudo, doas, pkexec a less that starts nothing.",
    ),
    (
        "TZ",
        "The zone of times that are shown or given. Local times of schedules are the engine's.",
    ),
)
_JOB_ENVIRONMENT = (
    "A job has an environment of its own: PATH, TZ, LANG and LC_* of the engine, HOME, USER and"
    " LOGNAME, its --env and --env-file, and EDGECRON_SCHEDULE, EDGECRON_RUN_ID, EDGECRON_PLAN_AT,"
    " EDGECRON_ATTEMPT, EDGECRON_CAUSE, EDGECRON_SCOPE_KIND, EDGECRON_SCOPE_ID,"
    " EDGECRON_IDEMPOTENCY_KEY, EDGECRON_FENCE, EDGECRON_UPSTREAM_* after another schedule,"
    " EDGECRON_PAYLOAD, and EDGECRON_RESULT, the name of a file where it"
    " may leave a small JSON result."
)
_SEE_ALSO = ("crontab(1)", "crontab(5)", "cron(8)", "sqlite3(1)", "systemd.timer(5)")


def manual_page() -> str:
    """The page, for man(7)."""
    grammar = read_grammar()
    lines = [
        f'.TH EDGECRON 1 "{__built__}" "edgecron {__version__}" "User Commands"',
        ".SH NAME",
        r"edgecron \- cron that you can see, trust and embed",
        ".SH SYNOPSIS",
        *_lines(USAGE),
        ".SH DESCRIPTION",
        *_prose(_DESCRIPTION.strip().split("\n\n")),
        ".SH EXAMPLES",
        *_verbatim(EVERYDAY),
        ".SH OPTIONS",
        *(line for option in global_options(grammar) for line in _option(option)),
        ".SH COMMANDS",
    ]
    for command in grammar:
        lines += _command(command)
    lines += [".SH SETTINGS", *_settings(), ".SH TOPICS"]
    lines += _lines("Longer texts on a subject each, by edgecron help TOPIC:")
    for name, summary in TOPICS.items():
        lines += [".TP", f".B {_escaped(name)}", *_lines(f"{summary}.")]
    lines.append(".SH FILES")
    for path, meaning in _FILES:
        lines += [".TP", f".I {_escaped(path)}", *_lines(meaning)]
    lines.append(".SH ENVIRONMENT")
    for name, meaning in _ENVIRONMENT:
        lines += [".TP", f".B {_escaped(name)}", *_lines(meaning)]
    lines += [".PP", *_lines(_JOB_ENVIRONMENT), ".SH EXIT STATUS"]
    for code, meaning in EXIT_CODES.items():
        lines += [".TP", f".B {code}", meaning]
    waited = "run --wait exits as the job did, with 128+N where signal N ended it, and with 125"
    lines += [".PP", *_lines(f"{waited} for every error of edgecron's own."), ".SH SEE ALSO"]
    pages = [page.partition("(") for page in _SEE_ALSO]
    ends = [","] * (len(pages) - 1) + [""]
    lines += [
        f".BR {name} ({number}{end}" for (name, _, number), end in zip(pages, ends, strict=True)
    ]
    return "\n".join(lines)


def _command(command: CommandGrammar) -> Iterator[str]:
    module, parser = parser_of(command.name)
    yield f".SS {_escaped(command.name)}"
    yield from _lines(parser.usage or f"edgecron {command.name}")
    first, *rest = (module.__doc__ or "").strip().split("\n\n")
    yield ".PP"
    yield from _prose([first])
    if rest:
        yield ".PP"
        yield from _verbatim(dedent(rest[0]))
        if len(rest) > 1:
            yield ".PP"
            yield from _prose(rest[1:])
    for option in command.options:
        if not option.is_global and "--help" not in option.names:
            yield from _option(option)


def _settings() -> Iterator[str]:
    """Every setting with its default, by the sections of a file."""
    yield from _lines(
        "A flag comes before a variable, that before your file, that before the system's file,"
        " that before the default, each setting by itself. The files are TOML:"
    )
    for section, words in SECTIONS.items():
        yield f".SS {_escaped(f'[{section}]')}" if section else ".SS At the top"
        yield from _lines(f"{words[:1].upper()}{words[1:]}.")
        for setting in SETTINGS.values():
            if setting.section == section:
                value = setting.absent if setting.default is None else setting.default
                shown = " ".join(map(str, value)) or "none" if isinstance(value, list) else value
                yield from (".TP", f".B {_escaped(setting.name)}")
                yield from _lines(f"{setting.help} ({shown})")


def _option(option: Option) -> Iterator[str]:
    names = ", ".join(rf"\fB{_escaped(name)}\fR" for name in option.names)
    value = "" if option.value is None else rf" \fI{_escaped(option.value.label)}\fR"
    yield ".TP"
    yield f"{names}{value}"
    yield from _lines(option.help)


def _prose(paragraphs: list[str]) -> Iterator[str]:
    for number, paragraph in enumerate(paragraphs):
        if number:
            yield ".PP"
        yield from _lines(" ".join(paragraph.split()))


def _lines(text: str) -> Iterator[str]:
    for line in wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield _guarded(_escaped(line))


def _verbatim(text: str) -> Iterator[str]:
    yield ".RS 4"
    yield ".EX"
    for line in text.splitlines():
        yield _guarded(_escaped(line))
    yield ".EE"
    yield ".RE"


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _guarded(line: str) -> str:
    """A line that is no request, whatever it begins with."""
    return rf"\&{line}" if line.startswith(".") else line
