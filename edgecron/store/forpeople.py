"""What people ask of the store: schedules made and changed, runs asked for, the past read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.base.errors import NotFound
from edgecron.store.later import later
from edgecron.store.opened import OpenStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from edgecron.base.errors import Unreadable
    from edgecron.model.choices import Cause, Status
    from edgecron.model.claim import Output
    from edgecron.model.engine import EngineInfo
    from edgecron.model.listing import Choice, RunPage, SchedulePage, Standing
    from edgecron.model.measures import Recurrence
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule, ScheduleSpec
    from edgecron.planning.next_fire import Fire, Missed, NextFire
    from edgecron.planning.times import CompiledSpec
    from edgecron.store import (
        asking,
        backfills,
        cancelling,
        changing,
        damage,
        ending,
        engines,
        history,
        imports,
        outputs,
        pendingapply,
        prospects,
        recurring,
        reports,
        rescheduling,
        revisions,
        schedules,
        standings,
    )
    from edgecron.store.changing import Retiming
    from edgecron.store.contract import Decided, RunningRow
    from edgecron.store.damage import Orphans
    from edgecron.store.pendingapply import PendingApply
    from edgecron.store.prospects import Prospects
else:
    (
        asking,
        backfills,
        cancelling,
        changing,
        damage,
        ending,
        engines,
        history,
        imports,
        outputs,
        pendingapply,
        prospects,
        recurring,
        reports,
        rescheduling,
        revisions,
        schedules,
        standings,
    ) = later(
        "edgecron.store",
        "asking",
        "backfills",
        "cancelling",
        "changing",
        "damage",
        "ending",
        "engines",
        "history",
        "imports",
        "outputs",
        "pendingapply",
        "prospects",
        "recurring",
        "reports",
        "rescheduling",
        "revisions",
        "schedules",
        "standings",
    )


class ForPeople(OpenStore):
    """The side of the store that people use; each method is that of a module."""

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

    def restore_removed(
        self, schedule: Schedule, *, retiming: Retiming, boot_id: str, now_ms: int
    ) -> bool:
        return changing.restore_removed(
            self._database, schedule, retiming=retiming, boot_id=boot_id, now_ms=now_ms
        )

    def find_last_removed(self, name: str | None) -> list[tuple[Schedule, str | None]]:
        return schedules.find_last_removed(self._database, name)

    def find_removals(self, name: str) -> list[tuple[int, int]]:
        return history.find_removals(self._database, name)

    def find_imported(self) -> list[tuple[int, str, str]]:
        return imports.find_imported(self._database)

    def find_imported_before(self) -> list[tuple[int, ScheduleSpec]]:
        return imports.find_imported_before(self._database)

    def note_imported(self, rows: Sequence[tuple[int, str, str]]) -> None:
        imports.note_imported(self._database, rows)

    def together(self) -> AbstractContextManager[None]:
        """Let all that is written within be one transaction: all of it or nothing."""
        return self._database.together()

    def find_origins(self) -> dict[str, str]:
        return revisions.find_origins(self._database)

    def find_upstreams(self) -> list[tuple[str, str]]:
        return schedules.find_upstreams(self._database)

    def find_needs(self) -> list[tuple[str, tuple[str, ...]]]:
        return schedules.find_needs(self._database)

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

    def find_id(self, name: str) -> int | None:
        return schedules.find_id(self._database, name)

    def find_removed(self, name: str) -> tuple[int, int] | None:
        return history.find_removed(self._database, name)

    def find_names(self) -> list[str]:
        return schedules.find_names(self._database)

    def find_names_in_queue(self, queue: str) -> list[str]:
        return schedules.find_names_in_queue(self._database, queue)

    def count_schedules(self) -> tuple[int, int, int]:
        """How many schedules there are, and how many of them are broken."""
        return standings.count_schedules(self._database)

    def find_ailing(self, *, now_ms: int, limit: int) -> tuple[list[standings.Ailing], int]:
        return standings.find_ailing(self._database, now_ms=now_ms, limit=limit)

    def find_standings(
        self,
        choice: Choice | None = None,
        *,
        now_ms: int,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Standing]:
        return standings.find_standings(
            self._database, choice, now_ms=now_ms, after=after, limit=limit
        )

    def coming_schedules(
        self, *, matches: Callable[[str], bool] | None = None
    ) -> Iterator[Schedule]:
        return schedules.coming_schedules(self._database, matches=matches)

    def find_schedules(
        self,
        choice: Choice | None = None,
        *,
        now_ms: int = 0,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Schedule]:
        return schedules.find_schedules(
            self._database, choice, now_ms=now_ms, after=after, limit=limit
        )

    def find_schedule_page(
        self, choice: Choice | None, *, now_ms: int, after: str | None, limit: int | None
    ) -> SchedulePage:
        return schedules.find_schedule_page(
            self._database, choice, now_ms=now_ms, after=after, limit=limit
        )

    def find_each_schedule(
        self, *, most: int | None = None
    ) -> tuple[list[Schedule], list[tuple[int, Unreadable]]]:
        return schedules.find_each_schedule(self._database, most=most)

    def count_waiting(self) -> dict[str, int]:
        return schedules.count_waiting(self._database)

    def remove_unreadable(self, name: str, *, now_ms: int) -> bool:
        return changing.remove_unreadable(self._database, name, now_ms=now_ms)

    def is_decided_early(self, schedule: Schedule, *, now_ms: int) -> bool:
        """Whether what it has decided last was decided before its time came."""
        return schedules.is_decided_early(self._database, schedule, now_ms=now_ms)

    def has_active(self, schedule: Schedule) -> bool:
        """Whether runs of it go on or wait, whose end is still to come."""
        return schedules.has_active(self._database, schedule.id)

    def find_recurring(self, *, after_id: int, limit: int) -> tuple[list[Recurrence], int | None]:
        return recurring.find_recurring(self._database, after_id=after_id, limit=limit)

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

    def enqueue_once(
        self, schedule: Schedule, fire: Fire, *, asked_ms: int, since_ms: int, now_ms: int
    ) -> list[int] | None:
        """The same of a fire with a key, as the ids of its rows: see `asking`."""
        with self._database.transaction():
            if not schedules.is_unchanged(self._database, schedule):
                return None
            return asking.enqueue_once(
                self._database, schedule, fire, asked_ms=asked_ms, since_ms=since_ms, now_ms=now_ms
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
        former_ids: Sequence[int] = (),
        statuses: tuple[Status, ...] = (),
        causes: tuple[Cause, ...] = (),
        before_id: int | None = None,
        limit: int = 20,
    ) -> RunPage:
        return history.find_executions(
            self._database,
            schedule_id=schedule_id,
            former_ids=former_ids,
            statuses=statuses,
            causes=causes,
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

    def report_progress(self, execution_id: int, progress: str) -> bool:
        return reports.report_progress(self._database, execution_id, progress)

    def find_state(self, schedule_id: int) -> dict[str, str]:
        return reports.find_state(self._database, schedule_id)

    def count_state(self, schedule_id: int) -> int:
        return reports.count_state(self._database, schedule_id)

    def find_output(self, execution_id: int) -> Output | None:
        return outputs.find_output(self._database, execution_id)

    def find_engines(self) -> list[EngineInfo]:
        return engines.find_engines(self._database)

    def find_damage(self, *, is_deep: bool = False) -> list[str]:
        return damage.find_damage(self._database, is_deep=is_deep)

    def find_damage_within(self, is_over: Callable[[], bool]) -> tuple[list[str], tuple[str, ...]]:
        return damage.find_damage_within(self._database, is_over)

    def find_pending_apply(self) -> PendingApply | None:
        return pendingapply.find_pending_apply(self._database)

    def definitions(self) -> Iterator[str]:
        return pendingapply.definitions(self._database)

    def decide_apply(self, pending: PendingApply) -> bool:
        return pendingapply.decide_apply(self._database, pending)

    def finish_apply(self) -> None:
        pendingapply.finish_apply(self._database)

    def find_orphans(self) -> list[Orphans]:
        return damage.find_orphans(self._database.rows)

    def repair_orphans(self) -> Iterator[Orphans]:
        return damage.repair_orphans(self._database)

    def is_write_locked(self, *, wait_s: float) -> bool:
        return damage.is_write_locked(self.path, wait_s=wait_s)

    def find_unmoved_bytes(self) -> int:
        """How much of the log waits to be moved into the database."""
        return self._database.unmoved_bytes
