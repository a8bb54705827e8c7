"""What an engine asks of the store: `contract.Store`, which says what each call does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.model.choices import Hold
from edgecron.store.later import Later, later
from edgecron.store.opened import OpenStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgecron.model.claim import Outcome
    from edgecron.model.engine import Offers
    from edgecron.model.reports import Reported
    from edgecron.model.schedule import ScheduleSpec
    from edgecron.planning.corrections import KeptTimes, Retimed
    from edgecron.planning.next_fire import Due, Missed
    from edgecron.store import (
        broken,
        claims,
        ending,
        engines,
        looking,
        queued,
        reports,
        revisions,
        upkeep,
    )
    from edgecron.store.contract import (
        BootDecision,
        ClaimBatch,
        ClockMarks,
        Decision,
        Ended,
        EnginePresence,
        Requeued,
        RunningRow,
        Seat,
        StoredSchedule,
        Subject,
    )

    _PARTS: tuple[Later, ...]
else:
    _PARTS = later(
        "edgecron.store",
        "broken",
        "claims",
        "ending",
        "engines",
        "looking",
        "queued",
        "reports",
        "revisions",
        "upkeep",
    )
    (broken, claims, ending, engines, looking, queued, reports, revisions, upkeep) = _PARTS


class ForEngines(OpenStore):
    """The side of the store that engines use; each method is that of a module."""

    def register_engine(
        self,
        *,
        key: str,
        pid: int,
        boot_id: str,
        queues: tuple[str, ...],
        now_ms: int,
        offers: Offers | None = None,
        max_running: int | None = None,
        local_timezone: str | None = None,
    ) -> int:
        # What its first fire needs is loaded before that is due.
        for part in _PARTS:
            part.load()
        self._database.keep_little()
        with self._database.seldom():
            return engines.register_engine(
                self._database,
                key=key,
                pid=pid,
                boot_id=boot_id,
                queues=queues,
                now_ms=now_ms,
                offers=offers,
                max_running=max_running,
                local_timezone=local_timezone,
            )

    def note_offers(self, engine_id: int, offers: Offers, *, now_ms: int) -> None:
        engines.note_offers(self._database, engine_id, offers, now_ms=now_ms)

    def note_supervisor(self, engine_id: int, supervisor_id: str) -> None:
        engines.note_supervisor(self._database, engine_id, supervisor_id)

    def note_zone(self, engine_id: int, local_timezone: str) -> None:
        engines.note_zone(self._database, engine_id, local_timezone)

    def close_queues(self, engine_id: int, *, now_ms: int) -> None:
        engines.close_queues(self._database, engine_id, now_ms=now_ms)

    def retire_engine(self, engine_id: int, *, now_ms: int, has_died: bool = False) -> None:
        engines.retire_engine(self._database, engine_id, now_ms=now_ms, has_died=has_died)

    def note_presence(self, engine_id: int, *, now_ms: int) -> None:
        engines.note_presence(self._database, engine_id, now_ms=now_ms)

    def find_presence(self, queues: tuple[str, ...], *, but: int) -> list[EnginePresence]:
        with self._database.seldom():
            return engines.find_presence(self._database, queues, but=but)

    def find_due(
        self,
        queues: tuple[str, ...],
        *,
        now_ms: int,
        limit: int,
        hold: Hold = Hold.NOTHING,
        offers: Offers | None = None,
    ) -> list[Due]:
        return looking.find_due(
            self._database, queues, now_ms=now_ms, limit=limit, hold=hold, offers=offers
        )

    def find_boot_due(
        self, queues: tuple[str, ...], *, boot_id: str, offers: Offers | None = None
    ) -> list[tuple[int, int]]:
        return looking.find_boot_due(self._database, queues, boot_id=boot_id, offers=offers)

    def next_due_ms(
        self,
        queues: tuple[str, ...],
        *,
        now_ms: int,
        hold: Hold = Hold.NOTHING,
        offers: Offers | None = None,
    ) -> int | None:
        return looking.next_due_ms(self._database, queues, now_ms=now_ms, hold=hold, offers=offers)

    def is_used(self, queue: str) -> bool:
        return looking.is_used(self._database, queue)

    def upcoming(
        self, queues: tuple[str, ...], *, limit: int, offers: Offers | None = None
    ) -> list[tuple[int, int]]:
        return looking.upcoming(self._database, queues, limit=limit, offers=offers)

    def find_next(self, queues: tuple[str, ...]) -> tuple[str, int] | None:
        return looking.find_next(self._database, queues)

    def find_subject(self, execution_id: int | None, schedule: str | None) -> Subject | None:
        return looking.find_subject(self._database, execution_id, schedule)

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

    def note_progress(self, reported: Sequence[Reported]) -> None:
        reports.note_progress(self._database, reported)

    def find_running(self) -> list[RunningRow]:
        return ending.find_running(self._database)

    def has_queued(self) -> bool:
        return queued.has_queued(self._database)

    def requeue(self, row: RunningRow, *, now_ms: int) -> Requeued | None:
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

    def find_last_schedule_id(self) -> int:
        return upkeep.find_last_id(self._database)

    def find_misdated(
        self, *, now_ms: int, ahead_ms: int, ids: range = upkeep.ALL_IDS
    ) -> list[KeptTimes]:
        with self._database.seldom():
            return upkeep.find_misdated(self._database, now_ms=now_ms, ahead_ms=ahead_ms, ids=ids)

    def find_intervals(
        self, *, now_ms: int, has_stepped: bool, ids: range = upkeep.ALL_IDS
    ) -> list[KeptTimes]:
        with self._database.seldom():
            return upkeep.find_intervals(
                self._database, now_ms=now_ms, has_stepped=has_stepped, ids=ids
            )

    def find_zoned(self, *, only_local: bool, ids: range = upkeep.ALL_IDS) -> list[KeptTimes]:
        with self._database.seldom():
            return upkeep.find_zoned(self._database, only_local=only_local, ids=ids)

    def find_set_back(
        self, *, read_now: Callable[[], int], ids: range = upkeep.ALL_IDS
    ) -> list[KeptTimes]:
        with self._database.seldom():
            return upkeep.find_set_back(self._database, read_now=read_now, ids=ids)

    def note_clock_set(self, *, at_ms: int, by_ms: int) -> None:
        upkeep.note_clock_set(self._database, at_ms=at_ms, by_ms=by_ms)

    def find_timeless(self, *, limit: int) -> list[KeptTimes]:
        return upkeep.find_timeless(self._database, limit=limit)

    def settle_timeless(
        self,
        settled: Sequence[tuple[Retimed, Missed | None, ScheduleSpec]],
        *,
        boot_id: str,
        booted_ms: int,
        now_ms: int,
    ) -> list[bool]:
        with self._database.seldom():
            return upkeep.settle_timeless(
                self._database, settled, boot_id=boot_id, booted_ms=booted_ms, now_ms=now_ms
            )

    def retime(self, changes: Sequence[Retimed], *, marks: ClockMarks | None) -> list[bool]:
        return upkeep.retime(self._database, changes, marks=marks)

    def bring_back_queued(self, *, now_ms: int, ahead_ms: int) -> int:
        with self._database.seldom():
            return upkeep.bring_back_queued(self._database, now_ms=now_ms, ahead_ms=ahead_ms)

    def bring_back_successes(self, *, now_ms: int) -> int:
        with self._database.seldom():
            return upkeep.bring_back_successes(self._database, now_ms=now_ms)
