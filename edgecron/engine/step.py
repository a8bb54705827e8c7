"""Do one pass over the due work, without sleeping: `Engine.step`.

A pass records ends, fires due schedules, starts claimed runs, and returns when to come back. With a
fake clock you can drive it by hand through any story.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import DatabaseUnusable, LeaseLost
from edgecron.base.values import NamedTuple, dataclass, replace
from edgecron.base.zones import one_local_zone
from edgecron.engine.claim import Claimer, Core, ScheduleCache
from edgecron.engine.clock_watch import ClockWatch
from edgecron.engine.conditions import ConditionWatch, NoReports, Reports, WhileRuns
from edgecron.engine.events import EventKind, EventReporter, Report
from edgecron.engine.finish import HOLD_MS, Finishing, FollowedOutput
from edgecron.engine.fire import CHUNK, FIRST_CHUNK, Firing
from edgecron.engine.other_engines import OtherEngines
from edgecron.engine.presence import EngineIdentity, EngineSettings, Presence, Registration
from edgecron.engine.recovery import Recovered, Recovery
from edgecron.engine.runners import Runners, Supervision
from edgecron.engine.upkeep import StartReader, StartSender, Upkeep
from edgecron.model.choices import Hold, OnLost
from edgecron.model.engine import Offers, queues_at
from edgecron.model.machine_conditions import Machine

if TYPE_CHECKING:
    from edgecron.store.contract import Lease
    from edgecron.store.protocol import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result of a pass. `wake_ms`: when the next one is due; None: nothing is to come."""

    claimed: int = 0
    decided: int = 0
    ended: int = 0
    wake_ms: int | None = None


class Hosting(NamedTuple):
    """The parts that an engine gets from its program and its machine.

    `find_offers` returns what the engine takes of its program's queue, as other versions of the
    program might have other functions; None: everything in it. `start_sender` starts the process
    that sends notices, after a heartbeat if its argument is true, and returns its process id;
    None: this engine starts none. `start_reader` starts the one that reads calendars. `machine` has
    the facts for conditions of the machine, None: such a condition never holds. `reports` shows
    their changes. `wake_alarm` is the file of the machine's alarm, None: this engine sets none.
    """

    find_offers: Callable[[], Offers] | None = None
    start_sender: StartSender | None = None
    start_reader: StartReader | None = None
    machine: Machine | None = None
    reports: Reports = NoReports()
    wake_alarm: Path | None = None


