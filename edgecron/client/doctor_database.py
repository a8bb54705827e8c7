"""Check that the file of a database is undamaged and can be written."""

from __future__ import annotations

from collections.abc import Callable

from edgecron.base.errors import DatabaseUnusable
from edgecron.client import Client
from edgecron.client.doctor_machine import Finding, problem, warning, well
from edgecron.store.sqlite.whole_file import (
    find_damage,
    find_damage_within,
    find_orphans,
    is_repairable,
    is_write_locked,
    orphan_words,
)

_LOCK_WAIT_S = 2.0  # engines hold the lock for less
_MIB = 1 << 20
SMALL_BYTES = 4 * _MIB  # a smaller database is read as a whole
MOMENT_MS = 25  # for the tables of a large database
LONG_LOG_BYTES = 64 * _MIB  # an engine moves its log into the database long before


def check_integrity(
    client: Client, *, is_deep: bool, command: Callable[[str], str]
) -> list[Finding]:
    """Check the file for damage; of a large one only a part, the most important tables first.

    `is_deep`: the whole file, and each index against its table. Raises NotFound or
    DatabaseUnusable if it can't be opened.
    """
    store, clock = client.store, client.clock
    unread: tuple[str, ...] = ()
    try:
        if is_deep or sum(client.database_sizes()) <= SMALL_BYTES:
            damage = find_damage(store, is_deep=is_deep)
        else:
            until_ms = clock.monotonic_ms() + MOMENT_MS
            damage, unread = find_damage_within(store, lambda: clock.monotonic_ms() > until_ms)
        orphans = {orphan_words(one): one for one in find_orphans(store.rows)} if damage else {}
    except DatabaseUnusable as error:
        # A page can't be read; the others may be fine.
        return [problem("integrity", error.message, hint=error.hint)]
    restore = "stop every engine, move the database away with its -wal, and restore a backup"
    repair = f"remove or complete only these rows: {command('doctor --repair')}"
    found = [
        problem(
            "integrity",
            words,
            hint=repair if words in orphans and is_repairable(orphans[words]) else restore,
        )
        for words in damage
    ]
    if unread and not found:
        words = "no damage found in the part that was read; to check these tables, use"
        return [well("integrity", f"{words} {command('doctor --deep')}: {', '.join(unread)}")]
    return found or [well("integrity", "no damage found")]


def check_access(client: Client) -> list[Finding]:
    """Check that the database can be locked for writing, and that its log does not grow."""
    path = client.path
    found = []
    if is_write_locked(client.path, wait_s=_LOCK_WAIT_S):
        found.append(
            warning(
                "database",
                f"{path} has been locked for writing for at least {_LOCK_WAIT_S:.0f} s:"
                " no run can start",
                hint=f"a stalled engine or another program holds it; to see which: fuser {path}",
            )
        )
    unmoved_bytes = client.store.unmoved_bytes
    if unmoved_bytes > LONG_LOG_BYTES:
        found.append(
            warning(
                "database",
                f"{unmoved_bytes / _MIB:,.0f} MiB of its log can't be moved into {path}, and the"
                " log grows: a program has an open read transaction",
                hint=f"end that program; to see which: fuser {path}",
            )
        )
    return found or [well("database", str(path))]
