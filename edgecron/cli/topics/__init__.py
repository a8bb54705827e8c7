"""Topics of help: longer texts on one subject each.

A topic is NAME.md in this folder. `tests/test_examples.py` runs all code that topics show; the word
after a fence says how: console, sh, toml, python, crontab.
"""

from __future__ import annotations

import re

from edgecron.cli.files import read_text

# In the order in which help shows them.
TOPIC_GROUPS: dict[str, dict[str, str]] = {
    "first steps": {
        "quickstart": "from nothing to a first schedule in five minutes",
        "faq": "questions that people who know cron ask",
        "install": "install, upgrade and remove edgecron",
        "limits": "the largest sizes and counts, and what edgecron does not do",
    },
    "schedules and jobs": {
        "triggers": "when a schedule fires: cron times, intervals, jitter",
        "syntax": "how to write cron texts, times and durations",
        "zones": "time zones, and when the clocks change",
        "policies": "late, overlapping, waiting and too many runs",
        "conditions": "let a run wait for power, network or another schedule",
        "windows": "run only at night, on workdays, or not on holidays",
        "retries": "runs that fail, take too long or are interrupted",
        "jobs": "how commands run, their output and result",
        "environment": "the variables that a job gets",
        "secrets": "passwords and tokens for jobs, and how to remove them",
    },
    "when something goes wrong": {
        "monitoring": "notice when something is wrong",
        "alerts": "get a mail, chat message, popup or ping if a run fails",
        "channels": "how notices reach you: a program, mail, a webhook, a ping",
        "recovery": "after kill -9, power cuts, full disks and upgrades",
        "damage": "a damaged, deleted or copied database",
        "clock": "a clock that was set, or is wrong",
        "backups": "copies, restore, and how long history is kept",
    },
    "configuration and files": {
        "settings": "the configuration, and where files are",
        "toml": "schedules in a file, for git and other machines",
        "templates": "keys that several schedules of a file share",
        "scripts": "JSON, exit codes and the engine's log, for programs",
        "sql": "read and change schedules with any SQL shell",
        "flash": "write less to SD cards and other flash memory",
        "security": "files, commands, other users, the service",
    },
    "Python programs": {
        "embedding": "schedules within a Python program",
        "tasks": "call functions later, once, or from another process",
        "dynamic": "schedules that a program adds while it runs",
        "functions": "what a Python function gets",
        "failures": "what happens if a Python function raises",
        "middleware": "code around every Python function",
        "tracing": "jobs in OpenTelemetry and Sentry",
        "testing": "tests of programs with schedules",
        "asyncio": "jobs in bots and other programs with coroutines",
        "notebooks": "schedules in Jupyter notebooks",
        "web": "jobs in FastAPI, Flask and other web servers",
        "django": "jobs of a Django site",
        "workers": "several processes of one program, rollouts and forks",
        "declaring": "every option of a Scheduler, a job and an added command",
        "reference": "every call of the Python interface",
    },
    "other programs and machines": {
        "http": "the HTTP API, for programs in any language",
        "rest": "make, change and start schedules over HTTP",
        "remote": "the command line and the dashboard of another machine",
        "postgres": "a database on a PostgreSQL server",
        "access": "who can use the HTTP server, the browser dashboard and MCP",
        "assistants": "tools for AI, over the Model Context Protocol",
    },
    "moving from other schedulers": {
        "compared": "edgecron and other Python schedulers",
        "moving": "find the jobs of cron and systemd, and move them to edgecron",
        "cron": "moving from cron",
        "anacron": "moving from anacron",
        "systemd": "moving from systemd timers",
        "apscheduler": "moving from APScheduler",
        "celery": "moving from Celery beat",
        "huey": "moving from huey",
        "rq": "moving from rq-scheduler",
    },
}
TOPICS = {name: summary for group in TOPIC_GROUPS.values() for name, summary in group.items()}

