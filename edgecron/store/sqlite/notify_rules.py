"""The rules for notices as they were recorded, without their channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgecron.base.values import NamedTuple
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.outbox import REPLACED, UNREAD

_MARK = ("name", "channel", "wants_runs", "words", "late_ms", "slow_ms", "beat_ms", "rule")


class RecordedRule(NamedTuple):
    """A recorded rule; `rule` is the whole rule as JSON, without its channel.

    `rule` is None if a version that kept less recorded it. `gone_ms`: since when its file is gone.
    """

    name: str
    source: str
    rule: str | None
    gone_ms: int | None


def write_rules(
    database: Database,
    marks: Sequence[Mapping[str, object]],
    *,
    source: str,
    error: str = "its rule was removed",
) -> bool:
    """Record the rules of one source; whether anything changed.

    A mark has the columns of `notify_rules`. Of rules that are gone, incidents are forgotten and
    waiting notices given up, with this error.
    """
    before = database.rows(
        f"SELECT {', '.join(_MARK)}, gone_at FROM notify_rules WHERE source = :source",
        {"source": source},
    )
    after = [(*(mark[key] for key in _MARK), None) for mark in marks]
    if sorted(after, key=_name) == sorted(before, key=_name):
        return False
    with database.transaction():
        database.change("DELETE FROM notify_rules WHERE source = :source", {"source": source})
        database.change_many(
            """INSERT OR REPLACE INTO notify_rules (name, source, channel, wants_runs, words,
                   late_ms, slow_ms, beat_ms, rule)
               VALUES (:name, :source, :channel, :wants_runs, :words, :late_ms, :slow_ms, :beat_ms,
                   :rule)""",
            [{**mark, "source": source} for mark in marks],
        )
        database.change("DELETE FROM incidents WHERE rule NOT IN (SELECT name FROM notify_rules)")
        database.change(
            """UPDATE notices SET status = 'given_up', due_at = NULL, error = :error
               WHERE due_at IS NOT NULL AND rule NOT IN (SELECT name FROM notify_rules)""",
            {"error": error},
        )
    return True


def _name(row: Sequence[Any]) -> str:
    return str(row[0])


def find_rules(database: Database) -> list[RecordedRule]:
    """All rules as they were recorded, by name."""
    rows = database.rows("SELECT name, source, rule, gone_at FROM notify_rules ORDER BY name")
    return [RecordedRule._make(row) for row in rows]


def has_rules(database: Database) -> bool:
    """Whether there is any rule."""
    return database.row("SELECT 1 FROM notify_rules LIMIT 1") is not None


def find_beat_ms(database: Database) -> int | None:
    """How often an engine sends a heartbeat; None: no rule wants one."""
    [(beat_ms,)] = database.rows("SELECT min(beat_ms) FROM notify_rules")
    return None if beat_ms is None else int(beat_ms)


def note_gone(database: Database, source: str, *, now_ms: int) -> int:
    """Record that the file of some rules is gone; since when it is."""
    row = database.row(
        """SELECT max(gone_at) FROM notify_rules
           WHERE source = :source AND gone_at <= :now""",
        {"source": source, "now": now_ms},
    )
    if row is not None and row[0] is not None:
        return int(row[0])
    with database.transaction():
        database.change(
            "UPDATE notify_rules SET gone_at = :now WHERE source = :source",
            {"source": source, "now": now_ms},
        )
    return now_ms


def find_broken_rules(database: Database) -> list[tuple[str, str]]:
    """Rules whose channel did not take the newest notice that it was given, with the error."""
    rows = database.rows(
        """SELECT r.name, n.error FROM notify_rules AS r
           JOIN notices AS n ON n.id = (
               SELECT max(id) FROM notices WHERE rule = r.name AND tries > 0
                   AND (error IS NULL OR error NOT IN (:replaced, :unread)))
           WHERE n.error IS NOT NULL ORDER BY r.name""",
        {"replaced": REPLACED, "unread": UNREAD},
    )
    return [(row[0], row[1]) for row in rows]


def find_rules_in_vain(database: Database) -> list[tuple[str, str]]:
    """(schedule, rule) for every rule that a schedule names and no configuration has."""
    rows = database.rows(
        """SELECT s.name, named.value FROM schedules AS s, json_each(s.notify) AS named
           WHERE s.deleted_at IS NULL AND s.notify <> '[]' AND json_type(s.notify) = 'array'
               AND named.value <> 'off' AND named.value NOT IN (SELECT name FROM notify_rules)
           ORDER BY s.name"""
    )
    return [(row[0], str(row[1])) for row in rows]
