"""Translate between edgecron and PostgreSQL: statements, values and errors.

The statements of `store/sql/` keep to what SQLite and PostgreSQL understand: CAST instead of
SQLite's loose types, no GLOB, no REPLACE. `functions.sql` gives PostgreSQL the functions that it
lacks. Rows hold the types of SQLite: integers, floats, texts, bytes and None. A truth is 0 or 1,
JSON is its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumper, TextLoader

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
    Unreadable,
)
from edgecron.base.paths import read_location
from edgecron.base.values import NamedTuple
from edgecron.store.sql.connection import Params

# Statements.

_STRINGS = re.compile(r"('(?:[^']|'')*')")
_HINTS = re.compile(r"\s+(?:NOT INDEXED|INDEXED BY \w+)")
# SQLite reads the tables of a CROSS JOIN in the order of the text, even with ON.
_CROSS_WITH_ON = re.compile(r"CROSS JOIN (?=\w+(?:\([^()]*\))?(?: AS \w+)?\s+ON\b)")
# PostgreSQL would look for each row of the table among the first ones that the SELECT finds.
_WITHIN = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"  # with pairs of parentheses
_AMONG_FIRST = re.compile(
    rf"(?<!NOT )\bIN \((\s*SELECT (?:\w+\.)?id\s+FROM {_WITHIN} LIMIT :?\w+(?: \+ 1)?)\)"
)
# A list that the planner can read: it can't know how few rows the ids of a function's result have.
_OF = re.compile(r"\bIN \(SELECT CAST\(value AS BIGINT\) FROM json_each\(:of\)\)")
_IS_NOT = re.compile(r"\bIS NOT (?!NULL\b|TRUE\b|FALSE\b|DISTINCT\b)")
_IS = re.compile(r"\bIS (?!NULL\b|NOT\b|TRUE\b|FALSE\b|DISTINCT\b)")
# SQLite reads the rows in this order already; with their own columns it would sort them.
_ROWID = re.compile(r"\bGROUP BY w\.rowid\b")
# SQLite reads equal times in the order of their ids, as its index has them.
_NEXT = re.compile(r"\bORDER BY next_run_at LIMIT\b")
_PLUS = re.compile(r"(?<=[\s(])\+(?=[a-z])")  # keeps SQLite from using an index
# PostgreSQL can't know the type of a value that is only compared with NULL.
_NULL_TEST = re.compile(r":([a-z_]\w*) IS (NOT )?NULL\b")
# A position as a condition, as an index of SQLite has it.
_FOUND = re.compile(r"\b(WHERE|AND) (instr\(\w+, '[^']*'\))(?!\s*[=<>])")
# Of columns of several types, which no function of ours can take.
_ARRAY = re.compile(r"\bjson_array\((?=(?:id|schedule_id|name|between_times),)")
_NAMES = re.compile(r"(?<!:):([a-z_]\w*)")
# A column of 0 and 1 as a condition.
_TRUTH = re.compile(
    r"((?:WHERE|AND|OR|NOT|\biif\()\s*\(?)"
    r"((?:\w+\.)?(?:enabled|on_boot|wake|keep_awake|wants_runs|died))\b(?!\s*[=<>!,]|\s+IS\b)"
)
# SQLite reads a text that is no number as 0.
_NUMBER_OF = re.compile(r"\bCAST\((\w+ ->> :\w+) AS BIGINT\)")
_BYTES_OF = re.compile(r"\bCAST\((\w+) AS BLOB\)")
_USER = re.compile(r"(?<![\w:'\"])user(?![\w(\"])")


class Statement(NamedTuple):
    """The text of a statement for psycopg. It asks of each name in `null_tests` if it is NULL."""

    text: str
    null_tests: tuple[str, ...]

    def values(self, params: Params | None) -> Params:
        """The values of the parameters of this text."""
        given = params or {}
        if not self.null_tests:
            return given
        return {**given, **{f"{name}_is_null": given[name] is None for name in self.null_tests}}


@lru_cache(maxsize=2048)
def to_postgres(sql: str) -> Statement:
    """Rewrite a statement that is written for SQLite."""
    plain = _FOUND.sub(r"\1 \2 > 0", _CROSS_WITH_ON.sub("JOIN ", _HINTS.sub("", sql)))
    plain = _AMONG_FIRST.sub(r"= ANY(ARRAY(\1))", plain)
    plain = _OF.sub("= ANY(CAST(translate(:of, '[]', '{}') AS BIGINT[]))", plain)
    text = "".join(
        part.replace("%", "%%") if part.startswith("'") else _rewrite(part)
        for part in _STRINGS.split(plain)
    )
    return Statement(text, tuple({found[1] for found in _NULL_TEST.finditer(plain)}))


# An update of one row by its id. It reads no other row, so many of them can be one statement.
_BY_ID = re.compile(
    r"UPDATE (?:schedules|executions) SET (?:(?!\bFROM (?!json_each\()).)*\bWHERE id = :id\b", re.S
)


@lru_cache(maxsize=256)
def to_postgres_many(sql: str, types: tuple[tuple[str, str | None], ...]) -> str | None:
    """Rewrite an update of one row by its id to one of many rows; None for another statement.

    Each parameter becomes an array. `types` are those of the elements; None: all are NULL.

    PostgreSQL prepares all checks of a table for each statement. For one row, that takes longer
    than the update.
    """
    if _BY_ID.match(sql) is None:
        return None
    text = "".join(
        part.replace("%", "%%") if part.startswith("'") else _rewrite_common(part)
        for part in _STRINGS.split(_HINTS.sub("", sql))
    )
    typed = dict(types)
    text = _NAMES.sub(lambda found: f"v.v_{found[1]}" if typed[found[1]] else "NULL", text)
    arrays = ", ".join(f"%({name})s::{kind}[]" for name, kind in types if kind)
    names = ", ".join(f"v_{name}" for name, kind in types if kind)
    before, where, after = text.rpartition(" WHERE id = ")
    assert where, "an update by id"
    return f"{before} FROM unnest({arrays}) AS v ({names}) WHERE id = {after}"


def _rewrite(part: str) -> str:
    part = _NULL_TEST.sub(lambda found: f":{found[1]}_is_null = {0 if found[2] else 1}", part)
    return _NAMES.sub(r"%(\1)s", _rewrite_common(part))


def _rewrite_common(part: str) -> str:
    """Rewrite all but the parameters."""
    part = _IS_NOT.sub("IS DISTINCT FROM ", part)
    part = _IS.sub("IS NOT DISTINCT FROM ", part)
    part = _PLUS.sub("", part)
    part = _ROWID.sub("GROUP BY w.key, schedule_id, scope_kind, scope_id", part)
    part = _NEXT.sub("ORDER BY next_run_at, id LIMIT", part)
    part = _TRUTH.sub(r"\1\2 = 1", part)
    part = _NUMBER_OF.sub(r"to_integer(\1)", part)
    part = _BYTES_OF.sub(r"convert_to(\1, 'UTF8')", part)
    part = _ARRAY.sub("json_build_array(", part)
    part = _USER.sub('"user"', part)
    return part.replace("%", "%%")


# The bytes of a row with its entries in indexes, measured over 12,000 short runs. A long output
# lies in pieces of 2,000 bytes in a table of its own.
SIZES = """SELECT sum(pg_total_relation_size(c.oid)), sum(CASE c.relname
        WHEN 'executions' THEN 300 * pg_stat_get_live_tuples(c.oid)
        WHEN 'outputs' THEN 300 * pg_stat_get_live_tuples(c.oid)
            + 2100 * pg_stat_get_live_tuples(c.reltoastrelid)
        ELSE pg_total_relation_size(c.oid) END)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = 'edgecron' AND c.relkind = 'r'"""


# Values.


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


# Errors.

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
        'FATAL:  database ".*" does not exist',
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


_FAILURES = re.compile(r"^- host: .*, hostaddr: \S+: (?:connection [a-z ]+: )?(.*)$", re.M)


def translate(error: psycopg.Error, place: str, *, was_asked: bool) -> EdgecronError:
    """The error of ours for one of the server, about the database of this place.

    `was_asked`: this process might have asked the server to end a statement.
    """
    # Of several hosts, the first line has only the last one.
    failures = dict.fromkeys(_FAILURES.findall(str(error)))
    why = ("; ".join(failures) or str(error).partition("\n")[0].strip())[:300]
    code = error.sqlstate or ""
    if code == "57014" and not was_asked:
        return DatabaseUnusable(
            f"the server has ended a statement on database {place} ({why})",
            hint="if it lasts, raise the role's limit: ALTER ROLE NAME SET statement_timeout = 0",
        )
    for starts, make in _MEANINGS:
        if any(code.startswith(start) for start in starts.split()):
            return make(place, why)
    for words, make in _REFUSALS:
        if re.search(words, why):
            return make(place, why)
    return DatabaseUnusable(
        f"database {place} can't be used ({why})",
        hint="check that the server runs and lets you in: pg_isready",
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
