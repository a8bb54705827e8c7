"""The outbox: notices that are to be sent, those that were, and the rules that fill it.

Only the process that sends notices changes them. Retention removes final ones. Rules are recorded
without their channels.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from edgecron.base.units import HOUR_MS
from edgecron.base.values import NamedTuple
from edgecron.model.notices import Notice, NoticeEvent, NoticeStatus
from edgecron.store.sql.connection import Connection

# Of notices that no channel has refused.
REPLACED = "a newer ping of its schedule took its place"
UNREAD = "its configuration can't be read"
_LAST_ID = 2**63 - 1
_ROW_BYTES = 150  # of a notice, without what it says
# No notice waits longer for its time, a place in its hour, or its next try.
MOST_WAIT_MS = 2 * HOUR_MS
_NOTICE = """SELECT n.id, n.rule, n.event, n.at, n.status, s.name, n.execution_id, n.is_reminder,
        n.detail, n.due_at, n.tries, n.sent_at, n.message, n.error
    FROM notices AS n LEFT JOIN schedules AS s ON s.id = n.schedule_id """


def find_due_notices(database: Connection, *, now_ms: int, limit: int) -> list[Notice]:
    """The notices that are to be sent now, oldest first."""
    rows = database.rows(
        f"{_NOTICE} WHERE n.due_at <= :now ORDER BY n.id LIMIT :limit",
        {"now": now_ms, "limit": limit},
    )
    return [_notice_of(row) for row in rows]


def find_notices(
    database: Connection, *, before_id: int | None, limit: int, rule: str | None
) -> list[Notice]:
    """A page of notices, the newest first."""
    of_rule = "" if rule is None else "n.rule = :rule AND"
    rows = database.rows(
        f"{_NOTICE} WHERE {of_rule} n.id < :before ORDER BY n.id DESC LIMIT :limit",
        {"before": _LAST_ID if before_id is None else before_id, "rule": rule, "limit": limit},
    )
    return [_notice_of(row) for row in rows]


def find_sent_ms(database: Connection, rule: str, *, since_ms: int, limit: int) -> list[int]:
    """When a rule's last messages were sent since an instant, the newest first."""
    rows = database.rows(
        """SELECT sent_at, message FROM notices
           WHERE rule = :rule AND sent_at > :since ORDER BY sent_at DESC""",
        {"rule": rule, "since": since_ms},
    )
    by_message: dict[str | None, int] = {}
    for sent_ms, message in rows:
        by_message.setdefault(message, sent_ms)
    return list(by_message.values())[:limit]


def find_last_sent_ms(database: Connection, rules: Iterable[str]) -> dict[str, int]:
    """When the last message of each of these rules was sent, if any was."""
    rows = database.rows(
        """SELECT named.value, (SELECT max(sent_at) FROM notices
               WHERE rule = named.value AND sent_at IS NOT NULL)
           FROM json_each(:rules) AS named""",
        {"rules": json.dumps(sorted(set(rules)))},
    )
    return {rule: sent_ms for rule, sent_ms in rows if sent_ms is not None}


def find_waiting(database: Connection, rule: str, *, schedule: str | None) -> list[Notice]:
    """The notices of a rule about one schedule that are not final, oldest first."""
    rows = database.rows(
        f"{_NOTICE} WHERE n.due_at IS NOT NULL AND n.rule = :rule AND s.name IS :schedule",
        {"rule": rule, "schedule": schedule},
    )
    # Not ORDER BY: SQLite would then read all notices by id, also those that were sent.
    return sorted((_notice_of(row) for row in rows), key=lambda one: one.id)


def find_retry_ms(database: Connection, rule: str) -> int | None:
    """When a rule's next notice is tried again that could not be sent; None if there is none."""
    row = database.row(
        """SELECT min(due_at) FROM notices
           WHERE due_at IS NOT NULL AND rule = :rule AND tries > 0""",
        {"rule": rule},
    )
    return None if row is None else row[0]


def note_message(database: Connection, ids: Sequence[int], message: str) -> None:
    """Record that these notices go together in one message, before it is sent.

    If the sender dies, the next one sends the same message, by the same name.
    """
    with database.transaction():
        database.change(
            """UPDATE notices SET message = :message
               WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))""",
            {"ids": json.dumps(ids), "message": message},
        )


