"""What is known afterwards, out of the database and the jobs' own log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import apsw

from tests.chaos.history import Body, Era, Life, Row
from tests.chaos.watch import COLUMNS

_GRID = re.compile(r"every (\d+)s from 1970-01-01T00:00:00Z")
_CRON = re.compile(r"\*/(\d+) \* \* \* \* \*")
_STATUSES = ("success", "failed", "skipped", "cancelled", "interrupted")


def read_rows(connection: apsw.Connection) -> tuple[Row, ...]:
    found = connection.execute(
        f"""SELECT {", ".join(f"e.{column}" for column in COLUMNS)}, s.name
            FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id ORDER BY e.id"""
    )
    return tuple(dict(zip((*COLUMNS, "name"), values, strict=True)) for values in found)


def read_lives(connection: apsw.Connection) -> tuple[Life, ...]:
    scopes: dict[int, list[tuple[str, str]]] = {}
    for schedule_id, kind, one in connection.execute(
        "SELECT schedule_id, scope_kind, scope_id FROM schedule_scopes"
    ):
        scopes.setdefault(schedule_id, []).append((kind, one))
    eras: dict[int, list[Era]] = {}
    for schedule_id, revision, at_ms, until_ms, snapshot in connection.execute(
        """SELECT schedule_id, revision, at, known_until, snapshot FROM schedule_revisions
           ORDER BY schedule_id, revision"""
    ):
        found_era = _era(revision, at_ms, until_ms, json.loads(snapshot))
        eras.setdefault(schedule_id, []).append(found_era)
    counts = ", ".join(f"{status}_count" for status in _STATUSES)
    found = connection.execute(
        f"SELECT id, name, created_at, deleted_at, pruned_until, {counts} FROM schedules"
    )
    return tuple(
        Life(
            schedule_id=one[0],
            name=one[1],
            scopes=tuple(scopes.get(one[0], [("global", "")])),
            made_ms=one[2],
            removed_ms=one[3],
            pruned_until_ms=one[4],
            eras=tuple(eras[one[0]]),
            counts=dict(zip(_STATUSES, one[5:], strict=True)),
        )
        for one in found
    )


def _era(revision: int, at_ms: int, until_ms: int | None, snapshot: Mapping[str, Any]) -> Era:
    [trigger] = json.loads(snapshot["triggers"])
    grid = _GRID.fullmatch(trigger) or _CRON.fullmatch(trigger)
    return Era(
        revision=revision,
        since_ms=at_ms,
        until_ms=until_ms,
        period_ms=int(grid[1]) * 1000 if grid else None,
        overlap=snapshot["overlap"],
        max_running=snapshot["max_running"],
        retries=snapshot["retries"],
        on_interrupt=snapshot["on_interrupt"],
    )


def read_bodies(starts: Iterable[Mapping[str, Any]]) -> tuple[Body, ...]:
    """Every start, with its last sign of life. Those of copies of the database are not ours."""
    return tuple(
        Body(
            run=start["run"],
            schedule=start["schedule"],
            scope=tuple(start["scope"]),
            plan_ms=instant_ms(start["plan"]),
            attempt=start["attempt"],
            cause=start["cause"],
            key=start["key"],
            by=start["by"],
            pid=start["pid"],
            kind=start["kind"],
            began_ms=start["wall_ms"],
            began_mono_ms=start["mono_ms"],
            seen_mono_ms=start.get("seen_mono_ms", start["mono_ms"]),
            ended_ms=start.get("ended_ms"),
            code=start.get("code"),
        )
        for start in starts
        if not start["by"].startswith("copy-")
    )


def instant_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def read_integrity(connection: apsw.Connection) -> tuple[str, ...]:
    """What is wrong with the file; nothing where all is well."""
    found = [row[0] for row in connection.execute("PRAGMA integrity_check") if row != ("ok",)]
    return (*found, *(str(row) for row in connection.execute("PRAGMA foreign_key_check")))
