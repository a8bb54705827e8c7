"""The table of commands, in the order of help; the global options, and which commands use them.

Global options can stand anywhere before `--`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from edgecron.base.errors import UsageError
from edgecron.base.values import NamedTuple


class Command(NamedTuple):
    """A command: its module in `edgecron.cli`, its summary and its group in help.

    `see` names related commands and topics.
    """

    module: str
    summary: str
    group: str
    see: str


_GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Schedules": {
        "add": ("Add a schedule", "edit, check; topics triggers, policies, retries, jobs"),
        "edit": ("Change a schedule", "show, undo; topics triggers, policies, retries"),
        "rm": ("Remove schedules", "undo, pause"),
        "undo": ("Undo changes of schedules", "show, rm, edit"),
        "list": ("List schedules, their next and last runs", "show, next, stats"),
        "show": ("Show one schedule or one run", "why, history, list"),
        "env": (
            "Show and compare the environment of a job",
            "show, run; topics environment, secrets",
        ),
        "pause": ("Pause schedules", "resume, reschedule"),
        "resume": ("Resume paused schedules", "pause, run"),
        "reschedule": ("Move the next run to another time", "next, pause, run"),
        "apply": ("Create and change schedules from a TOML file", "export, edit; topic toml"),
        "export": ("Write schedules as a TOML file", "apply, backup; topic toml"),
        "import": ("Import a crontab", "export, apply; topics cron, anacron"),
        "scan": (
            "List schedules of cron, systemd and launchd",
            "adopt, import; topics moving, cron, systemd",
        ),
        "adopt": (
            "Move schedules of cron and systemd to edgecron",
            "scan, import; topics moving, recovery",
        ),
    },
    "Runs": {
        "next": ("List the next runs", "simulate, list, check, reschedule"),
        "simulate": ("Show what schedules would do", "next, check, stats; topic toml"),
        "run": ("Run a schedule now", "logs, history, cancel; topics jobs, environment"),
        "backfill": ("Run missed times of the past", "history, why, run; topic policies"),
        "history": ("List past and skipped runs", "show, logs, why, stats"),
        "logs": ("Print the output of a run", "history, show, run"),
        "why": ("Explain why a schedule ran or did not", "show, history, next; topic clock"),
        "cancel": ("Cancel queued and running runs", "pause, history"),
    },
    "Engine": {
        "daemon": (
            "Run the engine in the foreground",
            "service, status, config; topics recovery, http, scripts",
        ),
        "engine": (
            "List engines, drain and resume them, forget machines",
            "status, daemon; topic machines",
        ),
        "service": ("Install the engine as a service", "daemon, status; topic systemd"),
        "tui": ("Open the dashboard", "status, list; topic remote"),
        "mcp": ("Serve tools for AI assistants", "topic assistants"),
        "status": ("Show engines and active runs", "doctor, why, stats"),
        "notices": (
            "List notices and whether they were sent",
            "notify, history, doctor; topic alerts",
        ),
        "notify": ("List and test rules for notices", "notices, config; topic alerts"),
        "stats": ("Show counts, durations and delays of runs", "history, metrics"),
        "metrics": ("Print metrics for Prometheus", "stats; topic monitoring"),
        "doctor": (
            "Find problems and explain how to fix them",
            "status, why; topics recovery, damage, clock",
        ),
        "backup": ("Copy the database while it is in use", "restore, export; topic backups"),
        "restore": ("Replace the database with a backup", "backup; topics backups, damage"),
        "migrate": ("Copy the database to another store", "backup; topic backups"),
        "prune": ("Remove old runs and output", "config, backup; topic backups"),
        "config": ("Show and check settings", "topic settings"),
    },
    "Help": {
        "check": (
            "Explain a trigger and list its next times",
            "add, next; topics triggers, syntax",
        ),
        "completion": ("Print a completion script for your shell", "help"),
        "self": ("Show or remove this program", "config"),
        "demo": ("Show edgecron with a temporary database", "tui, add"),
    },
}
# Modules that would hide a name of Python or of this room end with an underscore.
_UNDERSCORED = ("config", "import", "list", "mcp", "run", "self")
_MODULES = {
    **{name: f"{name}_" for name in _UNDERSCORED},
    **dict.fromkeys(("resume", "reschedule", "cancel"), "pause"),
    "undo": "rm",
    "scan": "adopt",
    "why": "history",
    "backfill": "run_",
    "env": "show",
    "notify": "notices",
    "metrics": "stats",
    "next": "list_",
    **dict.fromkeys(("restore", "migrate"), "backup"),
}
COMMANDS = {
    name: Command(_MODULES.get(name, name), summary, group, see)
    for group, commands in _GROUPS.items()
    for name, (summary, see) in commands.items()
}
# They work with the database of this machine only.
LOCAL_COMMANDS = frozenset({
    "adopt", "backup", "daemon", "demo", "doctor", "engine", "env", "migrate", "notify", "prune",
    "restore", "service",
})  # fmt: skip
# They only read the database (of `engine`, the list), so they also work on a full disk.
READING = frozenset({
    "backup", "doctor", "engine", "env", "export", "history", "list", "logs", "metrics", "next",
    "notices", "show", "simulate", "stats", "status", "why",
})  # fmt: skip
# They use no database.
WITHOUT_DATABASE = frozenset({"check", "completion", "demo", "scan", "self"})
# They print no JSON.
WITHOUT_JSON = frozenset({"mcp", "tui"})
# They change or write something, and confirm it; with --quiet they print only errors and data.
CONFIRMING = frozenset({
    "add", "adopt", "apply", "backfill", "backup", "cancel", "config", "edit", "engine", "export",
    "import", "metrics", "migrate", "pause", "prune", "reschedule", "restore", "resume", "rm",
    "run", "self", "service", "undo",
})  # fmt: skip

COLORS = ("auto", "always", "never")
# Global options with a value, and where the session keeps it.
_WITH_VALUE = {
    "--db": "database",
    "--url": "url",
    "--token-file": "token_file",
    "--color": "color",
    "--config": "config_path",
}
_FLAGS = {"--json": "is_json", "--quiet": "is_quiet", "-q": "is_quiet"}
GLOBALS = (*_WITH_VALUE, *_FLAGS, "--help", "--version", "-V")
_VALUES = {
    "--db": "--db ./edgecron.db",
    "--url": "--url http://pi:8745",
    "--token-file": "--token-file ./token",
    "--color": "--color never",
    "--config": "--config none",
}

USAGE = "edgecron [global options] COMMAND ..."
EXIT_CODES = {
    0: "ok",
    1: "failed",
    2: "bad usage or input",
    3: "no such thing",
    4: "already there",
    5: "database unusable",
}


def load_command(name: str) -> ModuleType | type[Any]:
    """Import a command's module: only the command that runs costs a start its imports.

    A module of several commands has a class for each.
    """
    module = import_module(f"edgecron.cli.{COMMANDS[name].module}")
    return getattr(module, f"{name.capitalize()}Command", module)


def globals_of(command: str) -> list[str]:
    """Return the global options that have an effect with a command."""
    found = ["--db", "--url", "--token-file", "--json", "--quiet", "--color", "--config"]
    unused = set()
    if command in WITHOUT_DATABASE:
        unused |= {"--db", "--url", "--token-file"}
    if command in LOCAL_COMMANDS:
        unused |= {"--url"} if command in ("daemon", "service") else {"--url", "--token-file"}
    if command in WITHOUT_JSON:
        unused.add("--json")
    if command not in CONFIRMING:
        unused.add("--quiet")
    return [option for option in found if option not in unused]


def refuse_unused(command: str, given: list[str]) -> None:
    """Raise UsageError for a global option that the command would ignore."""
    used = globals_of(command)
    if command in LOCAL_COMMANDS - WITHOUT_DATABASE:
        used.append("--url")  # The command says why it needs the machine of the database.
        used += ["--token-file"] if "--url" in given else []
    for option in given:
        if option not in used:
            hint = f"remove it; see: edgecron {command} --help"
            if option == "--json" and command == "tui":
                hint = "edgecron status --json"
            raise UsageError(f"edgecron {command} does not use {option}", hint=hint)


def take_globals(session: object, argv: list[str]) -> tuple[list[str], list[str]]:
    """Move global options into the attributes of the session, wherever they stand.

    Returns the other words, and the long names of the options that were given.
    """
    rest: list[str] = []
    given: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if word in _FLAGS:
            setattr(session, _FLAGS[word], True)
            given.append("--quiet" if word == "-q" else word)
        elif name in _WITH_VALUE:
            text = value if equals else next(words, None)
            if text is None or text == "":
                raise UsageError(f"{name} needs a value", hint=f"for example: {_VALUES[name]}")
            if name == "--color" and text not in COLORS:
                raise UsageError(
                    f"--color is {text!r}, expected auto, always or never",
                    hint=f"for example: {_VALUES[name]}",
                )
            setattr(session, _WITH_VALUE[name], text)
            given.append(name)
        else:
            rest.append(word)
    return rest, given
