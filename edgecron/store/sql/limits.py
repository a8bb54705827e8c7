"""Judge in a transaction whether a run can start: by the active runs, and by its conditions.

A transaction counts active runs once and keeps the counts up to date itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import add

from edgecron.model.choices import Cause, Overlap
from edgecron.model.conditions import Condition, find_unmet
from edgecron.model.machine_conditions import MachineCondition
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.admission import (
    LATE_CAUSES,
    Admission,
    Occupancy,
    admit_fire,
    late_limit,
    running_limit,
)
from edgecron.planning.next_fire import Fire
from edgecron.store.contract import Claimant
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.due import IS_DELAYED

ScopeKey = tuple[int, str, str]

_NOBODY, _ONE = Occupancy(), Occupancy(running=1)
_COUNT = """SELECT schedule_id, scope_kind, scope_id,
        count(*) FILTER (WHERE status = 'running'),
        count(*) FILTER (WHERE status = 'queued' AND cause NOT IN ('retry', 'backfill')),
        count(*) FILTER (WHERE status = 'queued' AND cause = 'retry'
            AND fire_key NOT LIKE 'backfill:%'),
        count(*) FILTER (WHERE status = 'running' AND cause = 'catch_up'
            OR cause = 'retry' AND fire_key = '' AND EXISTS (SELECT 1
                FROM executions AS f WHERE f.schedule_id = executions.schedule_id
                    AND f.scope_kind = executions.scope_kind
                    AND f.scope_id = executions.scope_id
                    AND f.plan_at = executions.plan_at AND f.fire_key = ''
                    AND f.attempt = 1 AND f.cause = 'catch_up')),
        count(*) FILTER (WHERE status = 'running' AND (cause = 'backfill'
            OR cause = 'retry' AND fire_key LIKE 'backfill:%')),
        count(*) FILTER (WHERE status = 'queued' AND cause = 'retry'
            AND fire_key LIKE 'backfill:%')
    FROM """
_OF_SCHEDULES = """executions INDEXED BY executions_active
    WHERE {which} AND status IN ('queued', 'running')
        AND schedule_id IN (SELECT CAST(value AS BIGINT) FROM json_each(:of))
    GROUP BY schedule_id, scope_kind, scope_id"""
_OF_KEYS = """json_each(:of) AS w CROSS JOIN executions INDEXED BY executions_active
        ON schedule_id = CAST(w.value ->> 0 AS BIGINT) AND scope_kind = w.value ->> 1
            AND scope_id = w.value ->> 2
    WHERE {which} AND status IN ('queued', 'running')
    GROUP BY w.rowid"""
_RUNNING = "status = 'running'"
# The index tells delayed runs, of which a schedule can have 100,000: their rows are not read.
_QUEUED = f"status = 'queued' AND NOT (cause = 'manual' AND {IS_DELAYED})"
# Of queued runs, only retries hold places that other queued runs could take. A schedule can have
# 100,000 others.
_RETRYING = "status = 'queued' AND cause = 'retry'"


class RunCounts:
    """Active runs per schedule and scope, per group, and of this engine."""

    def __init__(
        self,
        database: Connection,
        claimant: Claimant | None,
        schedule_ids: Iterable[int] = (),
        *,
        now_ms: int,
        is_of_queue: bool = False,
    ) -> None:
        """Count the active runs of these schedules now, those of others on demand.

        A manual run that is due later is not active yet. With `is_of_queue`, only queued runs are
        to start: `Occupancy.queued`, which they do not need, is not counted.
        """
        self._database = database
        self._now_ms = now_ms
        self._which = (_RUNNING, _RETRYING if is_of_queue else _QUEUED)
        self._counted = set(schedule_ids)
        self._active = self._count(_OF_SCHEDULES, list(self._counted))
        self._running: Counter[int] | None = None  # by schedule; counted when it is asked for
        self._places = self._late_places = 0
        if claimant is not None:
            running, late = _count_engine(database, claimant)
            self._places = claimant.max_running + claimant.reserve - running
            self._late_places = late_limit(claimant.max_running) - late
            if claimant.max_starts is not None:
                self._places = min(self._places, claimant.max_starts)
        self._group_places: dict[str, int] | None = None  # counted when a group is asked for

    @property
    def places(self) -> int:
        """How many more runs this engine can claim."""
        return self._places

    @property
    def late_places(self) -> int:
        """How many of these can be late runs."""
        return min(self._places, self._late_places)

    def look_at(self, keys: Iterable[ScopeKey]) -> None:
        """Count the active runs of these scopes, unless they are counted, in one query.

        It does not read other scopes: a schedule can have thousands.
        """
        unseen = {key for key in keys if key not in self._active and key[0] not in self._counted}
        if unseen:
            self._active.update(dict.fromkeys(unseen, _NOBODY))
            self._active.update(self._count(_OF_KEYS, sorted(unseen)))

    def has_running(self, schedule_id: int) -> bool:
        """Whether any scope of a schedule has a running run."""
        if self._running is None:
            self._running = _count_running(self._database)
        return self._running[schedule_id] > 0

    def occupancy(self, key: ScopeKey) -> Occupancy:
        found = self._active.get(key)
        if found is not None:
            return found
        if key[0] in self._counted:
            return _NOBODY
        self.look_at([key])
        return self._active[key]

    def has_place(self, group: str | None, cause: Cause) -> bool:
        """Whether engine and group have a place for one more run of this cause."""
        places = self.late_places if cause in LATE_CAUSES else self._places
        return places > 0 and not self.is_group_full(group)

    def is_group_full(self, group: str | None) -> bool:
        """Whether a group has no free place."""
        if group is None:
            return False
        # Counted once, before a run of a group starts here; each start counts down.
        if self._group_places is None:
            self._group_places = _count_group_places(self._database)
        return self._group_places.get(group, 1) <= 0

    def admit(self, key: ScopeKey, spec: ScheduleSpec, fire: Fire, *, direct: bool) -> Admission:
        """Decide whether a new fire runs, waits or is skipped, and count it.

        With `direct` False it never runs now: it waits for a place, or for a condition.
        """
        policies = spec.policies
        if policies.overlap is Overlap.ALLOW and key[0] not in self._counted:
            # Other runs do not matter, and counting them takes longest.
            if not direct:
                return Admission.QUEUE
            if is_unlimited(spec):
                if not self.has_place(spec.group, fire.cause):
                    return Admission.QUEUE
                self._take_place(key, spec.group, fire.cause)
                return Admission.RUN
        occupancy = self.occupancy(key)
        admission = admit_fire(
            overlap=policies.overlap,
            max_running=policies.max_running,
            in_sequence=fire.in_sequence,
            occupancy=occupancy,
            has_place=direct and self.has_place(spec.group, fire.cause),
        )
        if admission is Admission.RUN:
            self.count_start(key, spec.group, fire.cause)
        elif admission in (Admission.QUEUE, Admission.REPLACE):
            self._active[key] = occupancy._replace(queued=occupancy.queued + 1)
        return admission

    def count_anew(self, key: ScopeKey) -> None:
        """Count the active runs of a schedule and scope again, after some were cancelled."""
        self._active[key] = _NOBODY
        self._active.update(self._count(_OF_KEYS, [key]))

    def count_start(
        self, key: ScopeKey, group: str | None, cause: Cause, *, is_backfill: bool = False
    ) -> None:
        """Count a run that starts here. A retry is no longer counted as queued."""
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
        self._take_place(key, group, cause)

    def _take_place(self, key: ScopeKey, group: str | None, cause: Cause) -> None:
        if self._running is not None:
            self._running[key[0]] += 1
        self._places -= 1
        self._late_places -= cause in LATE_CAUSES
        if group is not None:
            assert self._group_places is not None, "started without a look at its group"
            if group in self._group_places:
                self._group_places[group] -= 1

    def _count(
        self, of_what: str, of: Sequence[int] | Sequence[ScopeKey]
    ) -> dict[ScopeKey, Occupancy]:
        """Count the active runs of schedules or of scopes.

        The query has a row for running and a row for queued runs, with the fields of Occupancy.
        """
        if not of:
            return {}
        counts = " UNION ALL ".join(_COUNT + of_what.format(which=one) for one in self._which)
        counted: dict[ScopeKey, Occupancy] = {}
        for row in self._database.rows(counts, {"of": json.dumps(of), "now": self._now_ms}):
            other = counted.get(row[:3])
            found = row[3:] if other is None else map(add, other, row[3:])
            counted[row[:3]] = Occupancy(*found)
        return counted


def is_unlimited(spec: ScheduleSpec) -> bool:
    """Whether a fire starts however many runs of its schedule are active: they are not counted.

    A fire in sequence does not.
    """
    return running_limit(spec.policies.overlap, spec.policies.max_running) is None


def has_place(database: Connection, claimant: Claimant) -> bool:
    """Whether an engine has a free place."""
    return _count_engine(database, claimant)[0] < claimant.max_running + claimant.reserve


def set_group_limit(database: Connection, name: str, max_running: int | None) -> None:
    """Limit the running runs of a group; None is no limit. Creates the group if it is new."""
    with database.transaction():
        database.change(
            """INSERT INTO groups (name, max_running) VALUES (:name, :most)
               ON CONFLICT (name) DO UPDATE SET max_running = excluded.max_running""",
            {"name": name, "most": max_running},
        )


def _count_running(database: Connection) -> Counter[int]:
    """Count running runs by schedule."""
    return Counter(
        dict(
            database.rows(
                """SELECT schedule_id, count(*) FROM executions INDEXED BY executions_active
                   WHERE status = 'running' AND status IN ('queued', 'running')
                   GROUP BY schedule_id"""
            )
        )
    )


def _count_engine(database: Connection, claimant: Claimant) -> tuple[int, int]:
    """Count an engine's running runs, and the late ones among them."""
    [(running, late)] = database.rows(
        """SELECT count(*), count(*) FILTER (WHERE cause IN ('catch_up', 'backfill'))
           FROM executions INDEXED BY executions_active
           WHERE status = 'running' AND status IN ('queued', 'running')
               AND engine_id = :engine""",
        {"engine": claimant.engine_id},
    )
    return running, late


