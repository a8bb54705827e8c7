"""The store: the only place that knows SQL.

`SqliteStore` is one connection for one thread. `contract.Store` is what an engine asks of it;
the rest serves people: schedules, history, outputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.errors import DatabaseUnusable, NotFound
from edgecron.hold import Hold
from edgecron.store.connection import Database
from edgecron.store.keeping import Keeping
from edgecron.store.later import Later, later
from edgecron.store.migrate import migrate, refuse_planted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from edgecron.correcting import KeptTimes, Retimed
    from edgecron.model import EngineInfo, Execution, Outcome, Output, Schedule, Status
    from edgecron.planning import Due, Fire, Missed, NextFire
    from edgecron.standing import Standing
    from edgecron.store import (
        asking,
        backfills,
        broken,
        cancelling,
        changing,
        claims,
        damage,
        ending,
        engines,
        history,
        looking,
        outputs,
        prospects,
        queued,
        rescheduling,
        revisions,
        schedules,
        standings,
        upkeep,
    )
    from edgecron.store.changing import Retiming
    from edgecron.store.contract import (
        BootDecision,
        ClaimBatch,
        ClockMarks,
        Decided,
        Decision,
        Ended,
        RunningRow,
        Seat,
        StoredSchedule,
    )
    from edgecron.store.prospects import Prospects
    from edgecron.timing import CompiledSpec

    _PARTS: tuple[Later, ...]
else:
    _PARTS = later(
        __name__,
        "asking",
        "backfills",
        "broken",
        "cancelling",
        "changing",
        "claims",
        "damage",
        "ending",
        "engines",
        "history",
        "looking",
        "outputs",
        "prospects",
        "queued",
        "rescheduling",
        "revisions",
        "schedules",
        "standings",
        "upkeep",
    )
    (
        asking,
        backfills,
        broken,
        cancelling,
        changing,
        claims,
        damage,
        ending,
        engines,
        history,
        looking,
        outputs,
        prospects,
        queued,
        rescheduling,
        revisions,
        schedules,
        standings,
        upkeep,
    ) = _PARTS

# A megabyte: less is checkpointed too often, more makes reading slow.
_CHECKPOINT_PAGES = 1000

__all__ = ["SqliteStore", "open_store"]


def open_store(
    path: Path, *, now_ms: int, must_exist: bool = False, busy_wait_s: float = 30.0
) -> SqliteStore:
    """Open a database and bring it to this schema; see `Database` for what is refused."""
    database = Database(path, busy_wait_s=busy_wait_s, must_exist=must_exist)
    try:
        migrate(database, now_ms=now_ms)
        refuse_planted(database)
        return SqliteStore(database)
    except BaseException:
        database.close()
        raise


class SqliteStore(Keeping):
    """Everything that is kept, over one connection. Its methods are those of its modules."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._checkpointer: Database | None = None
        row = database.row("SELECT seed, uuid FROM meta")
        if row is None:
            raise DatabaseUnusable(
                f"database {database.path} has lost its seed", hint="restore a backup"
            )
        self._seed, self.uuid = bytes(row[0]), str(row[1])

    @property
    def path(self) -> Path:
        return self._database.path

    @property
    def database(self) -> Database:
        """The connection, for what is asked too rarely to be a method here."""
        return self._database

    @property
    def seed(self) -> bytes:
        return self._seed

    @property
    def change_mark(self) -> int:
        return self._database.data_version

    def close(self) -> None:
        if self._checkpointer is not None:
            self._checkpointer.close()
        self._database.close()

    def tidy(self) -> None:
        if self._checkpointer is None:
            self._database.leave_checkpoints_to_others()
            self._checkpointer = Database(self.path, must_exist=True)
        elif self._database.wal_pages >= _CHECKPOINT_PAGES:
            self._checkpointer.checkpoint()
            self._database.wal_pages = 0

    # What an engine asks: contract.Store.

    def register_engine(
        self, *, key: str, pid: int, boot_id: str, queues: tuple[str, ...], now_ms: int
    ) -> int:
        # What its first fire needs is loaded before that is due.
        for part in _PARTS:
            part.load()
        return engines.register_engine(
            self._database, key=key, pid=pid, boot_id=boot_id, queues=queues, now_ms=now_ms
        )

    def note_supervisor(self, engine_id: int, supervisor_id: str) -> None:
        engines.note_supervisor(self._database, engine_id, supervisor_id)

    def close_queues(self, engine_id: int) -> None:
        engines.close_queues(self._database, engine_id)

    def retire_engine(self, engine_id: int, *, now_ms: int) -> None:
        engines.retire_engine(self._database, engine_id, now_ms=now_ms)

    def find_due(
        self, queues: tuple[str, ...], *, now_ms: int, limit: int, hold: Hold = Hold.NOTHING
    ) -> list[Due]:
        return looking.find_due(self._database, queues, now_ms=now_ms, limit=limit, hold=hold)

    def find_boot_due(self, queues: tuple[str, ...], *, boot_id: str) -> list[tuple[int, int]]:
        return looking.find_boot_due(self._database, queues, boot_id=boot_id)

    def next_due_ms(
        self, queues: tuple[str, ...], *, now_ms: int, hold: Hold = Hold.NOTHING
    ) -> int | None:
        return looking.next_due_ms(self._database, queues, now_ms=now_ms, hold=hold)

    def upcoming(self, queues: tuple[str, ...], *, limit: int) -> list[tuple[int, int]]:
        return looking.upcoming(self._database, queues, limit=limit)

    def load_schedules(self, wanted: Sequence[tuple[int, int]]) -> list[StoredSchedule]:
        return revisions.load_schedules(self._database, wanted)

    def claim_due(self, decisions: Sequence[Decision], *, seat: Seat, now_ms: int) -> ClaimBatch:
        return claims.claim_due(self._database, decisions, seat=seat, now_ms=now_ms)

    def claim_boot(
        self, decisions: Sequence[BootDecision], *, boot_id: str, seat: Seat, now_ms: int
    ) -> ClaimBatch:
        return claims.claim_boot(
            self._database, decisions, boot_id=boot_id, seat=seat, now_ms=now_ms
        )

    def claim_queued(self, *, seat: Seat, now_ms: int, hold: Hold = Hold.NOTHING) -> ClaimBatch:
        return queued.claim_queued(self._database, seat=seat, now_ms=now_ms, hold=hold)

    def finish(self, outcomes: Sequence[Outcome], *, now_ms: int) -> list[Ended | None]:
        return ending.finish(self._database, outcomes, seed=self._seed, now_ms=now_ms)

    def finish_and_fill(
        self,
        outcomes: Sequence[Outcome],
        *,
        seat: Seat,
        now_ms: int,
        hold: Hold = Hold.NOTHING,
    ) -> tuple[list[Ended | None], ClaimBatch]:
        return ending.finish_and_fill(
            self._database, outcomes, seed=self._seed, seat=seat, now_ms=now_ms, hold=hold
        )

    def find_running(self) -> list[RunningRow]:
        return ending.find_running(self._database)

    def has_queued(self) -> bool:
        return queued.has_queued(self._database)

    def requeue(self, row: RunningRow, *, now_ms: int) -> Decided | None:
        return ending.requeue(self._database, row, now_ms=now_ms)

    def find_cancelled(self, engine_id: int) -> list[int]:
        return ending.find_cancelled(self._database, engine_id)

    def adopt(self, rows: Sequence[RunningRow], *, engine_id: int, now_ms: int) -> list[bool]:
        return ending.adopt(self._database, rows, engine_id=engine_id, now_ms=now_ms)

    def beat(self, engine_id: int, *, now_ms: int) -> None:
        ending.beat(self._database, engine_id, now_ms=now_ms)

    def mark_broken(self, schedule_id: int, *, revision: int, error: str, now_ms: int) -> bool:
        return broken.mark_broken(
            self._database, schedule_id, revision=revision, error=error, now_ms=now_ms
        )

    def find_clock_marks(self) -> ClockMarks:
        return upkeep.find_clock_marks(self._database)

    def note_trusted(self, mark_ms: int, *, was_ms: int | None) -> bool:
        return upkeep.note_trusted(self._database, mark_ms, was_ms=was_ms)

    def find_misdated(self, *, now_ms: int, ahead_ms: int) -> list[KeptTimes]:
        return upkeep.find_misdated(self._database, now_ms=now_ms, ahead_ms=ahead_ms)

    def find_intervals(self, *, now_ms: int, has_stepped: bool) -> list[KeptTimes]:
        return upkeep.find_intervals(self._database, now_ms=now_ms, has_stepped=has_stepped)

    def find_zoned(self, *, only_local: bool) -> list[KeptTimes]:
        return upkeep.find_zoned(self._database, only_local=only_local)

    def retime(self, changes: Sequence[Retimed], *, marks: ClockMarks | None) -> list[bool]:
        return upkeep.retime(self._database, changes, marks=marks)

    def bring_back_queued(self, *, now_ms: int, ahead_ms: int) -> int:
        return upkeep.bring_back_queued(self._database, now_ms=now_ms, ahead_ms=ahead_ms)

    def bring_back_successes(self, *, now_ms: int) -> int:
        return upkeep.bring_back_successes(self._database, now_ms=now_ms)

    # What people ask.

    def insert_schedules(
        self,
        made: Sequence[tuple[CompiledSpec, Retiming]],
        *,
        boot_id: str,
        origin: str,
        now_ms: int,
    ) -> list[int]:
        return changing.insert_schedules(
            self._database, made, boot_id=boot_id, origin=origin, now_ms=now_ms
        )

    def update_schedule(
        self,
        schedule: Schedule,
        compiled: CompiledSpec,
        *,
        retiming: Retiming | None,
        boot_id: str,
        origin: str,
        now_ms: int,
    ) -> bool:
        return changing.update_schedule(
            self._database,
            schedule,
            compiled,
            retiming=retiming,
            boot_id=boot_id,
            origin=origin,
            now_ms=now_ms,
        )

    def pause_schedule(
        self,
        schedule: Schedule,
        *,
        until_ms: int | None,
        following: NextFire | None,
        now_ms: int,
    ) -> bool:
        return changing.pause_schedule(
            self._database, schedule, until_ms=until_ms, following=following, now_ms=now_ms
        )

    def resume_schedule(
        self, schedule: Schedule, *, retiming: Retiming, boot_id: str, now_ms: int
    ) -> bool:
        return changing.resume_schedule(
            self._database, schedule, retiming=retiming, boot_id=boot_id, now_ms=now_ms
        )

    def reschedule(self, schedule: Schedule, *, run_ms: int, now_ms: int) -> bool:
        return rescheduling.reschedule(self._database, schedule, run_ms=run_ms, now_ms=now_ms)

    def remove_schedule(self, schedule: Schedule, *, missed: Missed | None, now_ms: int) -> bool:
        return changing.remove_schedule(self._database, schedule, missed=missed, now_ms=now_ms)

    def together(self) -> AbstractContextManager[None]:
        """Let all that is written within be one transaction: all of it or nothing."""
        return self._database.together()

    def find_origins(self) -> dict[str, str]:
        return revisions.find_origins(self._database)

    def find_upstreams(self) -> list[tuple[str, str]]:
        return schedules.find_upstreams(self._database)

    def set_group_limit(self, name: str, max_running: int | None) -> None:
        changing.set_group_limit(self._database, name, max_running)

    def get_schedule(self, name: str) -> Schedule:
        """The schedule of this name; NotFound suggests one that is spelled like it."""
        found = schedules.find_schedule(self._database, name)
        if found is None:
            from difflib import get_close_matches

            close = get_close_matches(name, schedules.find_names(self._database), n=1)
            raise NotFound(
                f"there is no schedule {name!r}",
                hint=f"did you mean {close[0]!r}?" if close else "see: edgecron list",
            )
        return found

    def find_schedule(self, name: str) -> Schedule | None:
        return schedules.find_schedule(self._database, name)

    def find_removed(self, name: str) -> tuple[int, int] | None:
        return history.find_removed(self._database, name)

    def find_names(self) -> list[str]:
        return schedules.find_names(self._database)

    def find_standings(self) -> list[Standing]:
        return standings.find_standings(self._database)

    def coming_schedules(self) -> Iterator[Schedule]:
        return schedules.coming_schedules(self._database)

    def find_schedules(self) -> list[Schedule]:
        return schedules.find_schedules(self._database)

    def is_decided_early(self, schedule: Schedule, *, now_ms: int) -> bool:
        """Whether what it has decided last was decided before its time came."""
        return schedules.is_decided_early(self._database, schedule, now_ms=now_ms)

    def compiled_of(self, schedule: Schedule) -> str:
        return schedules.compiled_of(self._database, schedule)

    def enqueue_fire(self, schedule: Schedule, fire: Fire, *, now_ms: int) -> list[Decided] | None:
        """Queue a fire that a person asked for, in each scope; overlap may skip it.

        None where the schedule was changed or removed since it was read: nothing is queued.
        """
        with self._database.transaction():
            if not schedules.is_unchanged(self._database, schedule):
                return None
            return asking.enqueue_fire(
                self._database,
                schedule.id,
                schedule.revision,
                schedule.spec,
                fire=fire,
                now_ms=now_ms,
            )

    def find_covered(
        self, schedule: Schedule, scope: tuple[str, str], *, from_ms: int, to_ms: int
    ) -> dict[int, bool]:
        return backfills.find_covered(
            self._database, schedule.id, scope, from_ms=from_ms, to_ms=to_ms
        )

    def queue_backfill(
        self,
        schedule: Schedule,
        wanted: Sequence[tuple[int, str, tuple[str, str]]],
        *,
        priority: int,
        now_ms: int,
    ) -> list[int] | None:
        return backfills.queue_backfill(
            self._database, schedule, wanted, priority=priority, now_ms=now_ms
        )

    def cancel_queued(self, execution_id: int, *, now_ms: int) -> bool:
        return cancelling.cancel_queued(self._database, execution_id, now_ms=now_ms)

    def request_cancel(self, execution_id: int, *, now_ms: int) -> RunningRow | None:
        return ending.request_cancel(self._database, execution_id, now_ms=now_ms)

    def find_running_row(self, execution_id: int) -> RunningRow | None:
        return ending.find_running_row(self._database, execution_id)

    def find_execution(self, execution_id: int) -> Execution | None:
        return history.find_execution(self._database, execution_id)

    def find_executions(
        self,
        *,
        schedule_id: int | None = None,
        statuses: tuple[Status, ...] = (),
        before_id: int | None = None,
        limit: int = 20,
    ) -> list[Execution]:
        return history.find_executions(
            self._database,
            schedule_id=schedule_id,
            statuses=statuses,
            before_id=before_id,
            limit=limit,
        )

    def find_waiting(self, *, limit: int) -> list[Execution]:
        return history.find_waiting(self._database, limit=limit)

    def last_execution_of(self, schedule_id: int) -> Execution | None:
        return history.last_execution_of(self._database, schedule_id)

    def find_next_attempt(self, execution: Execution) -> Execution | None:
        return history.find_next_attempt(self._database, execution)

    def find_later(self, schedule_id: int, *, after_id: int, limit: int) -> list[Execution]:
        return history.find_later(self._database, schedule_id, after_id=after_id, limit=limit)

    def find_prospects(self, schedule: Schedule, *, most_active: int, now_ms: int) -> Prospects:
        return prospects.find_prospects(
            self._database, schedule, most_active=most_active, now_ms=now_ms
        )

    def count_active(self) -> dict[Status, int]:
        return history.count_active(self._database)

    def find_output(self, execution_id: int) -> Output | None:
        return outputs.find_output(self._database, execution_id)

    def find_engines(self) -> list[EngineInfo]:
        return engines.find_engines(self._database)

    def find_damage(self, *, is_deep: bool = False) -> list[str]:
        return damage.find_damage(self._database, is_deep=is_deep)

    def is_write_locked(self, *, wait_s: float) -> bool:
        return damage.is_write_locked(self.path, wait_s=wait_s)