class Engine:
    """One engine over a store. For one thread, which owns the store's connection.

    `runners` start its runs; stop them there, and the next steps record the ends.
    """

    def __init__(
        self,
        settings: EngineSettings,
        identity: EngineIdentity,
        *,
        store: Store,
        clock: Clock,
        others: OtherEngines,
        runners: Runners,
        report: Report,
        hosting: Hosting = Hosting(),  # noqa: B008  # It is frozen.
    ) -> None:
        queues = queues_at(settings.queues, machine=identity.host, labels=settings.labels)
        settings = replace(settings, queues=queues)
        schedules = ScheduleCache(store)
        find_subject = store.find_subject if settings.finds_subjects else None
        self.settings = settings
        self.runners = runners
        self.events = EventReporter(report, clock, schedules, find_subject)
        core = Core(settings, store, clock, others, runners, schedules, self.events)
        self._store = store
        self._clock = clock
        self._others = others
        self._is_for_one_run = settings.is_for_one_run
        self._schedules = schedules
        self._registration = Registration(
            settings,
            identity,
            store=store,
            clock=clock,
            others=others,
            find_offers=hosting.find_offers,
        )
        self.conditions = ConditionWatch(
            store=store,
            clock=clock,
            machine=hosting.machine,
            reports=hosting.reports,
            runners=runners,
            find_spec=schedules.find_spec,
        )
        self._presence = Presence(store=store, clock=clock, others=others, queues=settings.queues)
        self._claimer = Claimer(core, registration=self._registration, conditions=self.conditions)
        self._firing = Firing(core, presence=self._presence, claimer=self._claimer)
        self.recovery = Recovery(core)
        self._finishing = Finishing(core, claimer=self._claimer, recovery=self.recovery)
        self._followed = FollowedOutput(core)
        self._clock_watch = ClockWatch(core, self._presence)
        self._supervision = Supervision(store=store, own=runners.own, events=self.events)
        self._upkeep = Upkeep(
            core,
            start_sender=hosting.start_sender,
            start_reader=hosting.start_reader,
            wake_alarm=hosting.wake_alarm,
        )
        self._last_hold = Hold.ALL  # what the last look at the clock said
        self._is_draining = False
        self._has_replaced = False  # ends may have been recorded whose follow-ups replace runs
        self._while_runs = WhileRuns(
            self.conditions, store=store, clock=clock, runners=runners, events=self.events
        )
        self._change_mark = -1
        self._doubts_runs = False  # the database might no longer have ours as running
        self._has_ended_forgotten = False  # runs of this machine's former engines
        self._is_prepared = False  # the schedules that fire next are loaded

    @property
    def look_in_ms(self) -> int | None:
        """In how long to call `has_changed` or `step` at the latest; None without a lease.

        They renew the lease, judge ended leases of other engines, and store followed output.
        """
        renew_ms = self._registration.renew_in_ms
        if renew_ms is None:
            return None
        waits_ms = (renew_ms, self.recovery.wake_ms, self._followed.wake_ms)
        return min(one for one in waits_ms if one is not None)

    @property
    def engine_id(self) -> int | None:
        """The id in the database, None before the first step."""
        return self._registration.engine_id

    def step(self) -> Step:
        """Do one pass. Raises DatabaseUnusable, or SupervisorUnavailable if none can be started.

        The next pass then continues from there.
        """
        try:
            with one_local_zone():  # Our own, whatever zone this thread had for local.
                step = self._pass()
            self._presence.note_pass()
            return step
        except DatabaseUnusable as error:
            self.note_trouble(error)
            raise
        finally:
            self._claimer.report()

    def _pass(self) -> Step:
        engine_id = self._registration.keep()
        if self._registration.renew_in_ms is not None:
            self._keep_lease()
        # First: an engine whose store can't be read still has to know which runs have ended.
        # Once: a run that a transaction starts, and that ends immediately, is for the next pass.
        self.runners.collect()
        change_mark = self._store.change_mark  # It does not show our own commits.
        has_changed = change_mark != self._change_mark
        if has_changed:
            self._registration.look()
            self._presence.note_drained(is_drained=self._registration.is_drained)
        # Before anything is claimed: a fire that comes due within the pass has another place.
        begun_ms = self._clock.now_ms()
        self._claimer.begin(has_changed=has_changed)
        if change_mark < self._change_mark:
            self._doubt()  # A server that took over can lack the last transactions.
        if self._doubts_runs:
            self._doubts_runs = False
            self.runners.own.is_recorded = False  # in the row of this engine
            self.recovery.leave_lost_runs(self.settings.on_lost)
        ended, has_filled = self._write_ends()
        self._followed.store(engine_id)
        for lost in self.runners.drop_dead():
            self.events.report(EventKind.SUPERVISOR_DIED, details={"runs": lost})
            self.recovery.suspect()
        might_have_looked = self.recovery.is_due()
        recovered = self.recovery.look(engine_id)
        if not self._is_for_one_run:
            self._presence.begin(engine_id)
        if recovered.adopted:
            self.runners.collect()
            more, has_more = self._write_ends()  # Some ended before they were adopted.
            ended, has_filled = ended + more, has_filled or has_more
        self._follow_recovery(recovered, has_changed=has_changed)
        hold = Hold.NOTHING
        if not self._is_for_one_run:
            hold = self._clock_watch.look(has_changed=has_changed)
            self._registration.note_zone(self._clock_watch.zones.local_timezone)
        self._last_hold = hold
        if self._clock_watch.take_resumed():
            self.conditions.settle()
            self._upkeep.wake_alarm.renew()
        if not self._is_draining and not self.runners.own.is_recorded:
            # After the ends: their follow-ups might be the first commands.
            has_news = ended > 0 or might_have_looked or has_changed
            self._supervision.keep(engine_id, has_news=has_news)
        has_waits = self.conditions.has_waits or bool(self.runners.answers)
        has_news = has_waits and self.conditions.take_news()
        if self.runners.has_watched:
            self._while_runs.look(has_news=has_news)
        if self._may_claim():
            has_woken = has_waits and self.conditions.wake_runs(self._claimer.open_queues())
            has_filled = has_filled and not recovered.has_queued and not has_woken
            self._firing.fire(hold, has_filled=has_filled)
        batches = self._claimer.take_batches()
        decided = sum(len(one.decided) for one in batches)
        decided += sum(grant.is_new for one in batches for grant in one.granted)
        is_busy = ended > 0 or decided > 0
        self._note_presence(engine_id, is_busy=is_busy)
        has_advanced = any(one.advanced for one in batches)
        self._upkeep.work(
            is_busy=is_busy,
            ended=ended,
            is_trusted=hold is Hold.NOTHING,
            has_changed=has_changed,
            has_advanced=has_advanced,
        )
        # A recovered run can have a follow-up that waits.
        self.conditions.has_waits |= (
            has_changed
            or might_have_looked
            or any(one.condition for batch in batches for one in batch.decided)
        )
        if self.conditions.has_waits:
            self.conditions.find_waits(self._claimer.open_queues())
        elif self.conditions.asked and self.conditions.filenos():
            self.conditions.listen()  # What a claim has looked at, no run waits for.
        if has_changed or has_advanced:
            self._is_prepared = False  # Other schedules might be next.
        # As it was before: what others have committed since is for the next pass.
        self._change_mark = change_mark
        return Step(
            claimed=sum(len(batch.granted) for batch in batches),
            decided=decided,
            ended=ended,
            wake_ms=self._next_wake_ms(hold, begun_ms=begun_ms),
        )

    def _keep_lease(self) -> Lease | None:
        """Renew the lease if it is time."""
        lease = self._registration.renew()
        if lease is not None:
            judges = self._registration.judges_others
            self.recovery.note_lease(lease, judges_machines=judges)
        if lease is not None and not self._has_ended_forgotten:
            self._has_ended_forgotten = True
            if self.settings.on_lost is OnLost.END and not self._is_for_one_run:
                self.recovery.end_forgotten_runs()
        return lease

    def _doubt(self) -> None:
        """Read again what this engine knows of its runs and of schedules, if it is on a server."""
        if self._store.leases is not None:
            self._doubts_runs = True
            self._schedules.forget()
            self.recovery.suspect()

    def _write_ends(self) -> tuple[int, bool]:
        """Record the collected ends; how many, and whether queued runs got their places."""
        count, has_filled = 0, False
        self._finishing.record_stalls()
        # A claim of the transaction that can't be read is for the next transaction.
        while self.runners.outcomes:
            done = self._finishing.finish(may_fill=self._may_fill())
            count += done.ended
            has_filled |= done.has_filled
            self._has_replaced |= done.has_replaced
            self.conditions.has_waits |= done.has_waits
        return count, has_filled

    def _follow_recovery(self, recovered: Recovered, *, has_changed: bool) -> None:
        """Do what follows from ends and adoptions: end cancelled and replaced runs."""
        self.runners.release_adopted()
        if recovered.has_queued and (self._is_draining or self._registration.is_drained):
            self._others.ring()  # These runs are for them: we claim nothing more.
        if recovered.has_replaced or self._has_replaced:
            self._claimer.end_replaced()
        elif recovered.adopted or has_changed:
            self._claimer.end_cancelled()
        self._has_replaced = False

    def _note_presence(self, engine_id: int, *, is_busy: bool) -> None:
        """Record marks and heartbeat, if it is time."""
        if not self._is_for_one_run:
            self._clock_watch.note_mark(is_busy=is_busy)
            if is_busy:
                self._presence.note_busy(engine_id)
        self._registration.beat(is_running=bool(self.runners))

    def _may_claim(self) -> bool:
        is_open = not (self._is_draining or self._registration.is_drained)
        return is_open and self.runners.may_take and not self._finishing.is_held

    def _may_fill(self) -> bool:
        """Whether the engine can claim queued runs for the runners as the last pass left them.

        Not by a clock that was set since: a wrong one would give up runs that wait for a condition.
        """
        return (
            self._may_claim()
            and not self._is_for_one_run
            and self._last_hold is Hold.NOTHING
            and not self._clock_watch.has_news()
            and (self.runners.own.runner is None or self.runners.own.is_recorded)
        )

    def note_trouble(self, error: DatabaseUnusable) -> None:
        """After trouble: what a transaction granted or replaced is unknown, and is read again."""
        self._registration.note_trouble()
        if isinstance(error, LeaseLost):
            self._registration.note_lease_lost()
        else:
            self._presence.note_trouble()
        self._doubt()
        self.recovery.suspect()
        self._has_replaced = self.conditions.has_waits = True

    def _next_wake_ms(self, hold: Hold, *, begun_ms: int) -> int | None:
        now_ms = self._clock.now_ms()
        if self._finishing.is_held:
            return now_ms + HOLD_MS
        if self.runners.outcomes:
            return now_ms  # They came while fires were decided.
        due_ms = self._firing.find_wake_ms(
            hold,
            begun_ms=begun_ms,
            now_ms=now_ms,
            engine_id=self._registration.get_id(),
            others=self.recovery.live_engines,
        )
        waits_ms = (
            self.recovery.wake_ms,
            self.runners.wake_ms,
            self._clock_watch.wake_ms,
            self.conditions.wake_ms if self.conditions.has_waits else None,
            self._while_runs.wake_ms,
            self._upkeep.wake_ms,
            self._claimer.wait_ms(),
        )
        wakes_ms = [now_ms + wait_ms for wait_ms in waits_ms if wait_ms is not None]
        return min(wakes_ms if due_ms is None else [*wakes_ms, due_ms], default=None)

    def register(self) -> None:
        """Record this engine now; else its first pass does. Raises DatabaseUnusable."""
        with one_local_zone():
            self._registration.keep()

    # Between passes.

    def has_changed(self) -> bool:
        """Whether a step has something to do that no timer or descriptor shows.

        Another process has committed; the clock was set, or the machine asleep; or, asked now and
        then, something has become old.
        """
        if self._clock_watch.has_news():
            return True
        self._followed.store(self._registration.get_id())
        lease = None if self._registration.renew_in_ms is None else self._keep_lease()
        if (self._store.change_mark if lease is None else lease.mark) != self._change_mark:
            return True
        if not self.recovery.is_due():
            return False
        # Nearly always there is nothing, and to see that costs a third of a whole step.
        is_at_work = bool(self.runners or self.runners.outcomes)
        if is_at_work or self._clock_watch.is_outdated():
            return True
        return self.recovery.has_work(self._registration.get_id())

    def note_polling(self, every_ms: int | None) -> None:
        """Record with the next lease how often the loop looks for changes; None: it is woken."""
        self._registration.polls_ms = every_ms

    def follow(self, execution_ids: Collection[int]) -> None:
        """Store the output of these runs, if they run here, for some seconds."""
        self._followed.follow(execution_ids)

    def has_ends(self) -> bool:
        """Whether a step has ends, answers, stalls or progress to take, or a runner died."""
        runners = self.runners
        has_news = bool(runners.collect() or runners.answers or runners.stalls)
        return has_news or runners.has_dead or self._upkeep.progress.look()

    def tidy(self) -> None:
        """Move the content of the write-ahead log into the database, once it is much."""
        self._store.tidy()

    def mend(self) -> None:
        """After trouble: repair the open database."""
        self._store.mend()

    def prepare(self) -> None:
        """Load and compile what fires next, so that the fire itself need not."""
        if not self._is_prepared and not self._firing.rest_ms:
            queues, offers = self.settings.queues, self._claimer.offers
            # A pass that follows closely fires few schedules, and prepares what comes after it.
            limit = FIRST_CHUNK if self._firing.is_paced else CHUNK
            self._schedules.load(self._store.upcoming(queues, limit=limit, offers=offers))
            self._is_prepared = True

    def find_next(self) -> tuple[str, int] | None:
        """The name of the schedule that fires next, and when; None: nothing is to come."""
        return self._store.find_next(self.settings.queues)

    # Runs that start exactly on time.

    def rehearse(self, at_ms: int) -> bool:
        """Claim the runs due at a later instant, and undo it; whether all would start."""
        return self._may_claim_early() and self._firing.rehearse(at_ms)

    def claim_early(self, at_ms: int) -> None:
        """Claim the runs due at an instant that is about to come, as of then.

        Call `start_early` at that instant, whatever happens. Raises DatabaseUnusable, as `step`.
        """
        if not self._may_claim_early():
            return
        try:
            self._firing.claim_early(at_ms)
        except DatabaseUnusable as error:
            self.note_trouble(error)
            raise

    def start_early(self) -> None:
        """Start what was claimed early."""
        self._claimer.start_early()

    def _may_claim_early(self) -> bool:
        return self._may_fill() and self._store.change_mark == self._change_mark

    # The end.

    def drain(self) -> None:
        """Claim and adopt nothing more: further steps only record ends."""
        self._is_draining = True
        self.recovery.adopt_nobody()
        self._upkeep.stop_pruning()

    def note_draining(self) -> None:
        """Record that this engine claims nothing more."""
        self._registration.close_queues()

    def retire(self) -> None:
        """Record the last ends and leave the database; runs continue under their supervisor."""
        self.runners.collect()
        self._write_ends()
        self._registration.end(leaves_runs=bool(self.runners))
        self._upkeep.notices.look(has_changed=True, is_last=True)  # Its end can be a notice.

    def close(self) -> None:
        """Let go of the supervisors; their runs continue."""
        self.conditions.close()
        self.runners.close()
