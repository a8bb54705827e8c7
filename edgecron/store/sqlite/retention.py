"""Run a retention pass: remove old rows in slices of one short transaction each.

Other writers get the lock between slices. A pass that breaks off anywhere has only removed less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from edgecron.planning.corrections import HOUR_MS
from edgecron.planning.retention import (
    MOST_ROWS,
    AgeWalk,
    Candidate,
    Kind,
    Limits,
    Reason,
    Removed,
    batches_of,
    is_old,
)
from edgecron.store.sqlite import old_definitions, retention_rows
from edgecron.store.sqlite.connection import Database

# What a row takes, with its part of the indexes, and what is left of one whose output went
# (measured over a million short runs).
RUN_BYTES = 220
_STUB_BYTES = 24


def begin_pruning(database: Database, limits: Limits) -> Iterator[Removed | None] | None:
    """Begin an engine's retention pass; None if another engine began one within the hour.

    Each step of the iterator is one short transaction and says what it removed, or None if it
    removed nothing. The pass ends early if another one begins.
    """
    next_ms = limits.now_ms + HOUR_MS
    was_ms = retention_rows.find_next_prune(database)
    # What lies further ahead was written by a clock that was wrong.
    if was_ms is not None and limits.now_ms < was_ms <= next_ms:
        return None
    mark_ms = was_ms

    def keep_turn() -> bool:
        nonlocal mark_ms
        is_ours = retention_rows.keep_turn(database, next_ms, was_ms=mark_ms)
        mark_ms = next_ms
        return is_ours

    return _Pass(database, limits, keep_turn=keep_turn).slices()


def prune(
    database: Database, limits: Limits, *, schedule_id: int | None, is_trial: bool
) -> Iterator[Removed | None]:
    """Begin a retention pass that a person asked for; engines wait for their next hour.

    `schedule_id` bounds it to one schedule, and to age and count. A trial removes nothing and says
    what a pass would remove.
    """

    def take_turn() -> bool:
        retention_rows.note_next_prune(database, limits.now_ms + HOUR_MS)
        return True

    begun = _Pass(database, limits, keep_turn=take_turn, schedule_id=schedule_id, is_trial=is_trial)
    return begun.slices()


class _TurnLost(Exception):
    """Somebody else began to remove: this pass is over."""


class _Pass:
    """One pass. Each transaction asks `keep_turn` whether to continue; a trial estimates bytes."""

    def __init__(
        self,
        database: Database,
        limits: Limits,
        *,
        keep_turn: Callable[[], bool],
        schedule_id: int | None = None,
        is_trial: bool = False,
    ) -> None:
        self._database = database
        self._limits = limits
        self._keep_turn = keep_turn
        self._schedule_id = schedule_id
        self._is_trial = is_trial
        # What a trial would have removed, for the limits that come after.
        self._tried_bytes = 0
        self._tried_output_bytes = 0
        self._old_outputs_until = 0  # ids; those that are too old lie at or below
        self._old_runs_until = 0
        self._counted: dict[int, int] = {}  # by schedule: those below this id are too many

    def slices(self) -> Iterator[Removed | None]:
        """Go on by a slice at each turn: what it removed, None where it only looked.

        Ends where there is nothing left to do, or it is another's turn.
        """
        try:
            yield from self._outputs_by_age()
            yield from self._outputs_by_bytes()
            yield from self._runs_by_age()
            yield from self._runs_by_count()
            if self._schedule_id is None:
                yield from self._runs_by_bytes()
                yield from self._removed_schedules()
            yield from self._old_revisions()
        except _TurnLost:
            return

    # Output.

    def _outputs_by_age(self) -> Iterator[Removed | None]:
        before_ms = self._limits.output_before_ms
        if before_ms is None:
            return
        walk = AgeWalk(before_ms=before_ms, now_ms=self._limits.now_ms)
        after_id = 0
        while not walk.is_over:
            found = self._find_outputs(after_id)
            if found is None:
                return
            after_id, page = found
            old = [
                one for one in page if walk.is_too_old(ended_ms=one.ended_ms, plan_ms=one.plan_ms)
            ]
            # `logs NAME` shows the last run, however long ago it was.
            lasts = retention_rows.find_last_runs(self._database, [one.schedule_id for one in old])
            old = [one for one in old if one.execution_id not in lasts]
            if old:
                self._old_outputs_until = old[-1].execution_id
            yield from self._remove_outputs(old, Reason.AGE)

    def _outputs_by_bytes(self) -> Iterator[Removed | None]:
        most = self._limits.output_bytes
        if most is None or self._used_bytes() <= most:
            return
        total = 0
        for size_bytes in self._output_sizes():
            total += size_bytes
            yield None
        excess = total - most - self._tried_output_bytes
        after_id = 0
        while excess > 0:
            found = self._find_outputs(after_id)
            if found is None:
                return
            after_id, page = found
            tried = self._tried(page)
            taken = []
            for one in page:
                if excess > 0 and one.output_bytes and one.execution_id not in tried:
                    taken.append(one)
                    excess -= one.output_bytes
            yield from self._remove_outputs(taken, Reason.BYTES)

    def _output_sizes(self) -> Iterator[int]:
        after_id = 0
        if self._schedule_id is not None:
            while (found := self._find_outputs(after_id)) is not None:
                after_id, page = found
                yield sum(one.output_bytes or 0 for one in page)
            return
        while (summed := retention_rows.sum_outputs(self._database, after_id=after_id)) is not None:
            after_id, size_bytes = summed
            yield size_bytes

    def _find_outputs(self, after_id: int) -> tuple[int, list[Candidate]] | None:
        return retention_rows.find_outputs(
            self._database, after_id=after_id, schedule_id=self._schedule_id
        )

    def _remove_outputs(self, outputs: Sequence[Candidate], reason: Reason) -> Iterator[Removed]:
        for batch in batches_of(outputs):
            count = len(batch)
            size_bytes = sum(max(0, (one.output_bytes or 0) - _STUB_BYTES) for one in batch)
            if not self._is_trial:
                ids = [one.execution_id for one in batch]
                with self._database.transaction():
                    self._go_on()
                    count = retention_rows.remove_outputs(
                        self._database, ids, now_ms=self._limits.now_ms
                    )
            else:
                self._tried_output_bytes += sum(one.output_bytes or 0 for one in batch)
            yield self._removed(Kind.OUTPUT, reason, count, size_bytes)

    def _tried(self, page: Sequence[Candidate]) -> set[int]:
        """Those that count as removed for their age, in a trial."""
        if not self._is_trial:
            return set()
        before_ms = self._limits.output_before_ms
        old = [
            one
            for one in page
            if one.execution_id <= self._old_outputs_until
            and is_old(one.ended_ms, before_ms=before_ms)
        ]
        lasts = retention_rows.find_last_runs(self._database, [one.schedule_id for one in old])
        return {one.execution_id for one in old} - lasts

    # Runs.

    def _runs_by_age(self) -> Iterator[Removed | None]:
        before_ms = self._limits.history_before_ms
        if before_ms is None:
            return
        walk = AgeWalk(before_ms=before_ms, now_ms=self._limits.now_ms)
        after_id = 0
        while not walk.is_over:
            page = self._find_runs(after_id, self._schedule_id, before_ms=before_ms)
            if not page:
                return
            after_id = page[-1][0].execution_id
            old = [
                one
                for one, is_removable in page
                if walk.is_too_old(ended_ms=one.ended_ms, plan_ms=one.plan_ms) and is_removable
            ]
            if old:
                self._old_runs_until = old[-1].execution_id
            yield from self._remove_runs(old, Reason.AGE)
            yield None

    def _runs_by_count(self) -> Iterator[Removed | None]:
        most = self._limits.history_count
        if most is None or retention_rows.count_ids(self._database) <= most:
            return
        after_id = 0
        while (
            found := retention_rows.find_long(
                self._database, after_id=after_id, most=most, schedule_id=self._schedule_id
            )
        ) is not None:
            after_id, schedule_ids = found
            for schedule_id in schedule_ids:
                yield from self._runs_of_by_count(schedule_id, most)
            yield None

    def _runs_of_by_count(self, schedule_id: int, most: int) -> Iterator[Removed | None]:
        """Leave of a schedule the newest so many runs that have ended."""
        active = retention_rows.find_active(self._database, schedule_id)
        kept, oldest_kept = 0, None
        while kept < most:
            page = retention_rows.find_newer(self._database, schedule_id, before_id=oldest_kept)
            if not page:
                return
            for execution_id in page:
                oldest_kept = execution_id
                kept += execution_id not in active
                if kept == most:
                    break
            yield None
        assert oldest_kept is not None
        after_id = 0
        while True:
            page_of_runs = self._find_runs(after_id, schedule_id)
            many = [
                one
                for one, is_removable in page_of_runs
                if one.execution_id < oldest_kept and is_removable and not self._is_tried_run(one)
            ]
            yield from self._remove_runs(many, Reason.COUNT)
            if not page_of_runs or page_of_runs[-1][0].execution_id >= oldest_kept:
                break
            after_id = page_of_runs[-1][0].execution_id
            yield None
        self._counted[schedule_id] = oldest_kept

    def _runs_by_bytes(self) -> Iterator[Removed | None]:
        most = self._limits.database_bytes
        after_id = 0
        while most is not None and self._used_bytes() > most:
            page = self._find_runs(after_id, None)
            if not page:
                return
            after_id = page[-1][0].execution_id
            oldest = [
                one for one, is_removable in page if is_removable and not self._is_tried_run(one)
            ]
            # What a batch frees is seen before the next one goes.
            for batch in batches_of(oldest):
                if self._used_bytes() <= most:
                    return
                yield from self._remove_runs(batch, Reason.BYTES)
            yield None

    def _find_runs(
        self, after_id: int, schedule_id: int | None, *, before_ms: int | None = None
    ) -> list[tuple[Candidate, bool]]:
        return retention_rows.find_runs(
            self._database,
            after_id=after_id,
            schedule_id=schedule_id,
            before_ms=before_ms,
            now_ms=self._limits.now_ms,
        )

    def _remove_runs(self, runs: Sequence[Candidate], reason: Reason) -> Iterator[Removed]:
        for batch in batches_of(runs):
            gone = {one.execution_id for one in batch}
            if not self._is_trial:
                with self._database.transaction():
                    self._go_on()
                    gone = set(
                        retention_rows.remove_runs(
                            self._database, list(gone), now_ms=self._limits.now_ms
                        )
                    )
            size_bytes = sum(
                RUN_BYTES + (one.output_bytes or 0) for one in batch if one.execution_id in gone
            )
            yield self._removed(Kind.RUN, reason, len(gone), size_bytes)

    def _is_tried_run(self, one: Candidate) -> bool:
        """Whether it counts as removed for its age or by count, in a trial."""
        if not self._is_trial:
            return False
        is_aged = one.execution_id <= self._old_runs_until and is_old(
            one.ended_ms, before_ms=self._limits.history_before_ms
        )
        return is_aged or one.execution_id < self._counted.get(one.schedule_id, 0)

    # Schedules that a person removed, of which nothing is left.

    def _removed_schedules(self) -> Iterator[Removed | None]:
        before_ms = self._limits.history_before_ms
        if before_ms is None:
            return
        after_id = 0
        while found := retention_rows.find_forgotten(
            self._database, before_ms=before_ms, after_id=after_id
        ):
            for schedule_id, revisions in found:
                yield from self._remove_schedule(schedule_id, revisions)
            after_id = found[-1][0]

    def _remove_schedule(self, schedule_id: int, revisions: int) -> Iterator[Removed]:
        count = 1
        while not self._is_trial and revisions >= MOST_ROWS:
            with self._database.transaction():
                self._go_on()
                removed = retention_rows.remove_revisions(
                    self._database, schedule_id, limit=MOST_ROWS
                )
            revisions -= removed
            yield self._removed(Kind.REVISION, Reason.AGE, removed, 0)
            if not removed:
                break
        if not self._is_trial:
            with self._database.transaction():
                self._go_on()
                count = retention_rows.remove_schedule(self._database, schedule_id)
        yield self._removed(Kind.SCHEDULE, Reason.AGE, count, 0)

    # What schedules said before.

    def _old_revisions(self) -> Iterator[Removed | None]:
        if self._schedule_id is not None:
            yield from self._old_revisions_of(self._schedule_id)
            return
        after_id = 0
        while found := old_definitions.find_changed(self._database, after_id=after_id):
            for schedule_id in found:
                yield from self._old_revisions_of(schedule_id)
            after_id = found[-1]

    def _old_revisions_of(self, schedule_id: int) -> Iterator[Removed | None]:
        unneeded = yield from old_definitions.look_for_unneeded(self._database, schedule_id)
        if unneeded is None:
            return
        for batch in old_definitions.batches_of(unneeded.snapshots):
            count = len(batch)
            if not self._is_trial:
                with self._database.transaction():
                    self._go_on()
                    count = old_definitions.remove_unneeded(self._database, unneeded, batch)
            size_bytes = sum(one.size_bytes for one in batch) if count else 0
            yield self._removed(Kind.REVISION, Reason.UNUSED, count, size_bytes)

    # Of all of it.

    def _used_bytes(self) -> int:
        return retention_rows.used_bytes(self._database) - self._tried_bytes

    def _go_on(self) -> None:
        """Raise where it is not our turn any more; what the transaction did is rolled back."""
        if not self._keep_turn():
            raise _TurnLost

    def _removed(self, kind: Kind, reason: Reason, count: int, size_bytes: int) -> Removed:
        if self._is_trial:
            self._tried_bytes += size_bytes
        return Removed(kind=kind, reason=reason, count=count, size_bytes=size_bytes)
