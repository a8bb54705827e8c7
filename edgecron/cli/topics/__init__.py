"""Topics of help: longer texts on one subject each, read when they are asked for.

A topic is NAME.md in this folder: plain Markdown, of which `page.py` knows headings, paragraphs,
lists, tables and fenced code. All that it shows is run by `tests/topics`; what a fence is called
says how: console, sh, toml, python, crontab.
"""

from __future__ import annotations

import os
from typing import Any

# In the order in which help shows them.
TOPICS: dict[str, str] = {
    "triggers": "when a schedule fires: texts, zones, clock changes, jitter",
    "policies": "late, overlapping, failing, waiting, too many: what then",
    "recovery": "kill -9, power cuts, full disks, wrong clocks: what happens",
    "security": "files, users, what a job sees, who may ask a server",
    "flash": "SD cards: what is written, how often, and how to write less",
    "cron": "moving from cron, and from anacron",
    "systemd": "moving from systemd timers",
    "apscheduler": "moving from APScheduler, and from Celery beat",
}

# What people say instead.
OTHER_TOPICS = {
    "crontab": "cron", "anacron": "cron", "timers": "systemd", "timer": "systemd",
    "celery": "apscheduler", "time": "triggers", "times": "triggers", "when": "triggers",
    "dst": "triggers", "timezone": "triggers", "timezones": "triggers", "zones": "triggers",
    "jitter": "triggers", "policy": "policies", "catch-up": "policies",
    "overlap": "policies", "retries": "policies", "retry": "policies", "timeout": "policies",
    "needs": "policies", "groups": "policies", "limits": "policies", "retention": "flash",
    "crash": "recovery", "clock": "recovery", "corrupt": "recovery", "users": "security",
    "environment": "security", "env": "security", "secrets": "security", "sdcard": "flash",
    "wear": "flash", "permissions": "security",
}  # fmt: skip


def read_topic(name: str) -> str:
    """The Markdown of a topic."""
    # As the migrations are read: `importlib.resources` takes longer to load than all the rest.
    assert __spec__ is not None
    loader: Any = __spec__.loader
    content: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), f"{name}.md"))
    return content.decode("utf-8")