def note_sent(
    database: Connection, ids: Sequence[int], *, now_ms: int, replaced: Sequence[int] = ()
) -> None:
    """Record that notices were sent, and that others are never sent in their place."""
    with database.transaction():
        _replace(database, replaced)
        changes = """status = 'sent', sent_at = :now, due_at = NULL, error = NULL,
            tries = tries + 1"""
        _change(database, ids, changes, now=now_ms)


def replace_notices(database: Connection, ids: Sequence[int]) -> None:
    """Record that pings are never sent, because newer ones of their schedules follow them."""
    if ids:
        with database.transaction():
            _replace(database, ids)


def _replace(database: Connection, ids: Sequence[int]) -> None:
    changes = "status = 'given_up', due_at = NULL, error = :error"
    _change(database, ids, changes, error=REPLACED)


def note_not_sent(
    database: Connection, ids: Sequence[int], *, error: str, retry_ms: int | None
) -> None:
    """Record that notices could not be sent, and when they are tried again; None: never."""
    with database.transaction():
        changes = """tries = tries + 1, error = :error, due_at = :retry,
            status = iif(:retry IS NULL, 'given_up', 'waiting')"""
        _change(database, ids, changes, error=error, retry=retry_ms)


def postpone_notices(
    database: Connection, ids: Sequence[int], *, until_ms: int, is_held: bool
) -> None:
    """Send notices later. `is_held`: their rule has sent its messages of this hour."""
    with database.transaction():
        changes = "status = iif(:held, 'held', status), due_at = :until"
        _change(database, ids, changes, until=until_ms, held=is_held)


def _change(database: Connection, ids: Sequence[int], changes: str, **values: object) -> None:
    """Change those of the notices that are not final."""
    database.change(
        f"""UPDATE notices SET {changes}
            WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))
                AND due_at IS NOT NULL""",
        {"ids": json.dumps(ids), **values},
    )


def drop_notices(database: Connection, ids: Sequence[int]) -> None:
    """Forget notices that have become untrue before they were sent."""
    with database.transaction():
        database.change(
            "DELETE FROM notices WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))"
            " AND sent_at IS NULL",
            {"ids": json.dumps(ids)},
        )


def recall_notices(database: Connection, *, now_ms: int) -> None:
    """Send notices now that wait for a time far ahead: the clock was set back meanwhile."""
    far = {"now": now_ms, "latest": now_ms + MOST_WAIT_MS}
    if database.row("SELECT 1 FROM notices WHERE due_at > :latest LIMIT 1", far):
        with database.transaction():
            database.change("UPDATE notices SET due_at = :now WHERE due_at > :latest", far)


def forget_waiting(database: Connection, *, error: str) -> None:
    """Give up all waiting notices, and forget what no rule was applied to yet.

    For the caller's transaction.
    """
    database.change(
        """UPDATE notices SET status = 'given_up', due_at = NULL, error = :error
           WHERE due_at IS NOT NULL""",
        {"error": error},
    )
    database.change("DELETE FROM happenings")
    database.change("DELETE FROM watches")


def find_old(database: Connection, *, before_ms: int, after_id: int, limit: int) -> dict[int, int]:
    """Final notices of events before an instant, oldest first: their sizes in bytes, by id."""
    return _sizes(
        database,
        """SELECT id, length(detail) FROM notices
           WHERE due_at IS NULL AND at < :before AND id > :after ORDER BY id LIMIT :limit""",
        {"before": before_ms, "after": after_id, "limit": limit},
    )


def find_excess(database: Connection, *, most: int, after_id: int, limit: int) -> dict[int, int]:
    """The final notices of each rule, without its newest: their sizes in bytes, by id."""
    return _sizes(
        database,
        """SELECT id, size FROM (
               SELECT id, length(detail) AS size,
                   row_number() OVER (PARTITION BY rule ORDER BY id DESC) AS place
               FROM notices WHERE due_at IS NULL) AS final
           WHERE place > :most AND id > :after ORDER BY id LIMIT :limit""",
        {"most": most, "after": after_id, "limit": limit},
    )


def _sizes(database: Connection, sql: str, values: dict[str, object]) -> dict[int, int]:
    return {row[0]: row[1] + _ROW_BYTES for row in database.rows(sql, values)}


def remove_notices(database: Connection, ids: Sequence[int]) -> list[int]:
    """Remove final notices; their ids. For the caller's transaction."""
    rows = database.rows(
        """DELETE FROM notices WHERE due_at IS NULL
               AND id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids)) RETURNING id""",
        {"ids": json.dumps(ids)},
    )
    return [row[0] for row in rows]


