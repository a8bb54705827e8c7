"""What engines of a program offer: who takes what, and what nobody does any more.

A schedule of a program has vanished where none of its engines offers it that lives, nor the one
that started last. That is put down whenever an engine comes or goes, with what says so.
"""

from __future__ import annotations

import json
from functools import lru_cache

from edgecron.model.engine import Offers, find_program
from edgecron.store.connection import Database
from edgecron.store.formerjobs import take_up_former

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
