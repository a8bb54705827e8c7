"""Taking over what dead engines left, by the table of verdicts. Any engine can, at any time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from edgecron.base.values import dataclass, field
from edgecron.engine.adopted import Adopt, Adoption
from edgecron.engine.liveness import Liveness
from edgecron.model.choices import JobKind, Reason, Status
from edgecron.model.claim import Outcome, Output
from edgecron.store.contract import Ended, Requeued, RunningRow
from edgecron.supervisor.flags import Flag
from edgecron.supervisor.runner import THREADS

if TYPE_CHECKING:
    from edgecron.store.protocol import Store
    from edgecron.supervisor.verdicts import Verdict

_MESSAGES = {
    Reason.LOST: "its supervisor died, and its end is not on record",
    Reason.REBOOT: "the machine started anew while it ran",
}
_PROGRAM_ENDED = "the program that ran it has ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taker:
    """Who takes over.

    `supervisor_id` is our own, None while there is none; `adopted` are the others that answer to
    us, `revoked` the tokens that these will never start, `live` the tokens by execution id that
    we were given or have adopted. `adopt` is None for who does not stay, and `on_adopted` is told
    of each adoption before any row says so.
    """

    engine_id: int
    supervisor_id: str | None = None
    adopted: Collection[str] = ()
    revoked: Collection[str] = ()
    live: Mapping[int, str] = field(default_factory=dict)
    adopt: Adopt | None = None
    on_adopted: Callable[[Adoption], object] = lambda adoption: None


NOBODY = Taker(engine_id=0)  # for the ends alone: there is no row that is ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a pass did. `left_running` rows are alive under a supervisor without an engine."""

    ended: tuple[tuple[RunningRow, Outcome, Ended], ...] = ()
    requeued: tuple[Requeued, ...] = ()
    adopted: tuple[RunningRow, ...] = ()
    left_running: int = 0


def recover(
    store: Store, liveness: Liveness, taker: Taker, *, now_ms: Callable[[], int]
) -> Recovered:
    """Carry out the rows of the table in which the engine's lock is free.

    A supervisor that lives on is adopted, or, where that can't be, keeps its runs: the ends it
    has put on record are taken over.
    """
    return _Pass(store, liveness, taker, now_ms=now_ms).run()


