"""Give free places to queued rows, in the order of `queue_order`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from edgecron.model.choices import Cause, Hold, Overlap
from edgecron.model.conditions import Condition
from edgecron.model.run import Upstream
from edgecron.planning.admission import (
    LATE_CAUSES,
    is_behind,
    is_full,
    may_start_queued,
    running_limit,
)
from edgecron.planning.windows import has_closed
from edgecron.store.contract import (
    STALE_MS,
    Broken,
    Claimant,
    ClaimBatch,
    Decided,
    Granted,
    QueuedRow,
)
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.fires import give_back_unmet
from edgecron.store.sql.follow_ups import follow_up_withdrawn
from edgecron.store.sql.limits import Needs, RunCounts, has_place
from edgecron.store.sql.overlap_replace import ask_for_place
from edgecron.store.sql.queue_order import (
    Blocked,
    LateKey,
    find_next_late,
    has_waiting,
    walk_queued,
)
from edgecron.store.sql.waiting_rows import (
    deadline_ms,
    give_up,
    give_up_excluded,
    give_up_expired,
    wait_for_condition,
    wait_for_window,
)

# These run in sequence, were started manually, or have begun before: they replace no run.
_REPLACE_NOTHING = frozenset({Cause.CATCH_UP, Cause.BACKFILL, Cause.MANUAL, Cause.RETRY})
_TOKEN_BYTES = 8


def claim_queued(
    database: Connection, *, claimant: Claimant, now_ms: int, hold: Hold = Hold.NOTHING
) -> ClaimBatch:
    """Give free places to queued rows; see `Store.claim_queued`."""
    if not _has_work(database, claimant, now_ms, hold):
        return ClaimBatch()
    with database.transaction():
        return fill(database, claimant=claimant, now_ms=now_ms, hold=hold)


def fill(database: Connection, *, claimant: Claimant, now_ms: int, hold: Hold) -> ClaimBatch:
    """Give free places to queued rows, inside the caller's transaction."""
    may_give_up = _may_give_up(claimant, hold)
    filler = _Filler(database, claimant, now_ms, may_give_up=may_give_up)
    if may_give_up and has_expired(database, claimant.queues, now_ms=now_ms):
        filler.give_up()
    filler.fill()
    return ClaimBatch(
        granted=tuple(filler.granted),
        decided=tuple(filler.decided),
        has_replaced=filler.has_replaced,
        broken=tuple(filler.broken),
    )


def _may_give_up(claimant: Claimant, hold: Hold) -> bool:
    return hold is Hold.NOTHING and claimant.only is None


def _has_work(database: Connection, claimant: Claimant, now_ms: int, hold: Hold) -> bool:
    """Whether a wait for a condition has ended, or a run waits and a place is free."""
    if _may_give_up(claimant, hold) and has_expired(database, claimant.queues, now_ms=now_ms):
        return True
    return has_place(database, claimant) and has_waiting(database, claimant, now_ms)


def has_queued(database: Connection) -> bool:
    """Whether any run waits for a place or for its time."""
    return bool(
        database.rows(
            """SELECT 1 FROM executions
               WHERE status = 'queued' AND waiting_for IS NULL LIMIT 1"""
        )
    )


def has_expired(database: Connection, queues: tuple[str, ...], *, now_ms: int) -> bool:
    """Whether a row of these queues has waited for a condition until its deadline."""
    return any(
        database.row(
            """SELECT 1 FROM executions WHERE queue = :queue AND wait_until <= :now
               ORDER BY wait_until LIMIT 1""",
            {"queue": queue, "now": now_ms},
        )
        is not None
        for queue in queues
    )


