"""Who runs the database, and who should: engines, what they run, and its supervisors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from edgecron.api import Scheduler
from edgecron.checkup.finding import Finding, problem, warning, well
from edgecron.engine.health import EngineHealth
from edgecron.engine.liveness import KernelLiveness
from edgecron.engine.peers import EngineState
from edgecron.model import COMMAND_QUEUE, Status
from edgecron.paths import state_dir
from edgecron.store.contract import RunningRow

Command = Callable[[str], str]
_MOST_NAMED = 5


def check_engines(
    scheduler: Scheduler, states: Sequence[EngineState], *, command: Command
) -> list[Finding]:
    """How each engine does, and whether there is one for what is to be run."""
    found = [_judge(state, states, command=command) for state in states]
    waiting = Counter(
        schedule.spec.queue
        for schedule in scheduler.schedules()
        if schedule.next_run_at is not None
        or (schedule.enabled and "on boot" in schedule.spec.triggers)
    )
    for queue, count in sorted(waiting.items()):
        if not any(state.is_alive and queue in state.info.queues for state in states):
            found.append(_none_alive(queue, count, command=command))
    return found or [well("engines", "none alive, and nothing to run")]


def _judge(state: EngineState, states: Sequence[EngineState], *, command: Command) -> Finding:
    pid = state.info.pid
    if state.health is EngineHealth.STALLED:
        hint = f"end it: {command(f'doctor --take-over {pid}')}"
        if state.is_stopped:
            hint = f"let it go on: kill -CONT {pid}; or {hint}"
        return problem("engines", f"pid {pid} is stalled: {state.why}; its runs go on", hint=hint)
    if state.health is EngineHealth.SILENT:
        hint = f"look again; where it stays so, stop it: kill -TERM {pid}"
        return warning("engines", f"pid {pid} is alive and silent: {state.why}", hint=hint)
    if state.health is EngineHealth.GONE:
        return warning(
            "engines",
            f"pid {pid} has died, and what it left was not cleared away yet",
            hint=_who_clears_up(states, command=command),
        )
    return well("engines", f"pid {pid} is alive")


def _none_alive(queue: str, count: int, *, command: Command) -> Finding:
    wait = f"{count} schedule waits" if count == 1 else f"{count} schedules wait"
    if queue == COMMAND_QUEUE:
        return warning(
            "engines", f"none is alive, and {wait}", hint=f"start one: {command('daemon')}"
        )
    return warning(
        "engines",
        f"the program of queue {queue} is not alive, and {wait}",
        hint="start that program",
    )


def _who_clears_up(states: Sequence[EngineState], *, command: Command) -> str:
    if any(state.is_working for state in states):
        return "an engine that is alive sees to it within a minute"
    return f"the next engine sees to it; start one: {command('daemon')}"


def check_runs(
    scheduler: Scheduler, states: Sequence[EngineState], *, command: Command
) -> list[Finding]:
    """The runs that nobody looks after any more."""
    liveness = _liveness(scheduler)
    lost = [
        row
        for row in _orphans(scheduler, liveness)
        if not liveness.supervisor_is_alive(row.supervisor_id)
    ]
    if lost:
        named = ", ".join(f"run {row.execution_id} of {row.schedule}" for row in lost[:_MOST_NAMED])
        more = f", and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
        return [
            warning(
                "runs",
                f"engine and supervisor are gone: {named}{more}",
                hint=_who_clears_up(states, command=command),
            )
        ]
    counts = scheduler.active_counts()
    running, queued = counts.get(Status.RUNNING, 0), counts.get(Status.QUEUED, 0)
    return [well("runs", f"{running} running, {queued} queued")]


def check_supervisors(scheduler: Scheduler) -> list[Finding]:
    """The supervisors that go on without their engine, which is as it should be."""
    liveness = _liveness(scheduler)
    alone = Counter(row.supervisor_id for row in _orphans(scheduler, liveness))
    found = [
        well("supervisors", f"{supervisor_id} goes on without an engine, with {_runs(count)}")
        for supervisor_id, count in sorted(alone.items())
        if liveness.supervisor_is_alive(supervisor_id)
    ]
    return found or [well("supervisors", "none is without its engine")]


def _orphans(scheduler: Scheduler, liveness: KernelLiveness) -> list[RunningRow]:
    """The running rows whose engine's lock is free."""
    return [
        row
        for row in scheduler.store.find_running()
        if row.engine_key is None or not liveness.engine_is_alive(row.engine_key)
    ]


def _liveness(scheduler: Scheduler) -> KernelLiveness:
    return KernelLiveness(state_dir(scheduler.path), boot_id=scheduler.clock.boot_id())


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
