"""Store: the interface between an engine and its database, for type checkers.

Each call that writes is one short transaction. If it raises, its effect is unknown: read again.
Any store must pass the suite in `tests/store`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from edgecron.model.choices import Hold

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from edgecron.base.clock import Clock
    from edgecron.model.engine import EngineInfo, Offers
    from edgecron.model.run import Outcome, Output, Reported, Stall
    from edgecron.model.schedule import ScheduleSpec
    from edgecron.planning.corrections import ClockMarks, KeptTimes, Retimed, ZonedTimes
    from edgecron.planning.next_fire import Due, Missed
    from edgecron.planning.retention import Limits, Removed
    from edgecron.store.contract import (
        BootDecision,
        Claimant,
        ClaimBatch,
        Decision,
        Ended,
        EngineLoad,
        EnginePresence,
        FinishBatch,
        Lease,
        Requeued,
        RunningRow,
        StoredSchedule,
        Subject,
        Waited,
    )


class Leases(Protocol):
    """Show that engines are running on machines whose kernel can't be asked."""

    @property
    def is_writable(self) -> bool:
        """Whether the server lets this role write."""

    def need_writable(self) -> None:
        """Raise DatabaseUnusable if the server lets this role only read."""

    def renew_lease(
        self, engine_id: int, *, machine: str, lease_ms: int, polls_ms: int | None = None
    ) -> Lease | None:
        """Renew an engine's lease by the store's clock; None if other engines took it for dead.

        Record how often it looks for changes, if it does. Wakes no engine.
        """

    def store_printed(self, execution_id: int, output: Output, *, engine_id: int) -> None:
        """Store the output so far of a running run of an engine. Wakes no engine."""

    def ask_for_output(self, execution_id: int) -> None:
        """Have the engine of a running run store its output for some seconds, if it listens."""

    def count_stored_bytes(self, execution_id: int) -> int:
        """Count how many bytes the stored output of a run covers."""


