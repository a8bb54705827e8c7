"""The table of verbs: in the order in which help shows them."""

from __future__ import annotations

from edgecron.base.values import NamedTuple


class Verb(NamedTuple):
    """A verb: the module under `edgecron.cli` that does it, and what it does in a few words."""

    module: str
    summary: str
    group: str


VERBS: dict[str, Verb] = {
    "add": Verb("add", "make a schedule", "Schedules"),
    "edit": Verb("edit", "change a schedule", "Schedules"),
    "rm": Verb("rm", "remove schedules", "Schedules"),
    "undo": Verb("undo", "restore what was removed last", "Schedules"),
    "list": Verb("list_", "all schedules and how they do", "Schedules"),
    "show": Verb("show", "all about one schedule", "Schedules"),
    "pause": Verb("pause", "hold a schedule", "Schedules"),
    "resume": Verb("resume", "let a paused schedule fire again", "Schedules"),
    "reschedule": Verb("reschedule", "move the next run to another time", "Schedules"),
    "apply": Verb("apply", "make schedules as a TOML file says", "Schedules"),
    "export": Verb("export", "write schedules as a TOML file", "Schedules"),
    "import": Verb("import_", "take over a crontab", "Schedules"),
    "next": Verb("next_", "what runs next", "Runs"),
    "run": Verb("run_", "run a schedule now", "Runs"),
    "backfill": Verb("backfill", "run what was missed in a range of the past", "Runs"),
    "history": Verb("history", "what has run", "Runs"),
    "logs": Verb("logs", "what a run printed", "Runs"),
    "why": Verb("why", "why it ran, did not run, or will not run", "Runs"),
    "cancel": Verb("cancel", "end a run, or withdraw one that waits", "Runs"),
    "daemon": Verb("daemon", "the engine, in the foreground", "Engine"),
    "service": Verb("service", "run it always: from boot on, or from login on", "Engine"),
    "tui": Verb("tui", "the dashboard: what will happen and what happened, live", "Engine"),
    "mcp": Verb("mcp_", "tools for AI assistants, on stdin and stdout", "Engine"),
    "status": Verb("status", "engines alive, runs in progress", "Engine"),
    "stats": Verb("stats", "how it goes: runs, failures, how long and how late", "Engine"),
    "metrics": Verb("metrics", "metrics for Prometheus, as text", "Engine"),
    "doctor": Verb("doctor", "what is wrong, and what to do about it", "Engine"),
    "backup": Verb("backup", "a safe copy of the database, while it is in use", "Engine"),
    "restore": Verb("restore", "put a backup in the place of the database", "Engine"),
    "prune": Verb("prune", "remove what is beyond the retention", "Engine"),
    "config": Verb("config_", "settings, and where each comes from", "Engine"),
    "check": Verb("check", "a trigger in plain words, with its next times", "Help"),
    "completion": Verb("completion", "complete words in bash, zsh or fish", "Help"),
    "self": Verb("self_", "this program: where it lies, and how it goes", "Help"),
    "demo": Verb("demo", "see it work, in a throw-away database", "Help"),
}

# What people say instead, because other programs call it so.
OTHER_WORDS = {
    "remove": "rm", "delete": "rm", "del": "rm", "ls": "list", "log": "logs", "output": "logs",
    "start": "daemon", "serve": "daemon", "engine": "daemon", "create": "add", "new": "add",
    "change": "edit", "stop": "pause", "unpause": "resume", "trigger": "run", "info": "show",
    "dump": "backup", "save": "backup", "recover": "restore", "explain": "why", "unremove": "undo",
    "undelete": "undo",
    "postpone": "reschedule", "defer": "reschedule", "settings": "config", "kill": "cancel",
    "abort": "cancel", "enable": "resume", "disable": "pause", "suspend": "pause", "tail": "logs",
    "runs": "history", "jobs": "list", "ps": "status", "top": "status", "rename": "edit",
    "validate": "check", "prometheus": "metrics", "load": "apply", "version": "--version",
    "uninstall": "self", "systemd": "service", "install": "service",
}  # fmt: skip
