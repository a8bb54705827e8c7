"""Engines of programs that come and go, as a database sees them: what they offer, and no more."""

from __future__ import annotations

import os

from edgecron.client import Client
from edgecron.store.sqlite.store import SqliteStore

NOW_MS = 1_795_200_000_000


def come(
    store: SqliteStore, queue: str, *offers: str, key: str | None = None, now_ms: int = NOW_MS
) -> int:
    """An engine of a program starts, which offers these functions; its id."""
    return store.register_engine(
        key=key or os.urandom(8).hex(),
        pid=1,
        boot_id="boot-1",
        queues=(queue, "command"),
        now_ms=now_ms,
        offers=frozenset(f"callable {name}" for name in offers),
    )


def let_vanish(client: Client, *names: str, ago_ms: int = 0) -> None:
    """The newest version of each one's program, which does not run now, has no such schedules; for
    so long."""
    everything = client.schedules()
    for queue in {one.spec.queue for one in everything if one.name in names}:
        kept = {one.offer for one in everything if one.spec.queue == queue} - {
            client.schedule(name).offer for name in names
        }
        now_ms = client.clock.now_ms() - ago_ms
        engine_id = client.store.register_engine(
            key=os.urandom(8).hex(),
            pid=1,
            boot_id="boot-1",
            queues=(queue,),
            now_ms=now_ms,
            offers=kept,
        )
        client.store.retire_engine(engine_id, now_ms=now_ms)