class _Pass:
    def __init__(
        self, store: Store, liveness: Liveness, taker: Taker, *, now_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self._liveness = liveness
        self._taker = taker
        self._now_ms = now_ms
        self._ended: list[tuple[RunningRow, Outcome, Ended]] = []
        self._requeued: list[Requeued] = []
        self._adopted: list[RunningRow] = []
        self._left_running = 0
        self._has_failed = False

    def run(self) -> Recovered:
        orphans: dict[str, list[RunningRow]] = {}
        callables: list[RunningRow] = []
        for row in self._find_left():
            is_ours = row.engine_id == self._taker.engine_id
            # What no supervisor answers for was a callable, whatever its schedule is now.
            is_callable = row.kind == JobKind.CALLABLE or row.supervisor_id == THREADS
            if is_callable and not is_ours:
                callables.append(row)
            elif is_callable:
                # Of our own threads, whatever became of the supervisor that the row names.
                if self._taker.live.get(row.execution_id) != row.lease_token:
                    self._requeue(row)
            elif row.supervisor_id in self._taker.adopted:
                self._settle_adopted(row)
            elif row.supervisor_id != self._taker.supervisor_id:
                orphans.setdefault(row.supervisor_id, []).append(row)
            elif self._taker.live.get(row.execution_id) != row.lease_token:
                # Its claim was committed although COMMIT raised: it was never passed on.
                self._requeue(row)
        for supervisor_id, rows in orphans.items():
            if not self._adopt(supervisor_id, rows):
                self._judge(supervisor_id, rows)
        self._finish(
            (row, self._interrupted(row, Reason.LOST, _PROGRAM_ENDED)) for row in callables
        )
        self._clear_away()
        return Recovered(
            ended=tuple(self._ended),
            requeued=tuple(self._requeued),
            adopted=tuple(self._adopted),
            left_running=self._left_running,
        )

    def _find_left(self) -> list[RunningRow]:
        """Our own rows, and all that dead engines left.

        Read after it is known who is dead: until then an engine may claim, and start, what an
        earlier look does not show.
        """
        keys = {
            row.engine_id: row.engine_key
            for row in self._store.find_running()
            if row.engine_id != self._taker.engine_id
        }
        dead = {
            engine_id
            for engine_id, key in keys.items()
            if key is None or not self._liveness.engine_is_alive(key)
        }
        known = dead | {self._taker.engine_id}
        return [row for row in self._store.find_running() if row.engine_id in known]

    def _settle_adopted(self, row: RunningRow) -> None:
        """Carry on with a row of a supervisor that answers to us, where that was interrupted.

        What is neither live nor revoked can't be judged while its supervisor lives: it is left
        until that has gone, or is adopted anew.
        """
        if self._taker.live.get(row.execution_id) == row.lease_token:
            if row.engine_id != self._taker.engine_id:
                self._put_down_as_ours([row])
        elif row.lease_token in self._taker.revoked:
            self._requeue(row)

    def _adopt(self, supervisor_id: str, rows: Sequence[RunningRow]) -> bool:
        """Adopt a supervisor that lives on; False where that can't be."""
        # One that did not answer has taken its time: no other is asked in this pass.
        if self._taker.adopt is None or self._has_failed:
            return False
        if not self._liveness.supervisor_is_alive(supervisor_id):
            return False
        adoption = self._taker.adopt(supervisor_id, rows)
        if adoption is None:
            self._has_failed = True
            return False
        if adoption.runner is not None:
            self._taker.on_adopted(adoption)
        for row in adoption.revoked:
            self._requeue(row)
        if adoption.runner is not None:
            self._put_down_as_ours(adoption.started)
        else:
            self._judge(supervisor_id, adoption.started)
        return True

    def _put_down_as_ours(self, rows: Sequence[RunningRow]) -> None:
        engine_id = self._taker.engine_id
        changed = self._store.adopt(rows, engine_id=engine_id, now_ms=self._now_ms())
        self._adopted.extend(row for row, ok in zip(rows, changed, strict=True) if ok)

    def _judge(self, supervisor_id: str, rows: Sequence[RunningRow]) -> None:
        from edgecron.supervisor.verdicts import Exit, NeverStarted

        # Asked first: whatever a supervisor that is dead by now has written is then read.
        is_alive = self._liveness.supervisor_is_alive(supervisor_id)
        verdicts = self._liveness.judge(supervisor_id, [row.lease_token for row in rows])
        outcomes = []
        for row in rows:
            verdict = verdicts[row.lease_token]
            if is_alive and not isinstance(verdict, Exit):
                self._left_running += 1  # It runs on, or is about to start.
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
        from edgecron.supervisor.verdicts import Exit, Interrupted

        if isinstance(verdict, Exit):
            return self._liveness.outcome_of(verdict, row)
        assert isinstance(verdict, Interrupted)
        self._liveness.end_what_is_left(verdict, row.lease_token)
        # Read after the rest of it has ended, before the files of its supervisor are removed.
        saved = self._liveness.find_output(row.lease_token)
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
        requeued = self._store.requeue(row, now_ms=self._now_ms())
        if requeued is not None:
            self._requeued.append(requeued)

    def _clear_away(self) -> None:
        """Remove what dead supervisors left, once nothing of it is needed.

        An engine that lives may still claim for one whose death it has not noticed.
        """
        dead = self._liveness.dead_supervisors()  # first: then no row of theirs is overlooked
        if not dead:
            return
        needed = {
            engine.supervisor_id
            for engine in self._store.find_engines()
            if self._liveness.engine_is_alive(engine.key)
        }
        needed |= {row.supervisor_id for row in self._store.find_running()}
        for supervisor_id in dead:
            if supervisor_id not in needed:
                self._liveness.forget_supervisor(supervisor_id)
