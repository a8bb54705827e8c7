"""Values: what PostgreSQL and Python exchange, in the types that SQLite has.

Rows hold integers, floats, texts, bytes and None only: a truth is 0 or 1, JSON is its text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from psycopg.adapt import Buffer, Loader
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumper, TextLoader

from edgecron.store.sql.connection import Params

if TYPE_CHECKING:
    import psycopg


# The bytes of a row with its entries in indexes, measured over 12,000 short runs. A long output
# lies in pieces of 2,000 bytes in a table of its own.
SIZES = """SELECT sum(pg_total_relation_size(c.oid)), sum(CASE c.relname
        WHEN 'executions' THEN 300 * pg_stat_get_live_tuples(c.oid)
        WHEN 'outputs' THEN 300 * pg_stat_get_live_tuples(c.oid)
            + 2100 * pg_stat_get_live_tuples(c.reltoastrelid)
        ELSE pg_total_relation_size(c.oid) END)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = 'edgecron' AND c.relkind = 'r'"""


class _TruthDumper(Int8Dumper):
    def dump(self, obj: Any) -> bytes:
        return b"1" if obj else b"0"


class _TruthLoader(Loader):
    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class _NumberLoader(Loader):
    """Sums of integers, and decimal fractions, are both `numeric`."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return float(text) if "." in text else int(text)


def adapt(connection: psycopg.Connection[Any]) -> None:
    """Let a connection take and give the types of SQLite."""
    adapters = connection.adapters
    # One type for all sizes: a statement is prepared once, and finds our functions.
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(bool, _TruthDumper)
    adapters.register_dumper(str, StrDumper)
    adapters.register_loader("bool", _TruthLoader)
    adapters.register_loader("numeric", _NumberLoader)
    for name in ("json", "jsonb"):
        adapters.register_loader(name, TextLoader)


def as_json(value: object) -> str:
    """A collection of texts as a JSON array."""
    return json.dumps(sorted(cast("Iterable[str]", value)))


# Of the elements of an array. A truth is a number.
_KINDS = ((int, "bigint"), (float, "double precision"), (str, "text"), (bytes, "bytea"))


def types_of(params: Sequence[Params]) -> tuple[tuple[str, str | None], ...] | None:
    """The type of each parameter, None if it is always NULL; None if a parameter has several."""
    found = []
    for name in params[0]:
        types = {type(one[name]) for one in params} - {type(None)}
        kinds = [kind for base, kind in _KINDS if any(issubclass(one, base) for one in types)]
        if len(kinds) > 1:
            return None
        found.append((name, kinds[0] if kinds else None))
    return tuple(found)


def without_repeated_ids(params: Sequence[Params]) -> Iterator[list[Params]]:
    """The sets of parameters in their order, so that no two of a list have the same id.

    An update of many rows changes each row only once.
    """
    some: list[Params] = []
    ids: set[object] = set()
    for one in params:
        id_ = one.get("id")
        if id_ is not None and id_ in ids:
            yield some
            some, ids = [], set()
        ids.add(id_)
        some.append(one)
    if some:
        yield some
