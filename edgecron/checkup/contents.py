"""What the database holds: whether it is whole, can be written, and its schedules be read."""

from __future__ import annotations

from collections.abc import Callable

from edgecron.api import Client
from edgecron.checkup.finding import Finding, problem, warning, well
from edgecron.errors import DatabaseUnusable

_LOCK_WAIT_S = 2.0  # engines that write in turns leave it to each other sooner
_MIB = 1 << 20
LONG_LOG_BYTES = 64 * _MIB  # an engine moves its log into the database long before


def check_integrity(client: Client, *, is_deep: bool) -> list[Finding]:
    """Read the whole file; `is_deep`: and hold each index against its table.

    Raises NotFound or DatabaseUnusable where it can't be opened.
    """
    store = client.store
    try:
        damage = store.find_damage(is_deep=is_deep)
    except DatabaseUnusable as error:
        # A page that can't be read at all; what else there is may be well.
        return [problem("integrity", error.message, hint=error.hint)]
    hint = "stop every engine, move the database away with its -wal, and restore a backup"
    found = [problem("integrity", words, hint=hint) for words in damage]
    return found or [well("integrity", "no damage found")]


def check_access(client: Client) -> list[Finding]:
    """Whether whoever has something to write gets the chance to, and nobody reads without end."""
    path = client.path
    found = []
    if client.store.is_write_locked(wait_s=_LOCK_WAIT_S):
        found.append(
            warning(
                "database",
                f"{path} is locked for writing for {_LOCK_WAIT_S:.0f} s at least: nothing is"
                " started",
                hint=f"it is a stalled engine or another program; who has it open: fuser {path}",
            )
        )
    unmoved_bytes = client.store.find_unmoved_bytes()
    if unmoved_bytes > LONG_LOG_BYTES:
        found.append(
            warning(
                "database",
                f"{unmoved_bytes / _MIB:,.0f} MiB of its log can't be moved into {path}, and the"
                " log grows: a program has begun to read, and does not end that",
                hint=f"end that program; who has it open: fuser {path}",
            )
        )
    return found or [well("database", str(path))]


def check_schedules(client: Client, *, command: Callable[[str], str]) -> list[Finding]:
    """The schedules that can't be read, or do not fire because their triggers can't be."""
    schedules, unreadable = client.store.find_each_schedule()
    broken = [
        problem(
            "schedules",
            f"{schedule.name} is broken, and does not fire: {schedule.trigger_error}",
            hint=(
                f"give it another time or zone: {command(f'edit {schedule.name}')} --cron ..."
                " --tz ..."
            ),
        )
        for schedule in schedules
        if schedule.trigger_error is not None
    ]
    broken += [
        problem("schedules", f"number {number}: {error.message}", hint=error.hint)
        for number, error in unreadable
    ]
    return broken or [well("schedules", f"{len(schedules)}, all readable")]
