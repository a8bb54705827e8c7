"""A file to start from: every setting with its default, as a comment."""

from __future__ import annotations

import json
from typing import Any

from edgecron.formats.config_settings import SECTIONS, SETTINGS, Setting

_HEAD = """\
# Settings of edgecron. A flag comes before a variable EDGECRON_SECTION_KEY, that before a user's
# file, that before the system's file, that before the default. `edgecron config show` says where
# each value comes from. Below, every line is the default: take away the # and change it.
"""
_SAMPLES = {
    "database": "/srv/edgecron/edgecron.db",
    "url": "http://pi:8745",
    "token_file": "~/.config/edgecron/token",
    "cgroup": "/sys/fs/cgroup/edgecron",
    "limits.max_running": 8,
    "limits.burst": 10,
    "defaults.grace": "24h",
    "defaults.max_running": 1,
    "defaults.env_file": "~/.config/edgecron/job.env",
    "defaults.cwd": "~",
}


def example_text() -> str:
    """The text of a file in which nothing is set yet."""
    parts = [_HEAD]
    for section, words in SECTIONS.items():
        lines = [f"# {words[:1].upper()}{words[1:]}"]
        lines += [f"[{section}]"] if section else []
        lines += [_line(setting) for setting in SETTINGS.values() if setting.section == section]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def toml_text(value: Any) -> str:
    """A text, number or array as TOML writes it."""
    # Arrays of texts, texts and numbers are the same in both.
    return json.dumps(value, ensure_ascii=False)


def _line(setting: Setting) -> str:
    value, words = setting.default, setting.help
    if value is None:
        value = _SAMPLES.get(setting.key, "none")
        if value != "none":
            words += f"; unless set: {setting.absent}"
    return f"# {setting.name} = {toml_text(value)}".ljust(36) + f"  # {words}"
