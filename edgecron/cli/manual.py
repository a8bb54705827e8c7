"""The manual page, for man(7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap

from edgecron import __built__, __version__
from edgecron.cli.commands import COMMANDS, EVERYDAY, EXIT_CODES, USAGE
from edgecron.cli.parser import global_parser, parser_of
from edgecron.cli.topics import TOPICS
from edgecron.formats.config_settings import example_text

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
        "What help and the dashboard page in; through sudo, doas and pkexec no pager is started.",
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
_SETTINGS = """
A flag comes before a variable, that before your file, that before the system's file, that before
the default, each setting by itself. The files are TOML:
"""
_WAIT_STATUS = """
run --wait exits as the job did, with 128+N where signal N ended it, and with 125 for every error of
edgecron's own.
"""
_SEE_ALSO = "crontab(1), crontab(5), cron(8), sqlite3(1), systemd.timer(5)"


def manual_page() -> str:
    """Return the page: the help of each command as it is, between sections of our own."""
    exit_codes = [(str(code), meaning) for code, meaning in EXIT_CODES.items()]
    topics = [(name, f"{summary}.") for name, summary in TOPICS.items()]
    lines = [
        f'.TH EDGECRON 1 "{__built__}" "edgecron {__version__}" "User Commands"',
        *_section("NAME", [r"edgecron \- cron that you can see, trust and embed"]),
        *_section("SYNOPSIS", _prose(USAGE)),
        *_section("DESCRIPTION", _prose(_DESCRIPTION)),
        *_section("EXAMPLES", _verbatim(EVERYDAY)),
        *_section("OPTIONS", _verbatim(global_parser(width=_WIDTH).format_help())),
        *_section("COMMANDS"),
    ]
    for command in COMMANDS:
        _, parser = parser_of(command, width=_WIDTH, is_own_only=True)
        lines += [f".SS {_escaped(command)}", *_verbatim(parser.format_help())]
    lines += [
        *_section("SETTINGS", _prose(_SETTINGS), _verbatim(example_text())),
        *_section("TOPICS", _prose("By edgecron help TOPIC:"), _items(topics)),
        *_section("FILES", _items(_FILES)),
        *_section("ENVIRONMENT", _items(_ENVIRONMENT), _prose(_JOB_ENVIRONMENT)),
        *_section("EXIT STATUS", _items(exit_codes), _prose(_WAIT_STATUS)),
        *_section("SEE ALSO", _prose(_SEE_ALSO)),
    ]
    return "\n".join(lines)


def _section(title: str, *blocks: Iterable[str]) -> Iterator[str]:
    yield f".SH {title}"
    for number, block in enumerate(blocks):
        lines = list(block)
        if number and not lines[0].startswith(".TP"):
            yield ".PP"
        yield from lines


def _items(items: Iterable[tuple[str, str]]) -> Iterator[str]:
    for label, meaning in items:
        yield from (".TP", f".B {_escaped(label)}", *_lines(meaning))


def _prose(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            yield ".PP"
        yield from _lines(paragraph)


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
