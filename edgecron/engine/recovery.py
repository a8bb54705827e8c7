"""Take over what dead engines left, by the recovery table. Any engine can, at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from edgecron.base.values import dataclass
from edgecron.engine.claim import Core
from edgecron.engine.events import EventKind
from edgecron.engine.other_engines import OtherEngines
from edgecron.engine.runners import Runners
from edgecron.model.choices import JobKind, OnLost, Reason, Status
from edgecron.model.engine import EngineInfo
from edgecron.model.run import Outcome, Output
from edgecron.store.contract import LEASE_MS, RENEW_MS, Ended, Lease, Requeued, RunningRow
from edgecron.supervisor.journal import Exit, Interrupted, NeverStarted, Verdict
from edgecron.supervisor.protocol import Flag
from edgecron.supervisor.runner import THREADS

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

_LOOK_MS = 30_000  # how often an engine looks for dead ones
_ORPHAN_MS = 1_000  # the same while runs are alive whose engine died and that can't be adopted
_ADOPT_MS = 30_000  # the longest pause until an adoption that failed is tried again
_NO_ENGINE = 0
_MESSAGES = {
    Reason.LOST: "its supervisor died, and its end is unknown",
    Reason.REBOOT: "the machine restarted while it ran",
}
_PROGRAM_ENDED = "the program that ran it has ended"
_OUT_OF_REACH = "its machine has not reached the database since its lease ended"
# With leases: they show earlier when an engine on another machine dies.
_LOOK_LEASED_MS = 600_000
_SPARE_MS = 1_000  # how long after the end of a lease to look


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The result of a look. `left_running` rows still run, under a supervisor without an engine."""

    ended: tuple[tuple[RunningRow, Outcome, Ended], ...] = ()
    requeued: tuple[Requeued, ...] = ()
    adopted: tuple[RunningRow, ...] = ()
    left_running: int = 0

    @property
    def has_queued(self) -> bool:
        """Whether runs were queued, again or as follow-ups."""
        return bool(self.requeued) or any(ended.decided for ended in self._ends())

    @property
    def has_replaced(self) -> bool:
        """Whether a follow-up replaces a run that is still running."""
        return any(ended.has_replaced for ended in self._ends())

    def _ends(self) -> Iterator[Ended]:
        yield from (ended for _, _, ended in self.ended)
        yield from (one.ended for one in self.requeued if one.ended is not None)


