"""Move a database from a file to a server, or back."""

from __future__ import annotations

from collections.abc import Mapping

from edgecron.base.errors import Conflict, InvalidInput
from edgecron.base.values import NamedTuple
from edgecron.client import Client
from edgecron.store.sql.transfer import Progress, TableContent, copy_all


class Migrated(NamedTuple):
    """A copied database: the places of the original and the copy, and the content of each table."""

    source: str
    target: str
    tables: Mapping[str, TableContent]


def migrate(source: Client, target: Client, *, on_progress: Progress) -> Migrated:
    """Copy schedules, history and output to an empty database, and compare both.

    The source stays as it is, but the ends of runs whose engine has died are recorded. Raises
    Conflict while an engine or a run is active, if the target has schedules or runs, or if the copy
    differs: then nothing is copied.
    """
    if source.location == target.location:
        raise InvalidInput(
            f"--from and --to are both {source.place}", hint="name another database with --to"
        )
    for client in (source, target):
        _refuse_active(client)
    tables = copy_all(source.store, target.store, on_progress=on_progress)
    return Migrated(source.place, target.place, tables)


def _refuse_active(client: Client) -> None:
    """Raise Conflict if an engine or a run of a database is active."""
    for engine in client.engines():
        if engine.is_alive:
            where = f" on {engine.info.host}" if engine.info.host else ""
            raise Conflict(
                f"engine pid {engine.info.pid}{where} is running on {client.place}",
                hint="stop it first, for example: systemctl stop edgecron",
            )
    client.take_over()
    running = client.store.find_running()
    if running:
        raise Conflict(
            f"run {running[0].execution_id} of {running[0].schedule!r} is still running on"
            f" {client.place}",
            hint=f"wait for its end, or end it: edgecron cancel {running[0].execution_id}",
        )
