"""Refusals: what an error of the server means to edgecron."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg.conninfo import conninfo_to_dict

from edgecron.base.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseFull,
    DatabaseUnusable,
    EdgecronError,
    InvalidInput,
    LeaseLost,
    NotFound,
    QueryInterrupted,
    SchemaTooNew,
    Unreadable,
)
from edgecron.base.paths import read_location

# The first match says what an error of the server means: its code, or the first letters of it.
_Make = Callable[[str, str], EdgecronError]
_MEANINGS: tuple[tuple[str, _Make], ...] = (
    ("EC001", lambda place, why: LeaseLost(f"database {place}: {why}")),
    (
        "55P03 40",
        lambda place, _: DatabaseBusy(
            f"database {place} is locked by another process",
            hint="try again in a moment; if it lasts, see pg_stat_activity and pg_locks",
        ),
    ),
    ("57014", lambda place, _: QueryInterrupted(f"a query of database {place} was interrupted")),
    (
        "53100",
        lambda place, _: DatabaseFull(
            f"no space left to write database {place}", hint="free some disk space on the server"
        ),
    ),
    (
        "42501",
        lambda place, why: DatabaseUnusable(
            f"database {place} refuses this role ({why})",
            hint="to let the role create the tables: GRANT CREATE ON DATABASE NAME TO ROLE"
            if "for database" in why
            else "grant the role its rights on the schema edgecron",
        ),
    ),
    (
        "25006",
        lambda place, _: DatabaseUnusable(
            f"database {place} is read-only", hint="name the primary server, not a standby"
        ),
    ),
    (
        "42",
        lambda place, why: DatabaseDamaged(
            f"database {place} does not have the tables of this edgecron ({why})",
            hint="another program changed them; restore a backup",
        ),
    ),
    (
        "22 23",
        lambda place, why: Unreadable(
            f"database {place} has content that can't be read ({why})",
            hint="to see the damage: edgecron doctor --deep",
        ),
    ),
)


# The server's own words if a connection fails: psycopg has no code then.
_REFUSALS: tuple[tuple[str, _Make], ...] = (
    (
        'FATAL:  database "',
        lambda place, why: NotFound(
            f"database {place} does not exist ({why.rpartition('FATAL:')[2].strip()})",
            hint="check the URL, or create the database on the server: createdb NAME",
        ),
    ),
    (
        "password",
        lambda place, why: DatabaseUnusable(
            f"the server refuses the password of {place} ({why.rpartition('FATAL:')[2].strip()})",
            hint="give it in the URL, in PGPASSWORD or in ~/.pgpass",
        ),
    ),
)


def translate(error: psycopg.Error, place: str) -> EdgecronError:
    """The error of ours for one of the server, about the database of this place."""
    why = str(error).partition("\n")[0].strip()[:300]
    code = error.sqlstate or ""
    for starts, make in _MEANINGS:
        if any(code.startswith(start) for start in starts.split()):
            return make(place, why)
    for words, make in _REFUSALS:
        if words in why:
            return make(place, why)
    return DatabaseUnusable(
        f"database {place} can't be used ({why})",
        hint="check that the server runs and lets you in: pg_isready",
    )


def too_new(place: str, version: int, *, known: int) -> SchemaTooNew:
    """The error for a database of a newer edgecron."""
    return SchemaTooNew(
        f"database {place} is version {version}, this edgecron knows up to {known}",
        hint="upgrade edgecron",
    )


def place_of(url: str) -> str:
    """Where a database is, for people: its URL without the password."""
    place = str(read_location(url))
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise InvalidInput(  # Without the driver's words: the password can be in them.
            "the database URL can't be read",
            hint="write it so: postgresql://USER@HOST:PORT/DATABASE; in a password, write % as %25",
        ) from None
    return place