class Recovery:
    """Look for dead engines now and then, and whenever something is suspected.

    An engine that exists for one run adopts no supervisors of dead engines.
    """

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._clock = core.clock
        self._others = core.others
        self._runners = core.runners
        self._events = core.events
        self._may_adopt = not core.settings.is_for_one_run
        self._is_suspected = False
        self._look_at_ms = 0
        self._adopt_at_ms = 0
        self._adopt_pause_ms = _ORPHAN_MS
        self._is_urgent = False  # runs are alive that have no engine, or a lease is about to end
        self._judges_machines = False
        self._pause_ms = _LOOK_MS if core.store.leases is None else _LOOK_LEASED_MS
        self.live_engines: tuple[EngineInfo, ...] = ()  # the others that lived at the last look

    @property
    def live_processes(self) -> list[EngineInfo]:
        """The live engines on this machine."""
        return [one for one in self.live_engines if not self._others.is_elsewhere(one.machine)]

    @property
    def wake_ms(self) -> int | None:
        """How long to sleep at most; None if nothing is urgent."""
        if not self._is_urgent:
            return None
        return max(0, self._look_at_ms - self._clock.monotonic_ms())

    def note_lease(self, lease: Lease, *, judges_machines: bool) -> None:
        """Plan a look if an engine on another machine has not renewed its lease in time.

        `judges_machines`: whether a lease that has ended shows that the engine is dead.
        """
        self._judges_machines = judges_machines
        if lease.next_stale_ms is None:
            return
        left_ms = lease.next_stale_ms - lease.now_ms
        if left_ms < LEASE_MS - RENEW_MS - _SPARE_MS:
            look_at_ms = self._clock.monotonic_ms() + max(0, left_ms + _SPARE_MS)
            self._look_at_ms = min(self._look_at_ms, look_at_ms)
            self._is_urgent = True

    def suspect(self) -> None:
        """Have the next `look` look immediately."""
        self._is_suspected = True

    def adopt_nobody(self) -> None:
        """From now on, only take over ends."""
        self._may_adopt = False

    def is_due(self) -> bool:
        return self._is_suspected or self._clock.monotonic_ms() >= self._look_at_ms

    def has_work(self, engine_id: int) -> bool:
        """Whether a look would find anything, for an engine (`engine_id`) without runs.

        If not, this counts as a look.
        """
        if self._is_suspected or self._is_urgent:
            return True
        engines = self._store.find_engines()
        others = tuple(one for one in engines if one.id != engine_id)
        are_alive = all(self._is_alive(one) for one in others)
        if others != self.live_engines or not are_alive:
            return True
        known = {one.id for one in others}
        if any(row.engine_id not in known for row in self._store.find_running()):
            return True
        if self._others.dead_supervisors():
            return True
        self._remove_dead_files(engines)
        self._look_at_ms = self._clock.monotonic_ms() + self._pause_ms
        return False

    def _is_alive(self, engine: EngineInfo) -> bool:
        return _is_alive(engine.key, engine, self._others, judges_machines=self._judges_machines)

    def look(self, engine_id: int) -> Recovered:
        """Take over what dead engines left, if it is time to look. `engine_id` is our own."""
        if not self.is_due():
            return Recovered()
        # First: an engine that dies from here on is watched, should this look come too early.
        dead = self._find_dead(engine_id)
        may_adopt = self._may_adopt and self._clock.monotonic_ms() >= self._adopt_at_ms
        done = RecoveryPass(
            self._store,
            self._others,
            now_ms=self._clock.now_ms,
            engine_id=engine_id,
            runners=self._runners,
            may_adopt=may_adopt,
            judges_machines=self._judges_machines,
        ).run()
        self._report(done)
        for engine in dead:
            is_elsewhere = self._others.is_elsewhere(engine.machine)
            if not self._store.note_death(engine.id, by_lease=is_elsewhere):
                continue
            self._store.retire_engine(engine.id, now_ms=self._clock.now_ms(), has_died=True)
            self._others.forget_engine(engine.key)
        self._is_suspected = False
        self._is_urgent = done.left_running > 0
        pause_ms = _ORPHAN_MS if self._is_urgent else self._pause_ms
        self._look_at_ms = self._clock.monotonic_ms() + pause_ms
        if may_adopt:
            self._note_adoption(has_failed=done.left_running > 0)
        return done

    def leave_lost_runs(self, on_lost: OnLost) -> None:
        """End or leave our runs that no longer run by the database; write nothing."""
        known = {row.lease_token for row in self._store.find_running()}
        known |= {outcome.lease_token for outcome in self._runners.outcomes}
        lost = [key for key, token in self._runners.tokens().items() if token not in known]
        if not lost:
            return
        details: dict[str, object] = {"runs": len(lost), "on_lost": on_lost.value}
        self._events.report(EventKind.TAKEN_OVER, details=details)
        for execution_id in lost if on_lost is OnLost.END else ():
            self._runners.cancel(execution_id)

    def end_forgotten_runs(self) -> None:
        """End commands of former engines of this machine whose runs others have ended."""
        unattended = self._others.find_unattended()
        if not unattended:
            return
        # After the supervisors: a run that starts between the two answers has a row.
        running = {row.lease_token for row in self._store.find_running()}
        count = 0
        for supervisor_id, tokens in unattended.items():
            lost = [token for token in tokens if token not in running]
            if lost and self._others.end_forgotten(supervisor_id, lost):
                count += len(lost)
        if count:
            details: dict[str, object] = {"runs": count, "on_lost": OnLost.END.value}
            self._events.report(EventKind.TAKEN_OVER, details=details)

    def _report(self, done: Recovered) -> None:
        for row, outcome, ended in done.ended:
            self._events.report_end(outcome, row.schedule, ended)
        for requeued in done.requeued:
            self._events.report_requeued(requeued)
        for row in done.adopted:
            details: dict[str, object] = {"reason": "engine_gone"}
            self._events.report(EventKind.ADOPTED, row.execution_id, row.schedule, details)

    def _note_adoption(self, *, has_failed: bool) -> None:
        """Try again after growing pauses: a try takes a while if the supervisor is stopped."""
        if not has_failed:
            self._adopt_pause_ms = _ORPHAN_MS
            return
        self._adopt_at_ms = self._clock.monotonic_ms() + self._adopt_pause_ms
        self._adopt_pause_ms = min(2 * self._adopt_pause_ms, _ADOPT_MS)

    def _find_dead(self, engine_id: int) -> list[EngineInfo]:
        """Note which of the other engines live; return the dead ones."""
        engines = self._store.find_engines()
        self._remove_dead_files(engines)
        others = [engine for engine in engines if engine.id != engine_id]
        live = [one for one in others if self._is_alive(one)]
        self.live_engines = tuple(live)
        return [one for one in others if one not in live]

    def _remove_dead_files(self, engines: Sequence[EngineInfo]) -> None:
        known = {engine.key for engine in engines}
        self._others.remove_dead_files(known=known, now_ms=self._clock.now_ms())


