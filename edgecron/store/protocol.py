"""What the engine asks of a store: one small Protocol, which any store must pass the suite of.

Every writing call is one short transaction. Where one raises, its effect is unknown: read again.
It is for type checkers alone: no engine loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from edgecron.model.choices import Hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from edgecron.model.claim import Outcome
    from edgecron.model.engine import EngineInfo, Offers
    from edgecron.model.reports import Reported
    from edgecron.model.schedule import ScheduleSpec
    from edgecron.planning.corrections import KeptTimes, Retimed
    from edgecron.planning.next_fire import Due, Missed
    from edgecron.planning.retention import Limits, Removed
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


class Store(Protocol):
    """The durable side of an engine. Queues bound every look, and of a program's queue `offers`,
    where there are some; instants are milliseconds."""

    @property
    def seed(self) -> bytes:
        """The random seed of this database, for jitter and H."""

    @property
    def change_mark(self) -> int:
        """A number that changes when somebody else has committed."""

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
        """Record an engine, and with it what nobody runs any more, or somebody does; its id."""

    def note_offers(self, engine_id: int, offers: Offers, *, now_ms: int) -> None:
        """Record what an engine of a program offers from now on, and likewise what comes of it."""

    def note_supervisor(self, engine_id: int, supervisor_id: str) -> None:
        """Record which supervisor an engine claims for from now on."""

    def note_zone(self, engine_id: int, local_timezone: str) -> None:
        """Record which zone `local` means for an engine from now on."""

    def close_queues(self, engine_id: int, *, now_ms: int) -> None:
        """Record that an engine takes on nothing more, and likewise."""

    def note_presence(self, engine_id: int, *, now_ms: int) -> None:
        """Record that an engine is certainly running."""

    def find_presence(self, queues: tuple[str, ...], *, but: int) -> list[EnginePresence]:
        """When the engines that took one of these queues were there, newest first, but for one."""

    def retire_engine(self, engine_id: int, *, now_ms: int, has_died: bool = False) -> None:
        """Record that an engine has stopped, and likewise."""

    def find_due(
        self,
        queues: tuple[str, ...],
        *,
        now_ms: int,
        limit: int,
        hold: Hold = Hold.NOTHING,
        offers: Offers | None = None,
    ) -> list[Due]:
        """Schedules whose next fire may start, earliest first.

        While calendar times are held, those that were rebased on the clock as it is.
        """

    def find_boot_due(
        self, queues: tuple[str, ...], *, boot_id: str, offers: Offers | None = None
    ) -> list[tuple[int, int]]:
        """(id, revision) of enabled `on boot` schedules that this boot has not decided."""

    def is_used(self, queue: str) -> bool:
        """Whether anything of a queue is to come, or waits. Costs little, however much there is."""

    def load_schedules(self, wanted: Sequence[tuple[int, int]]) -> list[StoredSchedule]:
        """The schedules of these (id, revision) pairs; a revision that is gone is left out."""

    def next_due_ms(
        self,
        queues: tuple[str, ...],
        *,
        now_ms: int,
        hold: Hold = Hold.NOTHING,
        offers: Offers | None = None,
    ) -> int | None:
        """When a schedule or a queued row is due, a pause ends, or a condition's deadline comes.

        What is held is never due.
        """

    def upcoming(
        self, queues: tuple[str, ...], *, limit: int, offers: Offers | None = None
    ) -> list[tuple[int, int]]:
        """(id, revision) of the schedules that fire next, so that they can be compiled early."""

    def find_next(self, queues: tuple[str, ...]) -> tuple[str, int] | None:
        """The name of the schedule that fires next, and when; None where nothing is to come."""

    def find_subject(self, execution_id: int | None, schedule: str | None) -> Subject | None:
        """The schedule of a run, or else of a name; None if there is no such run or schedule."""

    def claim_due(self, decisions: Sequence[Decision], *, seat: Seat, now_ms: int) -> ClaimBatch:
        """Carry out plans for schedules that are still as the plans expect; the others are left."""

    def claim_boot(
        self, decisions: Sequence[BootDecision], *, boot_id: str, seat: Seat, now_ms: int
    ) -> ClaimBatch:
        """Carry out boot fires that this boot has not decided yet."""

    def claim_queued(self, *, seat: Seat, now_ms: int, hold: Hold = Hold.NOTHING) -> ClaimBatch:
        """Give free places to queued rows that are due: by priority; then schedules that run
        nothing before those that run something; then by due time, then by id.

        Of what came late only a few run at once. What needs a condition that does not hold waits
        for it, and is given up at its deadline, but not by a clock that can't be trusted.
        """

    def finish(self, outcomes: Sequence[Outcome], *, now_ms: int) -> list[Ended | None]:
        """End running rows, with what follows; None where the row was no longer ours, which
        changes nothing."""

    def finish_and_fill(
        self, outcomes: Sequence[Outcome], *, seat: Seat, now_ms: int, hold: Hold = Hold.NOTHING
    ) -> tuple[list[Ended | None], ClaimBatch]:
        """As `finish` and then `claim_queued`, in one transaction: the places that the ends leave
        are given to what is queued."""

    def note_progress(self, reported: Sequence[Reported]) -> None:
        """Put the progress of runs on record; of those that are no longer ours nothing."""

    def find_running(self) -> list[RunningRow]:
        """Every running execution, whoever runs it."""

    def adopt(self, rows: Sequence[RunningRow], *, engine_id: int, now_ms: int) -> list[bool]:
        """Put running rows down as an engine's; False where the row was no longer as it was."""

    def beat(self, engine_id: int, *, now_ms: int) -> None:
        """Note of all that an engine runs that it lives: for people, nothing is decided by it."""

    def find_cancelled(self, engine_id: int) -> list[int]:
        """The running executions of an engine whose end was asked for."""

    def mend(self) -> bool:
        """After trouble: put right what became of the open files, where nothing is lost by it;
        whether there was anything. Raises DatabaseUnusable as long as that can't be done."""

    def tidy(self) -> None:
        """Do what keeps the store fast, outside of any transaction, while there is time."""

    def rehearsal(self) -> AbstractContextManager[None]:
        """Undo all that is done within: what it needs is in memory then, and nothing else has
        changed. Raises DatabaseBusy at once where somebody else writes."""

    def has_queued(self) -> bool:
        """Whether any execution waits for a place or for its time, and not for a condition."""

    def find_engines(self) -> list[EngineInfo]:
        """Every engine that has not been recorded as stopped."""

    def requeue(self, row: RunningRow, *, now_ms: int) -> Requeued | None:
        """Queue a row again that was claimed but never started; None where it moved on.

        It is cancelled where its end was asked for, or its schedule removed.
        """

    def mark_broken(self, schedule_id: int, *, revision: int, error: str, now_ms: int) -> bool:
        """Stop a schedule whose stored trigger can't be read, saying why."""

    # Upkeep, by an engine whose clock or zones have changed.

    def find_clock_marks(self) -> ClockMarks:
        """What the database remembers of clock and zones."""

    def note_trusted(self, mark_ms: int, *, was_ms: int | None) -> bool:
        """Move the trusted mark; False where somebody else has meanwhile."""

    def find_last_schedule_id(self) -> int:
        """The largest id of a schedule, 0 if there is none."""

    def find_misdated(self, *, now_ms: int, ahead_ms: int, ids: range) -> list[KeptTimes]:
        """The schedules whose times a wrong clock has moved, or that go by one, among these ids."""

    def find_intervals(self, *, now_ms: int, has_stepped: bool, ids: range) -> list[KeptTimes]:
        """The schedules without calendar times that are to go by the clock as it is.

        Those that do already, too, where it has stepped since.
        """

    def find_zoned(self, *, only_local: bool, ids: range) -> list[KeptTimes]:
        """The schedules with calendar times to come: all, or those in the machine's own zone."""

    def find_set_back(self, *, read_now: Callable[[], int], ids: range) -> list[KeptTimes]:
        """The schedules whose times a clock that was set back since has moved ahead.

        `read_now` reads the clock, after the rows: peers write while an engine starts.
        """

    def note_clock_set(self, *, at_ms: int, by_ms: int) -> None:
        """Record that the clock was set: when, by the new time, and by how much."""

    def find_timeless(self, *, limit: int) -> list[KeptTimes]:
        """Enabled schedules whose next time is missing, and that are not known to be done."""

    def settle_timeless(
        self,
        settled: Sequence[tuple[Retimed, Missed | None, ScheduleSpec]],
        *,
        boot_id: str,
        booted_ms: int,
        now_ms: int,
    ) -> list[bool]:
        """Give them their next times, or record that they are done; False for one that was
        changed meanwhile. The machine was booted at `booted_ms`."""

    def retime(self, changes: Sequence[Retimed], *, marks: ClockMarks | None) -> list[bool]:
        """Give schedules other times, in one transaction; False for one that has moved on.

        `marks` (of the zones) are written with them, where none has.
        """

    def bring_back_queued(self, *, now_ms: int, ahead_ms: int) -> int:
        """Let what a clock that was ahead has queued wait from now on; how many rows."""

    def bring_back_successes(self, *, now_ms: int) -> int:
        """Let the last successes of a clock that was ahead have ended now; how many."""

    def begin_pruning(self, limits: Limits) -> Iterator[Removed | None] | None:
        """Begin to remove what is beyond these limits; None where it is another engine's turn.

        Each step of the iterator is at most one short transaction, and says what that removed;
        None where it only looked. It ends where all is done, or somebody else has begun.
        """
