"""Dialect: rewrite the statements of `store/sql/`, which SQLite reads as they are, for PostgreSQL.

The statements keep to what both understand: CAST instead of SQLite's loose types, no GLOB,
no REPLACE. `functions.sql` gives PostgreSQL the functions that it lacks.
"""

from __future__ import annotations

import re
from functools import lru_cache

from edgecron.base.values import NamedTuple
from edgecron.store.sql.connection import Params

_STRINGS = re.compile(r"('(?:[^']|'')*')")
_HINTS = re.compile(r"\s+(?:NOT INDEXED|INDEXED BY \w+)")
# SQLite reads the tables of a CROSS JOIN in the order of the text, even with ON.
_CROSS_WITH_ON = re.compile(r"CROSS JOIN (?=\w+(?:\([^()]*\))?(?: AS \w+)?\s+ON\b)")
# PostgreSQL would look for each row of the table among the first ones that the SELECT finds.
_WITHIN = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"  # with pairs of parentheses
_AMONG_FIRST = re.compile(
    rf"(?<!NOT )\bIN \((\s*SELECT (?:\w+\.)?id\s+FROM {_WITHIN} LIMIT :?\w+(?: \+ 1)?)\)"
)
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