def _count_group_places(database: Connection) -> dict[str, int]:
    rows = database.rows(
        """SELECT g.name, g.max_running, (
               SELECT count(*) FROM executions AS e INDEXED BY executions_active
               CROSS JOIN schedules AS s ON s.id = e.schedule_id
               WHERE e.status = 'running' AND e.status IN ('queued', 'running')
                   AND s.group_name = g.name)
           FROM groups AS g WHERE g.max_running IS NOT NULL"""
    )
    return {name: most - running for name, most, running in rows}


# A person has decided, and the first attempt had its conditions met.
_NEED_NOTHING = frozenset({Cause.MANUAL, Cause.RETRY})


class Needs:
    """The `Facts` of conditions in a transaction; each fact is read once.

    `machine` says which conditions of the machine hold, as far as the caller has looked.
    """

    def __init__(
        self, database: Connection, *, now_ms: int, machine: Mapping[MachineCondition, bool]
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._machine = machine
        self._successes: dict[str, int | None] = {}

    @property
    def now_ms(self) -> int:
        return self._now_ms

    def last_success_ms(self, schedule: str) -> int | None:
        if schedule not in self._successes:
            self._successes[schedule] = find_last_success_ms(self._database, schedule)
        return self._successes[schedule]

    def holds(self, condition: MachineCondition) -> bool | None:
        return self._machine.get(condition)

    def find_unmet(
        self, needs: tuple[str, ...], cause: Cause, *, schedule_id: int
    ) -> Condition | None:
        """Return the first condition of a schedule that is not met, or None."""
        if not needs or cause in _NEED_NOTHING:
            return None
        return find_unmet(needs, self, schedule_id=schedule_id)


def find_last_success_ms(database: Connection, schedule: str) -> int | None:
    """When the newest success of a schedule ended; None: there is none, or no such schedule."""
    row = database.row(
        "SELECT last_success_at FROM schedules WHERE name = :name AND deleted_at IS NULL",
        {"name": schedule},
    )
    return None if row is None else row[0]
