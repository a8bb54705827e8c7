"""Taking over what dead engines left, by the table of verdicts. Any engine can, at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgecron.engine.liveness import Liveness
from edgecron.model import Outcome, Reason, Status
from edgecron.store.contract import RunningRow, Store
from edgecron.supervisor.verdicts import Exit, Interrupted, NeverStarted, Verdict

_MESSAGES = {
    Reason.LOST: "its supervisor died, and its end is not on record",
    Reason.REBOOT: "the machine started anew while it ran",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a pass did. `left_running` rows are alive under a supervisor without an engine."""

    ended: tuple[tuple[RunningRow, Outcome], ...] = ()
    requeued: tuple[RunningRow, ...] = ()
    left_running: int = 0


def recover(
    store: Store,
    liveness: Liveness,
    *,
    engine_id: int,
    supervisor_id: str,
    live: Mapping[int, str],
    now_ms: Callable[[], int],
) -> Recovered:
    """Carry out the rows of the table in which the engine's lock is free.

    A supervisor that lives on keeps its runs; the ends it has put on record are taken over.

    `engine_id` and `supervisor_id` are our own, `live` the tokens by execution id that our
    supervisor was given.
    """
    ended: list[tuple[RunningRow, Outcome]] = []
    requeued: list[RunningRow] = []
    left_running = 0
    orphans: dict[str, list[RunningRow]] = {}
    for row in store.find_running():
        if row.engine_id != engine_id:
            if not _engine_is_alive(liveness, row):
                orphans.setdefault(row.supervisor_id, []).append(row)
        elif row.supervisor_id != supervisor_id:
            orphans.setdefault(row.supervisor_id, []).append(row)  # Our former supervisor died.
        elif live.get(row.execution_id) != row.lease_token and store.requeue(row, now_ms=now_ms()):
            # Its claim was committed although COMMIT raised, so it was never passed on.
            requeued.append(row)
    for orphaned_by, rows in orphans.items():
        # Asked first: whatever a supervisor that is dead by now has written is then read.
        is_alive = liveness.supervisor_is_alive(orphaned_by)
        verdicts = liveness.judge(orphaned_by, [row.lease_token for row in rows])
        outcomes = []
        for row in rows:
            verdict = verdicts[row.lease_token]
            if is_alive and not isinstance(verdict, Exit):
                left_running += 1  # It runs on, or is about to start. An end on record is one.
                continue
            if isinstance(verdict, NeverStarted):
                if store.requeue(row, now_ms=now_ms()):
                    requeued.append(row)
                continue
            outcomes.append((row, _end(liveness, row, verdict, now_ms())))
        if not outcomes:
            continue
        changed = store.finish([outcome for _, outcome in outcomes], now_ms=now_ms())
        ended.extend(pair for pair, ok in zip(outcomes, changed, strict=True) if ok)
    needed = {row.supervisor_id for row in store.find_running()}
    for dead in liveness.dead_supervisors():
        if dead not in needed:
            liveness.forget_supervisor(dead)
    return Recovered(ended=tuple(ended), requeued=tuple(requeued), left_running=left_running)


def _engine_is_alive(liveness: Liveness, row: RunningRow) -> bool:
    return row.engine_key is not None and liveness.engine_is_alive(row.engine_key)


def _end(liveness: Liveness, row: RunningRow, verdict: Verdict, now_ms: int) -> Outcome:
    if isinstance(verdict, Exit):
        return liveness.outcome_of(verdict, row)
    assert isinstance(verdict, Interrupted)
    liveness.end_what_is_left(verdict)
    return Outcome(
        execution_id=row.execution_id,
        lease_token=row.lease_token,
        status=Status.INTERRUPTED,
        reason=verdict.reason,
        started_ms=row.started_ms,
        finished_ms=now_ms,
        error_msg=_MESSAGES.get(verdict.reason),
    )
