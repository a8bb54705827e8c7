"""Remove old rows by retention, in slices of one short transaction each.

Other writers get the lock between slices. A pass that breaks off has removed less, and no harm is
done. Rows are removed in the order of their ids, which is the order of age: an index of times would
cost each run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

from edgecron.base.values import NamedTuple
from edgecron.planning.corrections import HOUR_MS
from edgecron.planning.retention import AgeWalk, Kind, Limits, Reason, Removed, batches_of
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.removed_schedules import (
    MOST_ROWS,
    delete_owned,
    delete_schedules,
    find_forgettable,
)
from edgecron.store.sqlite.unused_revisions import find_unused, remove_revisions

# The bytes of a row with its entries in indexes, and of an output row whose output was removed
# (measured over a million short runs).
_RUN_BYTES = 220
_STUB_BYTES = 24
_RUNS = 250  # that one query returns
_IDS = 1_000  # of outputs, or of schedules, that one query covers
_COUNTED = 5_000  # runs that one query counts: 1 ms

# A range that grew has ended with its last time.
_ENDED = "max(e.finished_at, coalesce(e.missed_to_at, e.finished_at))"
# Whether an execution `e` can be removed. These stay:
# - active runs, and earlier attempts of an active run;
# - the first attempt of a fire while later ones exist: it proves that the fire was decided;
# - the newest row of all: its id would be given again.
# As long as the schedule exists, these stay too:
# - its last run and its last success;
# - the newest row of each scope: only this one can grow;
# - a row that proves that a time ahead of `decided_until` was decided.
# The newest row of a scope is first looked for by plan time, which is one step of an index.
_REMOVABLE = """e.status NOT IN ('queued', 'running')
    AND e.id < (SELECT max(id) FROM executions)
    AND NOT EXISTS (
        SELECT 1 FROM executions AS n
        WHERE n.schedule_id = e.schedule_id AND n.scope_kind = e.scope_kind
            AND n.scope_id = e.scope_id AND n.plan_at = e.plan_at AND n.fire_key = e.fire_key
            AND n.attempt > e.attempt AND (e.attempt = 1 OR n.status IN ('queued', 'running')))
    AND EXISTS (
        SELECT 1 FROM schedules AS s WHERE s.id = e.schedule_id AND (
            s.deleted_at IS NOT NULL
            OR (e.id IS NOT s.last_execution_id
                AND (e.status = 'success' AND e.finished_at
                    BETWEEN s.last_success_at AND max(:now, s.last_success_at)) IS NOT TRUE
                AND (e.fire_key != '' OR e.plan_at <
                    min(s.decided_until, coalesce(s.trusted_until, s.decided_until), :now))
                AND (NOT EXISTS (SELECT 1 FROM schedule_scopes AS c
                        WHERE c.schedule_id = e.schedule_id AND c.scope_kind = e.scope_kind
                            AND c.scope_id = e.scope_id)
                    OR (SELECT n.id FROM executions AS n
                        WHERE n.schedule_id = e.schedule_id AND n.scope_kind = e.scope_kind
                            AND n.scope_id = e.scope_id
                        ORDER BY n.plan_at DESC, n.fire_key DESC, n.attempt DESC LIMIT 1) > e.id
                    OR EXISTS (SELECT 1 FROM executions AS n INDEXED BY executions_by_schedule
                        WHERE n.schedule_id = e.schedule_id AND n.id > e.id
                            AND n.scope_kind = e.scope_kind AND n.scope_id = e.scope_id)))))"""


def begin_pruning(database: Database, limits: Limits) -> Iterator[Removed | None] | None:
    """Begin an engine's retention pass; None if another engine began one within the hour.

    Each step of the iterator is one short transaction and returns what it removed, or None if it
    only read. The pass ends early if another one begins.
    """
    row = database.row("SELECT next_prune_at FROM meta")
    next_ms = None if row is None else row[0]
    # A time further ahead was written by a wrong clock.
    if next_ms is not None and limits.now_ms < next_ms <= limits.now_ms + HOUR_MS:
        return None
    return _Pass(database, limits, next_ms=next_ms).slices()


def prune(
    database: Database, limits: Limits, *, schedule_id: int | None, is_trial: bool
) -> Iterator[Removed | None]:
    """Begin a retention pass that a person asked for; engines then wait for their next hour.

    `schedule_id` limits it to the age and count of one schedule. A trial removes nothing and
    returns what a pass would remove.
    """
    begun = _Pass(
        database, limits, schedule_id=schedule_id, is_trial=is_trial, takes_precedence=True
    )
    return begun.slices()


def find_size(database: Database) -> tuple[int, int]:
    """The bytes that the database holds, and the free bytes in its file."""
    [(used_bytes, free_bytes)] = database.rows(
        """SELECT (page_count - freelist_count) * page_size, freelist_count * page_size
           FROM pragma_page_count, pragma_freelist_count, pragma_page_size"""
    )
    return used_bytes, free_bytes


def remove_runs(database: Database, ids: Sequence[int], *, now_ms: int) -> list[int]:
    """Remove those of these runs that can be removed, inside the caller's transaction; their ids.

    `pruned_until` of their schedules then covers their plan times.
    """
    with _without_overwriting(database):
        rows = database.rows(
            f"""DELETE FROM executions AS e
                WHERE e.id IN (SELECT value FROM json_each(:ids)) AND {_REMOVABLE}
                RETURNING id, schedule_id, plan_at,
                    fire_key = '' OR fire_key GLOB 'backfill:*'""",
            {"ids": json.dumps(list(ids)), "now": now_ms},
        )
    pruned: dict[int, int] = {}
    for _, schedule_id, plan_ms, is_planned in rows:
        if is_planned:
            pruned[schedule_id] = max(plan_ms, pruned.get(schedule_id, plan_ms))
    for schedule_id, plan_ms in pruned.items():
        database.change(
            """UPDATE schedules SET pruned_until = :plan
               WHERE id = :id AND coalesce(pruned_until, :plan - 1) < :plan""",
            {"id": schedule_id, "plan": plan_ms},
        )
    return [row[0] for row in rows]


class _Run(NamedTuple):
    execution_id: int
    ended_ms: int | None
    plan_ms: int
    size_bytes: int
    is_removable: bool


class _TurnLost(Exception):
    """Another pass has begun: this one is over."""


class _Pass:
    """One retention pass.

    `next_ms` is `meta.next_prune_at` as this pass knows it: the pass ends if another one has
    changed it, unless it takes precedence.
    """

    def __init__(
        self,
        database: Database,
        limits: Limits,
        *,
        next_ms: int | None = None,
        schedule_id: int | None = None,
        is_trial: bool = False,
        takes_precedence: bool = False,
    ) -> None:
        self._database = database
        self._limits = limits
        self._next_ms = next_ms
        self._schedule_id = schedule_id
        self._is_trial = is_trial
        self._takes_precedence = takes_precedence
        # What a trial would have removed, for the limits that follow.
        self._tried: dict[Kind, set[int]] = {kind: set() for kind in Kind}
        self._tried_bytes = 0

    def slices(self) -> Iterator[Removed | None]:
        """Do one slice at each step; see `begin_pruning`."""
        try:
            yield from self._outputs_by_age()
            yield from self._outputs_by_bytes()
            yield from self._runs_by_age()
            yield from self._runs_by_count()
            if self._schedule_id is None:
                yield from self._runs_by_bytes()
            yield from self._unused_revisions()
            if self._schedule_id is None:
                yield from self._removed_schedules()
        except _TurnLost:
            return

    def _remove(
        self,
        kind: Kind,
        reason: Reason,
        sizes: Mapping[int, int],
        remove: Callable[[list[int]], list[int]],
    ) -> Iterator[Removed]:
        """Remove rows by their ids, with their sizes in bytes; one transaction for each batch.

        `remove` returns the ids of the rows that were removed.
        """
        for batch in batches_of(sizes):
            gone = batch
            if self._is_trial:
                self._tried[kind].update(batch)
                self._tried_bytes += sum(sizes[one] for one in batch)
            else:
                with self._database.transaction():
                    self._keep_turn()
                    gone = remove(batch)
            size_bytes = sum(sizes[one] for one in gone)
            yield Removed(kind=kind, reason=reason, count=len(gone), size_bytes=size_bytes)

    def _keep_turn(self) -> None:
        """Have engines wait for an hour; raise _TurnLost if another pass has begun."""
        next_ms = self._limits.now_ms + HOUR_MS
        changed = self._database.change(
            """UPDATE meta SET next_prune_at = :next
               WHERE id = 1 AND (next_prune_at IS :known OR :anyway)""",
            {"next": next_ms, "known": self._next_ms, "anyway": self._takes_precedence},
        )
        if not changed:
            raise _TurnLost
        self._next_ms = next_ms

    def _used_bytes(self) -> int:
        return find_size(self._database)[0] - self._tried_bytes

    # Output.

    def _outputs_by_age(self) -> Iterator[Removed | None]:
        before_ms = self._limits.output_before_ms
        if before_ms is None:
            return
        walk = AgeWalk(before_ms=before_ms, now_ms=self._limits.now_ms)
        for page in self._output_pages():
            old = [
                one for one in page if walk.is_too_old(ended_ms=one.ended_ms, plan_ms=one.plan_ms)
            ]
            yield from self._remove_outputs([one for one in old if one.is_removable], Reason.AGE)
            yield None
            if walk.is_over:
                return

    def _outputs_by_bytes(self) -> Iterator[Removed | None]:
        most = self._limits.output_bytes
        if most is None or self._used_bytes() <= most:
            return
        tried = self._tried[Kind.OUTPUT]
        excess = -most
        for page in self._output_pages():
            excess += sum(one.size_bytes for one in page if one.execution_id not in tried)
            yield None
        for page in self._output_pages():
            oldest = []
            for one in page:
                if excess > 0 and one.size_bytes and one.execution_id not in tried:
                    oldest.append(one)
                    excess -= one.size_bytes
            yield from self._remove_outputs(oldest, Reason.BYTES)
            if excess <= 0:
                return
            yield None

    def _output_pages(self) -> Iterator[list[_Run]]:
        """The runs whose output is still there, with its size, by id.

        `is_removable` is False for the last run of a schedule: `logs NAME` shows it, however old.
        """
        last_id = 0
        while True:
            [(first_id,)] = self._database.rows(
                "SELECT min(execution_id) FROM outputs WHERE execution_id > :last",
                {"last": last_id},
            )
            if first_id is None:
                return
            last_id = first_id + _IDS - 1
            rows = self._database.rows(
                f"""SELECT e.id, {_ENDED}, e.plan_at, length(o.chunks), NOT EXISTS (
                        SELECT 1 FROM schedules AS s WHERE s.id = e.schedule_id
                            AND s.last_execution_id = e.id AND s.deleted_at IS NULL)
                    FROM outputs AS o CROSS JOIN executions AS e ON e.id = o.execution_id
                    WHERE o.execution_id BETWEEN :first AND :last AND o.removed_at IS NULL
                        AND (:schedule IS NULL OR e.schedule_id = :schedule)
                    ORDER BY o.execution_id""",
                {"first": first_id, "last": last_id, "schedule": self._schedule_id},
            )
            yield [_Run(*row) for row in rows]

    def _remove_outputs(self, runs: Sequence[_Run], reason: Reason) -> Iterator[Removed]:
        def remove(ids: list[int]) -> list[int]:
            with _without_overwriting(self._database):
                rows = self._database.returning_all(
                    """UPDATE outputs SET encoding = 'raw', chunks = x'', removed_at = :now
                       WHERE execution_id IN (SELECT value FROM json_each(:ids))
                           AND removed_at IS NULL RETURNING execution_id""",
                    {"ids": json.dumps(ids), "now": self._limits.now_ms},
                )
            return [row[0] for row in rows]

        sizes = {one.execution_id: max(0, one.size_bytes - _STUB_BYTES) for one in runs}
        return self._remove(Kind.OUTPUT, reason, sizes, remove)

    # Runs.

    def _runs_by_age(self) -> Iterator[Removed | None]:
        before_ms = self._limits.history_before_ms
        if before_ms is None:
            return
        walk = AgeWalk(before_ms=before_ms, now_ms=self._limits.now_ms)
        for page in self._run_pages(self._schedule_id, ended_before_ms=before_ms):
            old = [
                one for one in page if walk.is_too_old(ended_ms=one.ended_ms, plan_ms=one.plan_ms)
            ]
            yield from self._remove_runs(old, Reason.AGE)
            yield None
            if walk.is_over:
                return

    def _runs_by_count(self) -> Iterator[Removed | None]:
        most = self._limits.history_count
        if most is None:
            return
        for schedule_ids in self._long_schedules(most):
            for schedule_id in schedule_ids:
                oldest = yield from self._find_oldest_kept(schedule_id, most)
                if oldest is None:
                    continue
                for page in self._run_pages(schedule_id, before_id=oldest):
                    yield from self._remove_runs(page, Reason.COUNT)
                    yield None
            yield None

    def _find_oldest_kept(self, schedule_id: int, most: int) -> Generator[None, None, int | None]:
        """Return the oldest of the newest `most` runs that have ended; None if there are fewer.

        Each step is one short query: due fires wait for it.
        """
        before_id = 2**63 - 1
        while True:
            ids = self._database.rows(
                """SELECT id FROM executions INDEXED BY executions_by_schedule
                   WHERE schedule_id = :schedule AND id < :before AND id NOT IN (
                       SELECT id FROM executions INDEXED BY executions_active
                       WHERE schedule_id = :schedule AND status IN ('queued', 'running'))
                   ORDER BY id DESC LIMIT :limit""",
                {"schedule": schedule_id, "before": before_id, "limit": min(most, _COUNTED)},
            )
            yield None
            most -= len(ids)
            if most == 0:
                return int(ids[-1][0])
            if len(ids) < _COUNTED:
                return None
            before_id = ids[-1][0]

    def _long_schedules(self, most: int) -> Iterator[list[int]]:
        """The ids of the schedules that might have more runs than this."""
        if self._schedule_id is not None:
            yield [self._schedule_id]
            return
        [(last_id,)] = self._database.rows("SELECT coalesce(max(id), 0) FROM schedules")
        for first_id in range(1, last_id + 1, _IDS):
            rows = self._database.rows(
                """SELECT id FROM schedules WHERE id BETWEEN :first AND :last
                       AND run_count + skipped_count + cancelled_count > :most""",
                {"first": first_id, "last": first_id + _IDS - 1, "most": most},
            )
            yield [row[0] for row in rows]

    def _runs_by_bytes(self) -> Iterator[Removed | None]:
        most = self._limits.database_bytes
        if most is None or self._used_bytes() <= most:
            return
        for page in self._run_pages(None):
            for removed in self._remove_runs(page, Reason.BYTES):
                yield removed
                if self._used_bytes() <= most:
                    return
            yield None

    def _run_pages(
        self,
        schedule_id: int | None,
        *,
        before_id: int | None = None,
        ended_before_ms: int | None = None,
    ) -> Iterator[list[_Run]]:
        """Runs by id, of one schedule or of all; `size_bytes` includes the output.

        With `ended_before_ms`, no later run is removable.
        """
        where = "" if schedule_id is None else "AND e.schedule_id = :schedule"
        after_id = 0
        while True:
            rows = self._database.rows(
                f"""SELECT e.id, {_ENDED}, e.plan_at, {_RUN_BYTES} + coalesce((
                        SELECT length(chunks) FROM outputs WHERE execution_id = e.id), 0),
                        (:ended_before IS NULL OR {_ENDED} < :ended_before) AND {_REMOVABLE}
                    FROM executions AS e WHERE e.id > :after AND e.id < :before {where}
                    ORDER BY e.id LIMIT {_RUNS}""",
                {
                    "after": after_id,
                    "before": 2**63 - 1 if before_id is None else before_id,
                    "schedule": schedule_id,
                    "ended_before": ended_before_ms,
                    "now": self._limits.now_ms,
                },
            )
            if not rows:
                return
            yield [_Run(*row) for row in rows]
            after_id = rows[-1][0]

    def _remove_runs(self, runs: Sequence[_Run], reason: Reason) -> Iterator[Removed]:
        tried = self._tried[Kind.RUN]
        sizes = {
            one.execution_id: one.size_bytes
            for one in runs
            if one.is_removable and one.execution_id not in tried
        }
        return self._remove(
            Kind.RUN,
            reason,
            sizes,
            lambda ids: remove_runs(self._database, ids, now_ms=self._limits.now_ms),
        )

    # Former definitions of schedules, and removed schedules.

    def _unused_revisions(self) -> Iterator[Removed | None]:
        if self._schedule_id is not None:
            yield from self._unused_revisions_of(self._schedule_id)
            return
        after_id = 0
        while changed := self._database.rows(
            """SELECT DISTINCT schedule_id
               FROM schedule_revisions INDEXED BY schedule_revisions_changed
               WHERE revision > 1 AND schedule_id > :after ORDER BY schedule_id LIMIT 100""",
            {"after": after_id},
        ):
            for (after_id,) in changed:
                yield from self._unused_revisions_of(after_id)

    def _unused_revisions_of(self, schedule_id: int) -> Iterator[Removed | None]:
        sizes = yield from find_unused(
            self._database, schedule_id, replaced_before_ms=self._limits.replaced_before_ms
        )
        yield from self._remove(
            Kind.REVISION,
            Reason.UNUSED,
            sizes,
            lambda revisions: remove_revisions(self._database, schedule_id, revisions),
        )

    def _removed_schedules(self) -> Iterator[Removed | None]:
        """Delete the removed schedules that are old and have no runs left."""
        before_ms = self._limits.history_before_ms
        if before_ms is None:
            return
        for found in find_forgettable(self._database, before_ms=before_ms):
            batch: dict[int, int] = {}
            rows = 0
            for one in found:
                if rows + one.rows > MOST_ROWS:
                    yield from self._delete_schedules(batch)
                    batch, rows = {}, 0
                if one.rows > MOST_ROWS and not self._is_trial:
                    yield from self._delete_owned(one.schedule_id)
                batch[one.schedule_id] = 0
                rows += one.rows
            yield from self._delete_schedules(batch)

    def _delete_schedules(self, sizes: Mapping[int, int]) -> Iterator[Removed]:
        return self._remove(
            Kind.SCHEDULE, Reason.AGE, sizes, lambda ids: delete_schedules(self._database, ids)
        )

    def _delete_owned(self, schedule_id: int) -> Iterator[None]:
        has_more = True
        while has_more:
            with self._database.transaction():
                self._keep_turn()
                has_more = delete_owned(self._database, schedule_id)
            yield None


@contextmanager
def _without_overwriting(database: Database) -> Iterator[None]:
    """Do not overwrite freed pages: with output, that would double what is written to the disk."""
    database.rows("PRAGMA secure_delete = FAST")
    try:
        yield
    finally:
        database.rows("PRAGMA secure_delete = ON")