def has_old_happenings(database: Connection, *, before_ms: int) -> bool:
    """Whether something that happened before an instant still waits for the rules."""
    row = database.row("SELECT 1 FROM happenings WHERE at < :at LIMIT 1", {"at": before_ms})
    return row is not None


def forget_old_happenings(database: Connection, *, before_ms: int) -> None:
    """Forget what happened before an instant: no process has applied the rules to it.

    For the caller's transaction.
    """
    database.change("DELETE FROM happenings WHERE at < :at", {"at": before_ms})


def _notice_of(row: Sequence[Any]) -> Notice:
    return Notice(
        id=row[0],
        rule=row[1],
        event=NoticeEvent(row[2]),
        at_ms=row[3],
        status=NoticeStatus(row[4]),
        schedule=row[5],
        execution_id=row[6],
        is_reminder=bool(row[7]),
        detail=json.loads(row[8]),
        due_ms=row[9],
        tries=row[10],
        sent_ms=row[11],
        message=row[12],
        error=row[13],
    )


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
    database: Connection,
    marks: Sequence[Mapping[str, object]],
    *,
    source: str,
    error: str = "its rule was removed",
    now_ms: int = _LAST_ID,
    kept_ms: int = 0,
) -> bool:
    """Record the rules of one source; whether anything changed.

    A mark has the columns of `notify_rules`. A rule that the source lacks is kept for `kept_ms`. Of
    rules that are gone, incidents are forgotten and waiting notices given up, with this error.
    """

    def find_changed() -> list[tuple[Any, ...]] | None:
        before = database.rows(
            f"SELECT {', '.join(_MARK)}, gone_at FROM notify_rules WHERE source = :source",
            {"source": source},
        )
        after: list[tuple[Any, ...]] = [(*(mark[key] for key in _MARK), None) for mark in marks]
        names = {mark["name"] for mark in marks}
        lacking = [(*row[:-1], row[-1] or now_ms) for row in before if row[0] not in names]
        after += [row for row in lacking if now_ms - row[-1] < kept_ms]
        return None if sorted(after, key=_name) == sorted(before, key=_name) else after

    if find_changed() is None:
        return False
    with database.transaction():
        after = find_changed()  # Another machine can have written its rules since.
        if after is None:
            return False
        database.change("DELETE FROM notify_rules WHERE source = :source", {"source": source})
        database.change_many(
            """INSERT INTO notify_rules (name, source, channel, wants_runs, words,
                   late_ms, slow_ms, beat_ms, rule, gone_at)
               VALUES (:name, :source, :channel, :wants_runs, :words, :late_ms, :slow_ms, :beat_ms,
                   :rule, :gone_at)
               ON CONFLICT (name) DO UPDATE SET source = excluded.source,
                   channel = excluded.channel, wants_runs = excluded.wants_runs,
                   words = excluded.words, late_ms = excluded.late_ms, slow_ms = excluded.slow_ms,
                   beat_ms = excluded.beat_ms, rule = excluded.rule,
                   gone_at = excluded.gone_at""",
            [
                dict(zip((*_MARK, "gone_at"), row, strict=True)) | {"source": source}
                for row in after
            ],
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


def find_rules(database: Connection) -> list[RecordedRule]:
    """All rules as they were recorded, by name."""
    rows = database.rows("SELECT name, source, rule, gone_at FROM notify_rules ORDER BY name")
    return [RecordedRule._make(row) for row in rows]


def has_rules(database: Connection) -> bool:
    """Whether there is any rule."""
    return database.row("SELECT 1 FROM notify_rules LIMIT 1") is not None


def find_beat_ms(database: Connection) -> int | None:
    """How often an engine sends a heartbeat; None: no rule wants one."""
    [(beat_ms,)] = database.rows("SELECT min(beat_ms) FROM notify_rules")
    return None if beat_ms is None else int(beat_ms)


def note_gone(database: Connection, source: str, *, now_ms: int) -> int:
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


def find_broken_rules(database: Connection) -> list[tuple[str, str]]:
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


def find_rules_in_vain(database: Connection) -> list[tuple[str, str]]:
    """(schedule, rule) for every rule that a schedule names and no configuration has."""
    rows = database.rows(
        """SELECT s.name, named.value FROM schedules AS s, json_each(s.notify) AS named
           WHERE s.deleted_at IS NULL AND s.notify <> '[]' AND json_type(s.notify) = 'array'
               AND named.value <> 'off' AND named.value NOT IN (SELECT name FROM notify_rules)
           ORDER BY s.name"""
    )
    return [(row[0], str(row[1])) for row in rows]