def _is_alive(
    key: str | None,
    engine: EngineInfo | RunningRow,
    others: OtherEngines,
    *,
    judges_machines: bool,
) -> bool:
    """Whether an engine is running; `key` None: it has recorded its stop.

    On another machine, its lease decides. There its supervisor can still have runs.
    """
    if others.is_elsewhere(engine.machine):
        return not (engine.is_stale and judges_machines)
    return key is not None and others.engine_is_alive(key)


class RecoveryPass:
    """Carry out the rows of the recovery table in which the engine's lock is free.

    A living supervisor is adopted. If that is impossible or not wanted, it keeps its runs, and the
    ends in its journal are recorded. `engine_id` and `runners` are those of the engine that
    recovers; a caller that is not an engine has none, and only records ends. With
    `judges_machines`, an engine on another machine is dead if its lease has ended.
    """

    def __init__(
        self,
        store: Store,
        others: OtherEngines,
        *,
        now_ms: Callable[[], int],
        engine_id: int = _NO_ENGINE,
        runners: Runners | None = None,
        may_adopt: bool = False,
        judges_machines: bool = False,
    ) -> None:
        self._store = store
        self._others = others
        self._judges_machines = judges_machines
        self._now_ms = now_ms
        self._engine_id = engine_id
        self._runners = runners
        self._may_adopt = may_adopt
        # As it is now: adoptions of this pass come after the rows were sorted.
        self._supervisor_id: str | None = None
        self._adopted_ids: frozenset[str] = frozenset()
        self._tokens: Mapping[int, str] = {}
        if runners is not None:
            self._supervisor_id = None if runners.own.runner is None else runners.own.id
            self._adopted_ids = runners.adopted_ids
            self._tokens = runners.tokens()
        self._ended: list[tuple[RunningRow, Outcome, Ended]] = []
        self._requeued: list[Requeued] = []
        self._adopted: list[RunningRow] = []
        self._left_running = 0
        self._has_failed = False  # an adoption

    def run(self) -> Recovered:
        """Take over what dead engines left, once."""
        orphans: dict[str, list[RunningRow]] = {}
        callables: list[RunningRow] = []
        out_of_reach: list[RunningRow] = []
        for row in self._find_left():
            is_ours = row.engine_id == self._engine_id
            if self._has_token(row):
                # Claimed before this engine registered again, or of an interrupted adoption.
                if not is_ours:
                    self._record_as_ours([row])
                continue
            # A row without a supervisor was a callable, whatever its schedule is now.
            is_callable = row.kind == JobKind.CALLABLE or row.supervisor_id == THREADS
            if not is_ours and self._others.is_elsewhere(row.machine):
                out_of_reach.append(row)
            elif is_callable and not is_ours:
                callables.append(row)
            elif is_callable:
                # Of our own threads, whatever became of the supervisor that the row names.
                self._settle_forgotten_call(row)
            elif row.supervisor_id in self._adopted_ids:
                self._settle_adopted(row)
            elif row.supervisor_id != self._supervisor_id:
                orphans.setdefault(row.supervisor_id, []).append(row)
            else:
                self._settle_forgotten(row)
        for supervisor_id, rows in orphans.items():
            if not self._adopt(supervisor_id, rows):
                self._judge(supervisor_id, rows)
        self._finish(
            (row, self._interrupted(row, Reason.LOST, _PROGRAM_ENDED)) for row in callables
        )
        self._finish(
            (row, self._interrupted(row, Reason.LOST, _OUT_OF_REACH)) for row in out_of_reach
        )
        self._forget_supervisors()
        return Recovered(
            ended=tuple(self._ended),
            requeued=tuple(self._requeued),
            adopted=tuple(self._adopted),
            left_running=self._left_running,
        )

    def _has_token(self, row: RunningRow) -> bool:
        """Whether we have started this very attempt, or adopted it."""
        return self._tokens.get(row.execution_id) == row.lease_token

    def _find_left(self) -> list[RunningRow]:
        """Our own rows, and those of dead engines.

        The rows are read again after it is known who is dead: until then an engine can claim and
        start runs that an earlier look does not show.
        """
        engines = {
            row.engine_id: row
            for row in self._store.find_running()
            if row.engine_id != self._engine_id
        }
        judges = self._judges_machines
        dead = {
            engine_id
            for engine_id, row in engines.items()
            if not _is_alive(row.engine_key, row, self._others, judges_machines=judges)
        }
        # An engine that has renewed its lease meanwhile is not dead.
        dead = {
            engine_id
            for engine_id in dead
            if self._store.note_death(
                engine_id, by_lease=self._others.is_elsewhere(engines[engine_id].machine)
            )
        }
        known = dead | {self._engine_id}
        return [row for row in self._store.find_running() if row.engine_id in known]

    def _settle_adopted(self, row: RunningRow) -> None:
        """Complete an interrupted adoption of a row.

        A row that is neither ours nor revoked can't be judged while its supervisor lives. It stays
        until the supervisor has gone, or is adopted again.
        """
        if self._runners is not None and row.lease_token in self._runners.revoked:
            self._requeue(row)

    def _settle_forgotten(self, row: RunningRow) -> None:
        """Settle a row of our own supervisor of which this engine knows nothing.

        A server that took over can lack its end. Otherwise its claim was committed although COMMIT
        raised: it was never started.
        """
        [verdict] = self._others.judge(row.supervisor_id, [row.lease_token]).values()
        if isinstance(verdict, Exit):
            self._finish([(row, self._others.outcome_of(verdict, row))])
        else:
            self._requeue(row)

    def _settle_forgotten_call(self, row: RunningRow) -> None:
        """As `_settle_forgotten`, for a function of the program."""
        end = None if self._runners is None else self._runners.find_call_end(row.lease_token)
        if end is None:
            self._requeue(row)
        else:
            self._finish([(row, end)])

    def _adopt(self, supervisor_id: str, rows: Sequence[RunningRow]) -> bool:
        """Adopt a living supervisor; False if that is impossible."""
        # One that did not answer has taken its time: no other is asked in this pass.
        if not self._may_adopt or self._runners is None or self._has_failed:
            return False
        if not self._others.supervisor_is_alive(supervisor_id):
            return False
        adoption = self._others.adopt(supervisor_id, rows)
        if adoption is None:
            self._has_failed = True
            return False
        # Before any row says so.
        self._runners.adopt(adoption)
        for row in adoption.revoked:
            self._requeue(row)
        if adoption.runner is not None:
            self._record_as_ours(adoption.started)
        else:
            self._judge(supervisor_id, adoption.started)
        return True

    def _record_as_ours(self, rows: Sequence[RunningRow]) -> None:
        changed = self._store.adopt(rows, engine_id=self._engine_id, now_ms=self._now_ms())
        self._adopted.extend(row for row, ok in zip(rows, changed, strict=True) if ok)

    def _judge(self, supervisor_id: str, rows: Sequence[RunningRow]) -> None:
        # Asked first: the journal of a supervisor that is dead by now is complete.
        is_alive = self._others.supervisor_is_alive(supervisor_id)
        verdicts = self._others.judge(supervisor_id, [row.lease_token for row in rows])
        outcomes = []
        for row in rows:
            verdict = verdicts[row.lease_token]
            if is_alive and not isinstance(verdict, Exit):
                self._left_running += 1  # It is running, or about to start.
            elif isinstance(verdict, NeverStarted):
                self._requeue(row)
            else:
                outcomes.append((row, self._end(row, verdict)))
        self._finish(outcomes)

    def _finish(self, ends: Iterable[tuple[RunningRow, Outcome]]) -> None:
        ends = list(ends)
        if ends:
            outcomes = [outcome for _, outcome in ends]
            written = self._store.finish(outcomes, now_ms=self._now_ms())
            self._ended.extend(
                (row, outcome, ended)
                for (row, outcome), ended in zip(ends, written, strict=True)
                if ended is not None
            )

    def _end(self, row: RunningRow, verdict: Verdict) -> Outcome:
        if isinstance(verdict, Exit):
            return self._others.outcome_of(verdict, row)
        assert isinstance(verdict, Interrupted)
        self._others.end_what_is_left(verdict, row.lease_token)
        # Read after the rest of the run has ended, before the supervisor's files are removed.
        saved = self._others.find_output(row.lease_token)
        return self._interrupted(row, verdict.reason, _MESSAGES.get(verdict.reason), saved)

    def _interrupted(
        self,
        row: RunningRow,
        reason: Reason,
        message: str | None,
        saved: tuple[Output, bool] | None = None,
    ) -> Outcome:
        output, is_whole = saved or (None, True)
        return Outcome(
            execution_id=row.execution_id,
            lease_token=row.lease_token,
            status=Status.INTERRUPTED,
            reason=reason,
            started_ms=row.started_ms,
            finished_ms=self._now_ms(),
            error_msg=message,
            flags=() if is_whole else (Flag.OUTPUT_LOST,),
            output=output,
        )

    def _requeue(self, row: RunningRow) -> None:
        requeued = self._store.requeue(row.execution_id, row.lease_token, now_ms=self._now_ms())
        if requeued is not None:
            self._requeued.append(requeued)

    def _forget_supervisors(self) -> None:
        """Remove the files of dead supervisors that no engine needs any more.

        A running engine can still claim for a supervisor whose death it has not noticed.
        """
        dead = self._others.dead_supervisors()  # first: then no row of theirs is overlooked
        if not dead:
            return
        needed = {
            engine.supervisor_id
            for engine in self._store.find_engines()
            if self._others.is_elsewhere(engine.machine) or self._others.engine_is_alive(engine.key)
        }
        needed |= {row.supervisor_id for row in self._store.find_running()}
        for supervisor_id in dead:
            if supervisor_id not in needed:
                self._others.forget_supervisor(supervisor_id)
