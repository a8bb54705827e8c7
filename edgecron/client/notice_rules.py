"""Record in the database which rules for notices its configurations have.

From then on, what happens is recorded for them, by whichever program writes it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidConfig
from edgecron.formats.config import Config, load
from edgecron.formats.notify_rules import ReadRule, mark_of
from edgecron.store.sqlite.notices import find_rules, write_rules

if TYPE_CHECKING:
    from edgecron.client.local import Client


def sync_config(client: Client, config: Config) -> dict[str, ReadRule]:
    """Record the rules of the files of a configuration; the rules by name.

    A rule of the user's file hides one of the same name in the system's file.
    """
    found = config.notify_rules()
    for file in config.files:
        _record(client, found, source=str(file.path))
    return found


def load_recorded(client: Client) -> dict[str, ReadRule]:
    """Read the rules of all files that the database knows, and record what has changed in them.

    The rules of a file that is gone are forgotten. If a file can't be read, its rules stay recorded
    and their notices wait.
    """
    found: dict[str, ReadRule] = {}
    for source in sorted({str(one["source"]) for one in find_rules(client.store)}):
        rules: dict[str, ReadRule] = {}
        if os.path.lexists(source):
            try:
                rules = load(source).notify_rules()
            except InvalidConfig:
                continue
        _record(client, rules, source=source)
        found |= {name: one for name, one in rules.items() if one.rule.source == source}
    return found


def _record(client: Client, rules: dict[str, ReadRule], *, source: str) -> None:
    marks = [mark_of(one.rule) for one in rules.values() if one.rule.source == source]
    if write_rules(client.store, marks, source=source):
        client.ring()