# What people say instead.
OTHER_TOPICS = {
    "tutorial": "quickstart", "intro": "quickstart", "questions": "faq",
    "upgrade": "install", "pipx": "install", "limit": "limits",
    "crontab": "cron", "timers": "systemd", "timer": "systemd",
    "beat": "celery", "alternatives": "compared", "dramatiq": "compared",
    "procrastinate": "compared", "rq-scheduler": "rq", "time": "triggers", "times": "triggers",
    "when": "triggers", "dst": "zones", "timezone": "zones", "timezones": "zones",
    "jitter": "triggers", "policy": "policies", "catch-up": "policies",
    "overlap": "policies", "retry": "retries", "timeout": "retries", "failure": "retries",
    "interrupted": "retries", "expression": "syntax", "duration": "syntax", "durations": "syntax",
    "between": "windows", "window": "windows", "except": "windows", "holidays": "windows",
    "night": "windows", "weekend": "windows",
    "needs": "conditions", "condition": "conditions", "battery": "conditions",
    "network": "conditions", "laptop": "conditions", "groups": "policies", "job": "jobs",
    "command": "jobs", "commands": "jobs", "result": "jobs",
    "variables": "environment", "path": "environment",
    "crash": "recovery", "power": "recovery", "corrupt": "damage", "damaged": "damage",
    "copy": "damage",
    "retention": "backups", "copies": "backups", "users": "security", "user": "security",
    "token": "access", "tokens": "access", "permissions": "security",
    "sdcard": "flash", "wear": "flash", "sd": "flash",
    "configuration": "settings", "files": "settings", "paths": "settings",
    "exit-codes": "scripts", "json": "scripts", "yaml": "toml", "git": "toml",
    "exit-code": "scripts", "log-format": "scripts", "health": "monitoring",
    "mail": "alerts", "mailto": "alerts", "email": "alerts", "webhook": "channels",
    "notifications": "alerts", "notification": "alerts", "slack": "channels",
    "discord": "channels", "smtp": "channels", "ping": "channels", "heartbeat": "channels",
    "hmac": "channels", "outbox": "alerts",
    "docker": "install", "container": "install", "macos": "install",
    "shell": "jobs", "missed": "policies", "late": "policies", "group": "policies",
    "priority": "policies", "state": "functions",
    "sqlite": "sql", "views": "sql",
    "python": "embedding", "api": "reference", "embed": "embedding", "fastapi": "web",
    "flask": "web", "gunicorn": "web", "await": "asyncio", "bot": "asyncio", "bots": "asyncio",
    "coroutines": "asyncio", "notebook": "notebooks", "jupyter": "notebooks",
    "ipython": "notebooks", "function": "functions",
    "context": "functions", "tests": "testing", "pytest": "testing", "exceptions": "failures",
    "opentelemetry": "tracing", "sentry": "tracing", "spans": "tracing",
    "multiprocessing": "workers", "fork": "workers", "processes": "workers", "gevent": "workers",
    "rollout": "workers", "curl": "http", "template": "templates",
    "postgresql": "postgres", "psycopg": "postgres", "pgbouncer": "postgres", "lease": "postgres",
    "url": "remote", "ssh": "remote", "ai": "assistants", "claude": "assistants",
}  # fmt: skip


def read_topic(name: str) -> str:
    """Return the Markdown of a topic."""
    return read_text(f"topics/{name}.md")


_WIDEST = 96  # columns of prose: longer lines are hard to read
_FENCE = re.compile(r"^```.*\n((?:.*\n)*?)```$", re.MULTILINE)
# Bold is readable on dark and on light terminals: manual pages mark names and headings by it, too.
_STYLES = {
    "markdown.table.border": "none",
    **dict.fromkeys(
        ("markdown.h1", "markdown.h2", "markdown.h3", "markdown.table.header", "markdown.code"),
        "bold",
    ),
}


def format_topic(markdown: str, *, width: int, is_colored: bool) -> str:
    """Format a topic for a screen; code keeps its lines, whatever the width."""
    # Only for topics: these load as long as all the rest of the command line.
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    console = Console(
        width=max(min(width, _WIDEST), 1),
        force_terminal=is_colored,
        color_system="standard" if is_colored else None,
        theme=Theme(_STYLES),
        legacy_windows=False,
        _environ={},
    )
    blocks = []
    for number, part in enumerate(_FENCE.split(markdown)):
        if number % 2:
            blocks.append("\n".join(f"    {line}".rstrip() for line in part.splitlines()))
            continue
        with console.capture() as shown:
            console.print(Markdown(part, hyperlinks=False))
        lines = [line.rstrip() for line in shown.get().splitlines()]
        blocks.append("\n".join(lines).strip("\n"))
    text = "\n\n".join(block for block in blocks if block)
    return re.sub(r"\n{3,}", "\n\n", text).lstrip()  # The first heading is centred.
