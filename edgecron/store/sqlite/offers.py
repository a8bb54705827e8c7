"""Record which jobs the engines of a program offer, and which schedules no engine offers.

A schedule of a program has vanished if no running engine of the program offers it and the engine
that started last did not either. This is recorded whenever an engine starts, stops or changes its
offers.

Two versions of a program can declare a job differently, as a function or as a command. If only one
version's engines are left, its kind of job comes back; nothing else of the schedule changes. The
kind of each run is that of its revision: recovery would start a function again if it took it for a
command of which no supervisor knows.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from edgecron.model.engine import Offers, find_program, origin_of
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.revisions import snapshot_of

# `offer` is what a schedule needs. What no living engine runs as it is on record,
# and the newest revision of its program's that one does. A revision's words are those of columns.
_FORMER = """WITH offering (offers) AS (
        SELECT offers FROM engines
        WHERE program = :queue AND stopped_at IS NULL AND queues != '[]'),
    living (offer) AS (SELECT o.value FROM offering AS e, json_each(e.offers) AS o),
    known AS (
        SELECT s.id, s.name, s.queue, s.revision FROM schedules AS s
        WHERE s.queue = :queue AND s.queue != 'command' AND s.deleted_at IS NULL
            AND {offer} NOT IN living
            AND ('callable ' || s.name IN living OR 'command ' || s.name IN living)
            AND NOT EXISTS (SELECT 1 FROM offering WHERE offers IS NULL))
    SELECT k.id, k.revision, r.revision FROM known AS k, schedule_revisions AS r
    WHERE r.schedule_id = k.id AND r.origin = :origin
        AND r.snapshot ->> 'name' = k.name AND r.snapshot ->> 'queue' = k.queue
        AND (r.snapshot ->> 'kind') || ' ' || k.name IN living
        AND (r.snapshot ->> 'kind' != 'callable' OR r.snapshot ->> 'job' = k.name)
    ORDER BY k.id, r.revision"""


def take_up_former(database: Database, queue: str, *, offer: str, now_ms: int) -> None:
    """Bring the jobs of a program's queue back to how an engine runs them that lives, inside the
    caller's transaction. `offer` is what a schedule `s` needs, in SQL."""
    found = database.rows(
        _FORMER.format(offer=offer),
        {"queue": queue, "origin": origin_of(find_program(queue) or "")},
    )
    newest = {schedule_id: (revision, former) for schedule_id, revision, former in found}
    for schedule_id, (revision, former) in newest.items():
        _take_up(
            database,
            {"id": schedule_id, "revision": revision, "former": former, "now": now_ms},
        )


def _take_up(database: Database, params: dict[str, Any]) -> None:
    database.change(
        """UPDATE schedules SET kind = r.snapshot ->> 'kind', job = r.snapshot ->> 'job',
               revision = schedules.revision + 1, updated_at = :now
           FROM schedule_revisions AS r
           WHERE schedules.id = :id AND r.schedule_id = :id AND r.revision = :former""",
        params,
    )
    database.change(
        f"""INSERT INTO schedule_revisions (schedule_id, revision, at, origin, snapshot)
           SELECT c.schedule_id, :revision + 1, :now, r.origin, json_set(c.snapshot,
               '$.kind', r.snapshot ->> 'kind', '$.job', r.snapshot ->> 'job')
           FROM schedule_revisions AS c, schedule_revisions AS r
           WHERE c.schedule_id = :id AND c.revision = {snapshot_of(":id", ":revision")}
               AND r.schedule_id = :id AND r.revision = :former""",
        params,
    )
    take_along(database, params["id"], revision=params["revision"] + 1)


def take_along(database: Database, schedule_id: int, *, revision: int) -> None:
    """Have what waits of a schedule run as it is from this revision on, inside the caller's
    transaction: as it was, who takes it now can't."""
    database.change(
        """UPDATE executions INDEXED BY executions_active SET revision = :revision
           WHERE schedule_id = :id AND status = 'queued' AND status IN ('queued', 'running')""",
        {"id": schedule_id, "revision": revision},
    )


def take_after(database: Database, execution_id: int, queue: str, *, revision: int) -> int:
    """Have a row that waits again, or from now on, run as its schedule is where that was given
    another kind of job since, inside the caller's transaction; its revision then."""
    if find_program(queue) is None:
        return revision
    changed = database.returning(
        f"""UPDATE executions SET revision = s.revision
           FROM schedules AS s, schedule_revisions AS r
           WHERE executions.id = :id AND executions.status = 'queued'
               AND s.id = executions.schedule_id AND r.schedule_id = s.id
               AND r.revision = {snapshot_of("s.id", "executions.revision")}
               AND r.snapshot ->> 'kind' != s.kind
           RETURNING revision""",
        {"id": execution_id},
    )
    return revision if changed is None else int(changed[0])


# `queues.offer_of`, as SQLite asks it of a schedule.
_OFFER = "{of}kind || ' ' || iif({of}kind = 'callable', {of}job, {of}name)"
_AMONG = f"AND {_OFFER} IN (SELECT value FROM json_each(:offers))"
AMONG = _AMONG.format(of="")
AMONG_OF_S = _AMONG.format(of="s.")


def among(queue: str, offers: Offers | None, *, sql: str = AMONG) -> tuple[str, dict[str, str]]:
    """A condition on the schedules of a queue, that they are offered, and its values; nothing
    where all are."""
    if offers is None or find_program(queue) is None:
        return "", {}
    return sql, {"offers": _text(frozenset(offers))}


def offers_text(offers: Offers | None) -> str | None:
    """What an engine offers, as it is put down."""
    return None if offers is None else _text(frozenset(offers))


def note_vanished(database: Database, queues: tuple[str, ...], *, now_ms: int) -> None:
    """Put down what has vanished of these queues by now, and what has come back, inside the
    caller's transaction."""
    for queue in queues:
        if find_program(queue) is not None:
            take_up_former(database, queue, offer=_OFFER.format(of="s."), now_ms=now_ms)
            _note_vanished(database, queue, now_ms)


def _note_vanished(database: Database, queue: str, now_ms: int) -> None:
    database.change(
        f"""WITH counting (offers) AS (
               SELECT offers FROM engines WHERE program = :queue
                   AND (stopped_at IS NULL AND queues != '[]'
                       OR id = (SELECT max(id) FROM engines WHERE program = :queue))),
           offered (offer) AS (
               SELECT o.value FROM counting AS c, json_each(c.offers) AS o)
           UPDATE schedules SET vanished_at = iif(vanished_at IS NULL, :now, NULL)
           WHERE queue = :queue AND queue != 'command' AND deleted_at IS NULL
               AND (vanished_at IS NULL) != ({_OFFER.format(of="")} IN offered
                   OR EXISTS (SELECT 1 FROM counting AS c WHERE c.offers IS NULL))""",
        {"queue": queue, "now": now_ms},
    )


@lru_cache(maxsize=8)
def _text(offers: frozenset[str]) -> str:
    return json.dumps(sorted(offers), ensure_ascii=False)
