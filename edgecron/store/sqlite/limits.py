"""Count what runs and waits, to keep the limits of engines, groups and overlap.

A transaction reads the counts once and keeps them up to date itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import add

from edgecron.model.choices import Cause
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.next_fire import Fire
from edgecron.planning.overlap import (
    LATE_CAUSES,
    Admission,
    Occupancy,
    admit_fire,
    late_limit,
    running_limit,
)
from edgecron.store.contract import Seat
from edgecron.store.sqlite.connection import Database

ScopeKey = tuple[int, str, str]

_NOBODY, _ONE = Occupancy(), Occupancy(running=1)
_COUNT = """SELECT schedule_id, scope_kind, scope_id,
        count(*) FILTER (WHERE status = 'running'),
        count(*) FILTER (WHERE status = 'queued' AND cause NOT IN ('retry', 'backfill')),
        count(*) FILTER (WHERE status = 'queued' AND cause = 'retry'
            AND fire_key NOT GLOB 'backfill:*'),
        count(*) FILTER (WHERE status = 'running' AND cause = 'catch_up'
            OR cause = 'retry' AND fire_key = '' AND EXISTS (SELECT 1
                FROM executions AS f WHERE f.schedule_id = executions.schedule_id
                    AND f.scope_kind = executions.scope_kind
                    AND f.scope_id = executions.scope_id
                    AND f.plan_at = executions.plan_at AND f.fire_key = ''
                    AND f.attempt = 1 AND f.cause = 'catch_up')),
        count(*) FILTER (WHERE status = 'running' AND (cause = 'backfill'
            OR cause = 'retry' AND fire_key GLOB 'backfill:*')),
        count(*) FILTER (WHERE status = 'queued' AND cause = 'retry'
            AND fire_key GLOB 'backfill:*')
    FROM """
_OF_SCHEDULES = """executions INDEXED BY executions_active
    WHERE status = '{status}' AND status IN ('queued', 'running')
        AND schedule_id IN (SELECT value FROM json_each(:of))
    GROUP BY schedule_id, scope_kind, scope_id"""
_OF_KEYS = """json_each(:of) AS w CROSS JOIN executions INDEXED BY executions_active
        ON schedule_id = w.value ->> 0 AND scope_kind = w.value ->> 1 AND scope_id = w.value ->> 2
    WHERE status = '{status}' AND status IN ('queued', 'running')
    GROUP BY w.rowid"""


class RunCounts:
    """Who runs and waits now: per schedule and scope, per group, and of this engine."""

    def __init__(
        self, database: Database, seat: Seat | None, schedule_ids: Iterable[int] = ()
    ) -> None:
        """Count at once what is active of these schedules; of others, when they are asked for."""
        self._database = database
        self._counted = set(schedule_ids)
        self._active = self._count(_OF_SCHEDULES, list(self._counted))
        self._running: Counter[int] | None = None  # by schedule; counted when it is asked for
        self._places = self._late_places = 0
        if seat is not None:
            running, late = _count_engine(database, seat)
            self._places = seat.max_running - running
            self._late_places = late_limit(seat.max_running) - late
            if seat.max_starts is not None:
                self._places = min(self._places, seat.max_starts)
        self._group_places: dict[str, int] | None = None  # counted when a group is asked for

    @property
    def places(self) -> int:
        """How many more this engine may start."""
        return self._places

    @property
    def late_places(self) -> int:
        """How many of them may go to what came late."""
        return min(self._places, self._late_places)

    def look_at(self, keys: Iterable[ScopeKey]) -> None:
        """Count what is active of these scopes, as far as it was not counted, in one query.

        Only of these: a schedule can have thousands of others.
        """
        unseen = {key for key in keys if key not in self._active and key[0] not in self._counted}
        if unseen:
            self._active.update(dict.fromkeys(unseen, _NOBODY))
            self._active.update(self._count(_OF_KEYS, sorted(unseen)))

    def has_running(self, schedule_id: int) -> bool:
        """Whether any run of a schedule is running, in whichever scope."""
        if self._running is None:
            self._running = _count_running(self._database)
        return self._running[schedule_id] > 0

    def occupancy(self, key: ScopeKey) -> Occupancy:
        found = self._active.get(key)
        if found is None and key[0] not in self._counted:
            self.look_at([key])
            found = self._active[key]
        return found or _NOBODY

    def has_place(self, group: str | None, cause: Cause) -> bool:
        """Whether engine and group have room for one more, of those that came late or others."""
        places = self.late_places if cause in LATE_CAUSES else self._places
        return places > 0 and not self.is_group_full(group)

    def is_group_full(self, group: str | None) -> bool:
        """Whether as many run of a group as may."""
        if group is None:
            return False
        # Before anything of a group is started here, and once: what starts is counted down.
        if self._group_places is None:
            self._group_places = _count_group_places(self._database)
        return self._group_places.get(group, 1) <= 0

    def admit(self, key: ScopeKey, spec: ScheduleSpec, fire: Fire, *, direct: bool) -> Admission:
        """What becomes of a new fire; the answer is counted at once.

        With `direct` False nothing runs at once: it waits its turn by priority, or for what it
        needs.
        """
        policies = spec.policies
        is_unlimited = running_limit(policies.overlap, policies.max_running) is None
        if is_unlimited and not direct and key[0] not in self._counted:
            return Admission.QUEUE  # Whatever else is active of it; to count that takes longest.
        admission = admit_fire(
            overlap=policies.overlap,
            max_running=policies.max_running,
            in_sequence=fire.in_sequence,
            occupancy=self.occupancy(key),
            has_place=direct and self.has_place(spec.group, fire.cause),
        )
        if admission is Admission.RUN:
            self.count_start(key, spec.group, fire.cause)
        elif admission in (Admission.QUEUE, Admission.REPLACE):
            occupancy = self.occupancy(key)
            self._active[key] = occupancy._replace(queued=occupancy.queued + 1)
        return admission

    def count_anew(self, key: ScopeKey) -> None:
        """Count what is active of a schedule and scope again: some of it was withdrawn."""
        self._active[key] = _NOBODY
        self._active.update(self._count(_OF_KEYS, [key]))

    def count_start(
        self, key: ScopeKey, group: str | None, cause: Cause, *, is_backfill: bool = False
    ) -> None:
        """Note one more that runs here; a retry that does waits for its attempt no longer."""
        before = self.occupancy(key)
        is_retry = cause is Cause.RETRY
        is_catching_up = cause is Cause.CATCH_UP
        if before is _NOBODY and not is_catching_up and not is_backfill:
            self._active[key] = _ONE
        else:
            self._active[key] = before._replace(
                running=before.running + 1,
                retrying=before.retrying - (is_retry and not is_backfill),
                backfill_retrying=before.backfill_retrying - (is_retry and is_backfill),
                catching_up=before.catching_up + is_catching_up,
                backfilling=before.backfilling + is_backfill,
            )
        if self._running is not None:
            self._running[key[0]] += 1
        self._places -= 1
        self._late_places -= cause in LATE_CAUSES
        if group is not None:
            assert self._group_places is not None, "started without a look at its group"
            if group in self._group_places:
                self._group_places[group] -= 1

    def _count(
        self, which: str, of: Sequence[int] | Sequence[ScopeKey]
    ) -> dict[ScopeKey, Occupancy]:
        """Count what is active of schedules or of scopes: one row for what is running and one for
        what is queued, each with the fields of an Occupancy in their order."""
        if not of:
            return {}
        counts = [_COUNT + which.format(status=status) for status in ("running", "queued")]
        counted: dict[ScopeKey, Occupancy] = {}
        for row in self._database.rows(" UNION ALL ".join(counts), {"of": json.dumps(of)}):
            other = counted.get(row[:3])
            found = row[3:] if other is None else map(add, other, row[3:])
            counted[row[:3]] = Occupancy(*found)
        return counted


def has_place(database: Database, seat: Seat) -> bool:
    """Whether an engine runs fewer than it may."""
    return _count_engine(database, seat)[0] < seat.max_running


def set_group_limit(database: Database, name: str, max_running: int | None) -> None:
    """Limit the running runs of a group; None is no limit. Creates the group if it is new."""
    with database.transaction():
        database.change(
            """INSERT INTO groups (name, max_running) VALUES (:name, :most)
               ON CONFLICT (name) DO UPDATE SET max_running = excluded.max_running""",
            {"name": name, "most": max_running},
        )


def _count_running(database: Database) -> Counter[int]:
    """How many runs of each schedule are running, for those of which any is."""
    return Counter(
        dict(
            database.rows(
                """SELECT schedule_id, count(*) FROM executions INDEXED BY executions_active
                   WHERE status = 'running' AND status IN ('queued', 'running')
                   GROUP BY schedule_id"""
            )
        )
    )


def _count_engine(database: Database, seat: Seat) -> tuple[int, int]:
    """What an engine runs, and how much of it came late."""
    [(running, late)] = database.rows(
        """SELECT count(*), count(*) FILTER (WHERE cause IN ('catch_up', 'backfill'))
           FROM executions INDEXED BY executions_active
           WHERE status = 'running' AND status IN ('queued', 'running')
               AND engine_id = :engine""",
        {"engine": seat.engine_id},
    )
    return running, late


def _count_group_places(database: Database) -> dict[str, int]:
    rows = database.rows(
        """SELECT g.name, g.max_running, (
               SELECT count(*) FROM executions AS e INDEXED BY executions_active
               CROSS JOIN schedules AS s ON s.id = e.schedule_id
               WHERE e.status = 'running' AND e.status IN ('queued', 'running')
                   AND s.group_name = g.name)
           FROM groups AS g WHERE g.max_running IS NOT NULL"""
    )
    return {name: most - running for name, most, running in rows}
