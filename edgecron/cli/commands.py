"""The table of commands, in the order of help, and what help and the manual page share."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from edgecron.base.values import NamedTuple


class Command(NamedTuple):
    """A command: its module in `edgecron.cli`, its summary and its group in help."""

    module: str
    summary: str
    group: str


COMMANDS: dict[str, Command] = {
    "add": Command("add", "make a schedule", "Schedules"),
    "edit": Command("edit", "change a schedule", "Schedules"),
    "rm": Command("rm", "remove schedules", "Schedules"),
    "undo": Command("undo", "restore what was removed last", "Schedules"),
    "list": Command("list_", "all schedules and how they do", "Schedules"),
    "show": Command("show", "all about one schedule", "Schedules"),
    "pause": Command("pause", "hold a schedule", "Schedules"),
    "resume": Command("resume", "let a paused schedule fire again", "Schedules"),
    "reschedule": Command("reschedule", "move the next run to another time", "Schedules"),
    "apply": Command("apply", "make schedules as a TOML file says", "Schedules"),
    "export": Command("export", "write schedules as a TOML file", "Schedules"),
    "import": Command("import_", "take over a crontab", "Schedules"),
    "next": Command("next_", "what runs next", "Runs"),
    "run": Command("run_", "run a schedule now", "Runs"),
    "backfill": Command("backfill", "run what was missed in a range of the past", "Runs"),
    "history": Command("history", "what has run", "Runs"),
    "logs": Command("logs", "what a run printed", "Runs"),
    "why": Command("why", "why it ran, did not run, or will not run", "Runs"),
    "cancel": Command("cancel", "end a run, or withdraw one that waits", "Runs"),
    "daemon": Command("daemon", "the engine, in the foreground", "Engine"),
    "service": Command("service", "run it always: from boot on, or from login on", "Engine"),
    "tui": Command("tui", "the dashboard: what will happen and what happened, live", "Engine"),
    "mcp": Command("mcp_", "tools for AI assistants, on stdin and stdout", "Engine"),
    "status": Command("status", "engines alive, runs in progress", "Engine"),
    "stats": Command("stats", "how it goes: runs, failures, how long and how late", "Engine"),
    "metrics": Command("metrics", "metrics for Prometheus, as text", "Engine"),
    "doctor": Command("doctor", "what is wrong, and what to do about it", "Engine"),
    "backup": Command("backup", "a safe copy of the database, while it is in use", "Engine"),
    "restore": Command("restore", "put a backup in the place of the database", "Engine"),
    "prune": Command("prune", "remove what is beyond the retention", "Engine"),
    "config": Command("config_", "settings, and where each comes from", "Engine"),
    "check": Command("check", "a trigger in plain words, with its next times", "Help"),
    "completion": Command("completion", "complete words in bash, zsh or fish", "Help"),
    "self": Command("self_", "this program: where it lies, and how it goes", "Help"),
    "demo": Command("demo", "see it work, in a throw-away database", "Help"),
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
    "uninstall": "self", "systemd": "service", "install": "service",
}  # fmt: skip


USAGE = "edgecron [--db PATH] [--json] [--color WHEN] [--config PATH] COMMAND ..."
EVERYDAY = """\
edgecron add backup --cron "0 2 * * *" -- tar czf /backup/home.tgz /home/me
edgecron daemon                 run what is due, in the foreground
edgecron                        the dashboard, on a terminal
edgecron list                   all schedules, what comes next, how they do
edgecron show backup            all about one, and why it runs or does not
edgecron run backup --wait      run it now, and see what it prints
edgecron history backup         what became of its runs
edgecron logs -f backup         what a run prints, as it comes
edgecron cancel 41              end run 41
edgecron edit backup --cron "30 3 * * *"
edgecron pause backup           hold it; resume lets it go on
edgecron rm backup              remove it; its history stays
edgecron undo backup            restore it
edgecron check "30 2 * * 1-5"   a cron text in plain words
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
