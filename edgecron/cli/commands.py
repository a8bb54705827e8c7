"""The table of commands, in the order of help; the global options, and which commands use them.

Global options can stand anywhere before `--`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

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


COMMANDS: dict[str, Command] = {
    "add": Command(
        "add",
        "Add a schedule",
        "Schedules",
        "edit, check; topics triggers, policies, retries, jobs",
    ),
    "edit": Command(
        "edit", "Change a schedule", "Schedules", "show, undo; topics triggers, policies, retries"
    ),
    "rm": Command("rm", "Remove schedules", "Schedules", "undo, pause"),
    "undo": Command("undo", "Undo changes of schedules", "Schedules", "show, rm, edit"),
    "list": Command(
        "list_", "List schedules, their next and last runs", "Schedules", "show, next, stats"
    ),
    "show": Command("show", "Show one schedule or one run", "Schedules", "why, history, list"),
    "env": Command(
        "env_",
        "Show and compare the environment of a job",
        "Schedules",
        "show, run; topics environment, secrets",
    ),
    "pause": Command("pause", "Pause schedules", "Schedules", "resume, reschedule"),
    "resume": Command("resume", "Resume paused schedules", "Schedules", "pause, run"),
    "reschedule": Command(
        "reschedule", "Move the next run to another time", "Schedules", "next, pause, run"
    ),
    "apply": Command(
        "apply",
        "Create and change schedules from a TOML file",
        "Schedules",
        "export, edit; topic toml",
    ),
    "export": Command(
        "export", "Write schedules as a TOML file", "Schedules", "apply, backup; topic toml"
    ),
    "import": Command(
        "import_", "Import a crontab", "Schedules", "export, apply; topics cron, anacron"
    ),
    "scan": Command(
        "scan",
        "List schedules of cron, systemd and launchd",
        "Schedules",
        "adopt, import; topics moving, cron, systemd",
    ),
    "adopt": Command(
        "adopt",
        "Move schedules of cron and systemd to edgecron",
        "Schedules",
        "scan, import; topics moving, recovery",
    ),
    "next": Command("next_", "List the next runs", "Runs", "simulate, list, check, reschedule"),
    "simulate": Command(
        "simulate", "Show what schedules would do", "Runs", "next, check, stats; topic toml"
    ),
    "run": Command(
        "run_", "Run a schedule now", "Runs", "logs, history, cancel; topics jobs, environment"
    ),
    "backfill": Command(
        "backfill", "Run missed times of the past", "Runs", "history, why, run; topic policies"
    ),
    "history": Command("history", "List past and skipped runs", "Runs", "show, logs, why, stats"),
    "logs": Command("logs", "Print the output of a run", "Runs", "history, show, run"),
    "why": Command(
        "why", "Explain why a schedule ran or did not", "Runs", "show, history, next; topic clock"
    ),
    "cancel": Command("cancel", "Cancel queued and running runs", "Runs", "pause, history"),
    "daemon": Command(
        "daemon",
        "Run the engine in the foreground",
        "Engine",
        "service, status, config; topics recovery, http, scripts",
    ),
    "service": Command(
        "service", "Install the engine as a service", "Engine", "daemon, status; topic systemd"
    ),
    "tui": Command("tui", "Open the dashboard", "Engine", "status, list; topic remote"),
    "mcp": Command("mcp_", "Serve tools for AI assistants", "Engine", "topic assistants"),
    "status": Command("status", "Show engines and active runs", "Engine", "doctor, why, stats"),
    "notices": Command(
        "notices",
        "List notices and whether they were sent",
        "Engine",
        "notify, history, doctor; topic alerts",
    ),
    "notify": Command(
        "notify", "List and test rules for notices", "Engine", "notices, config; topic alerts"
    ),
    "stats": Command(
        "stats", "Show counts, durations and delays of runs", "Engine", "history, metrics"
    ),
    "metrics": Command(
        "metrics", "Print metrics for Prometheus", "Engine", "stats; topic monitoring"
    ),
    "doctor": Command(
        "doctor",
        "Find problems and explain how to fix them",
        "Engine",
        "status, why; topics recovery, damage, clock",
    ),
    "backup": Command(
        "backup", "Copy the database while it is in use", "Engine", "restore, export; topic backups"
    ),
    "restore": Command(
        "restore", "Replace the database with a backup", "Engine", "backup; topics backups, damage"
    ),
    "migrate": Command(
        "migrate", "Copy the database to another store", "Engine", "backup; topic backups"
    ),
    "prune": Command(
        "prune", "Remove old runs and output", "Engine", "config, backup; topic backups"
    ),
    "config": Command("config_", "Show and check settings", "Engine", "topic settings"),
    "check": Command(
        "check",
        "Explain a trigger and list its next times",
        "Help",
        "add, next; topics triggers, syntax",
    ),
    "completion": Command("completion", "Print a completion script for your shell", "Help", "help"),
    "self": Command("self_", "Show or remove this program", "Help", "config"),
    "demo": Command("demo", "Show edgecron with a temporary database", "Help", "tui, add"),
}
# They work with the database of this machine only.
LOCAL_COMMANDS = frozenset({
    "adopt", "backup", "daemon", "demo", "doctor", "env", "migrate", "notify", "prune",
    "restore", "service",
})  # fmt: skip
# They use no database.
WITHOUT_DATABASE = frozenset({"check", "completion", "demo", "scan", "self"})
# They print no JSON.
WITHOUT_JSON = frozenset({"mcp", "tui"})
# They change or write something, and confirm it; with --quiet they print only errors and data.
CONFIRMING = frozenset({
    "add", "adopt", "apply", "backfill", "backup", "cancel", "config", "edit", "export", "import",
    "metrics", "migrate", "pause", "prune", "reschedule", "restore", "resume", "rm", "run", "self",
    "service", "undo",
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

# What people say instead, because other programs call it so.
OTHER_WORDS = {
    "remove": "rm", "delete": "rm", "del": "rm", "ls": "list", "log": "logs", "output": "logs",
    "start": "daemon", "serve": "daemon", "engine": "daemon", "create": "add", "new": "add",
    "change": "edit", "stop": "pause", "unpause": "resume", "trigger": "run", "info": "show",
    "dump": "backup", "save": "backup", "recover": "restore", "explain": "why", "unremove": "undo",
    "undelete": "undo", "restart": "run", "rerun": "run",
    "postpone": "reschedule", "defer": "reschedule", "settings": "config", "kill": "cancel",
    "abort": "cancel", "enable": "resume", "disable": "pause", "suspend": "pause", "tail": "logs",
    "runs": "history", "jobs": "list", "ps": "status", "top": "status", "rename": "edit",
    "validate": "check", "prometheus": "metrics", "load": "apply", "version": "--version",
    "uninstall": "self", "systemd": "service", "install": "service", "dashboard": "tui",
    "changes": "undo", "revisions": "undo", "statistics": "stats", "trend": "stats",
}  # fmt: skip


USAGE = "edgecron [global options] COMMAND ..."
EVERYDAY = """\
edgecron add nightly --cron "0 2 * * *" -- tar czf /backup/home.tgz /home/me
edgecron daemon                 run due schedules, in the foreground
edgecron                        open the dashboard, on a terminal
edgecron list                   list schedules, their next and last runs
edgecron show nightly           show one schedule, and why it runs or not
edgecron run nightly --wait     run it now, and see its output
edgecron history nightly        list its past runs
edgecron logs -f nightly        follow its output
edgecron cancel 41              cancel run 41
edgecron edit nightly --cron "30 3 * * *"
edgecron pause nightly          pause it; resume continues it
edgecron rm nightly             remove it; its history stays
edgecron undo nightly           restore it
edgecron check "30 2 * * 1-5"   explain a cron text
crontab -l | edgecron import crontab -"""
EXIT_CODES = {
    0: "ok",
    1: "failed",
    2: "bad usage or input",
    3: "no such thing",
    4: "already there",
    5: "database unusable",
}


def load_command(name: str) -> ModuleType:
    """Import the module of a command: only the command that runs costs a start its imports."""
    return import_module(f"edgecron.cli.{COMMANDS[name].module}")


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