class _Filler:
    """Walk over the queued rows in one transaction, start what can start, and decide the rest."""

    def __init__(
        self, database: Connection, claimant: Claimant, now_ms: int, *, may_give_up: bool
    ) -> None:
        self._database = database
        self._claimant = claimant
        self._now_ms = now_ms
        self._may_give_up = may_give_up
        self._needs = Needs(database, now_ms=now_ms, machine=claimant.machine)
        self._counts = RunCounts(database, claimant, now_ms=now_ms, is_of_queue=True)
        self._blocked = Blocked()
        self._stuck_late: set[LateKey] = set()
        self.granted: list[Granted] = []
        self.decided: list[Decided] = []
        self.has_replaced = False
        self.broken: list[Broken] = []
        self._starting: list[QueuedRow] = []  # counted, and not written yet
        self._has_followers = False  # rows that the walk might have passed already

    def give_up(self) -> None:
        """Give up rows that have waited for a condition until their deadline."""
        for queue in self._claimant.queues:
            for one in give_up_expired(self._database, queue, self._needs):
                self._note(one)

    def fill(self) -> None:
        """Start queued rows until all places are taken."""
        self._walk()
        while self._has_followers or self._has_other_late_runs():
            self._has_followers = False
            self._walk()

    def _has_other_late_runs(self) -> bool:
        """Whether late runs are left for places that the next late runs could not use."""
        if not self._blocked.late or self._counts.late_places <= 0:
            return False
        # If one could not start, no other of its schedule, scope and cause can.
        started = {grant.execution_id for grant in self.granted}
        self._stuck_late |= {key for id_, key in self._blocked.late.items() if id_ not in started}
        self._blocked.late = self._find_next_late()
        return bool(self._blocked.late)

    def _find_next_late(self) -> dict[int, LateKey]:
        # A late run that can't start must not take the turn of one that can.
        self._write_starts()
        self._blocked.find_all_keys(self._database)
        return find_next_late(
            self._database,
            self._claimant.queues,
            now_ms=self._now_ms,
            limit=self._counts.late_places,
            full=self._blocked.keys,
            stuck=self._stuck_late,
        )

    def _is_next_late(self, row: QueuedRow) -> bool:
        if self._claimant.only is not None:
            return True
        if self._blocked.late is None:
            self._blocked.late = self._find_next_late()
        return row.execution_id in self._blocked.late

    def _walk(self) -> None:
        counts, only = self._counts, self._claimant.only
        rows = walk_queued(
            self._database,
            self._claimant.queues,
            now_ms=self._now_ms,
            counts=counts,
            blocked=self._blocked,
            offers=self._claimant.offers,
        )
        for row in rows if counts.places > 0 else ():
            if only is not None and row.execution_id != only:
                continue
            if self._has_room(row):
                self._start_or_wait(row)
            if counts.places <= 0:
                break
        self._write_starts()

    def _write_starts(self) -> None:
        """Write the decided starts together, in half of the time that each takes by itself."""
        starting, self._starting = self._starting, []
        if starting:
            self.granted += _start(self._database, starting, self._claimant, self._now_ms)

    def _has_room(self, row: QueuedRow) -> bool:
        """Whether a row can run now; if not, note which other rows are held back too."""
        counts = self._counts
        occupancy = counts.occupancy(row.key)
        if counts.is_group_full(row.group):
            assert row.group is not None
            self._blocked.groups.add(row.group)
        elif row.cause in LATE_CAUSES and counts.late_places <= 0:
            self._blocked.causes |= LATE_CAUSES
        elif row.cause in LATE_CAUSES and not self._is_next_late(row):
            return False
        elif is_full(overlap=row.overlap, max_running=row.max_running, occupancy=occupancy):
            self._blocked.keys.add(row.key)
            self._ask_for_place(row)
        elif row.cause is Cause.BACKFILL and is_behind(cause=row.cause, occupancy=occupancy):
            self._blocked.backfills.add(row.key)
        else:
            return may_start_queued(
                overlap=row.overlap,
                max_running=row.max_running,
                cause=row.cause,
                occupancy=occupancy,
                is_backfill=row.is_backfill,
            )
        return False

    def _ask_for_place(self, row: QueuedRow) -> None:
        """Replace running runs by a run that had to wait for a condition."""
        is_replacing = row.overlap is Overlap.REPLACE and row.cause not in _REPLACE_NOTHING
        has_waited = row.needs or row.windows is not None
        if not is_replacing or not has_waited or not self._is_open_for(row):
            return
        if self._find_unmet(row) is not None:
            return
        limit = running_limit(row.overlap, row.max_running) or 1
        self._write_starts()  # One of these might be what it replaces.
        if ask_for_place(
            self._database, row.key, by=row.execution_id, limit=limit, now_ms=self._now_ms
        ):
            self.has_replaced = True

    def _find_unmet(self, row: QueuedRow) -> Condition | None:
        return self._needs.find_unmet(row.needs, row.cause, schedule_id=row.schedule_id)

    def _start_or_wait(self, row: QueuedRow) -> None:
        """Start a row if its conditions are met now; otherwise let it wait, or give it up."""
        if self._has_closed(row):
            if self._may_give_up:
                self._note(
                    give_up_excluded(
                        self._database, row.execution_id, row.closes_ms, now_ms=self._now_ms
                    )
                )
            return
        if not self._is_open_for(row):
            self._wait_for_window(row)
            return
        unmet = self._find_unmet(row)
        if unmet is not None:
            until_ms = deadline_ms(
                self._database,
                row.schedule_id,
                plan_ms=row.plan_ms,
                due_ms=row.due_ms,
                needs_deadline_s=row.needs_deadline_s,
                closes_ms=row.closes_ms,
                unmet=unmet,
                needs=self._needs,
            )
            if self._may_give_up and until_ms <= self._now_ms:
                self._note(
                    give_up(
                        self._database,
                        row.execution_id,
                        unmet,
                        within_ms=max(0, until_ms - row.due_ms),
                        now_ms=self._now_ms,
                    )
                )
            else:
                self._note(wait_for_condition(self._database, row, unmet, until_ms=until_ms))
            return
        self._counts.count_start(row.key, row.group, row.cause, is_backfill=row.is_backfill)
        self._starting.append(row)

    def _note(self, one: Decided) -> None:
        self.decided.append(one)
        if one.reason is not None:  # Given up: its fire has ended.
            self._write_starts()  # What follows counts running runs.
            self.broken += give_back_unmet(self._database, one.execution_id, now_ms=self._now_ms)
            ended = follow_up_withdrawn(self._database, one.execution_id, now_ms=self._now_ms)
            self.decided.extend(ended.decided)
            self.broken.extend(ended.broken)
            self.has_replaced = self.has_replaced or ended.has_replaced
            self._has_followers = self._has_followers or bool(ended.decided)

    def _has_closed(self, row: QueuedRow) -> bool:
        return has_closed(
            row.windows,
            row.closes_ms,
            plan_ms=row.plan_ms,
            due_ms=row.due_ms,
            cause=row.cause,
            now_ms=self._now_ms,
        )

    def _is_open_for(self, row: QueuedRow) -> bool:
        """Whether the windows of its schedule let a row start now. A manual run needs none."""
        if row.windows is None or row.cause is Cause.MANUAL:
            return True
        return row.windows.may_start(row.due_ms, now_ms=self._now_ms)

    def _wait_for_window(self, row: QueuedRow) -> None:
        """Let a row wait until the next window opens."""
        assert row.windows is not None
        opens_ms = row.windows.next_open_ms(self._now_ms)
        assert opens_ms is not None
        self._note(wait_for_window(self._database, row, opens_ms=opens_ms))