class Store(Protocol):
    """The database of an engine.

    Calls with `queues` consider only these queues; with `offers`, only these jobs of a program's
    queue. Instants are milliseconds since 1970.
    """

    @property
    def seed(self) -> bytes:
        """The random seed of this database, for jitter and `H`."""

    def clock_for(self, own: Clock) -> Clock:
        """The clock by which times are due: `own`, or that of the server of this database."""

    @property
    def change_mark(self) -> int:
        """A number that changes when another connection commits."""

    @property
    def leases(self) -> Leases | None:
        """The leases of engines on several machines; None if all engines are on one machine."""

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
        boottime_ms: int | None = None,
    ) -> int:
        """Record an engine, and which schedules have vanished or come back with it; its id."""

    def note_offers(self, engine_id: int, offers: Offers, *, now_ms: int) -> None:
        """Record which jobs an engine of a program offers; and vanished schedules, as above."""

    def note_supervisor(self, engine_id: int, supervisor_id: str) -> None:
        """Record which supervisor an engine claims for from now on."""

    def note_zone(self, engine_id: int, local_timezone: str) -> None:
        """Record which zone `local` means for an engine from now on."""

    def find_loads(self) -> dict[int, EngineLoad]:
        """Find the load of each living engine."""

    def drain_engine(self, engine_id: int, *, now_ms: int) -> bool:
        """Let an engine take nothing new until it is resumed; False if it has stopped or is
        drained."""

    def is_drained(self, engine_id: int) -> bool:
        """Whether an engine is to take nothing new."""

    def close_queues(self, engine_id: int, *, now_ms: int, boottime_ms: int | None = None) -> None:
        """Record that an engine starts nothing more; and vanished schedules, as above."""

    def note_presence(
        self, engine_id: int, *, now_ms: int, written_bytes: int | None = None
    ) -> None:
        """Record that an engine is certainly running."""

    def note_distrust(self, engine_id: int, *, since_ms: int) -> None:
        """Record since when an engine does not trust its clock, by the time since the boot."""

    def note_trust(self, engine_id: int, *, started_ms: int) -> None:
        """Record that an engine trusts its clock again, by which it started at `started_ms`."""

    def note_death(self, engine_id: int, *, by_lease: bool = False) -> bool:
        """Record that an engine ended without being stopped, and when it last wrote about a run.

        Call this before the ends of its runs are recorded: they can be later.
        """

    def find_presence(self, queues: tuple[str, ...], *, but: int) -> list[EnginePresence]:
        """The presence of the engines that took one of these queues, except `but`; newest first."""

    def retire_engine(
        self,
        engine_id: int,
        *,
        now_ms: int,
        has_died: bool = False,
        boottime_ms: int | None = None,
    ) -> None:
        """Record that an engine has stopped; and vanished schedules, as above."""

    def find_due(
        self,
        queues: tuple[str, ...],
        *,
        now_ms: int,
        limit: int,
        hold: Hold = Hold.NOTHING,
        offers: Offers | None = None,
    ) -> list[Due]:
        """Schedules whose next fire can start, earliest first.

        While calendar times are held, only schedules that follow the clock as it is.
        """

    def has_priority_due(self, queues: tuple[str, ...], *, now_ms: int) -> bool:
        """Whether a schedule that is due has another priority than the normal one."""

    def find_boot_due(
        self,
        queues: tuple[str, ...],
        *,
        boot_id: str,
        booted_ms: int | None = None,
        now_ms: int | None = None,
        offers: Offers | None = None,
    ) -> list[tuple[int, int]]:
        """(id, revision) of enabled `on boot` schedules that are not decided for this boot.

        With `booted_ms` and `now_ms`, only those that were added or resumed before the boot.
        """

    def is_used(self, queue: str) -> bool:
        """Whether a queue has a next fire or a queued run. Cheap, however many there are."""

    def find_placed(self, queues: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of these placed queues that have a schedule or a queued row."""

    def join_machine(self, queues: tuple[str, ...], machine: str) -> None:
        """Add this machine to the schedules of these queues, which have `on = each`."""

    def load_schedules(self, wanted: Sequence[tuple[int, int]]) -> list[StoredSchedule]:
        """The schedules of these (id, revision) pairs; it skips removed revisions."""

    def next_due_ms(
        self,
        queues: tuple[str, ...],
        *,
        now_ms: int,
        hold: Hold = Hold.NOTHING,
        offers: Offers | None = None,
    ) -> int | None:
        """When the next schedule or queued row is due, a pause ends, or a deadline passes.

        Held schedules are not due.
        """

    def upcoming(
        self, queues: tuple[str, ...], *, limit: int, offers: Offers | None = None
    ) -> list[tuple[int, int]]:
        """(id, revision) of the schedules that fire next, to load them early."""

    def find_next(self, queues: tuple[str, ...]) -> tuple[str, int] | None:
        """The name of the schedule that fires next, and when; None if there is none."""

    def find_subject(self, execution_id: int | None, schedule: str | None) -> Subject | None:
        """The schedule of a run, or of a name; None if there is no such run or schedule."""

    def claim_due(
        self, decisions: Sequence[Decision], *, claimant: Claimant, now_ms: int
    ) -> ClaimBatch:
        """Carry out the plans of schedules that have not changed; skip the others."""

    def claim_boot(
        self, decisions: Sequence[BootDecision], *, boot_id: str, claimant: Claimant, now_ms: int
    ) -> ClaimBatch:
        """Carry out the boot fires that are not decided for this boot."""

    def claim_queued(
        self, *, claimant: Claimant, now_ms: int, hold: Hold = Hold.NOTHING
    ) -> ClaimBatch:
        """Give free places to due queued rows.

        The order is: priority, schedules without running runs first, due time, id. Only a few late
        runs run at the same time. A run whose condition is not met waits for it, and is skipped at
        its deadline if the clock is trusted.
        """

    def find_waited(self, queues: Sequence[str]) -> list[Waited]:
        """The conditions that queued rows wait for, except successes, which wake them."""

    def find_last_success_ms(self, schedule: str) -> int | None:
        """When the newest success of a schedule ended; None: there is none, or no such schedule."""

    def note_suspension(self, execution_id: int, token: str, note: str | None) -> bool:
        """Record that a running run is suspended, and why; None: it continues.

        Returns False if the run is no longer running with this token.
        """

    def note_wait(self, queues: Sequence[str], waited: Waited, note: str | None) -> None:
        """Record in the rows that wait for a condition why it is not met; None: nothing to say."""

    def wake_waiting(self, queues: Sequence[str], waited: Sequence[Waited]) -> int:
        """Let the rows start that wait for one of these conditions, if nothing else holds them.

        Returns how many rows that are.
        """

    def finish(self, outcomes: Sequence[Outcome], *, now_ms: int) -> list[Ended | None]:
        """Record the ends of runs, with all that follows; None for a row that is not ours now."""

    def finish_and_fill(
        self,
        outcomes: Sequence[Outcome],
        *,
        unstarted: Sequence[Outcome] = (),
        claimant: Claimant | None,
        now_ms: int,
        is_synced: bool = True,
    ) -> FinishBatch:
        """`finish`, `requeue` and `claim_queued` for the free places, in one transaction.

        `unstarted` are queued again. Nothing is claimed for a `claimant` of None. Without
        `is_synced`, a power cut can take the transaction.
        """

    def note_progress(self, reported: Sequence[Reported]) -> None:
        """Record the progress of runs; ignore rows that are not ours now."""

    def find_running(self) -> list[RunningRow]:
        """Every running run, of any engine."""

    def adopt(self, rows: Sequence[RunningRow], *, engine_id: int, now_ms: int) -> list[bool]:
        """Record runs as those of another engine; False for a row that has changed."""

    def beat(self, engine_id: int, *, now_ms: int) -> None:
        """Renew the heartbeat of an engine's runs. It is for people: no decision depends on it."""

    def find_cancelled(self, engine_id: int) -> list[int]:
        """The running runs of an engine that someone cancelled."""

    def mend(self) -> bool:
        """After an error, recover the open files if that loses nothing; False if they are fine.

        Raises DatabaseUnusable as long as that is impossible.
        """

    def tidy(self) -> None:
        """Do housekeeping that keeps the store fast, outside of any transaction."""

    def rehearsal(self) -> AbstractContextManager[None]:
        """Roll back all that is written within the block; what it needs is then in memory.

        Raises DatabaseBusy immediately if another connection is writing.
        """

    def has_queued(self) -> bool:
        """Whether any run waits for a place or its due time, and not for a condition."""

    def find_engines(self) -> list[EngineInfo]:
        """Every engine that is not recorded as stopped."""

    def requeue(self, execution_id: int, token: str, *, now_ms: int) -> Requeued | None:
        """Queue a row again that was claimed but never started; None if it has changed.

        It is cancelled instead if someone cancelled it, or its schedule was removed.
        """

    def mark_broken(self, schedule_id: int, *, revision: int, error: str, now_ms: int) -> bool:
        """Stop a schedule whose stored trigger can't be read, and store the reason."""

    # Notices.

    def has_notify_rules(self) -> bool:
        """Whether any rule wants notices."""

    def has_calendars(self) -> bool:
        """Whether any schedule excepts the days of a calendar."""

    def next_wake_ms(self) -> int | None:
        """Return the next time for which the sleeping machine is to wake; None if there is none."""

    def next_notice_ms(self, *, now_ms: int) -> int | None:
        """When the next notice is to be sent; None: nothing is to come.

        A happening that no rule was applied to yet is due now: 0.
        """

    def find_beat_ms(self) -> int | None:
        """How often an engine sends a heartbeat; None: no rule wants one."""

    def note_stalls(self, stalls: Sequence[Stall]) -> None:
        """Record for notices that running runs print nothing. Without a rule, record nothing."""

    # Upkeep after a change of clock or zones.

    def find_clock_marks(self) -> ClockMarks:
        """Return the recorded state of the clock and zones."""

    def note_trusted(self, mark_ms: int, *, was_ms: int | None) -> bool:
        """Move the trusted mark; False if another engine has moved it."""

    def find_last_schedule_id(self) -> int:
        """The largest id of a schedule, 0 if there is none."""

    def find_misdated(self, *, now_ms: int, ahead_ms: int, ids: range) -> list[KeptTimes]:
        """The schedules among these ids whose times a wrong clock has moved."""

    def find_intervals(self, *, now_ms: int, has_stepped: bool, ids: range) -> list[KeptTimes]:
        """The schedules without calendar times that do not follow the untrusted clock yet.

        With `has_stepped`, also those that followed it before it stepped.
        """

    def find_zoned(self, *, ids: range) -> list[ZonedTimes]:
        """Return values that show if next times still hold, per schedule with a cron trigger."""

    def find_times(self, schedule_ids: Sequence[int]) -> list[KeptTimes]:
        """The times of these schedules, if they have times to come."""

    def find_set_back(self, *, read_now: Callable[[], int], ids: range) -> list[KeptTimes]:
        """The schedules whose times are ahead because the clock was set back.

        `read_now` reads the clock again after the rows: other engines write meanwhile.
        """

    def note_clock_set(self, *, at_ms: int, by_ms: int) -> None:
        """Record that the clock was set: when, by the new time, and by how much."""

    def find_timeless(self, *, limit: int) -> list[KeptTimes]:
        """Return enabled schedules that have no next time and are not recorded as done."""

    def settle_timeless(
        self,
        settled: Sequence[tuple[Retimed, tuple[Missed, ...], ScheduleSpec]],
        *,
        boot_id: str,
        booted_ms: int,
        now_ms: int,
    ) -> list[bool]:
        """Give schedules their missing next times, or record that they are done.

        False for one that has changed. The machine was booted at `booted_ms`.
        """

    def retime(self, changes: Sequence[Retimed], *, marks: ClockMarks | None) -> list[bool]:
        """Give schedules other times, in one transaction; False for one that has changed.

        `marks` (of the zones) are written if none has changed.
        """

    def bring_back_queued(self, *, now_ms: int, ahead_ms: int) -> int:
        """Let rows that a clock queued that was ahead wait from now on; how many."""

    def bring_back_successes(self, *, now_ms: int, ids: range) -> int:
        """Set last successes of these schedules that are in the future to now; how many."""

    def begin_pruning(
        self, limits: Limits, *, is_early: bool = False
    ) -> Iterator[Removed | None] | None:
        """Begin a retention pass; None if another engine began one within the hour.

        With `is_early`, begin it anyway: many runs have ended since.

        Each step of the iterator is at most one short transaction and returns what it removed, or
        None. The pass ends early if another one begins.
        """
