"""The store: the only place that knows SQL. `open_store` opens that of a database's file or server.

`protocol.Store` is what an engine asks of a store. `sql` has the statements, `sqlite` the file that
they run on, `postgres` a server that can run them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from edgecron.base.errors import NotSupported
from edgecron.base.paths import Location, ServerUrl

if TYPE_CHECKING:
    from edgecron.store.sql.connection import Opening
    from edgecron.store.sql.reads import Reads
    from edgecron.store.sql.writes import Writes


def open_store(location: Location, *, now_ms: int, **how: Unpack[Opening]) -> Writes:
    """Open a database for an engine or a client that writes, and bring it to our schema.

    Raises NotSupported without the driver of the server.
    """
    if isinstance(location, ServerUrl):
        return _open_server(location, now_ms, how)
    from edgecron.store.sqlite import store

    return store.open_store(location, now_ms=now_ms, **how)


def open_reads(location: Location, *, now_ms: int, **how: Unpack[Opening]) -> Reads:
    """As `open_store`, for a client that only reads: it loads no code that writes to a file."""
    if isinstance(location, ServerUrl):
        return _open_server(location, now_ms, how)
    from edgecron.store.sqlite.reading_store import ReadingStore, open_as

    return open_as(ReadingStore, location, now_ms=now_ms, **how)


def _open_server(location: ServerUrl, now_ms: int, how: Opening) -> Writes:
    # Only for a server: with a file, `list` starts 1 ms faster without these.
    from importlib.util import find_spec

    from edgecron.base.bundle import hint_for_extra

    if find_spec("psycopg") is None:
        raise NotSupported(
            f"database {location} needs psycopg, which is not installed",
            hint=hint_for_extra("postgres"),
        )
    from edgecron.store.postgres.store import open_store as open_server

    found = open_server(location.full, now_ms=now_ms, **how)
    return cast("Writes", found)