def _start(
    database: Connection, rows: Sequence[QueuedRow], claimant: Claimant, now_ms: int
) -> list[Granted]:
    """Let queued rows run, in this order. The transaction has read them."""
    fences = _take_fences(database, Counter(row.schedule_id for row in rows), now_ms)
    tokens = os.urandom(_TOKEN_BYTES * len(rows)).hex()
    written = []
    for place, row in enumerate(rows):
        first = 2 * _TOKEN_BYTES * place
        written.append(
            {
                "place": place,
                "id": row.execution_id,
                "revision": row.revision,
                "now": now_ms,
                "fence": next(fences[row.schedule_id]),
                "stale": now_ms + STALE_MS,
                "engine": claimant.engine_id,
                "supervisor": claimant.supervisor_id,
                "token": tokens[first : first + 2 * _TOKEN_BYTES],
            }
        )
    found = database.returning_each(
        """UPDATE executions SET status = 'running', claimed_at = :now, heartbeat_at = :now,
               stale_after = :stale, started_at = :now, fence = :fence, revision = :revision,
               engine_id = :engine, error_msg = NULL,
               supervisor_id = :supervisor, lease_token = :token
           WHERE id = :id AND status = 'queued' AND waiting_for IS NULL
           RETURNING :place, plan_at, due_at, fire_key, cause, attempt, max_attempts, payload,
               timeout_s""",
        written,
    )
    return [
        Granted(
            execution_id=rows[place].execution_id,
            lease_token=written[place]["token"],
            schedule_id=rows[place].schedule_id,
            revision=rows[place].revision,
            plan_ms=plan_ms,
            due_ms=due_ms,
            fire_key=fire_key,
            cause=Cause(cause),
            attempt=attempt,
            max_attempts=max_attempts,
            scope_kind=rows[place].scope_kind,
            scope_id=rows[place].scope_id,
            payload=payload,
            timeout_s=timeout_s,
            fence=written[place]["fence"],
            upstream=_find_upstream(database, fire_key),
        )
        for (
            place,
            plan_ms,
            due_ms,
            fire_key,
            cause,
            attempt,
            max_attempts,
            payload,
            timeout_s,
        ) in found
    ]


def _take_fences(
    database: Connection, wanted: Mapping[int, int], now_ms: int
) -> dict[int, Iterator[int]]:
    """Take a fence for each start, by schedule; fences rise from start to start."""
    found = database.returning_each(
        """UPDATE schedules SET fence = max(fence + 1, :now) + :count - 1 WHERE id = :id
           RETURNING id, fence""",
        [{"id": id_, "count": count, "now": now_ms} for id_, count in wanted.items()],
    )
    return {id_: iter(range(fence - wanted[id_] + 1, fence + 1)) for id_, fence in found}


def _find_upstream(database: Connection, fire_key: str) -> Upstream | None:
    """Find the run that a follow-up comes after; None for other fires, or if it was pruned."""
    kind, _, upstream_id = fire_key.partition(":")
    if kind != "after" or not upstream_id.isdecimal():
        return None
    row = database.row(
        """SELECT s.name, e.id, e.status, e.reason, e.exit_code, coalesce(e.error_msg, e.error_code)
           FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id WHERE e.id = :id""",
        {"id": int(upstream_id)},
    )
    return None if row is None else Upstream(*row)
