"""Remove old rows by retention, in slices of one short transaction each.

Other writers get the lock between slices. A pass that breaks off has removed less, and no harm is
done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from edgecron.base.units import HOUR_MS
from edgecron.planning.retention import (
    NOTICE_COUNT,
    AgeWalk,
    Kind,
    Limits,
    Reason,
    Removed,
    batches_of,
)
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.old_rows import (
    MOST_ROWS,
    STUB_BYTES,
    OldRun,
    delete_owned,
    delete_schedules,
    find_forgettable,
    find_long_schedules,
    find_oldest_kept,
    find_unused,
    output_pages,
    remove_outputs,
    remove_revisions,
    remove_runs,
    run_pages,
)
from edgecron.store.sql.outbox import (
    find_excess,
    find_old,
    forget_old_happenings,
    has_old_happenings,
    remove_notices,
)

_MOST_FOUND = 2_000  # notices in one look


def begin_pruning(
    database: Connection, limits: Limits, *, is_early: bool = False
) -> Iterator[Removed | None] | None:
    """Begin an engine's retention pass; None if another engine began one within the hour.

    With `is_early`, begin it anyway.

    Each step of the iterator is one short transaction and returns what it removed, or None if it
    only read. The pass ends early if another one begins.
    """
    row = database.row("SELECT next_prune_at FROM meta")
    next_ms = None if row is None else row[0]
    # A time further ahead was written by a wrong clock.
    is_recent = next_ms is not None and limits.now_ms < next_ms <= limits.now_ms + HOUR_MS
    if is_recent and not is_early:
        return None
    return _Pass(database, limits, next_ms=next_ms).slices()


def prune(
    database: Connection, limits: Limits, *, schedule_id: int | None, is_trial: bool
) -> Iterator[Removed | None]:
    """Begin a retention pass that a person asked for; engines then wait for their next hour.

    `schedule_id` limits it to the age and count of one schedule. A trial removes nothing and
    returns what a pass would remove.
    """
    begun = _Pass(
        database, limits, schedule_id=schedule_id, is_trial=is_trial, takes_precedence=True
    )
    return begun.slices()


class _TurnLost(Exception):
    """Another pass has begun: this one is over."""


class _Pass:
    """One retention pass.

    `next_ms` is `meta.next_prune_at` as this pass knows it: the pass ends if another one has
    changed it, unless it takes precedence.
    """

    def __init__(
        self,
        database: Connection,
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
                yield from self._notices()
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
               WHERE id = 1 AND (next_prune_at IS :known OR :anyway = 1)""",
            {"next": next_ms, "known": self._next_ms, "anyway": self._takes_precedence},
        )
        if not changed:
            raise _TurnLost
        self._next_ms = next_ms

    def _used_bytes(self) -> int:
        return self._database.find_size()[0] - self._tried_bytes

    # Output.

    def _outputs_by_age(self) -> Iterator[Removed | None]:
        before_ms = self._limits.output_before_ms
        if before_ms is None:
            return
        walk = AgeWalk(before_ms=before_ms, now_ms=self._limits.now_ms)
        for page in output_pages(self._database, self._schedule_id):
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
        for page in output_pages(self._database, self._schedule_id):
            excess += sum(one.size_bytes for one in page if one.execution_id not in tried)
            yield None
        for page in output_pages(self._database, self._schedule_id):
            oldest = []
            for one in page:
                if excess > 0 and one.size_bytes and one.execution_id not in tried:
                    oldest.append(one)
                    excess -= one.size_bytes
            yield from self._remove_outputs(oldest, Reason.BYTES)
            if excess <= 0:
                return
            yield None

    def _remove_outputs(self, runs: Sequence[OldRun], reason: Reason) -> Iterator[Removed]:
        sizes = {one.execution_id: max(0, one.size_bytes - STUB_BYTES) for one in runs}
        return self._remove(
            Kind.OUTPUT,
            reason,
            sizes,
            lambda ids: remove_outputs(self._database, ids, now_ms=self._limits.now_ms),
        )

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
        schedules: Iterable[list[int]] = (
            find_long_schedules(self._database, most)
            if self._schedule_id is None
            else [[self._schedule_id]]
        )
        for schedule_ids in schedules:
            for schedule_id in schedule_ids:
                oldest = yield from find_oldest_kept(self._database, schedule_id, most)
                if oldest is None:
                    continue
                for page in self._run_pages(schedule_id, before_id=oldest):
                    yield from self._remove_runs(page, Reason.COUNT)
                    yield None
            yield None

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
    ) -> Iterator[list[OldRun]]:
        return run_pages(
            self._database,
            schedule_id,
            now_ms=self._limits.now_ms,
            before_id=before_id,
            ended_before_ms=ended_before_ms,
        )

    def _remove_runs(self, runs: Sequence[OldRun], reason: Reason) -> Iterator[Removed]:
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

    # Notices.

    def _notices(self) -> Iterator[Removed | None]:
        before_ms = self._limits.noticed_before_ms
        if before_ms is not None:
            find = partial(find_old, self._database, before_ms=before_ms)
            yield from self._remove_notices(find, Reason.AGE)
            if not self._is_trial and has_old_happenings(self._database, before_ms=before_ms):
                with self._database.transaction():
                    self._keep_turn()
                    forget_old_happenings(self._database, before_ms=before_ms)
                yield None
        find = partial(find_excess, self._database, most=NOTICE_COUNT)
        yield from self._remove_notices(find, Reason.COUNT)

    def _remove_notices(
        self, find: Callable[..., dict[int, int]], reason: Reason
    ) -> Iterator[Removed | None]:
        """Remove what `find` finds, the oldest first, some at a time."""
        after_id = 0
        while sizes := find(after_id=after_id, limit=_MOST_FOUND):
            after_id = max(sizes)
            left = {one: size for one, size in sizes.items() if one not in self._tried[Kind.NOTICE]}
            yield from self._remove(
                Kind.NOTICE, reason, left, lambda ids: remove_notices(self._database, ids)
            )
            yield None
